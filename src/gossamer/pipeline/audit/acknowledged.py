"""When each parcel was acknowledged: for audits of what an acknowledgement stands for.

A source is told that its events up to a number are acknowledged; a parcel is from the first such row that
covers its last event, unless the source was told that events of it are lost: the number passes over those.
Instants of different nodes are compared with a slack (SKEW), for their clocks differ.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from gossamer.core import trace
from gossamer.pipeline.audit.relations import PARCEL, of
from gossamer.pipeline.audit.whole import Parcel, Whole

SKEW = 10**9
"""Nanoseconds by which the clocks of two nodes may differ."""
SOURCE = "run, channel, source, source_incarnation"
"""What tells one life of a source on a channel from another."""

ACKNOWLEDGED = f"""lost as (
    select {SOURCE}, first as lost_first, first + count - 1 as lost_last
    from {{rows}} left semi join promised using (run, channel) where {of(trace.MEMBER, trace.LOST)}
), known as (
    select {PARCEL}, min(at) as at, min(first) as first, max(first + count - 1) as last, max(value) as until
    from {{rows}} left semi join promised using (run, channel)
    where {of(trace.PARCEL, trace.PUBLISHED)} and count > 0 group by {PARCEL}
), parcels as (
    select k.* from known k left anti join lost l
    on k.run = l.run and k.channel = l.channel and k.source = l.source
        and k.source_incarnation = l.source_incarnation and first <= lost_last and lost_first <= last
), answers as (
    select {SOURCE}, first as last, at as told from {{rows}} left semi join promised using (run, channel)
    where {of(trace.MEMBER, trace.ACKNOWLEDGED)}
), acknowledged as (
    select {PARCEL}, at, first, last, until, told from (
        select *, min(answer) over (
            partition by {SOURCE} order by last desc range between unbounded preceding and current row
        ) as told from (
            select {PARCEL}, at, first, last, until, null as answer from parcels union all
            select {SOURCE}, null, null, null, last, null, told from answers)
    ) where sequence is not null and told is not null)"""
"""``parcels`` with events, of which none was told to be lost; those ``acknowledged``, and since when;
``answers``: what sources were told.
"""


class Published(msgspec.Struct, frozen=True):
    """A parcel with events, as its source published it.

    told
        When the source was told that all its events are acknowledged; None if it was not.
    """

    parcel: Parcel
    at: int
    first: int
    last: int
    until: int
    told: int | None

    @property
    def source(self) -> tuple[str, str, int]:
        """Channel, source and its incarnation."""
        return self.parcel[:3]


def published(run: Whole, channels: set[str]) -> list[Published]:
    """What sources published on some channels, without parcels that they were told are lost."""
    answers: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for row in run.of(trace.MEMBER, trace.ACKNOWLEDGED):
        if row.channel in channels:
            answers[row.parcel[:3]].append((row.first, row.at))
    lost: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for row in run.of(trace.MEMBER, trace.LOST):
        if row.channel in channels:
            lost[row.parcel[:3]].append((row.first, row.first + row.count - 1))
    earliest = {source: list(_earliest(told)) for source, told in answers.items()}
    found: dict[Parcel, tuple[int, int, int, int]] = {}
    for row in run.of(trace.PARCEL, trace.PUBLISHED):
        if row.channel in channels and row.count > 0:
            at, first, last, until = found.get(row.parcel, (row.at, row.first, 0, 0))
            end = max(last, row.first + row.count - 1)
            found[row.parcel] = (min(at, row.at), min(first, row.first), end, max(until, row.value))
    return [
        Published(parcel, *said, _told(earliest.get(parcel[:3], []), said[2]))
        for parcel, said in found.items()
        if not any(low <= said[2] and said[1] <= high for low, high in lost.get(parcel[:3], ()))
    ]


def _earliest(answers: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Numbers from the lowest on, each with the instant from which on it or a greater one was told."""
    least: list[tuple[int, int]] = []
    for number, at in sorted(answers, reverse=True):
        least.append((number, min(at, least[-1][1]) if least else at))
    return reversed(least)


def _told(answers: list[tuple[int, int]], number: int) -> int | None:
    place = bisect_left(answers, (number, -1))
    return answers[place][1] if place < len(answers) else None
