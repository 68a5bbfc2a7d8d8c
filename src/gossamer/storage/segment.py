"""One file of a log: what its bytes mean, and what is wrong with them.

::

    header   magic 'gslg' | version (2) | flags (2) | first position (8) | that of the segment before (8)
             | made at, ns (8) | salt (4) | id of the node's folder (8) | checksum (4)
    batch    magic | position of its first record (8) | records (4) | bytes of them (4)
             | last commit of the node's database (8) | checksum (4)
             | records, each: length (4) | checksum (4) | bytes
             | end mark (4)

All records of a batch were written and synced together, and no batch was begun before the one before it
was on disk. Checksums are CRC-32 over position, length and bytes, and begin with the salt, so that no record
passes for another and no payload for a batch. Only the last batch of the last segment can be *torn*: bytes
are missing at its end, or a whole sector of it reads as zeros, which is what a write that never reached the
disk leaves behind. Everything else that does not fit is damage. Neither mark holds a zero, so a batch
without a sector of zeros inside a record is never mistaken for a torn one.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import msgspec

from gossamer.core.errors import Damaged, StorageError

MAGIC, BATCH, END = b"gslg", b"\xb5gsb", b"\xe7gse"
VERSION = 2
ENCRYPTED = 1
"""Flag of a header: records are encrypted."""
MAX_RECORD = 32 * 1024 * 1024
"""Bytes of one record; well above a frame of the wire."""
SECTOR = 512
SUFFIX = ".log"

_HEADER = struct.Struct(">4sHHQQQI8s")
_BATCH = struct.Struct(">4sQIIQ")
_RECORD = struct.Struct(">II")
_PLACE = struct.Struct(">QI")
_CHECK = struct.Struct(">I")
HEADER_BYTES = _HEADER.size + _CHECK.size
BATCH_BYTES = _BATCH.size + _CHECK.size
RECORD_BYTES = _RECORD.size


class Header(msgspec.Struct, frozen=True):
    """What the first bytes of a segment say.

    owner
        Id of the folder of the node whose log it is; empty if it belongs to none.
    """

    first: int
    previous: int
    made: int
    salt: int
    owner: str = ""
    encrypted: bool = False


class Cut(msgspec.Struct, frozen=True):
    """What was cut off the end of a log when it was opened: a batch that was not complete."""

    file: str
    position: int
    bytes: int
    reason: str


class Segment:
    """A segment of a log.

    offsets
        Where each of its records begins in the file; None until somebody has looked.
    size
        Bytes up to the end of the last whole batch; what may stand behind them is no part of the log.
    """

    __slots__ = ("header", "offsets", "path", "size")

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.header = header
        self.offsets: array[int] | None = None
        self.size = HEADER_BYTES

    @property
    def first(self) -> int:
        """Position of its first record."""
        return self.header.first


def first_of(segment: Segment) -> int:
    """To order segments by."""
    return segment.first


class Content(msgspec.Struct, frozen=True):
    """What stands in a segment: where records begin, how far they reach, what was torn behind them.

    mark
        The last commit of the node's database when the last batch was written.
    """

    offsets: array[int]
    size: int
    torn: str
    mark: int = 0


class Flaw(Exception):
    """A batch that is not whole; ``position`` is the first record that cannot be had."""

    def __init__(self, position: int, reason: str, end: int | None) -> None:
        self.position, self.reason, self.end = position, reason, end


def file_name(first: int) -> str:
    """The name of the segment that begins at a position; names sort like positions."""
    return f"{first:020d}{SUFFIX}"


def checksum(salt: int, position: int, data: bytes | memoryview) -> int:
    """The checksum of a record at its place."""
    return crc32(data, crc32(_PLACE.pack(position, len(data)), salt))


# writing


def encode_header(header: Header) -> bytes:
    """The first bytes of a segment."""
    flags, owner = ENCRYPTED if header.encrypted else 0, bytes.fromhex(header.owner or "00" * 8)
    first, previous, made, salt = header.first, header.previous, header.made, header.salt
    head = _HEADER.pack(MAGIC, VERSION, flags, first, previous, made, salt, owner)
    return head + _CHECK.pack(crc32(head))


def encode_batch(header: Header, first: int, records: Sequence[bytes], mark: int = 0) -> bytes:
    """Records from a position on, to be written and synced together after a commit of the database."""
    salt = header.salt
    parts = [b""]
    for position, record in enumerate(records, first):
        parts.append(_RECORD.pack(len(record), checksum(salt, position, record)))
        parts.append(record)
    size = RECORD_BYTES * len(records) + sum(map(len, records))
    head = _BATCH.pack(BATCH, first, len(records), size, mark)
    parts[0] = head + _CHECK.pack(crc32(head, salt))
    parts.append(END)
    return b"".join(parts)


# reading


def read_header(path: Path, data: bytes) -> Header:
    """What the first bytes of a segment say; raises StorageError."""
    if len(data) < HEADER_BYTES:
        raise Damaged(str(path), f"a segment begins with {HEADER_BYTES} bytes; here are {len(data)}")
    magic, version, flags, first, previous, made, salt, owner = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise Damaged(str(path), "this is not a segment of a log")
    if version != VERSION:
        raise StorageError(str(path), f"it has version {version}; this program reads {VERSION}")
    if flags > ENCRYPTED or _CHECK.unpack_from(data, _HEADER.size)[0] != crc32(data[: _HEADER.size]):
        raise Damaged(str(path), "the checksum of its header is wrong")
    if path.name != file_name(first):
        raise Damaged(str(path), f"it begins at position {first}: it was renamed")
    return Header(first, previous, made, salt, owner.hex() if any(owner) else "", bool(flags))


def examine(path: Path, header: Header, data: bytes, stop: int | None) -> Content:
    """Check every byte of a segment.

    stop
        Position at which the next segment begins: all records before it must be here, and what stands
        behind them is no part of the log. None for the last segment, which may have a torn end.
    """
    offsets: array[int] = array("Q")
    position, offset, torn, mark = header.first, HEADER_BYTES, "", 0
    try:
        while offset < len(data) and (stop is None or position < stop):
            behind = read_batch(header, data, position, offset, offsets)
            mark, offset = max(mark, batch_mark(data, offset)), behind
            position = header.first + len(offsets)
    except Flaw as flaw:
        torn = flaw.reason
        if stop is not None or not is_torn(header, data, position, offset, flaw.end):
            raise Damaged(str(path), flaw.reason, flaw.position) from None
        del offsets[position - header.first :]
    if stop is not None and position != stop:
        raise Damaged(str(path), f"it ends here, and the next one begins at {stop}", position)
    return Content(offsets, offset, torn, mark)


def read_batch(header: Header, data: bytes, position: int, offset: int, offsets: array[int]) -> int:
    """Take in one batch; where the next one begins. Raises Flaw."""
    found = batch_head(header, data, offset)
    if found is None:
        reason = "bytes are missing" if len(data) - offset < BATCH_BYTES else "a batch has a wrong checksum"
        raise Flaw(position, reason, None)
    first, count, size = found
    body, end = offset + BATCH_BYTES, offset + BATCH_BYTES + size
    if first != position:
        raise Flaw(position, f"position {first} comes next", end + len(END))
    view = memoryview(data)
    for number in range(position, position + count):
        if min(end, len(data)) - body < RECORD_BYTES:
            raise Flaw(number, "bytes are missing", end + len(END))
        length, told = _RECORD.unpack_from(data, body)
        start = body + RECORD_BYTES
        if length > end - start:
            raise Flaw(number, f"a record of {length} bytes does not fit its batch", end + len(END))
        if start + length > len(data):
            raise Flaw(number, "bytes are missing", end + len(END))
        if checksum(header.salt, number, view[start : start + length]) != told:
            raise Flaw(number, "the checksum of a record is wrong", end + len(END))
        offsets.append(body)
        body = start + length
    if body != end or data[end : end + len(END)] != END:
        missing = len(data) < end + len(END)
        raise Flaw(
            position, "bytes are missing" if missing else "a batch ends in the wrong way", end + len(END)
        )
    return end + len(END)


def batch_head(header: Header, data: bytes, offset: int) -> tuple[int, int, int] | None:
    """Position, count and bytes of the batch at an offset; None if no batch begins there."""
    if len(data) - offset < BATCH_BYTES:
        return None
    magic, first, count, size, _ = _BATCH.unpack_from(data, offset)
    told = _CHECK.unpack_from(data, offset + _BATCH.size)[0]
    if magic != BATCH or told != crc32(data[offset : offset + _BATCH.size], header.salt):
        return None
    return first, count, size


def batch_mark(data: bytes, offset: int) -> int:
    """The last commit of the node's database when the batch at an offset was written."""
    mark: int = _BATCH.unpack_from(data, offset)[4]
    return mark


