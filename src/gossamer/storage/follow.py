"""Reading a log from outside: another process writes it, and keeps on writing.

Promises: nothing is locked, changed or held open, and no record is shown that a power cut could still take
away: what the last segment has is synced here before it counts, because its writer may not have done so yet.
A batch that is not whole yet is waited for; one that can never become whole raises StorageError.

``Follower`` knows what is there. A ``Piece`` is a run of records of one file that can be read anywhere, by
``records``, without the follower.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

from gossamer.core.errors import Damaged, StorageError
from gossamer.storage.disk import storage_error
from gossamer.storage.segment import (
    HEADER_BYTES,
    RECORD_BYTES,
    SUFFIX,
    Flaw,
    Header,
    file_name,
    is_torn,
    read_batch,
    read_header,
)


class Piece(msgspec.Struct, frozen=True):
    """Records of one segment.

    first, end
        Positions: of the first record, and behind the last.
    at, offset
        Position and byte at which the batch begins that holds the first.
    stop
        Byte behind the last batch that is needed; None if nobody has looked.
    """

    file: str
    first: int
    end: int
    at: int
    offset: int
    stop: int | None


class _Known:
    """A segment, and where its batches begin as far as somebody has looked."""

    __slots__ = ("header", "offsets", "path", "positions")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.restart()

    def restart(self) -> None:
        with self.path.open("rb") as file:
            self.header: Header = read_header(self.path, file.read(HEADER_BYTES))
        if self.header.encrypted:
            raise StorageError(str(self.path), "it is encrypted, and only its node has the key")
        # one more of each than there are batches: where the next one would begin
        self.positions: array[int] = array("Q", [self.header.first])
        self.offsets: array[int] = array("Q", [HEADER_BYTES])

    @property
    def end(self) -> int:
        return self.positions[-1]

    def look(self) -> None:
        """Take in new batches."""
        if len(self.positions) == 1:
            self.restart()  # a writer may have put another in the place of an empty one
        start, found = self.offsets[-1], len(self.positions)
        with self.path.open("rb", buffering=0) as file:
            data = _pread(file.fileno(), start)
            self._take_in(data, start)
            if len(self.positions) > found:
                os.fsync(file.fileno())
                if os.fstat(file.fileno()).st_size < self.offsets[-1]:
                    # its writer has taken back what could not be synced
                    del self.positions[found:], self.offsets[found:]

    def _take_in(self, data: bytes, start: int) -> None:
        offset = 0
        try:
            while offset < len(data):
                records: array[int] = array("Q")
                offset = read_batch(self.header, data, self.end, offset, records)
                self.positions.append(self.end + len(records))
                self.offsets.append(start + offset)
        except Flaw as flaw:
            if not is_torn(self.header, data, self.end, offset, flaw.end):
                raise Damaged(str(self.path), flaw.reason, flaw.position) from None


class Follower:
    """The log in a folder, as its writer lets it grow.

    end
        The next free position, as of the last ``look``.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.end = 0
        self._firsts: list[int] = []
        self._last: _Known | None = None
        self.look()

    @property
    def begin(self) -> int:
        """Position of the oldest record that is there, if any is; as of the last ``look``."""
        return self._firsts[0] if self._firsts else 0

    def look(self) -> int:
        """See what has come and gone; the next free position."""
        for _ in range(8):
            try:
                self._look()
                return self.end
            except FileNotFoundError:
                continue  # trimmed under our hands
            except OSError as error:
                raise storage_error(error, self.folder, "reading a log") from error
        raise StorageError(str(self.folder), "segments vanish faster than they can be read")

    def pieces(self, start: int, end: int, records: int) -> list[Piece]:
        """What is there from one position up to another, about so many records each.

        A segment that was sealed before anybody looked is one piece; whatever was trimmed is left out.
        """
        start, end = max(start, self.begin), min(end, self.end)
        pieces: list[Piece] = []
        while start < end:
            number = bisect_right(self._firsts, start) - 1
            first = self._firsts[number]
            stop = min(end, self._firsts[number + 1] if number + 1 < len(self._firsts) else self.end)
            last = self._last
            if last is None or first != last.header.first:
                pieces.append(
                    Piece(str(self.folder / file_name(first)), start, stop, first, HEADER_BYTES, None)
                )
            else:
                batch = bisect_right(last.positions, start) - 1
                stop = min(stop, start + records)
                behind = bisect_right(last.positions, stop - 1)
                pieces.append(
                    Piece(
                        str(last.path),
                        start,
                        stop,
                        last.positions[batch],
                        last.offsets[batch],
                        last.offsets[behind],
                    )
                )
            start = stop
        return pieces

    def _look(self) -> None:
        firsts = sorted(int(path.name.removesuffix(SUFFIX)) for path in self.folder.glob(f"*{SUFFIX}"))
        if not firsts:
            if not self.folder.is_dir():
                raise StorageError(str(self.folder), "there is no log here")
            return
        self._check_chain(firsts)
        last = self._last
        if last is None or last.header.first != firsts[-1]:
            last = _Known(self.folder / file_name(firsts[-1]))
        last.look()
        self._firsts, self._last, self.end = firsts, last, last.end

    def _check_chain(self, firsts: list[int]) -> None:
        """Segments that are new must follow those that are known."""
        known = set(self._firsts)
        for before, first in pairwise(firsts):
            if first in known:
                continue
            path = self.folder / file_name(first)
            with path.open("rb") as file:
                header = read_header(path, file.read(HEADER_BYTES))
            if header.previous != before:
                missing = file_name(header.previous)
                raise StorageError(str(path), f"the segment before it, {missing}, is missing", first)


def records(piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each record of a piece; raises StorageError, also if it was trimmed."""
    path = Path(piece.file)
    try:
        with path.open("rb", buffering=0) as file:
            header = read_header(path, file.read(HEADER_BYTES))
            data = _pread(file.fileno(), piece.offset, piece.stop)
    except FileNotFoundError:
        raise StorageError(str(path), "it was trimmed before it was read", piece.first) from None
    except OSError as error:
        raise storage_error(error, path, "reading a log") from error
    position, offset = piece.at, 0
    while position < piece.end:
        starts: array[int] = array("Q")
        try:
            offset = read_batch(header, data, position, offset, starts)
        except Flaw as flaw:
            raise Damaged(str(path), flaw.reason, flaw.position) from None
        for start in starts:
            if piece.first <= position < piece.end:
                begin = start + RECORD_BYTES
                yield position, data[begin : begin + int.from_bytes(data[start : start + 4], "big")]
            position += 1


def _pread(file: int, start: int, stop: int | None = None) -> bytes:
    """What a file has from one byte up to another, or to its end."""
    size = (os.fstat(file).st_size if stop is None else stop) - start
    parts = []
    while size > 0:
        part = os.pread(file, min(size, 2**30), start)
        if not part:
            break
        parts.append(part)
        start, size = start + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
