"""All rows of a whole run, for kernels that look at several nodes: where rows are few enough for one process.

Then they find in a blink what a query needs seconds for, most of which Spark spends on planning it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import compress

import msgspec

from gossamer.core import trace
from gossamer.pipeline.audit.segment import Segment
from gossamer.pipeline.schema import Found

Seat = tuple[str, int, str, str]
"""A subscription: node, incarnation, channel, peer."""
Parcel = tuple[str, str, int, int]
"""Channel, source, its incarnation, sequence."""


class Row(msgspec.Struct, frozen=True, order=True):
    """A row, without what no kernel asks for; rows are in the order of time."""

    at: int
    node: str
    incarnation: int
    position: int
    peer: str
    kind: str
    action: str
    channel: str
    source: str
    source_incarnation: int
    sequence: int
    first: int
    count: int
    detail: str
    value: int

    @property
    def seat(self) -> Seat:
        return (self.node, self.incarnation, self.channel, self.peer)

    @property
    def parcel(self) -> Parcel:
        return (self.channel, self.source, self.source_incarnation, self.sequence)

    def found(self, number: int, expected: str) -> Found:
        """That it breaks a promise."""
        seat = (self.channel, self.node, self.incarnation, self.peer)
        return (*seat, self.source, self.source_incarnation, number, self.at, expected)


ROW = Row.__struct_fields__


class Whole:
    """A run of which no row is missing.

    ended
        The latest instant.
    lives
        The last incarnation of each node.
    """

    def __init__(self) -> None:
        self.ended = 0
        self.lives: dict[str, int] = {}
        self._rows: dict[tuple[str, str], list[Row]] = defaultdict(list)

    def take(self, segment: Segment) -> None:
        """Rows of any writer; control messages, most of a trace, only say how long the run went on."""
        if not segment.rows:
            return
        self.ended = max(self.ended, int(segment.numbers("at").max()))
        for node, life in set(zip(segment.column("node"), segment.column("incarnation"), strict=True)):
            self.lives[node] = max(life, self.lives.get(node, life))
        wanted = ~segment.equal("kind", trace.CONTROL)
        for row in map(Row, *(compress(segment.column(name), wanted) for name in ROW)):
            self._rows[row.kind, row.action].append(row)

    def of(self, kind: str, *actions: str) -> Iterator[Row]:
        """Rows of a kind with some actions."""
        for action in actions:
            yield from self._rows.get((kind, action), ())

    def promising(self, promise: str) -> set[str]:
        """Channels that promise something."""
        opened = self.of(trace.CHANNEL, trace.OPENED)
        return {row.channel for row in opened if promise in row.detail.split(" ")[1:]}

    def given(self, promise: str) -> list[Row]:
        """Rows that deliver events on channels that promise something."""
        channels = self.promising(promise)
        delivered = self.of(trace.PARCEL, trace.DELIVERED)
        return [row for row in delivered if row.count > 0 and row.channel in channels]

    def choosy(self) -> set[Seat]:
        """Subscriptions with criteria."""
        return {row.seat for row in self.of(trace.MEMBER, trace.SUBSCRIBED) if row.detail}


def got(given: Iterable[Row]) -> dict[Seat, dict[Parcel, Row]]:
    """Parcels by subscription, in order: the row that first delivers some of it, with its lowest number."""
    seats: dict[Seat, dict[Parcel, Row]] = defaultdict(dict)
    for row in sorted(given, key=lambda each: each.position):
        there = seats[row.seat].setdefault(row.parcel, row)
        if row.first < there.first:
            seats[row.seat][row.parcel] = msgspec.structs.replace(there, first=row.first)
    return seats
