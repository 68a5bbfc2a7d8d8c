"""Small values of a node that survive it: what services and templates store by key.

::

    file     'gossamer values 1\\n' | records
    record   checksum (4) | length (4) | msgpack of key and value; None forgets the key

The checksum is CRC-32 over length and bytes. ``keep`` returns when its records would survive a power cut.
When most of the file is no longer true it is written anew and renamed over the old one. A record that makes
no sense ends the reading: it and what follows were being written when the node died, or are damaged. They are
reported and set aside in ``values.damaged``.

After a write or a sync that failed nobody knows what is on the disk, so the next ``keep`` writes a new file.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32

import msgspec

from gossamer.core.errors import StorageError
from gossamer.storage.disk import Disk, read_file, storage_error

log = logging.getLogger("gossamer")

MAGIC = b"gossamer values 1\n"
SLACK = 1024 * 1024
"""Bytes of records that are no longer true which a file may hold, and as many again as are true."""

_HEAD = struct.Struct(">II")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, bytes | None]).decode

Pair = tuple[str, bytes | None]


class State:
    """The values of one node: in a folder, or with an empty name in memory, where they survive nothing.

    values
        What is kept, by key.
    damaged
        Bytes at the end of the file that made no sense when it was opened.
    """

    def __init__(self, folder: str | Path, disk: Disk | None = None) -> None:
        self.values: dict[str, bytes] = {}
        self.damaged = 0
        self._disk = disk or Disk()
        self._live = 0
        self._size = 0
        self._file: int | None = None
        self._lock: int | None = None
        self._path: Path | None = Path(folder) / "values" if folder else None
        if self._path is not None:
            try:
                self._open(self._path)
            except OSError as error:
                self.close()
                raise storage_error(error, self._path, "opening") from error
            except StorageError:
                self.close()
                raise

    @property
    def lasting(self) -> bool:
        """Whether they survive this process."""
        return self._path is not None

    def keep(self, pairs: Iterable[Pair]) -> None:
        """Keep values, or forget those that are None; raises StorageError, and then they may be gone."""
        changes = tuple(pairs)
        records = b"".join(map(_record, changes))
        for key, value in changes:
            before = self.values.pop(key, None)
            self._live -= 0 if before is None else len(_record((key, before)))
            if value is not None:
                self.values[key] = value
                self._live += len(_record((key, value)))
        if self._path is None:
            return
        try:
            if self._file is None or self._size + len(records) > 2 * self._live + SLACK:
                self._rewrite(self._path)
            else:
                self._append(self._file, records)
        except OSError as error:
            self._drop_file()
            raise storage_error(error, self._path, "writing") from error

    def close(self) -> None:
        """Let the folder go; there is nothing left to write."""
        self._drop_file()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # inside

    def _open(self, path: Path) -> None:
        self._disk.make_folder(path.parent)
        self._lock = _locked(path.with_suffix(".lock"))
        data = read_file(path) if path.exists() else MAGIC
        if not data.startswith(MAGIC):
            raise StorageError(str(path), "this is no file of values of this version")
        end = len(MAGIC)
        for record_end, (key, value) in _read(data):
            end = record_end
            self.values.pop(key, None)
            if value is not None:
                self.values[key] = value
        self._live = sum(len(_record(pair)) for pair in self.values.items())
        self.damaged = len(data) - end
        if self.damaged:
            path.with_suffix(".damaged").write_bytes(data[end:])
            log.warning("%s: the last %d bytes make no sense and are set aside", path, self.damaged)
        self._rewrite(path)

    def _append(self, file: int, records: bytes) -> None:
        self._disk.write(file, records, self._size)
        self._disk.sync(file)
        self._size += len(records)

    def _rewrite(self, path: Path) -> None:
        """Write all values to a new file that takes the place of the old one at once."""
        self._drop_file()
        content = MAGIC + b"".join(map(_record, self.values.items()))
        new = path.with_suffix(".new")
        file = self._disk.create(new)
        try:
            self._disk.write(file, content, 0)
            self._disk.sync(file)
            self._disk.rename(new, path)
            self._disk.sync_folder(path.parent)
        except BaseException:
            os.close(file)
            raise
        self._file, self._size = file, len(content)

    def _drop_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _record(pair: Pair) -> bytes:
    body = _encode(pair)
    length = len(body).to_bytes(4, "big")
    return crc32(body, crc32(length)).to_bytes(4, "big") + length + body


def _read(data: bytes) -> Iterator[tuple[int, Pair]]:
    """Records, each with the place where it ends, up to the first that makes no sense."""
    position = len(MAGIC)
    while position + _HEAD.size <= len(data):
        checksum, length = _HEAD.unpack_from(data, position)
        end = position + _HEAD.size + length
        body = data[position + _HEAD.size : end]
        if len(body) < length or crc32(body, crc32(data[position + 4 : position + 8])) != checksum:
            return
        try:
            pair = _decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        yield end, pair
        position = end


def _locked(path: Path) -> int | None:
    """Hold a lock that ends with the process; None where the system has none of this kind."""
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StorageError(
            str(path), "another node uses this folder: give each node one of its own"
        ) from None
    return descriptor
