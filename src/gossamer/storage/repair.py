"""Looking through the log of a folder offline: what can be read, what cannot, and how to go on without it.

Nothing here needs more memory than one segment. ``survey`` changes nothing. ``cut`` keeps the records before
the first damage and moves everything behind it to ``damaged/`` inside the log's folder; no byte is deleted.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from gossamer.core.errors import StorageError
from gossamer.storage.disk import Disk, read_file, storage_error
from gossamer.storage.log import BOUNDS, KIND
from gossamer.storage.segment import (
    BATCH,
    BATCH_BYTES,
    HEADER_BYTES,
    RECORD_BYTES,
    SUFFIX,
    Flaw,
    Header,
    batch_head,
    checksum,
    is_torn,
    read_batch,
    read_header,
)
from gossamer.storage.superblock import NOBODY, Superblock, read_slots

DAMAGED = "damaged"
Progress = Callable[[str, int, int], None]
"""Takes the name of a file, how many files are done, and how many there are."""


class Finding(msgspec.Struct, frozen=True):
    """Something that does not fit.

    position
        The first record that cannot be had because of it.
    torn
        Whether it is the end of a batch whose sync never ended; such a thing is no damage.
    """

    file: str
    position: int
    reason: str
    torn: bool = False


class Survey(msgspec.Struct):
    """What a log holds: records from ``begin`` to ``end`` without a hole, and what was found behind them.

    known
        The position up to which records were synced, as far as ``bounds`` says.
    segments, bytes
        Files that were read, and their size.
    offset
        Byte of the segment that holds ``end`` up to which it is whole.
    """

    folder: str
    owner: str | None = None
    begin: int = 0
    end: int = 0
    known: int = 0
    segments: int = 0
    bytes: int = 0
    offset: int = HEADER_BYTES
    findings: list[Finding] = []

    @property
    def damage(self) -> list[Finding]:
        """What was lost after it had been synced."""
        return [each for each in self.findings if not each.torn]


def paths(folder: Path) -> list[Path]:
    """The segments of a log, oldest first."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def survey(folder: Path, synced: tuple[int, int] = (0, 0), progress: Progress | None = None) -> Survey:
    """Read every byte of a log; raises StorageError only where the system does not let it be read."""
    found = Survey(str(folder))
    begin = _bounds(folder, found, synced)
    files = paths(folder)
    whole, following = True, -1
    for number, path in enumerate(files):
        if progress is not None:
            progress(path.name, number, len(files))
        first = int(path.name.removesuffix(SUFFIX)) if path.stem.isdigit() else -1
        data = _read(path)
        found.segments, found.bytes = found.segments + 1, found.bytes + len(data)
        try:
            header = read_header(path, data)
        except StorageError as error:
            found.findings.append(Finding(path.name, max(first, 0), error.reason))
            whole = False
            continue
        if number == 0 and header.first > begin:
            found.findings.append(
                Finding(path.name, begin, f"segments before it are missing: the log began at {begin}")
            )
            whole = False
        if number == 0 and whole:
            found.begin = found.end = following = header.first
            found.owner = header.owner if found.owner is None else found.owner
        if header.owner != found.owner:
            found.findings.append(
                Finding(path.name, header.first, f"it belongs to folder {header.owner or 'none'}")
            )
            whole = False
        if whole and header.first != following:
            found.findings.append(
                Finding(
                    path.name, following, f"position {following} comes next, and it begins at {header.first}"
                )
            )
            whole = False
        last = number == len(files) - 1
        position, offset, flaw = _scan(header, data)
        if whole:
            found.end, found.offset = position, offset
        following = position
        if flaw is not None:
            torn = last and is_torn(header, data, position, offset, flaw.end)
            found.findings.append(
                Finding(path.name, flaw.position, flaw.reason, torn and position >= found.known)
            )
            whole = False
    if progress is not None:
        progress("", len(files), len(files))
    if found.end < found.known and not any(each.position <= found.end for each in found.damage):
        reason = f"the log ends here, and records up to {found.known - 1} were synced"
        found.findings.append(Finding(files[-1].name if files else folder.name, found.end, reason))
    return found


def _bounds(folder: Path, found: Survey, synced: tuple[int, int]) -> int:
    """Take in what ``bounds`` and the node's database know; where the log may begin."""
    path = folder / BOUNDS
    begin, found.known = synced
    try:
        bounds = read_slots(path, KIND, _read(path))
        found.known, begin = max(found.known, bounds.end), max(begin, bounds.begin)
        found.owner = bounds.id.replace(NOBODY, "")
    except StorageError as error:
        if paths(folder) or found.known:
            found.findings.append(Finding(path.name, begin, error.reason))
    found.begin = found.end = begin
    return begin


