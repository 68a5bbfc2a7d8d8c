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

from gossamer.core.errors import Damaged, StorageError
from gossamer.storage.cipher import Cipher
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
    batch_mark,
    checksum,
    file_name,
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
        The position up to which records were synced, as far as ``bounds`` and the database say.
    segments, bytes
        Files that were read, and their size.
    offset
        Byte of the segment that holds ``end`` up to which it is whole.
    seen
        Behind the last record of any segment that can be read, whatever is missing before it.
    mark
        The greatest commit of the node's database that a batch names.
    encrypted
        Whether records are encrypted.
    """

    folder: str
    owner: str | None = None
    begin: int = 0
    end: int = 0
    known: int = 0
    segments: int = 0
    bytes: int = 0
    offset: int = HEADER_BYTES
    seen: int = 0
    mark: int = 0
    encrypted: bool = False
    findings: list[Finding] = []

    @property
    def damage(self) -> list[Finding]:
        """What was lost after it had been synced."""
        return [each for each in self.findings if not each.torn]


def paths(folder: Path) -> list[Path]:
    """The segments of a log, oldest first."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def survey(
    folder: Path,
    synced: tuple[int, int] = (0, 0),
    progress: Progress | None = None,
    owner: str | None = None,
) -> Survey:
    """Read every byte of a log; raises StorageError only where the system does not let it be read.

    synced
        What the node's database knows: records between these positions were synced.
    owner
        Id of the node's folder, if it is known; else the log itself says it.
    """
    found = Survey(str(folder), owner)
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
            reason = error.what if isinstance(error, Damaged) else error.reason
            found.findings.append(Finding(path.name, max(first, 0), reason))
            whole = False
            continue
        found.encrypted = found.encrypted or header.encrypted
        found.owner = header.owner if found.owner is None else found.owner
        if header.owner != found.owner:
            found.findings.append(
                Finding(path.name, header.first, f"it belongs to folder {header.owner or 'none'}")
            )
            whole = False
            continue
        if number == 0 and begin is not None and header.first > begin:
            found.findings.append(
                Finding(path.name, begin, f"segments before it are missing: the log began at {begin}")
            )
            whole = False
        if number == 0 and whole:
            found.begin = found.end = following = header.first
        if whole and header.first != following:
            found.findings.append(
                Finding(
                    path.name, following, f"position {following} comes next, and it begins at {header.first}"
                )
            )
            whole = False
        last = number == len(files) - 1
        position, offset, mark, flaw = _scan(header, data)
        found.mark, found.seen = max(found.mark, mark), max(found.seen, position)
        if whole:
            found.end, found.offset = position, offset
        following = position
        if flaw is not None:
            torn = last and is_torn(header, data, position, offset, flaw.end)
            found.findings.append(
                Finding(path.name, flaw.position, flaw.reason, torn and position >= found.known)
            )
            whole = False
            if not torn:
                found.seen = max(found.seen, flaw.position + 1, _named(header, data, offset))
    if progress is not None:
        progress("", len(files), len(files))
    if found.end < found.known and not any(each.file != BOUNDS for each in found.damage):
        reason = f"the log ends here, and records up to {found.known - 1} were synced"
        found.findings.append(Finding(files[-1].name if files else folder.name, found.end, reason))
    return found


def _bounds(folder: Path, found: Survey, synced: tuple[int, int]) -> int | None:
    """Take in what ``bounds`` and the node's database know; where the log may begin, if they know it."""
    path = folder / BOUNDS
    begin = synced[0] if synced[1] else None
    found.known = synced[1]
    try:
        bounds = read_slots(path, KIND, _read(path))
        owner = bounds.id.replace(NOBODY, "")
        if found.owner is not None and owner != found.owner:
            raise Damaged(str(path), f"it belongs to folder {owner or 'none'}")
        found.known, begin, found.owner = max(found.known, bounds.end), max(begin or 0, bounds.begin), owner
    except StorageError as error:
        if paths(folder) or found.known:
            reason = error.what if isinstance(error, Damaged) else error.reason
            found.findings.append(Finding(path.name, begin or 0, reason))
    found.begin = found.end = begin or 0
    return begin


def _named(header: Header, data: bytes, offset: int) -> int:
    """Behind the last record that any batch from an offset on names, whole or not."""
    last = 0
    while (offset := _next_batch(header, data, offset)) >= 0:
        position, count, _ = batch_head(header, data, offset) or (0, 0, 0)
        last, offset = max(last, position + count), offset + BATCH_BYTES
    return last


def _scan(header: Header, data: bytes) -> tuple[int, int, int, Flaw | None]:
    """How far a segment is whole: position, byte, the last commit, and what is wrong there."""
    position, offset, mark = header.first, HEADER_BYTES, 0
    while offset < len(data):
        starts: array[int] = array("Q")
        try:
            behind = read_batch(header, data, position, offset, starts)
        except Flaw as flaw:
            return position, offset, mark, flaw
        mark, offset = max(mark, batch_mark(data, offset)), behind
        position += len(starts)
    return position, offset, mark, None


def readable(
    folder: Path,
    progress: Progress | None = None,
    cipher: Cipher | None = None,
    first: int = 0,
    owner: str | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of every record that can be read from a position on, whatever is damaged around it.

    With an owner only those in segments of its folder. Raises StorageError if records are encrypted, and the
    cipher is missing or does not fit.
    """
    files = paths(folder)
    for number, path in enumerate(files):
        if progress is not None:
            progress(path.name, number, len(files))
        if number + 1 < len(files) and files[number + 1].name <= file_name(first):
            continue
        data = _read(path)
        try:
            header = read_header(path, data)
        except StorageError:
            continue
        if owner is not None and header.owner != owner:
            continue
        if header.encrypted and cipher is None:
            raise StorageError(str(path), "it is encrypted: its storage_key is needed")
        for position, record in _records(header, data):
            if position >= first:
                opened = (
                    cipher.open_records([record], position, str(path))
                    if header.encrypted and cipher
                    else None
                )
                yield position, opened[0] if opened else record
    if progress is not None:
        progress("", len(files), len(files))


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
        position, offset, _, _ = _scan(header, data := _read(path))
        if position >= found.end and offset < len(data):
            aside.append(copy_aside(path, place, disk))
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


def copy_aside(path: Path, place: Path, disk: Disk) -> str:
    """Copy a file into a folder under a name that is free there; the copy."""
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
