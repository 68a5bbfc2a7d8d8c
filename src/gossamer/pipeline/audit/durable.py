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
from gossamer.pipeline.audit.total_order import AFTER, CONTRADICTIONS, HIGHEST, contradictions, noted

PROMISE = "durable"


def violated() -> str:
    """Logs contradict neither themselves nor what was delivered."""
    notes = noted(trace.STORED, "concat_ws(' ', node, detail)")
    places = f"places as (select distinct {PARCEL}, detail as one_order, place from notes)"
    expected = f"if(missing, format_string('the parcel at place %d too', place), {AFTER})"
    found = [
        *contradictions(PROMISE),
        violations("unexcused", PROMISE, "if(missing, sequence, first)", expected),
    ]
    steps = (deliveries(PROMISE), GOT, notes, CONTRADICTIONS, places, _OFFERED, _UNEXCUSED)
    return query(*steps, " union all ".join(found))


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

AUDIT = Audit(PROMISE, violated())
