"""A file of two slots that says to whom a folder belongs and how far its content reached.

::

    gossamer 1 KIND ID SERIAL BEGIN END CHECKSUM

Each write goes to the other slot, in place: it needs no room on a full disk, and a torn one leaves the slot
before it. ``end`` is a lower bound: a writer calls ``reach`` after a sync, so that the file is never ahead of
what it speaks of. ``reach`` does not sync: after the death of a process the bound is exact, after a power cut
it may be older.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from zlib import crc32

import msgspec

from gossamer.core.errors import Damaged, StorageError
from gossamer.storage.disk import Disk, storage_error

SLOT = 512
APART = 4096
"""Bytes between the slots, so that they lie in different blocks."""
NOBODY = "0" * 16
"""Id of what belongs to no folder of a node."""
_WORD = b"gossamer"
_VERSION = 1


class Bounds(msgspec.Struct, frozen=True):
    """What one slot says.

    id
        Of the folder of a node, 16 hexadecimal digits.
    begin, end
        Positions: everything from ``begin`` to ``end`` was synced.
    """

    id: str
    serial: int
    begin: int
    end: int


def new_id() -> str:
    """An id for a new folder."""
    return secrets.token_hex(8)


class Superblock:
    """The file of one folder or log; ``create`` or ``open`` make one."""

    def __init__(self, path: Path, kind: str, bounds: Bounds, file: int, disk: Disk) -> None:
        self.path = path
        self.kind = kind
        self.bounds = bounds
        self._file = file
        self._disk = disk

    @classmethod
    def create(cls, path: Path, kind: str, id: str, begin: int = 0, end: int = 0) -> Superblock:
        """A new file, on disk when this returns; in place of one that is there."""
        disk, bounds = Disk(), Bounds(id, 1, begin, end)
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            file = disk.create(temporary)
            try:
                content = _slot(kind, bounds).ljust(APART, b"\0") + _slot(kind, bounds)
                disk.write(file, content, 0)
                disk.sync(file)
                disk.rename(temporary, path)
                disk.sync_folder(path.parent)
            except BaseException:
                os.close(file)
                raise
        except OSError as error:
            raise storage_error(error, path, "writing") from error
        return cls(path, kind, bounds, file, disk)

    @classmethod
    def open(cls, path: Path, kind: str) -> Superblock | None:
        """The file that is there, or None; raises StorageError if neither slot can be read."""
        disk = Disk()
        try:
            file = disk.open(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, path, "opening") from error
        try:
            return cls(path, kind, read_slots(path, kind, os.pread(file, APART + SLOT, 0)), file, disk)
        except BaseException:
            os.close(file)
            raise

    def reach(self, begin: int, end: int) -> None:
        """What was synced reaches so far; errors do not matter, for the bound stays true."""
        if (begin, end) == (self.bounds.begin, self.bounds.end) or self._file < 0:
            return
        bounds = Bounds(self.bounds.id, self.bounds.serial + 1, begin, end)
        try:
            self._disk.write(self._file, _slot(self.kind, bounds), APART * (bounds.serial % 2))
        except OSError:
            return
        self.bounds = bounds

    def advance(self, begin: int) -> None:
        """Note where a log will begin, to stay, before anything is removed; raises StorageError."""
        if begin <= self.bounds.begin:
            return
        self.reach(begin, self.bounds.end)
        if self.bounds.begin < begin:
            raise StorageError(str(self.path), "writing failed: nothing was trimmed")
        self.settle()

    def settle(self) -> None:
        """Sync the file; raises StorageError."""
        try:
            self._disk.sync(self._file)
        except OSError as error:
            raise storage_error(error, self.path, "syncing") from error

    def close(self) -> None:
        """Let the file go."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_slots(path: Path, kind: str, data: bytes) -> Bounds:
    """The newer of the slots that are whole; raises StorageError."""
    found = [_read(kind, data[start : start + SLOT]) for start in (0, APART)]
    whole = [each for each in found if each is not None]
    if not whole:
        raise Damaged(str(path), f"neither slot of this {kind} file can be read", None, str(path.parent))
    return max(whole, key=lambda each: each.serial)


def _slot(kind: str, bounds: Bounds) -> bytes:
    line = f"gossamer {_VERSION} {kind} {bounds.id} {bounds.serial} {bounds.begin} {bounds.end}"
    return f"{line} {crc32(line.encode()):08x}\n".encode().ljust(SLOT)


def _read(kind: str, slot: bytes) -> Bounds | None:
    line, _, told = slot.partition(b"\n")[0].rpartition(b" ")
    words = line.split(b" ")
    if len(words) != 7 or words[:3] != [_WORD, b"%d" % _VERSION, kind.encode()]:
        return None
    if told != b"%08x" % crc32(line):
        return None
    return Bounds(words[3].decode("ascii", "replace"), *(int(word) for word in words[4:]))
