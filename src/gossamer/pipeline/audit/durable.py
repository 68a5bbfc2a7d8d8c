"""Durable replay: what a log has on disk reaches every subscription that reads past it, in the log's order.

Held against what keepers of logs noted (``stored`` rows). No place of a log holds two parcels, which is what
forgetting something acknowledged looks like; and between the lowest and the highest place that a subscription
gets, it gets every place, each after those before it. One with criteria is asked for order only; what expired
or what a subscription was told of as missing is not asked for.
"""

from __future__ import annotations

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import CHOOSY, GOT, PARCEL, SEAT, deliveries, of, query, violations
from gossamer.pipeline.audit.total_order import AFTER, CONTRADICTIONS, PLACED, contradictions, noted

PROMISE = "durable"


def violated() -> str:
    """Logs contradict neither themselves nor what was delivered."""
    notes = noted("notes", trace.STORED, "concat_ws(' ', node, detail)")
    stored = noted("stored", trace.STORED, "detail")
    places = f"places as (select distinct {PARCEL}, one_order, place from stored)"
    found = [
        *contradictions(PROMISE),
        violations("placed where place < highest", PROMISE, "first", AFTER),
        violations("missing", PROMISE, "sequence", "format_string('the parcel at place %d too', place)"),
    ]
    steps = (deliveries(PROMISE), GOT, notes, CONTRADICTIONS, stored, places, PLACED, _MISSING)
    return query(*steps, " union all ".join(found))


_NODE = "run, node, incarnation, channel, source"
_MISSING = f"""{CHOOSY}, ranges as (
    select {SEAT}, one_order, min(place) as low, max(place) as high, max(at) as at
    from placed left anti join choosy using ({SEAT}) group by {SEAT}, one_order
), due as (
    select * from ranges join places using (run, channel, one_order) where place between low and high
), told as (
    select distinct {_NODE} from {{rows}} where {of(trace.MEMBER, trace.MISSED)}
), expired as (
    select distinct {PARCEL}, node, incarnation from {{rows}}
    where {of(trace.PARCEL, trace.DROPPED)} and detail = '{trace.EXPIRED}'
), blank as (
    select {PARCEL} from {{rows}} where {of(trace.PARCEL, trace.PUBLISHED)} and count = 0
), missing as (
    select * from due left anti join placed using ({SEAT}, one_order, place)
    left anti join told using ({_NODE}) left anti join expired using ({PARCEL}, node, incarnation)
    left anti join blank using ({PARCEL}))"""
"""Places of a log inside what a subscription got that never came to it."""

AUDIT = Audit(PROMISE, violated())
