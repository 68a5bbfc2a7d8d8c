"""The lock of a folder that one process writes; it ends with the process."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from gossamer.core.errors import StorageError
from gossamer.storage.disk import Disk, storage_error

LOCK = "lock"


def take_lock(folder: Path, disk: Disk) -> int:
    """Lock the folder of a log, which is made if it is not there; the descriptor that holds the lock."""
    path = folder / LOCK
    try:
        disk.make_folder(folder)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise storage_error(error, path, "opening the log") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(lock, 21, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise StorageError(
            str(path), f"process {holder} writes this log: stop it, or choose another folder"
        ) from None
    with suppress(OSError):  # a full disk can still be read
        os.pwrite(lock, b"%20d\n" % os.getpid(), 0)
    return lock
