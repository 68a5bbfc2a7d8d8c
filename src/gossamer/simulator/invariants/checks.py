"""Checks inside a run: does every delivery keep what the channel's template promised?

The ledger is a witness. It knows what was published and who subscribed, and asks one check per promise
about each delivery; ``promises`` has them.

Integrity is checked on every channel: an event that is delivered was published just so, to a subscription
that is there and whose criteria it meets; feedback reaches the application whose event it answers.

Memory is bounded: violations beyond the first few are only counted, events beyond the last
MAX_REMEMBERED are still checked for repetition (one bit per event and subscription), no more for content.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from gossamer.core.event import Criteria, Envelope
from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Receipt
from gossamer.core.template import DURABLE, PROGRESS, TOTAL_ORDER
from gossamer.simulator.invariants.ledger import Counts, Peers, Published, Seat, SeatKey, Stayed
from gossamer.simulator.invariants.promises import CHECKS, JOINED, AtMostOnce, Check, Event, GapFree, Progress
from gossamer.simulator.invariants.quantiles import Quantiles
from gossamer.simulator.workload.observers import Witness

if TYPE_CHECKING:
    from gossamer.simulator.world import World

__all__ = [
    "CHECKS",
    "INTEGRITY",
    "AtMostOnce",
    "Books",
    "Check",
    "Counts",
    "GapFree",
    "Ledger",
    "Violation",
]

INTEGRITY = "integrity"
"""What no template has to promise: nothing is delivered that was not published, or to the wrong place."""
MAX_EXAMPLES = 20
MAX_REMEMBERED = 1_000_000
_MAX_VERIFIED = 4096


class Violation(msgspec.Struct, frozen=True):
    """A promise that was broken: which, where, by which event, when, and what should have been."""

    promise: str
    channel: str
    node: str
    incarnation: int
    subscription: int  # 0 for feedback
    source: str
    source_incarnation: int
    number: int
    at: int  # virtual nanoseconds
    expected: str


class Books:
    """One channel's books.

    latency
        From publication to delivery, over all pairs.
    ended
        Lives of sources that a crash ended.
    local
        Whether events never leave their node, and nobody expects them elsewhere.
    """

    __slots__ = (
        "checks",
        "counts",
        "ended",
        "events",
        "first",
        "groups",
        "last",
        "latency",
        "local",
        "seats",
    )

    def __init__(self, checks: list[Check], local: bool = False) -> None:
        self.checks = checks
        self.local = local
        self.counts = Counts()
        self.latency = Quantiles()
        self.ended: set[tuple[str, int]] = set()
        self.groups: dict[tuple[str, str | None], Peers] = {}
        """By the text of their criteria, since Criteria(a=1) == Criteria(a=True), and their node if local."""
        self.seats: dict[SeatKey, Seat] = {}
        self.events: dict[tuple[str, int], dict[int, Published]] = {}
        self.last: dict[tuple[str, int], int] = {}
        """Of each source the greatest number."""
        self.first: int | None = None
        """The place of the first event among publications and subscriptions."""

    @property
    def stayed(self) -> Stayed:
        """How those fared that were there all the time."""
        seats = [
            seat
            for seat in self.seats.values()
            if self.first is not None and seat.order < self.first and not seat.told and not seat.criteria
        ]
        expected = delivered = 0
        for seat in seats:
            for source, last in self.last.items():
                if self.local and source[0] != seat.key[0]:
                    continue
                count, greatest = seat.marked(source)
                expected += greatest if source in self.ended else last
                delivered += count
        return Stayed(len(seats), expected, delivered)

    def tails(self, before: int) -> dict[tuple[str, int], int]:
        """Of each source whose life has not ended the last number published up to an instant."""
        found = {}
        for source, events in self.events.items():
            if source not in self.ended:
                number = self.last[source]
                while number in events and events[number].at > before:
                    number -= 1
                found[source] = number
        return found


class Ledger(Witness):
    """Looks on, checks and counts.

    examples
        The first few violations.
    unchecked
        Promises of channels for which there is no check.
    channels
        The books of each channel.
    patience
        Seconds after which, if nothing has gone wrong since, every subscription that can be reached has what
        it was promised; None does not look at that. A subscription that has come since may still wait.
    """

    def __init__(
        self,
        checks: Mapping[str, type[Check]] = CHECKS,
        remembered: int = MAX_REMEMBERED,
        patience: float | None = None,
    ) -> None:
        self.patience = patience
        self.examples: list[Violation] = []
        self.unchecked: set[str] = set()
        self._known_checks = checks
        self._remembered = remembered
        self.channels: dict[str, Books] = {}
        self._order = 0
        self._oldest: deque[tuple[dict[int, Published], int]] = deque()
        self._answers: dict[tuple[str, str, int, int], tuple[str, int, int]] = {}
        self._answers_here: dict[tuple[str, str, int], Seat] = {}
        self._verified: dict[int, Parcel] = {}
        self._blamed: set[tuple[str, str, SeatKey, tuple[str, int]]] = set()

    @property
    def judged(self) -> dict[str, int]:
        """How often each promise that is about what has come in the end had something to look at."""
        found: dict[str, int] = {}
        for books in self.channels.values():
            for check in books.checks:
                if type(check).settled is not Check.settled or type(check).kept is not Check.kept:
                    found[check.promise] = found.get(check.promise, 0) + check.judged
        return found

    @property
    def counts(self) -> Counts:
        """The sums over all channels."""
        each = [msgspec.structs.astuple(books.counts) for books in self.channels.values()]
        return Counts(*map(sum, zip(*each, strict=True)))

    @property
    def latency(self) -> Quantiles:
        """From publication to delivery, over all pairs of all channels."""
        return Quantiles(*(books.latency for books in self.channels.values()))

    def finish(self, world: World, patience: float | None = None) -> None:
        """The run is over: let each check look at the whole.

        patience
            As that of the ledger, which it replaces.
        """
        self.patience = patience if patience is not None else self.patience
        for name, books in self.channels.items():
            for check in books.checks:
                self._blame(world, check, name, check.ended(books.seats))
                if check.promise == DURABLE and self._calm(world, check, name):
                    kept = {event for parcel in world.kept(name) for event in _events(parcel)}
                    self._blame(world, check, name, check.kept(kept))
        self.disturbed(world)

    def disturbed(self, world: World) -> None:
        """A fault begins or ends, or the run: what was promised has come, if all was calm before it."""
        for name, books in self.channels.items():
            for check in books.checks:
                limit = self._calm(world, check, name)
                if not limit:
                    continue
                check.patience, check.joined = limit, nanoseconds(self.patience or 0.0)
                before = world.clock.now - limit
                tails = books.tails(before)
                seats = [seat for seat in books.seats.values() if seat.at <= before]
                found = check.settled(
                    {seat.key: seat for seat in seats if world.connected(seat.key[0])},
                    {source: last for source, last in tails.items() if world.connected(source[0])},
                )
                new = [each for each in found if (check.promise, name, *each[:2]) not in self._blamed]
                self._blamed |= {(check.promise, name, *each[:2]) for each in new}
                self._blame(world, check, name, new)  # what is lacking now is lacking at every later look

    def _calm(self, world: World, check: Check, channel: str) -> int:
        """Nanoseconds after which what a check looks at has come, if all was calm for so long; else 0."""
        if self.patience is None:
            return 0
        limit = self.patience
        if check.promise == PROGRESS:
            limit = max(limit, world.recovery(channel))
        return nanoseconds(limit) if world.calm(limit) else 0

    def _blame(
        self,
        world: World,
        check: Check,
        channel: str,
        found: Iterable[tuple[SeatKey, tuple[str, int], int, str]],
    ) -> None:
        for where, source, number, expected in found:
            self._violate(world, check.promise, channel, where, source, number, expected)

    # what happens

    def opened(self, world: World, channel: str, promises: frozenset[str]) -> None:
        known = self._known_checks
        self.unchecked |= promises - known.keys()
        checks = [known[each]() for each in sorted(promises & known.keys())]
        books = self.channels[channel] = Books(checks, world.template(channel).local)
        for check in checks:
            check.clock = lambda: world.clock.now
            check.members = lambda: _members(world, books)
            check.copies = lambda event: world.copies(channel, event)
            if isinstance(check, Progress):
                check.early = TOTAL_ORDER in promises

    def stopped(self, world: World, node: str, life: int) -> None:
        for books in self.channels.values():
            if (node, life) in books.last:
                books.ended.add((node, life))
            for key in [key for key in books.seats if key[0] == node]:
                self._leave(books, key)

    def subscribed(
        self, world: World, node: str, life: int, channel: str, subscription: int, criteria: Criteria
    ) -> None:
        books = self.channels[channel]
        where = node if books.local else None
        group = books.groups.setdefault((repr(criteria), where), Peers(criteria, where))
        group.members += 1
        self._order += 1
        key = (node, life, subscription)
        books.seats[key] = Seat(key, group, self._order, world.clock.now)

    def replaying(self, world: World, node: str, life: int, channel: str, subscription: int) -> None:
        self.channels[channel].seats[node, life, subscription].history = True

    def unsubscribed(self, world: World, node: str, life: int, channel: str, subscription: int) -> None:
        self._leave(self.channels[channel], (node, life, subscription))

    def _leave(self, books: Books, key: SeatKey) -> None:
        seat = books.seats.pop(key)
        seat.group.members -= 1
        books.counts.expected -= seat.missing
        if not seat.group.members:
            del books.groups[repr(seat.criteria), seat.group.node]

    def published(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        number: int,
        payload: bytes,
        envelope: Envelope,
    ) -> None:
        self._order += 1
        books = self.channels[channel]
        books.counts.published += 1
        books.last[node, life] = number
        if books.first is None:
            books.first = self._order
        attributes = envelope.attributes or None
        events = books.events.setdefault((node, life), {})
        now = world.clock.now
        events[number] = Published(now, self._order, len(payload), crc32(payload), attributes)
        self._oldest.append((events, number))
        if len(self._oldest) > self._remembered:
            forgotten, oldest = self._oldest.popleft()
            del forgotten[oldest]
        for group in books.groups.values():
            if group.node not in (None, node):
                continue
            if not group.criteria or (attributes and group.criteria.matches(attributes)):
                group.matched += 1
                books.counts.expected += group.members
        for check in books.checks:
            check.published((node, life), number)

    def delivered(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        subscription: int,
        parcel: Parcel,
        picks: tuple[int, ...] | None,
    ) -> None:
        books = self.channels[channel]
        key = (node, life, subscription)
        stamp = parcel.stamp
        source = (stamp.node, stamp.incarnation)
        seat = books.seats.get(key)
        if seat is None:
            self._violate(world, INTEGRITY, channel, key, source, stamp.first, "no subscription there")
            return
        events = books.events.get(source) or {}
        for index in range(stamp.count) if picks is None else picks:
            number = stamp.first + index
            event = events.get(number)
            again = seat.mark(source, number)
            books.counts.duplicates += again
            books.counts.delivered += not again
            expected = self._fits(seat, event, parcel, index)
            if expected:
                self._violate(world, INTEGRITY, channel, key, source, number, expected)
            elif event is not None and not again:
                books.latency.add(world.clock.now - event.at)
                older = event.order < seat.order
                seat.got += not older
                books.counts.earlier += older
            for check in books.checks:
                expected = check.delivered(seat, source, number, again)
                if expected:
                    self._violate(world, check.promise, channel, key, source, number, expected)

    def _fits(self, seat: Seat, event: Published | None, parcel: Parcel, index: int) -> str | None:
        """What should have been, if this is not what was published or not what was asked for."""
        if event is None:
            forgotten = len(self._oldest) >= self._remembered
            return None if forgotten else "an event that was published"
        attributes = event.attributes
        if seat.criteria and not (attributes and seat.criteria.matches(attributes)):
            return f"an event that meets {seat.criteria!r}"
        if id(parcel) in self._verified:
            return None
        payload = parcel.payloads[index]
        if len(payload) != event.length or crc32(payload) != event.checksum:
            return f"the payload of {event.length} bytes that was published"
        found = parcel.attributes[index] if parcel.attributes else None
        if (found or None) != attributes:
            return f"the attributes that were published: {attributes!r:.200}"
        if parcel.stamp.count == 1:
            self._verified[id(parcel)] = parcel
            if len(self._verified) > _MAX_VERIFIED:
                del self._verified[next(iter(self._verified))]
        return None

    def missed(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        source: str,
        to: tuple[int, ...] | None = None,
    ) -> None:
        books = self.channels[channel]
        for seat in books.seats.values():
            if seat.key[:2] == (node, life) and (to is None or seat.key[2] in to):
                books.counts.missed += 1
                seat.told = True
                for check in books.checks:
                    check.missed(seat, source)

    def acknowledged(self, world: World, node: str, life: int, channel: str, number: int) -> None:
        for check in self.channels[channel].checks:
            self._blame(world, check, channel, check.acknowledged((node, life), number))

    def lost(self, world: World, node: str, life: int, channel: str, first: int, last: int) -> None:
        books = self.channels[channel]
        books.counts.lost += last - first + 1
        for check in books.checks:
            check.lost((node, life), first, last)

    def answered(self, world: World, node: str, life: int, receipt: Receipt, number: int) -> None:
        self.channels[receipt.channel].counts.answered += 1
        key = (receipt.channel, node, life, number)
        self._answers[key] = (receipt.source, receipt.stamp.incarnation, receipt.number)
        if len(self._answers) > self._remembered:
            del self._answers[next(iter(self._answers))]

    def feedback(self, world: World, node: str, life: int, channel: str, parcel: Parcel) -> None:
        stamp, answers = parcel.stamp, parcel.header.answers
        assert answers is not None
        source, number = (stamp.node, stamp.incarnation), stamp.first
        here = (channel, node, life)
        seat = self._answers_here.get(here)
        if seat is None:
            seat = self._answers_here[here] = Seat((node, life, 0), Peers(Criteria()), 0, 0)
        again = seat.mark(source, number)
        counts = self.channels[channel].counts
        counts.feedback_duplicates += again
        counts.feedback += not again
        key = (node, life, 0)
        target = self._answers.get((channel, *source, number))
        if target is None and len(self._answers) < self._remembered:
            self._violate(world, INTEGRITY, channel, key, source, number, "an answer that was given")
        elif target is not None and target != (node, life, answers.number):
            expected = f"an answer to event {target[2]} of {target[0]}, life {target[1]}, handed over there"
            self._violate(world, INTEGRITY, channel, key, source, number, expected)
        for check in self.channels[channel].checks:
            wrong = check.feedback(source, number, again)
            if wrong:
                self._violate(world, check.promise, channel, key, source, number, wrong)

    def _violate(
        self,
        world: World,
        promise: str,
        channel: str,
        where: SeatKey,
        source: tuple[str, int],
        number: int,
        expected: str,
    ) -> None:
        self.channels[channel].counts.violations += 1
        if len(self.examples) < MAX_EXAMPLES:
            found = Violation(promise, channel, *where, *source, number, world.clock.now, expected)
            self.examples.append(found)


def _members(world: World, books: Books) -> Iterator[tuple[Seat, int]]:
    if world.calm(JOINED / NANOSECONDS):
        for seat in books.seats.values():
            if world.connected(seat.key[0]):
                yield seat, world.since(seat.key[0])


def _events(parcel: Parcel) -> list[Event]:
    stamp = parcel.stamp
    return [(stamp.key, number) for number in range(stamp.first, stamp.first + stamp.count)]
