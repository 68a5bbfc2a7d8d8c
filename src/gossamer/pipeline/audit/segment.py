"""One segment of a trace for kernels: columns as numpy arrays, texts as codes, rows by groups.

Kernels look at a segment as a whole and only at suspicious rows one by one; that is what makes them fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gossamer.core import trace

Numbers = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]
Life = tuple[str, int]
"""A node and which life of it."""

COLUMNS = (
    "position", "at", "node", "incarnation", "kind", "action", "channel", "source", "source_incarnation",
    "first", "count", "peer", "detail", "value",
)  # fmt: skip
"""What kernels read."""
SEAT = ("node", "incarnation", "channel", "peer")
"""What tells one subscription from another."""
STREAM = (*SEAT, "source", "source_incarnation")
"""What one subscription gets of one life of a source."""
_ENDED = ("node", "incarnation", "channel", "source", "source_incarnation")
_TEXTS = {"node", "kind", "action", "channel", "source", "peer", "detail"}


class Segment:
    """Rows of one writer, in order.

    alike
        Columns that have one value in all rows; the table need not have them.
    """

    def __init__(self, table: pa.Table, alike: Mapping[str, Any] | None = None) -> None:
        self.rows = table.num_rows
        self._table = table
        self._alike = alike or {}
        self._codes: dict[str, npt.NDArray[Any]] = {}
        self._words: dict[str, list[Any]] = {}

    def numbers(self, name: str) -> Numbers:
        """A column of integers."""
        if name in self._alike:
            return np.full(self.rows, self._alike[name], np.int64)
        column = self._table.column(name)
        chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        found: Numbers = np.asarray(chunk)
        return found

    def column(self, name: str) -> list[Any]:
        """All values of a column, as Python knows them."""
        return (
            [self._alike[name]] * self.rows if name in self._alike else self._table.column(name).to_pylist()
        )

    def codes(self, name: str) -> npt.NDArray[Any]:
        """A column as small numbers, each standing for one of ``words``."""
        if name not in self._codes:
            if name in self._alike:
                self._words[name], self._codes[name] = [self._alike[name]], np.zeros(self.rows, np.int32)
            elif name in _TEXTS:
                column = self._table.column(name)
                if not pa.types.is_dictionary(column.type):
                    column = column.dictionary_encode()
                column = column.unify_dictionaries().combine_chunks()
                whole = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
                self._words[name] = whole.dictionary.to_pylist()
                self._codes[name] = np.asarray(whole.indices)
            else:
                values = self.numbers(name)
                if self.rows and values[0] == values[-1] and (values == values[0]).all():
                    self._words[name], self._codes[name] = [int(values[0])], np.zeros(self.rows, np.int32)
                else:
                    words, codes = np.unique(values, return_inverse=True)
                    self._words[name], self._codes[name] = words.tolist(), codes
        return self._codes[name]

    def words(self, name: str) -> list[Any]:
        self.codes(name)
        return self._words[name]

    def value(self, name: str, row: int) -> Any:
        """One value of one row, as Python knows it."""
        return self.words(name)[self.codes(name)[row]] if name in _TEXTS else int(self.numbers(name)[row])

    def equal(self, name: str, *wanted: str) -> npt.NDArray[np.bool_]:
        """Where a text is one of some."""
        words = self.words(name)
        chosen = np.fromiter((word in wanted for word in words), np.bool_, len(words))
        if chosen.all() or not chosen.any():
            return np.full(self.rows, bool(chosen.any()))
        return np.asarray(chosen[self.codes(name)], np.bool_)

    def delivered(self, channels: frozenset[str]) -> Places:
        """Rows that deliver events of some channels."""
        mask = self.equal("action", trace.DELIVERED) & self.equal("kind", trace.PARCEL)
        if not set(self.words("channel")) <= channels:
            mask &= self.equal("channel", *channels)
        mask &= self.numbers("count") > 0
        return np.flatnonzero(mask)

    def groups(self, names: tuple[str, ...], rows: Places) -> Iterator[tuple[tuple[Any, ...], Places]]:
        """Rows apart by the values of some columns; in each group they keep their order."""
        if not len(rows):
            return
        key = np.zeros(len(rows), np.int64)
        size = 1
        for name in names:
            words = len(self.words(name))
            if words > 1:
                if size * words >= 2**62:
                    _, key = np.unique(key, return_inverse=True)
                    size = int(key.max()) + 1
                key = key * words + self.codes(name)[rows]
                size *= words
        if size == 1:
            yield self.key(names, int(rows[0])), rows
            return
        if size > 2**16:
            _, key = np.unique(key, return_inverse=True)
        if len(key) and int(key.max()) < 2**16:
            key = key.astype(np.uint16)
        order = np.argsort(key, kind="stable")
        in_order = key[order]
        starts = np.flatnonzero(np.concatenate(([True], in_order[1:] != in_order[:-1])))
        for group in np.split(rows[order], starts[1:]):
            yield self.key(names, int(group[0])), group

    def key(self, names: tuple[str, ...], row: int) -> tuple[Any, ...]:
        """Some values of one row."""
        return tuple(self.value(name, row) for name in names)


class Known:
    """What the rows of one writer said so far that more than one kernel needs.

    promised
        Channels by promise.
    events
        Events published.
    last
        The latest instant.
    gaps
        Rows that are missing: life of a node, the position expected and the one that came.
    """

    def __init__(self) -> None:
        self.promised: dict[str, frozenset[str]] = {}
        self.channels: frozenset[str] = frozenset()
        self.opened: set[tuple[str, str]] = set()
        self.events = 0
        self.last = 0
        self.gaps: list[tuple[Life, int, int]] = []
        self._choosy: set[tuple[str, int, str, str]] = set()
        self._missed: dict[tuple[str, int, str, str], list[int]] = {}
        self._expired: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        self._positions: dict[Life, int] = {}
        self._holes: dict[Life, list[int]] = {}

    def take(self, segment: Segment) -> None:
        """Read what a segment says; before any kernel sees it."""
        self.last = max(self.last, int(segment.numbers("at").max()))
        if trace.PUBLISHED in segment.words("action"):
            published = segment.equal("action", trace.PUBLISHED) & segment.equal("kind", trace.PARCEL)
            self.events += int(segment.numbers("count")[published].sum())
        if {trace.CHANNEL, trace.MEMBER} & set(segment.words("kind")):
            told = segment.equal("kind", trace.CHANNEL, trace.MEMBER)
            told &= segment.equal("action", trace.OPENED, trace.SUBSCRIBED, trace.MISSED)
            for row in np.flatnonzero(told):
                self._told(segment, int(row))
        if trace.EXPIRED in segment.words("detail"):
            ended = segment.equal("action", trace.DROPPED) & segment.equal("detail", trace.EXPIRED)
            for row in np.flatnonzero(ended & segment.equal("kind", trace.PARCEL)):
                *stream, first, count = segment.key((*_ENDED, "first", "count"), int(row))
                self._expired.setdefault(tuple(stream), []).append((first, count))
        self._check_positions(segment)

    def promising(self, promise: str) -> frozenset[str]:
        """Channels that promise something."""
        return self.promised.get(promise, frozenset())

    def choosy(self, seat: tuple[Any, ...]) -> bool:
        """Whether a subscription has criteria, so that numbers may be missing."""
        return seat in self._choosy

    def stretch(self, life: Life, position: int) -> int:
        """In which run of rows without a hole a position of a life is."""
        return sum(hole <= position for hole in self._holes.get(life, ()))

    def torn(self, life: Life) -> bool:
        """Whether rows of a life are missing."""
        return life in self._holes

    def told(self, seat: tuple[Any, ...], source: str, after: int, before: int) -> bool:
        """Whether subscribers at a node were told between two rows that events of a source are missing."""
        node, incarnation, channel, _ = seat
        return any(after < at < before for at in self._missed.get((node, incarnation, channel, source), ()))

    def expired(self, stream: tuple[Any, ...], first: int, end: int) -> bool:
        """Whether all numbers from one up to another ended there because nobody wanted them any more."""
        node, incarnation, channel, _, source, life = stream
        ended = self._expired.get((node, incarnation, channel, source, life), ())
        return sum(count for start, count in ended if first <= start and start + count <= end) == end - first

    def _told(self, segment: Segment, row: int) -> None:
        channel, action = segment.value("channel", row), segment.value("action", row)
        node, life = segment.value("node", row), segment.value("incarnation", row)
        if action == trace.OPENED:
            detail = segment.value("detail", row)
            self.opened.add((channel, detail))
            self.channels |= {channel}
            for promise in detail.split(" ")[1:]:
                self.promised[promise] = self.promising(promise) | {channel}
        elif action == trace.MISSED:
            key = (node, life, channel, segment.value("source", row))
            self._missed.setdefault(key, []).append(segment.value("position", row))
        elif segment.value("detail", row):
            self._choosy.add((node, life, channel, segment.value("peer", row)))

    def _check_positions(self, segment: Segment) -> None:
        positions = segment.numbers("position")
        every = np.arange(segment.rows)
        for life, rows in segment.groups(("node", "incarnation"), every):
            mine = positions[rows]
            before = np.concatenate(([self._positions.get(life, 0)], mine[:-1]))
            for gap in np.flatnonzero(mine != before + 1):
                self.gaps.append((life, int(before[gap]) + 1, int(mine[gap])))
                self._holes.setdefault(life, []).append(int(mine[gap]))
            self._positions[life] = int(mine[-1])
