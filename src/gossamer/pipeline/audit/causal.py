"""Causal: no subscription gets an event before one that it depends on.

A parcel depends on those that were published or delivered earlier where it was published. Only parcels that a
subscription gets at all are compared: what never came did not come too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import EARLIER, GOT, PARCEL, SEAT, deliveries, of, query, violations
from gossamer.pipeline.audit.whole import Parcel, Row, Whole, got
from gossamer.pipeline.schema import Found

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


def broken(run: Whole) -> Iterator[Found]:
    """The same, of all rows of a run."""
    given, channels = run.given(PROMISE), run.promising(PROMISE)
    published = [row for row in run.of(trace.PARCEL, trace.PUBLISHED) if row.channel in channels]
    pasts: dict[_Publisher, dict[Parcel, tuple[int, bool]]] = {_where(row): {} for row in published}
    for row in [*published, *given]:
        past = pasts.get(_where(row))
        if past is not None:
            since, own = past.get(row.parcel, (row.position, False))
            past[row.parcel] = (min(since, row.position), own or row.action == trace.PUBLISHED)
    seats = got(given)
    for where, past in pasts.items():
        in_order = sorted((since, parcel, own) for parcel, (since, own) in past.items())
        for seat, parcels in seats.items():
            if seat[2] == where[0]:
                yield from _early((parcels[parcel], own) for _, parcel, own in in_order if parcel in parcels)


def _early(rows: Iterable[tuple[Row, bool]]) -> Iterator[Found]:
    """Deliveries of what one publisher published, in its order, that came before what it had seen earlier."""
    latest: Row | None = None
    for row, own in rows:
        if latest is None or row.position > latest.position:
            latest = row
        elif own:
            yield row.found(row.first, f"number {latest.first} of {latest.source} first")


_Publisher = tuple[str, str, int]
"""Channel, node, incarnation."""


def _where(row: Row) -> _Publisher:
    return (row.channel, row.node, row.incarnation)


AUDIT = Audit(PROMISE, violated(), whole=broken)
