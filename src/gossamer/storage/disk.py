"""The few things that a log asks of a disk, so that a test can put a worse disk in its place.

Nothing here remembers anything. Every method raises OSError; ``storage_error`` says in our words what it
means.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from gossamer.core.errors import DiskFull, StorageError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Disk:
    """Files of a folder as the system gives them."""

    def create(self, path: Path) -> int:
        """A new empty file, or an old one made empty; its descriptor."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def open(self, path: Path) -> int:
        """A file that is there."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def write(self, file: int, data: bytes, offset: int) -> None:
        """Write all of it at an offset; on an error any part of it may be there."""
        view = memoryview(data)
        while view:
            written = os.pwrite(file, view, offset)
            view, offset = view[written:], offset + written

    def truncate(self, file: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """Return once everything written to a file would survive a power cut."""
        os.fsync(file)

    def forget(self, file: int) -> None:
        """Let the next read come from the device and not from memory, where the system can."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name, in place of whatever had it."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def sync_folder(self, folder: Path) -> None:
        """Return once names that came, went or changed in a folder would survive a power cut."""
        file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those above it, to stay."""
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            self.sync_folder(each.parent)
        self.sync_folder(folder.parent)  # who made it may have died before doing so


def read_file(path: Path) -> bytes:
    """All of a file."""
    with path.open("rb") as file:
        return file.read()


def storage_error(error: OSError, path: Path, doing: str) -> StorageError:
    """What an error of the system means for whoever asked."""
    kind = DiskFull if error.errno in _NO_ROOM else StorageError
    return kind(str(path), f"{doing} failed: {error.strerror or error}")
