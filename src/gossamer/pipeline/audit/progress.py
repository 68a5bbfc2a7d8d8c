"""Progress: what was published arrives and is acknowledged, and what was acknowledged has arrived.

A subscription is asked for an event if it was there JOINED before the event was published, has no criteria,
did not end, and if its node stayed to the end of the run (see ``calm``). It is not asked for events of a
source that were published before it was told of a gap in that source, nor for any of a source of which an
event expired at its node. Events that their source was told are lost are asked for nowhere.

- The last acknowledged event of each source reached every such subscription. Where the acknowledgement only
  says that the event has its place in a total order, it must be JOINED older than the end of the run.
- No acknowledged event is without any such subscription that got it, gaps or not, if one was asked for it
  whose node kept its links from JOINED before the publication to the acknowledgement. An event with a
  deadline may end unseen.
- In a run that ended calm, what a source that stayed published before the recovery bound is acknowledged and
  has reached every such subscription that was there long enough.
- Where an acknowledgement says that members have the event (neither total order nor durable), no such
  subscription gets it later than SKEW after that. A member that does not keep up, which a fault may cause, is
  left out by the template; so this is asked only where no fault at its node, no life that begins and no
  broken way between any nodes was seen from JOINED before the publication up to the delivery.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from gossamer.core import trace
from gossamer.pipeline.audit.acknowledged import ACKNOWLEDGED, SKEW, SOURCE, Published, published
from gossamer.pipeline.audit.calm import CALM, FAULTS, MOVES, STAYING, calm, faults, moves, staying
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import GOT, PARCEL, SEAT, deliveries, of, promises, query, violations
from gossamer.pipeline.audit.whole import Seat, Whole, got
from gossamer.pipeline.schema import Found

PROMISE = "progress"
ORDERED, DURABLE = "total-order", "durable"
"""Promises of channels on which an event is acknowledged before members have it."""
JOINED = 30 * 10**9
"""Nanoseconds that it may take until the node of a subscription is part of the channel."""

HERE = "delivered here, for it was acknowledged"
CALMLY = "delivered here, for it was published and all is calm"
ANSWERED = "acknowledged, for its source lives and all is calm"
SOMEWHERE = "delivered to a subscription that stayed, for it was acknowledged"
BEFORE = "delivered before it was acknowledged"


def violated() -> str:
    """Each of them, one query after the other."""
    found = [
        violations("lacking", PROMISE, "due", "expected"),
        violations("unanswered", PROMISE, "due", repr(ANSWERED)),
        violations("nowhere", PROMISE, "first", repr(SOMEWHERE)),
        violations("late", PROMISE, "first", repr(BEFORE)),
    ]
    steps = (deliveries(PROMISE), GOT, ACKNOWLEDGED, STAYING, MOVES, FAULTS, CALM, _STAYED, _OWED, _LACKING)
    return query(*steps, _NOWHERE, _LATE, " union all ".join(found))


_STAYED = f"""stayed as (
    select {SEAT}, min(at) as since from {{rows}} left semi join promised using (run, channel)
    left semi join staying using (run, node, incarnation)
    left anti join (
        select {SEAT} from {{rows}} where {of(trace.MEMBER, trace.UNSUBSCRIBED)}
            or ({of(trace.MEMBER, trace.SUBSCRIBED)} and detail != '')
    ) using ({SEAT})
    where {of(trace.MEMBER, trace.SUBSCRIBED)} group by {SEAT})"""
"""``stayed``: subscriptions without criteria that were there to the end, and since when."""

_OWED = f"""ordered as (
    {promises(ORDERED)}
), due as (
    select {SOURCE}, max(last) as due from answers join ends using (run)
    left join (select run, channel, true as placed from ordered) using (run, channel)
    where placed is null or told < ended - {JOINED} group by {SOURCE}
), acked as (
    select {SOURCE}, max(last) as acked from answers group by {SOURCE}
), ripe as (
    select {SOURCE}, bound, max(struct(last, at)) as newest from calm join parcels using (run, channel)
    left semi join (select run, node as source, incarnation as source_incarnation from staying)
        using (run, source, source_incarnation)
    where at < ended - bound group by {SOURCE}, bound
), unanswered as (
    select {SOURCE}, source as node, source_incarnation as incarnation, '' as peer, bound,
        newest.last as due, newest.at as at
    from ripe left join acked using ({SOURCE}) where coalesce(acked, 0) < newest.last
), owed as (
    select {SOURCE}, least(due, newest.last) as due, newest.at as at, {JOINED} as joined, '{HERE}' as expected
    from (
        select {SOURCE}, due, max(struct(first, last, at)) as newest
        from due join parcels using ({SOURCE}) where first <= due group by {SOURCE}, due
    )
    union all
    select {SOURCE}, due, at, greatest({JOINED}, bound) as joined, '{CALMLY}' as expected from unanswered)"""
"""``owed``: the last event of each source that was acknowledged, and the last ``unanswered`` one that is old
enough; when each was published, and how long before a subscription must have been there.
"""

_NODE = "run, node, incarnation, channel, source"
_LACKING = f"""reached as (
    select {SEAT}, source, source_incarnation, max(first + count - 1) as reached from given
    group by {SEAT}, source, source_incarnation
), told as (
    select {_NODE}, max(at) as gap from {{rows}} where {of(trace.MEMBER, trace.MISSED)} group by {_NODE}
), expired as (
    select {_NODE} from {{rows}} where {of(trace.PARCEL, trace.DROPPED)} and detail = '{trace.EXPIRED}'
), lacking as (
    select {SEAT}, source, source_incarnation, due, owed.at as at, expected
    from stayed join owed using (run, channel)
    left join reached using ({SEAT}, source, source_incarnation)
    left join told using ({_NODE})
    left anti join expired using ({_NODE})
    where owed.at >= since + joined and coalesce(reached, 0) < due
        and (gap is null or owed.at > gap + {SKEW}))"""
"""``lacking``: what a subscription was owed and did not get."""

_NOWHERE = f"""settled as (
    select acknowledged.* from acknowledged join ends using (run)
    left join (select run, channel, true as placed from ordered) using (run, channel)
    where until = 0 and (placed is null or told < ended - {JOINED})
), unseen as (
    select * from settled
    left anti join (select {PARCEL} from got left semi join stayed using ({SEAT})) using ({PARCEL})
), nowhere as (
    select distinct {PARCEL}, u.source as node, source_incarnation as incarnation, '' as peer, first,
        u.at as at
    from unseen u join stayed s using (run, channel)
    left anti join moves m
        on u.run = m.run and s.node = m.node and m.at >= u.at - {JOINED} and m.at <= u.told
    where u.at >= since + {JOINED})"""
"""``nowhere``: acknowledged parcels that were due at a subscription, and that none got."""

_LATE = f"""hasty as (
    select run, channel from promised left anti join (
        {promises(ORDERED)} union {promises(DURABLE)}
    ) using (run, channel)
), behind as (
    select {SEAT}, source, source_incarnation, got.first as first, got.at as at, acknowledged.at as published
    from got join stayed using ({SEAT}) join acknowledged using ({PARCEL})
    left semi join hasty using (run, channel)
    where got.at > told + {SKEW} and acknowledged.at >= since + {JOINED}
), late as (
    select b.* from behind b left anti join faults f
    on b.run = f.run and f.node in ('', b.node) and f.at >= published - {JOINED} and f.at <= b.at)"""
"""``late``: what came to a subscription after it was acknowledged, though nothing went wrong."""


def broken(run: Whole) -> Iterator[Found]:
    """The same, of all rows of a run."""
    channels = run.promising(PROMISE)
    if not channels:
        return
    parcels, stayed = published(run, channels), _stayed(run, channels)
    unanswered = _unanswered(run, parcels, calm(run, channels))
    for (channel, source, life), (number, at, _) in unanswered.items():
        yield (channel, source, life, "", source, life, number, at, ANSWERED)
    yield from _lacking(run, stayed, _owed(run, channels, parcels, unanswered))
    yield from _nowhere(run, stayed, parcels)
    yield from _late(run, stayed, parcels)


_Source = tuple[str, str, int]
"""Channel, source and its incarnation."""
_Owed = tuple[_Source, int, int, int, str]
"""Source, number, when it was published, how long before a subscription must have been there, and why."""


def _stayed(run: Whole, channels: set[str]) -> dict[Seat, int]:
    """Subscriptions without criteria that were there to the end, and since when."""
    lives = staying(run)
    left = {row.seat for row in run.of(trace.MEMBER, trace.UNSUBSCRIBED)} | run.choosy()
    found: dict[Seat, int] = {}
    for row in run.of(trace.MEMBER, trace.SUBSCRIBED):
        if row.channel in channels and (row.node, row.incarnation) in lives and row.seat not in left:
            found[row.seat] = min(row.at, found.get(row.seat, row.at))
    return found


def _unanswered(
    run: Whole, parcels: Iterable[Published], calm: dict[str, int]
) -> dict[_Source, tuple[int, int, int]]:
    """Of each source that lives the last event that is old enough, if it is not acknowledged; its instant and
    the channel's bound.
    """
    lives = staying(run)
    ripe: dict[_Source, tuple[int, int, int]] = {}
    for each in parcels:
        channel, *life = each.source
        bound = calm.get(channel, 0)
        if bound and tuple(life) in lives and each.at < run.ended - bound:
            newest = (each.last, each.at, bound)
            ripe[each.source] = max(newest, ripe.get(each.source, newest))
    acked = _told(run, ())
    return {source: newest for source, newest in ripe.items() if acked.get(source, 0) < newest[0]}


def _told(run: Whole, ordered: Iterable[str]) -> dict[_Source, int]:
    """The greatest number that each source was told of; on some channels, JOINED before the end at least."""
    acked: dict[_Source, int] = {}
    for row in run.of(trace.MEMBER, trace.ACKNOWLEDGED):
        if row.channel not in ordered or row.at < run.ended - JOINED:
            source = row.parcel[:3]
            acked[source] = max(row.first, acked.get(source, row.first))
    return acked


def _owed(
    run: Whole,
    channels: set[str],
    parcels: Iterable[Published],
    unanswered: dict[_Source, tuple[int, int, int]],
) -> list[_Owed]:
    due = _told(run, run.promising(ORDERED))
    last: dict[_Source, tuple[int, int, int]] = {}
    for each in parcels:
        if each.source in due and each.first <= due[each.source]:
            newest = (each.first, each.last, each.at)
            last[each.source] = max(newest, last.get(each.source, newest))
    owed = [(source, min(due[source], number), at, JOINED, HERE) for source, (_, number, at) in last.items()]
    owed += [
        (source, number, at, max(JOINED, bound), CALMLY) for source, (number, at, bound) in unanswered.items()
    ]
    return owed


def _lacking(run: Whole, stayed: dict[Seat, int], owed: list[_Owed]) -> Iterator[Found]:
    """What a subscription was owed and did not get."""
    reached: dict[tuple[object, ...], int] = {}
    for row in run.given(PROMISE) if owed else ():
        where = (row.seat, row.source, row.source_incarnation)
        reached[where] = max(row.first + row.count - 1, reached.get(where, 0))
    expired = {
        (row.node, row.incarnation, row.channel, row.source)
        for row in run.of(trace.PARCEL, trace.DROPPED)
        if row.detail == trace.EXPIRED
    }
    told: dict[tuple[str, int, str, str], int] = {}
    for row in run.of(trace.MEMBER, trace.MISSED):
        here = (row.node, row.incarnation, row.channel, row.source)
        told[here] = max(row.at, told.get(here, row.at))
    for (node, incarnation, channel, peer), since in stayed.items():
        for (its, source, life), number, at, joined, expected in owed:
            here = (node, incarnation, channel, source)
            if its != channel or at < since + joined or here in expired:
                continue
            if here in told and at <= told[here] + SKEW:
                continue
            if reached.get(((node, incarnation, channel, peer), source, life), 0) < number:
                yield (channel, node, incarnation, peer, source, life, number, at, expected)


def _nowhere(run: Whole, stayed: dict[Seat, int], parcels: Iterable[Published]) -> Iterator[Found]:
    """Acknowledged parcels that were due at a subscription, and that none got."""
    seen = {row.parcel for row in run.given(PROMISE) if row.seat in stayed}
    moved = moves(run)
    ordered = run.promising(ORDERED)
    for each in parcels:
        told = each.told
        if told is None or each.until or each.parcel in seen:
            continue
        channel, source, life = each.source
        if channel in ordered and told >= run.ended - JOINED:
            continue
        if any(
            seat[2] == channel
            and each.at >= since + JOINED
            and not _within(moved[seat[0]], each.at - JOINED, told)
            for seat, since in stayed.items()
        ):
            yield (channel, source, life, "", source, life, each.first, each.at, SOMEWHERE)


def _late(run: Whole, stayed: dict[Seat, int], parcels: Iterable[Published]) -> Iterator[Found]:
    """What came to a subscription after it was acknowledged, though nothing went wrong."""
    other = run.promising(ORDERED) | run.promising(DURABLE)
    known = {each.parcel: each for each in parcels if each.told is not None}
    wrong = faults(run)
    for seat, came in got(run.given(PROMISE)).items():
        if seat not in stayed or seat[2] in other:
            continue
        for parcel, row in came.items():
            each = known.get(parcel)
            if each is None or each.told is None or row.at <= each.told + SKEW:
                continue
            since, until = each.at - JOINED, row.at
            if since >= stayed[seat] and not any(_within(wrong[at], since, until) for at in ("", seat[0])):
                yield row.found(row.first, BEFORE)


def _within(instants: list[int], first: int, last: int) -> bool:
    """Whether one of some instants in order is from one up to another."""
    place = bisect_left(instants, first)
    return place < len(instants) and instants[place] <= last


AUDIT = Audit(PROMISE, violated(), whole=broken)