def _scan(header: Header, data: bytes) -> tuple[int, int, Flaw | None]:
    """How far the batches of a segment are whole: position, byte, and what is wrong there."""
    position, offset = header.first, HEADER_BYTES
    while offset < len(data):
        starts: array[int] = array("Q")
        try:
            offset = read_batch(header, data, position, offset, starts)
        except Flaw as flaw:
            return position, offset, flaw
        position += len(starts)
    return position, offset, None


def readable(folder: Path, progress: Progress | None = None) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of every record that can be read, damaged or not what stands around it."""
    files = paths(folder)
    for number, path in enumerate(files):
        if progress is not None:
            progress(path.name, number, len(files))
        data = _read(path)
        try:
            header = read_header(path, data)
        except StorageError:
            continue
        yield from _records(header, data)


def _records(header: Header, data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = HEADER_BYTES
    while (offset := _next_batch(header, data, offset)) >= 0:
        head = batch_head(header, data, offset)
        assert head is not None
        position, count, size = head
        body = offset + BATCH_BYTES
        end = min(body + size, len(data))
        for place in range(position, position + count):
            if end - body < RECORD_BYTES:
                break
            length = int.from_bytes(data[body : body + 4], "big")
            told = int.from_bytes(data[body + 4 : body + 8], "big")
            record = data[body + RECORD_BYTES : body + RECORD_BYTES + length]
            if body + RECORD_BYTES + length > end:
                break
            if checksum(header.salt, place, record) == told:
                yield place, record
            body += RECORD_BYTES + length
        offset += BATCH_BYTES


def _next_batch(header: Header, data: bytes, offset: int) -> int:
    """Where the next batch whose head is whole begins; -1 if there is none."""
    while (offset := data.find(BATCH, offset)) >= 0:
        if batch_head(header, data, offset) is not None:
            return offset
        offset += 1
    return -1


def cut(folder: Path, found: Survey, owner: str) -> list[str]:
    """End a log where its first damage is, and set everything behind aside; the files in ``damaged/``.

    The log of a survey without any damage stays as it is.
    """
    disk = Disk()
    try:
        return _cut(folder, found, owner, disk)
    except OSError as error:
        raise storage_error(error, folder, "repairing") from error


def _cut(folder: Path, found: Survey, owner: str, disk: Disk) -> list[str]:
    aside: list[str] = []
    place = folder / DAMAGED
    disk.make_folder(place)
    for path in paths(folder):
        try:
            header = read_header(path, _read(path))
            keep = header.first < found.end and header.owner == owner
        except StorageError:
            keep = False
        if not keep:
            aside.append(_set_aside(path, place, disk))
            continue
        position, offset, _ = _scan(header, data := _read(path))
        if position >= found.end and offset < len(data):
            aside.append(_copy(path, place, disk))
            file = disk.open(path)
            try:
                disk.truncate(file, offset)
                disk.sync(file)
            finally:
                os.close(file)
    disk.sync_folder(folder)
    begin = found.begin if paths(folder) else found.end
    Superblock.create(folder / BOUNDS, KIND, owner or NOBODY, begin, found.end).close()
    return aside


def restart(folder: Path, owner: str, position: int) -> list[str]:
    """Set all segments of a log aside; it begins anew at a position."""
    return cut(folder, Survey(str(folder), owner, position, position), owner)


def _set_aside(path: Path, place: Path, disk: Disk) -> str:
    target = _free(place, path.name)
    disk.rename(path, target)
    disk.sync_folder(place)
    return str(target)


def _copy(path: Path, place: Path, disk: Disk) -> str:
    target = _free(place, path.name)
    file = disk.create(target)
    try:
        disk.write(file, read_file(path), 0)
        disk.sync(file)
    finally:
        os.close(file)
    disk.sync_folder(place)
    return str(target)


def _free(place: Path, name: str) -> Path:
    target, number = place / name, 0
    while target.exists():
        number += 1
        target = place / f"{name}.{number}"
    return target


def _read(path: Path) -> bytes:
    try:
        return read_file(path)
    except FileNotFoundError:
        raise StorageError(str(path), "it is missing") from None
    except OSError as error:
        raise storage_error(error, path, "reading") from error
