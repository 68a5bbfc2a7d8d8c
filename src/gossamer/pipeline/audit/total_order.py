"""Total order: all subscriptions get parcels in the one order that the sequencer decided.

It is held against what the sequencer noted (``ordered`` rows), not against some node that was first. No place
is given twice, no parcel has two places in one order, nothing is delivered without a place, and places only
grow. Where a channel began a new order, each is looked at by itself.
"""

from __future__ import annotations

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import EARLIER, GOT, PARCEL, SEAT, deliveries, of, query, violations

PROMISE = "total-order"


def violated() -> str:
    """The stamps agree with each other, and deliveries with the stamps."""
    places = f"places as (select distinct {PARCEL}, one_order, place from notes)"
    unplaced = f"got left anti join places using ({PARCEL})"
    found = [
        *contradictions(PROMISE),
        violations(unplaced, PROMISE, "first", "'a place given by the sequencer'"),
        violations("placed where place < highest", PROMISE, "first", AFTER),
    ]
    notes = noted("notes", trace.ORDERED, "detail")
    steps = (deliveries(PROMISE), GOT, notes, CONTRADICTIONS, places, PLACED)
    return query(*steps, " union all ".join(found))


def noted(name: str, action: str, one_order: str) -> str:
    """A step to the places that templates noted, on channels that promise something."""
    return f"""{name} as (
        select /*+ broadcast(promised) */ {PARCEL}, at, node, incarnation, position, peer,
            {one_order} as one_order, value as place
        from {{rows}} left semi join promised using (run, channel) where {of(trace.PARCEL, action)})"""


PLACED = f"""placed as (
    select *, max(place) over (partition by {SEAT}, one_order order by position {EARLIER}) as highest
    from got join places using ({PARCEL}))"""
"""``placed``: parcels of ``got`` with their own place of ``places`` and the highest before it."""
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


AUDIT = Audit(PROMISE, violated())
