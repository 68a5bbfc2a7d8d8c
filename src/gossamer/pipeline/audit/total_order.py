"""Total order: all subscriptions get parcels in the one order that the sequencer decided.

It is held against what the sequencer noted (``ordered`` rows), not against some node that was first. No place
is given twice, no parcel has two places in one order, nothing is delivered without a place, and places only
grow. Where a channel began a new order, each is looked at by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import EARLIER, GOT, PARCEL, SEAT, deliveries, of, query, violations
from gossamer.pipeline.audit.whole import Parcel, Row, Whole, got
from gossamer.pipeline.schema import Found

PROMISE = "total-order"


def violated() -> str:
    """The stamps agree with each other, and deliveries with the stamps."""
    places = f"places as (select distinct {PARCEL}, one_order, place from notes)"
    placed = f"""placed as (
        select *, {HIGHEST} from got left join places using ({PARCEL}))"""
    expected = f"if(place is null, 'a place given by the sequencer', {AFTER})"
    found = [
        *contradictions(PROMISE),
        violations("placed where place is null or place < highest", PROMISE, "first", expected),
    ]
    notes = noted(trace.ORDERED, "detail")
    steps = (deliveries(PROMISE), GOT, notes, CONTRADICTIONS, places, placed)
    return query(*steps, " union all ".join(found))


def noted(action: str, one_order: str) -> str:
    """``notes``: the places that templates noted, on channels that promise something."""
    return f"""notes as (
        select /*+ broadcast(promised) */ {PARCEL}, at, node, incarnation, position, peer, detail,
            {one_order} as one_order, value as place
        from {{rows}} left semi join promised using (run, channel) where {of(trace.PARCEL, action)})"""


HIGHEST = f"max(place) over (partition by {SEAT}, one_order order by position, place {EARLIER}) as highest"
"""The highest place that a subscription got before."""
AFTER = "format_string('place %d after place %d', highest, place)"

_PARCEL = "source, source_incarnation, sequence"
_NOTE = f"struct(at, node, incarnation, position, peer, place, {_PARCEL})"
CONTRADICTIONS = f"""shared as (
    select run, channel, last.* from (
        select run, channel, max({_NOTE}) as last from notes group by run, channel, one_order, place
        having min(struct({_PARCEL})) != max(struct({_PARCEL})))
), moved as (
    select run, channel, last.* from (
        select run, channel, max({_NOTE}) as last from notes group by {PARCEL}, one_order
        having min(place) != max(place)))"""
"""Places of ``notes`` given to two parcels, parcels with two places in one order: the later note of each."""


def contradictions(promise: str) -> list[str]:
    return [
        violations("shared", promise, "sequence", "format_string('one parcel at place %d', place)"),
        violations("moved", promise, "sequence", "'one place for this parcel'"),
    ]


def broken(run: Whole) -> Iterator[Found]:
    """The same, of all rows of a run."""
    channels = run.promising(PROMISE)
    notes = [row for row in run.of(trace.PARCEL, trace.ORDERED) if row.channel in channels]
    yield from contradicting((row.detail, row) for row in notes)
    places: dict[Parcel, set[tuple[int, str]]] = defaultdict(set)
    for row in notes:
        places[row.parcel].add((row.value, row.detail))
    for parcels in got(run.given(PROMISE)).values():
        highest: dict[str, int] = {}
        for parcel, row in parcels.items():
            if parcel not in places:
                yield row.found(row.first, "a place given by the sequencer")
            for place, one_order in sorted(places.get(parcel, ())):
                high = highest.get(one_order, place)
                if place < high:
                    yield row.found(row.first, f"place {high} after place {place}")
                highest[one_order] = max(high, place)


def contradicting(notes: Iterable[tuple[str, Row]]) -> Iterator[Found]:
    """Contradictions of notes, each of which is about one order."""
    places: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    parcels: dict[tuple[str, Parcel], list[Row]] = defaultdict(list)
    for one_order, row in notes:
        places[one_order, row.channel, row.value].append(row)
        parcels[one_order, row.parcel].append(row)
    for rows in places.values():
        if len({row.parcel for row in rows}) > 1:
            last = max(rows)
            yield last.found(last.sequence, f"one parcel at place {last.value}")
    for rows in parcels.values():
        if len({row.value for row in rows}) > 1:
            last = max(rows)
            yield last.found(last.sequence, "one place for this parcel")


AUDIT = Audit(PROMISE, violated(), whole=broken)