def is_torn(header: Header, data: bytes, position: int, offset: int, end: int | None) -> bool:
    """Whether a batch that is not whole can be one whose sync never ended."""
    later = data.find(BATCH, offset + 1)
    while later >= 0:
        found = batch_head(header, data, later)
        if found is not None and found[0] > position:
            return False  # it was begun after the one before it was on disk
        later = data.find(BATCH, later + 1)
    if len(data) - offset < BATCH_BYTES or (end is not None and end > len(data)):
        return True
    return any(piece.count(0) == len(piece) for piece in _sectors(data, offset, end or len(data)))


def _sectors(data: bytes, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        border = min(end, (start // SECTOR + 1) * SECTOR)
        yield data[start:border]
        start = border


def take(segment: Segment, data: bytes, position: int, starts: Sequence[int]) -> list[bytes]:
    """Records out of a piece of a segment that begins with the first of them; each is checked again."""
    records = []
    for number, start in enumerate(starts, position):
        at = start - starts[0] + RECORD_BYTES
        length, told = _RECORD.unpack_from(data, at - RECORD_BYTES) if at <= len(data) else (-1, 0)
        record = data[at : at + length]
        if len(record) != length or checksum(segment.header.salt, number, record) != told:
            raise Damaged(str(segment.path), "the checksum of a record is wrong", number)
        records.append(record)
    return records
