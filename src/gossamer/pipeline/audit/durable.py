"""Durable replay: what a log has on disk reaches every subscription that reads past it, in the log's order.

Held against what keepers of logs noted (``stored`` rows). No place of a log holds two parcels, which is what
forgetting something acknowledged looks like; and between the lowest and the highest place that a subscription
gets, it gets every place, each after those before it. One with criteria is asked for order only; what expired
or what a subscription was told of as missing is not asked for.

At least one log has an event on disk, give or take SKEW, when its source is told that it is acknowledged
(``acknowledged`` rows), unless the source was told that it is lost. The promise is a majority of the
voters, but a trace says neither how many voters there are nor when a voter has a parcel on disk outside the
log, so the audit asks for one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gossamer.core import trace
from gossamer.pipeline.audit.acknowledged import ACKNOWLEDGED, SKEW, published
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import CHOOSY, GOT, PARCEL, SEAT, deliveries, of, query, violations
from gossamer.pipeline.audit.total_order import (
    AFTER,
    CONTRADICTIONS,
    HIGHEST,
    contradicting,
    contradictions,
    noted,
)
from gossamer.pipeline.audit.whole import Parcel, Row, Seat, Whole, got
from gossamer.pipeline.schema import Found

PROMISE = "durable"
BEFORE = "stored before it was acknowledged"


def violated() -> str:
    """Logs contradict neither themselves nor what was delivered."""
    notes = noted(trace.STORED, "concat_ws(' ', node, detail)")
    places = f"places as (select distinct {PARCEL}, detail as one_order, place from notes)"
    expected = f"if(missing, format_string('the parcel at place %d too', place), {AFTER})"
    found = [
        *contradictions(PROMISE),
        violations("unexcused", PROMISE, "if(missing, sequence, first)", expected),
        violations("unstored", PROMISE, "first", repr(BEFORE)),
    ]
    steps = (deliveries(PROMISE), GOT, notes, CONTRADICTIONS, places, _OFFERED, _UNEXCUSED)
    return query(*steps, ACKNOWLEDGED, _UNSTORED, " union all ".join(found))


_LOG = f"partition by {SEAT}, one_order"
_OFFERED = f"""seats as (
    select distinct {SEAT} from got
), offered as (
    select {SEAT}, source, source_incarnation, sequence, one_order, place as offer, first, at, position,
        count(position) over ({_LOG}, place) = 0 as missing, if(position is null, null, place) as place
    from places join seats using (run, channel)
    left join got using ({SEAT}, source, source_incarnation, sequence)
), compared as (
    select *, {HIGHEST}, min(place) over ({_LOG}) as low, max(place) over ({_LOG}) as high,
        max(at) over ({_LOG}) as last
    from offered)"""
"""``compared``: every place of a log for every subscription, ``missing`` or with the highest before it.

