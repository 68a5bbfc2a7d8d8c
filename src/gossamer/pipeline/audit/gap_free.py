"""Gap-free: what a subscription gets of a source is in order and without a gap, from its first to its last.

A subscription that was told of a gap begins anew; what expired on the way to it does not count as missing;
one with criteria is not asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import EXCUSED, STREAM, deliveries, query, violations
from gossamer.pipeline.audit.segment import STREAM as STREAM_COLUMNS
from gossamer.pipeline.audit.segment import Known, Segment
from gossamer.pipeline.schema import Found

PROMISE = "gap-free"


def violated() -> str:
    """Each delivery begins where the one before it ended."""
    wrong = f"""following as (
        select *, lag(first + count) over in_order as wanted, lag(position) over in_order as after
        from given window in_order as (partition by {STREAM}, stretch order by position)
    ), wrong as (select * from following where first != wanted)"""
    expected = "format_string('number %d next', wanted)"
    return query(deliveries(PROMISE), wrong, EXCUSED, violations("unexcused", PROMISE, "first", expected))


class GapFree:
    """Remembers where each stream goes on."""

    def __init__(self) -> None:
        self._next: dict[tuple[Any, ...], tuple[int, int]] = {}

    def take(self, known: Known, segment: Segment) -> list[Found]:
        found: list[Found] = []
        first, count = segment.numbers("first"), segment.numbers("count")
        position = segment.numbers("position")
        for stream, rows in segment.groups(STREAM_COLUMNS, segment.delivered(known.promising(PROMISE))):
            begin = first[rows]
            end = begin + count[rows]
            wanted, after = self._next.get(stream, (int(begin[0]), 0))
            before = np.concatenate(([wanted], end[:-1]))
            for wrong in np.flatnonzero(begin != before):
                last = int(position[rows[wrong - 1]]) if wrong else after
                what = _wrong(known, segment, stream, int(rows[wrong]), int(before[wrong]), last)
                if what is not None:
                    found.append(what)
            self._next[stream] = (int(end[-1]), int(position[rows[-1]]))
        return found

    def end(self, known: Known) -> list[Found]:
        return []


def _wrong(
    known: Known, segment: Segment, stream: tuple[Any, ...], row: int, wanted: int, after: int
) -> Found | None:
    node, incarnation, channel, peer, source, life = stream
    position, number = segment.value("position", row), segment.value("first", row)
    seat = stream[:4]
    excused = (
        known.choosy(seat)
        or known.stretch((node, incarnation), after) != known.stretch((node, incarnation), position)
        or known.told(seat, source, after, position)
        or (number > wanted and known.expired(stream, wanted, number))
    )
    if excused:
        return None
    at = segment.value("at", row)
    return (channel, node, incarnation, peer, source, life, number, at, f"number {wanted} next")


AUDIT = Audit(PROMISE, violated(), GapFree)
