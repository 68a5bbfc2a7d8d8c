"""Which numbers a stream has had, as spans: small where they came in order, exact where they did not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np

from gossamer.pipeline.audit.segment import STREAM, Segment


class Spans:
    """Numbers of one stream; each span remembers the instant of the row that it begins with."""

    __slots__ = ("begins", "ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.begins: list[int] = []

    @property
    def high(self) -> int:
        return self.ends[-1] if self.ends else 0

    def add(self, start: int, end: int, begin: int) -> int | None:
        """Add numbers from one up to another; the first that was there before, if any."""
        if start >= self.high:
            if self.ends and start == self.high:
                self.ends[-1] = end
            else:
                self.starts.append(start)
                self.ends.append(end)
                self.begins.append(begin)
            return None
        left = bisect_right(self.ends, start - 1)  # the first span that touches or follows
        right = bisect_right(self.starts, end)  # one behind the last that touches
        shared = [
            max(start, low) for low, high in zip(self.starts[left:right], self.ends[left:right], strict=True)
            if max(start, low) < min(end, high)
        ]  # fmt: skip
        if left < right:
            if self.starts[left] <= start:
                begin = self.begins[left]
            start, end = min(start, self.starts[left]), max(end, self.ends[right - 1])
        self.starts[left:right], self.ends[left:right], self.begins[left:right] = [start], [end], [begin]
        return min(shared, default=None)


class Coverage:
    """The spans of every stream of a writer."""

    def __init__(self) -> None:
        self.streams: dict[tuple[Any, ...], Spans] = {}

    def take(self, segment: Segment, channels: frozenset[str]) -> Iterator[tuple[tuple[Any, ...], int, int]]:
        """Add what a segment delivers: stream, number and row of each delivery of something again."""
        first, count = segment.numbers("first"), segment.numbers("count")
        at = segment.numbers("at")
        for stream, rows in segment.groups(STREAM, segment.delivered(channels)):
            spans = self.streams.setdefault(stream, Spans())
            start = first[rows]
            end = start + count[rows]
            if start[0] >= spans.high and (start[1:] >= end[:-1]).all():
                breaks = np.flatnonzero(np.concatenate(([True], start[1:] != end[:-1])))
                lasts = np.concatenate((breaks[1:] - 1, [len(rows) - 1]))
                for begin, last in zip(breaks, lasts, strict=True):
                    spans.add(int(start[begin]), int(end[last]), int(at[rows[begin]]))
                continue
            for row in map(int, rows):
                low = int(first[row])
                again = spans.add(low, low + int(count[row]), int(at[row]))
                if again is not None:
                    yield stream, again, row
