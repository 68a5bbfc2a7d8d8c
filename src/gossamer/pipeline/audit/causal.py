"""Causal: no subscription gets an event before one that it depends on.

A parcel depends on those that were published or delivered earlier where it was published. Only parcels that a
subscription gets at all are compared: what never came did not come too late.
"""

from __future__ import annotations

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import EARLIER, GOT, PARCEL, SEAT, deliveries, of, query, violations

PROMISE = "causal"


def violated() -> str:
    """At the publisher's: what had come before. At the subscriber's: whether it comes before there too."""
    past = f"""published as (
        select /*+ broadcast(promised) */ r.* from {{rows}} r left semi join promised using (run, channel)
        where {of(trace.PARCEL, trace.PUBLISHED)}
    ), publishers as (
        select distinct run, channel, node, incarnation from published
    ), seen as (
        select /*+ broadcast(publishers) */ {PARCEL}, node, incarnation, position, false as own
        from given left semi join publishers using (run, channel, node, incarnation)
        union all select {PARCEL}, node, incarnation, position, true as own from published
    ), past as (
        select {PARCEL}, node as publisher, incarnation as life, min(position) as since, max(own) as own
        from seen group by {PARCEL}, node, incarnation)"""
    wrong = f"""both as (
        select *, max_by(struct(position, source, first), position)
            over (partition by {SEAT}, publisher, life order by since {EARLIER}) as latest
        from past join got using ({PARCEL})
    ), wrong as (select * from both where own and latest.position > position)"""
    expected = "format_string('number %d of %s first', latest.first, latest.source)"
    return query(deliveries(PROMISE), GOT, past, wrong, violations("wrong", PROMISE, "first", expected))


AUDIT = Audit(PROMISE, violated())
