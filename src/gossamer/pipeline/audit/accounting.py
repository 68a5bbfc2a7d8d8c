"""Accounting: sent = received + dropped + in flight, for every parcel on every link.

Checked on every channel. Nothing comes from nowhere: what a node received its peer had sent, and what is
delivered was published. And nothing vanishes: what was sent is received or dropped, unless it is still on its
way when the run ends, which is allowed in the last seconds (IN_FLIGHT). On a real network the loss of a
parcel is the row that is missing (nobody can write it), so there only the first half is asked. Copies that a
network makes are no violation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import PARCEL, of, query, violations
from gossamer.pipeline.audit.whole import Parcel, Row, Whole
from gossamer.pipeline.schema import Found

PROMISE = "accounting"
IN_FLIGHT = 10 * 10**9
"""Nanoseconds before the end of a run in which what was sent may still be on its way."""
_ROW = "at, node, incarnation, position, peer"


def violated() -> str:
    """Both sides of every link say the same, and so do both ends of every way."""
    links = violations("broken", PROMISE, "first", "expected")
    ends = violations("made_up", PROMISE, "first", "format_string('published by %s', source)")
    return query(_LINKS, _ENDS, f"{links} union all {ends}")


_ONWARD = "named_struct('sender', node, 'receiver', peer)"
_BACK = "named_struct('sender', peer, 'receiver', node)"
_LINKS = f"""passed as (
    select *, explode(case action when '{trace.SENT}' then array({_ONWARD})
        when '{trace.RECEIVED}' then array({_BACK}) else array({_ONWARD}, {_BACK}) end) as way
    from {{rows}} where kind in ('{trace.PARCEL}', '{trace.FEEDBACK}')
        and action in ('{trace.SENT}', '{trace.RECEIVED}', '{trace.DROPPED}')
        and peer != '' and not startswith(channel, '#')
), links as (
    select {PARCEL}, first, way.sender, way.receiver,
        min(struct({_ROW})) filter (where action = '{trace.SENT}') as sent,
        min(struct({_ROW})) filter (where action = '{trace.RECEIVED}') as received,
        min(struct({_ROW})) filter (where action = '{trace.DROPPED}') as dropped
    from passed group by {PARCEL}, first, kind, way.sender, way.receiver
), ends as (
    select run, max(at) as ended from {{rows}} group by run
), judged as (
    select /*+ broadcast(ends) */ {PARCEL}, first, coalesce(sent, received) as seen,
        case when received is not null and sent is null then format_string('sent by %s', sender)
            when coalesce(received, dropped) is null and sent.at < ended - {IN_FLIGHT}
                and ended < {trace.WALL_CLOCK} then format_string('received by %s, or dropped', receiver)
        end as expected
    from links join ends using (run)
), broken as (select {PARCEL}, first, seen.*, expected from judged where expected is not null)"""
"""Per parcel and link: whether it was sent, and whether it came to an end."""

_ENDS = f"""parcels as (
    select {PARCEL}, max(action = '{trace.PUBLISHED}') as published,
        min(struct({_ROW}, first)) filter (where action = '{trace.DELIVERED}') as seen
    from {{rows}} where {of(trace.PARCEL, trace.PUBLISHED, trace.DELIVERED)} group by {PARCEL}
), made_up as (select {PARCEL}, seen.* from parcels where not published)"""
"""Per parcel: whether it was published, if it was delivered."""


def broken(run: Whole) -> Iterator[Found]:
    """The same, of all rows of a run."""
    links: dict[_Way, dict[str, Row]] = defaultdict(dict)
    for kind in (trace.PARCEL, trace.FEEDBACK):
        for row in sorted(run.of(kind, trace.SENT, trace.RECEIVED, trace.DROPPED)):
            if row.peer and not row.channel.startswith("#"):
                for way in _ways(row):
                    links[way].setdefault(row.action, row)
    vanishing = run.ended - IN_FLIGHT if run.ended < trace.WALL_CLOCK else 0
    for (*_, sender, receiver), seen in links.items():
        sent, received = seen.get(trace.SENT), seen.get(trace.RECEIVED)
        if sent is None:
            if received is not None:
                yield received.found(received.first, f"sent by {sender}")
        elif received is None and trace.DROPPED not in seen and sent.at < vanishing:
            yield sent.found(sent.first, f"received by {receiver}, or dropped")
    published = {row.parcel for row in run.of(trace.PARCEL, trace.PUBLISHED)}
    made_up: dict[Parcel, Row] = {}
    for row in sorted(run.of(trace.PARCEL, trace.DELIVERED)):
        if row.parcel not in published:
            made_up.setdefault(row.parcel, row)
    for row in made_up.values():
        yield row.found(row.first, f"published by {row.source}")


_Way = tuple[Parcel, int, str, str, str]
"""Parcel, number of its first event, kind, sender and receiver."""


def _ways(row: Row) -> list[_Way]:
    """What was dropped may have been on its way in either direction."""
    onward = (row.parcel, row.first, row.kind, row.node, row.peer)
    back = (row.parcel, row.first, row.kind, row.peer, row.node)
    return {trace.SENT: [onward], trace.RECEIVED: [back]}.get(row.action, [onward, back])


AUDIT = Audit(PROMISE, violated(), whole=broken, always=True)