``low`` and ``high`` are the lowest and the highest that came at all, ``last`` when the last of them came.
"""

_NODE = "run, node, incarnation, channel, source"
_UNEXCUSED = f"""wrong as (
    select {SEAT}, source, source_incarnation, sequence, first, missing, highest,
        offer as place, if(missing, last, at) as at
    from compared where place < highest or missing and offer between low and high
), {CHOOSY}, told as (
    select distinct {_NODE}, true as missing from {{rows}} where {of(trace.MEMBER, trace.MISSED)}
), expired as (
    select distinct {PARCEL}, node, incarnation, true as missing from {{rows}}
    where {of(trace.PARCEL, trace.DROPPED)} and detail = '{trace.EXPIRED}'
), blank as (
    select {PARCEL}, true as missing from {{rows}} where {of(trace.PARCEL, trace.PUBLISHED)} and count = 0
), unexcused as (
    select * from wrong left anti join (select *, true as missing from choosy) using ({SEAT}, missing)
    left anti join told using ({_NODE}, missing)
    left anti join expired using ({PARCEL}, node, incarnation, missing)
    left anti join blank using ({PARCEL}, missing))"""
"""``unexcused``: places that came after higher ones, and those inside what came that never did."""

_UNSTORED = f"""unstored as (
    select {PARCEL}, source as node, source_incarnation as incarnation, '' as peer, first, told as at
    from acknowledged left join (
        select {PARCEL}, min(at) as stored from notes group by {PARCEL}
    ) using ({PARCEL}) where stored is null or stored > told + {SKEW})"""
"""``unstored``: parcels that no log had when they were acknowledged."""


def broken(run: Whole) -> Iterator[Found]:
    """The same, of all rows of a run."""
    channels = run.promising(PROMISE)
    notes = [row for row in run.of(trace.PARCEL, trace.STORED) if row.channel in channels]
    yield from contradicting((f"{row.node} {row.detail}", row) for row in notes)
    yield from _unstored(run, channels, notes)
    logs: dict[tuple[str, str], set[tuple[int, Parcel]]] = defaultdict(set)
    for row in notes:
        logs[row.channel, row.detail].add((row.value, row.parcel))
    excused = _Excused(run)
    for seat, parcels in got(run.given(PROMISE)).items():
        for (channel, _), log in logs.items():
            if channel == seat[2]:
                came = [(place, parcels[parcel]) for place, parcel in log if parcel in parcels]
                yield from _back(came)
                for place, parcel in _missing(log, {place for place, _ in came}):
                    if not excused(seat, parcel):
                        last = max(row.at for _, row in came)
                        yield _never(seat, parcel, last, f"the parcel at place {place} too")


def _unstored(run: Whole, channels: set[str], notes: Iterable[Row]) -> Iterator[Found]:
    """Parcels that no log had when they were acknowledged."""
    stored: dict[Parcel, int] = {}
    for row in notes:
        stored[row.parcel] = min(row.at, stored.get(row.parcel, row.at))
    for each in published(run, channels):
        if each.told is not None and stored.get(each.parcel, each.told + SKEW + 1) > each.told + SKEW:
            channel, source, life = each.source
            yield (channel, source, life, "", source, life, each.first, each.told, BEFORE)


def _back(came: Iterable[tuple[int, Row]]) -> Iterator[Found]:
    """Places that came after higher ones."""
    high = 0
    for place, row in sorted(came, key=lambda each: (each[1].position, each[0])):
        if place < high:
            yield row.found(row.first, f"place {high} after place {place}")
        high = max(high, place)


def _missing(log: Iterable[tuple[int, Parcel]], came: set[int]) -> list[tuple[int, Parcel]]:
    """What is between the lowest and the highest place that came, and did not."""
    low, high = min(came, default=0), max(came, default=0)
    return [(place, parcel) for place, parcel in log if low < place < high and place not in came]


def _never(seat: Seat, parcel: Parcel, at: int, expected: str) -> Found:
    node, incarnation, channel, peer = seat
    _, source, life, sequence = parcel
    return (channel, node, incarnation, peer, source, life, sequence, at, expected)


class _Excused:
    """Whether a subscription need not get a parcel."""

    def __init__(self, run: Whole) -> None:
        missed, dropped = run.of(trace.MEMBER, trace.MISSED), run.of(trace.PARCEL, trace.DROPPED)
        published = run.of(trace.PARCEL, trace.PUBLISHED)
        self._choosy = run.choosy()
        self._told = {(row.node, row.incarnation, row.channel, row.source) for row in missed}
        self._expired = {
            (row.node, row.incarnation, row.parcel) for row in dropped if row.detail == trace.EXPIRED
        }
        self._blank = {row.parcel for row in published if row.count == 0}

    def __call__(self, seat: Seat, parcel: Parcel) -> bool:
        node, incarnation, channel, _ = seat
        return (
            seat in self._choosy
            or (node, incarnation, channel, parcel[1]) in self._told
            or (node, incarnation, parcel) in self._expired
            or parcel in self._blank
        )


AUDIT = Audit(PROMISE, violated(), whole=broken)
