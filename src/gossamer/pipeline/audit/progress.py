"""Progress: what was acknowledged reached every subscription that stayed, up to the last event.

Held against what sources were told (``acknowledged`` rows). A subscription is asked for an event if it was
there JOINED before the event was published, has no criteria, did not end, was told of no gap in that source,
and if its node lived to the end of the run: no later life of it is known, and the last row about a link to it
says that it is up. An event that expired at its node is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import SEAT, deliveries, of, query, violations
from gossamer.pipeline.audit.whole import Row, Whole
from gossamer.pipeline.schema import Found

PROMISE = "progress"
JOINED = 30 * 10**9
"""Nanoseconds that it may take until the node of a subscription is part of the channel."""

_SOURCE = "run, channel, source, source_incarnation"
_EXPECTED = "'delivered here, for it was acknowledged'"


def violated() -> str:
    """Acknowledged and not delivered."""
    return query(
        deliveries(PROMISE), _DUE, _STAYED, _LACKING, violations("lacking", PROMISE, "due", _EXPECTED)
    )


_DUE = f"""acknowledged as (
    select {_SOURCE}, max(first) as due from {{rows}} left semi join promised using (run, channel)
    where {of(trace.MEMBER, trace.ACKNOWLEDGED)} group by {_SOURCE}
), owed as (
    select {_SOURCE}, due, min(at) as at from acknowledged join (
        select {_SOURCE}, first, count, at from {{rows}} where {of(trace.PARCEL, trace.PUBLISHED)}
    ) using ({_SOURCE}) where due >= first and due < first + count group by {_SOURCE}, due)"""
"""``owed``: the last event of each source that was acknowledged, and when it was published."""

_STAYED = f"""linked as (
    select run, peer as node, max(if(action = '{trace.UP}', at, -1)) as up,
        max(if(action = '{trace.DOWN}', at, -1)) as down
    from {{rows}} where {of(trace.MEMBER, trace.UP, trace.DOWN)} group by run, peer
), latest as (
    select run, node, max(incarnation) as incarnation from {{rows}} group by run, node
), stayed as (
    select {SEAT}, min(at) as since from {{rows}} left semi join promised using (run, channel)
    left semi join latest using (run, node, incarnation)
    left anti join (select run, node from linked where down > up) using (run, node)
    left anti join (
        select {SEAT} from {{rows}} where {of(trace.MEMBER, trace.UNSUBSCRIBED)}
            or ({of(trace.MEMBER, trace.SUBSCRIBED)} and detail != '')
    ) using ({SEAT})
    where {of(trace.MEMBER, trace.SUBSCRIBED)} group by {SEAT})"""
"""``stayed``: subscriptions without criteria that were there to the end, and since when."""

_LACKING = f"""reached as (
    select {SEAT}, source, source_incarnation, max(first + count - 1) as reached from given
    group by {SEAT}, source, source_incarnation
), excused as (
    select run, node, incarnation, channel, source from {{rows}} where {of(trace.MEMBER, trace.MISSED)}
    union select run, node, incarnation, channel, source from {{rows}}
    where {of(trace.PARCEL, trace.DROPPED)} and detail = '{trace.EXPIRED}'
), lacking as (
    select {SEAT}, source, source_incarnation, due, owed.at as at
    from stayed join owed using (run, channel)
    left join reached using ({SEAT}, source, source_incarnation)
    left anti join excused using (run, node, incarnation, channel, source)
    where owed.at >= since + {JOINED} and coalesce(reached, 0) < due)"""
"""``lacking``: what a subscription was owed and did not get."""


def broken(run: Whole) -> Iterator[Found]:
    """The same, of all rows of a run."""
    channels = run.promising(PROMISE)
    due: dict[tuple[str, str, int], int] = {}
    for row in run.of(trace.MEMBER, trace.ACKNOWLEDGED):
        if row.channel in channels:
            key = (row.channel, row.source, row.source_incarnation)
            due[key] = max(row.first, due.get(key, row.first))
    owed: dict[tuple[str, str, int], int] = {}
    for row in run.of(trace.PARCEL, trace.PUBLISHED):
        key = (row.channel, row.source, row.source_incarnation)
        if key in due and row.first <= due[key] < row.first + row.count:
            owed[key] = min(row.at, owed.get(key, row.at))
    if not owed:
        return
    reached: dict[tuple[object, ...], int] = {}
    for row in run.given(PROMISE):
        where = (row.seat, row.source, row.source_incarnation)
        reached[where] = max(row.first + row.count - 1, reached.get(where, 0))
    excused = {
        (row.node, row.incarnation, row.channel, row.source)
        for row in (*run.of(trace.MEMBER, trace.MISSED), *_expired(run))
    }
    for seat, since in _stayed(run, channels).items():
        node, incarnation, channel, peer = seat
        for (its, source, life), at in owed.items():
            number = due[its, source, life]
            if its != channel or at < since + JOINED or (node, incarnation, channel, source) in excused:
                continue
            if reached.get((seat, source, life), 0) < number:
                expected = "delivered here, for it was acknowledged"
                yield (channel, node, incarnation, peer, source, life, number, at, expected)


def _expired(run: Whole) -> Iterator[Row]:
    return (row for row in run.of(trace.PARCEL, trace.DROPPED) if row.detail == trace.EXPIRED)


def _stayed(run: Whole, channels: set[str]) -> dict[tuple[str, int, str, str], int]:
    """Subscriptions without criteria that were there to the end, and since when."""
    up: dict[str, int] = {}
    down: dict[str, int] = {}
    for row in run.of(trace.MEMBER, trace.UP):
        up[row.peer] = max(row.at, up.get(row.peer, -1))
    for row in run.of(trace.MEMBER, trace.DOWN):
        down[row.peer] = max(row.at, down.get(row.peer, -1))
    left = {row.seat for row in run.of(trace.MEMBER, trace.UNSUBSCRIBED)} | run.choosy()
    found: dict[tuple[str, int, str, str], int] = {}
    for row in run.of(trace.MEMBER, trace.SUBSCRIBED):
        lives = row.incarnation == run.lives[row.node] and down.get(row.node, -1) <= up.get(row.node, -1)
        if row.channel in channels and lives and row.seat not in left:
            found[row.seat] = min(row.at, found.get(row.seat, row.at))
    return found


AUDIT = Audit(PROMISE, violated(), whole=broken)
