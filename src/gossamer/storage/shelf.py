"""The segments of a log, for reading: which holds what, and where in it a record begins.

Any thread may read while one writes: readers see what the writer has called acknowledged, and a segment that
is taken away meanwhile is read no more. A sealed segment is checked byte by byte when it is first read, and
the offsets of its records are kept while it is in use.
"""

from __future__ import annotations

import os
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from itertools import pairwise
from pathlib import Path

from gossamer.core.errors import Damaged
from gossamer.storage.disk import read_file, storage_error
from gossamer.storage.segment import (
    HEADER_BYTES,
    SUFFIX,
    Segment,
    examine,
    file_name,
    first_of,
    read_header,
    take,
)

READ_BYTES = 8 * 1024 * 1024
"""Bytes that one read returns at most; a single record may be larger."""
KNOWN_SEGMENTS = 8
"""Sealed segments whose records' offsets are kept in memory."""


class Shelf:
    """Segments in order of their positions; the last one is the writer's.

    end
        The next free position.
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.end = 0
        self._lock = threading.Lock()
        self._known: OrderedDict[int, Segment] = OrderedDict()

    @property
    def begin(self) -> int:
        """The oldest position that is there."""
        return self.segments[0].first

    @property
    def sealed(self) -> list[tuple[int, int]]:
        """First position and end of every segment but the last."""
        with self._lock:
            firsts = [each.first for each in self.segments]
        return list(pairwise(firsts))

    def label(self, first: int) -> str:
        """Instant and salt of the segment that begins at a position; empty if it has been trimmed."""
        with self._lock:
            headers = [each.header for each in self.segments if each.first == first]
        return f"{headers[0].made}-{headers[0].salt:08x}" if headers else ""

    # for the writer

    def find(self, folder: Path) -> None:
        """Take in the segments of a folder; raises StorageError if one is missing between others."""
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            with path.open("rb") as file:
                segment = Segment(path, read_header(path, file.read(HEADER_BYTES)))
            if self.segments and segment.header.previous != self.segments[-1].first:
                missing = file_name(segment.header.previous)
                raise Damaged(
                    str(path), f"the segment before it, {missing}, is missing", self.segments[-1].first
                )
            self.segments.append(segment)

    def add(self, segment: Segment) -> None:
        """A new last segment; it takes the place of one that begins at the same position, and is empty."""
        with self._lock:
            if self.segments and self.segments[-1].first == segment.first:
                self.segments.pop()
            elif self.segments:
                self._keep(self.segments[-1])
            self.segments.append(segment)

    def grow(self, starts: array[int], size: int) -> None:
        """Records have been acknowledged."""
        with self._lock:
            last = self.segments[-1]
            assert last.offsets is not None
            last.offsets.extend(starts)
            last.size = size
            self.end += len(starts)

    def take_oldest(self) -> Segment:
        """Let nobody read the oldest segment any more."""
        with self._lock:
            oldest = self.segments.pop(0)
            self._known.pop(oldest.first, None)
            return oldest

    def put_back(self, oldest: Segment) -> None:
        """The oldest segment is still there after all."""
        with self._lock:
            self.segments.insert(0, oldest)

    # for readers

    def read(self, position: int, limit: int) -> tuple[int, list[bytes]]:
        """Up to so many records, and where they begin."""
        while True:
            with self._lock:
                position = max(position, self.begin)
                if limit <= 0 or position >= self.end:
                    return position, []
                number = bisect_right(self.segments, position, key=first_of) - 1
                segment = self.segments[number]
                active = number == len(self.segments) - 1
                stop = self.end if active else self.segments[number + 1].first
            try:
                return position, self._read(segment, position, min(limit, stop - position), stop)
            except OSError as error:
                if position >= self.begin:  # not trimmed meanwhile
                    raise storage_error(error, segment.path, "reading") from error

    def verify(self) -> int:
        """Check every byte; how many records there are."""
        with self._lock:
            segments, end, size = list(self.segments), self.end, self.segments[-1].size
        stops = [*(each.first for each in segments[1:]), end]
        for segment, stop in zip(segments, stops, strict=True):
            try:
                data = read_file(segment.path)
            except OSError as error:
                raise storage_error(error, segment.path, "reading") from error
            if segment is segments[-1]:
                data = data[:size]
            examine(segment.path, segment.header, data, stop)
        return end - segments[0].first

    def check(self, first: int) -> bool:
        """Check every byte of the sealed segment that begins at a position; False if it is gone."""
        with self._lock:
            found = [(each, behind.first) for each, behind in pairwise(self.segments) if each.first == first]
        for segment, stop in found:
            try:
                examine(segment.path, segment.header, read_file(segment.path), stop)
            except OSError as error:
                if first >= self.begin:
                    raise storage_error(error, segment.path, "reading") from error
        return bool(found)

    def check_newest(self, budget: int) -> list[int]:
        """Check sealed segments, the newest first, up to so many bytes; the beginnings of the others."""
        for first, _ in reversed(self.sealed):
            budget -= self.size(first)
            if budget < 0:
                return [each for each, _ in self.sealed if each <= first]
            self.check(first)
        return []

    def size(self, first: int) -> int:
        """Bytes of the segment that begins at a position."""
        with self._lock:
            paths = [each.path for each in self.segments if each.first == first]
        try:
            return paths[0].stat().st_size if paths else 0
        except OSError as error:
            raise storage_error(error, paths[0], "reading") from error

    def expired(self, before: int, size: int) -> int:
        """The position before which segments were sealed before an instant, or lie beyond so many bytes."""
        with self._lock:
            segments = list(self.segments)
        position, total = self.begin, self.size(segments[-1].first)
        for segment, behind in reversed(list(pairwise(segments))):
            total += self.size(segment.first)
            if behind.header.made < before or (size and total > size):
                return behind.first
        return position

    # inside

    def _read(self, segment: Segment, position: int, count: int, stop: int) -> list[bytes]:
        offsets = segment.offsets
        if offsets is None:
            content = examine(segment.path, segment.header, read_file(segment.path), stop)
            with self._lock:
                offsets = segment.offsets = content.offsets
                segment.size = content.size
                self._keep(segment)
        index, total = position - segment.first, stop - segment.first
        starts = offsets[index : index + count]
        size = segment.size

        def behind(number: int) -> int:
            """An offset at or behind the end of a record."""
            return offsets[number + 1] if number + 1 < total else size

        last = index + len(starts) - 1
        while last > index and behind(last) - starts[0] > READ_BYTES:
            last = (index + last) // 2
        with segment.path.open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), behind(last) - starts[0], starts[0])
        return take(segment, data, position, starts[: last - index + 1])

    def _keep(self, segment: Segment) -> None:
        """Know the offsets of the sealed segments that were opened last, and no others."""
        self._known[segment.first] = segment
        while len(self._known) > KNOWN_SEGMENTS:
            _, other = self._known.popitem(last=False)
            other.offsets = None
