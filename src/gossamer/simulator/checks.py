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
from collections.abc import Mapping
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from gossamer.core.event import Criteria, Envelope
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Receipt
from gossamer.simulator.books import Peers, Published, Seat, SeatKey
from gossamer.simulator.promises import CHECKS, AtMostOnce, Check, GapFree
from gossamer.simulator.quantiles import Quantiles
from gossamer.simulator.witness import Witness

if TYPE_CHECKING:
    from gossamer.simulator.world import World

__all__ = ["CHECKS", "INTEGRITY", "AtMostOnce", "Check", "Counts", "GapFree", "Ledger", "Violation"]

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


class _Channel:
    """One channel's books."""

    __slots__ = ("checks", "events", "groups", "seats")

    def __init__(self, checks: list[Check]) -> None:
        self.checks = checks
        self.groups: dict[str, Peers] = {}
        """By the text of their criteria, since Criteria(a=1) == Criteria(a=True)."""
        self.seats: dict[SeatKey, Seat] = {}
        self.events: dict[tuple[str, int], dict[int, Published]] = {}


class Counts(msgspec.Struct):
    """What a ledger counts.

    published
        Events accepted.
    expected
        Pairs of an event and a subscription that was there when it was published, whose node has not
        crashed and which has not ended since, and whose criteria match. What had been delivered before a
        subscription ended stays counted.
    delivered
        Different pairs of an event and a subscription. Those of events older than the subscription, still
        on their way when it began, count here and not as expected.
    duplicates
        Deliveries of a pair beyond the first.
    answered, feedback, feedback_duplicates
        Answers given, answers that reached their target, and repetitions of those.
    missed
        Times that a subscription was told of a gap.
    violations
        Promises broken.
    """

    published: int = 0
    expected: int = 0
    delivered: int = 0
    duplicates: int = 0
    answered: int = 0
    feedback: int = 0
    feedback_duplicates: int = 0
    missed: int = 0
    violations: int = 0


class Ledger(Witness):
    """Looks on, checks and counts.

    examples
        The first few violations.
    unchecked
        Promises of channels for which there is no check.
    latency
        From publication to delivery, over all pairs.
    """

    def __init__(self, checks: Mapping[str, type[Check]] = CHECKS, remembered: int = MAX_REMEMBERED) -> None:
        self.counts = Counts()
        self.examples: list[Violation] = []
        self.unchecked: set[str] = set()
        self.latency = Quantiles()
        self._known_checks = checks
        self._remembered = remembered
        self._channels: dict[str, _Channel] = {}
        self._order = 0
        self._oldest: deque[tuple[dict[int, Published], int]] = deque()
        self._answers: dict[tuple[str, str, int, int], tuple[str, int, int]] = {}
        self._answers_here: dict[tuple[str, str, int], Seat] = {}
        self._verified: dict[int, Parcel] = {}

    def finish(self, world: World) -> None:
        """The run is over: let each check look at the whole."""
        for name, channel in self._channels.items():
            for check in channel.checks:
                for where, source, number, expected in check.ended(channel.seats):
                    self._violate(world, check.promise, name, where, source, number, expected)

    # what happens

    def opened(self, world: World, channel: str, promises: frozenset[str]) -> None:
        known = self._known_checks
        self.unchecked |= promises - known.keys()
        self._channels[channel] = _Channel([known[each]() for each in sorted(promises & known.keys())])

    def stopped(self, world: World, node: str, life: int) -> None:
        for channel in self._channels.values():
            for key in [key for key in channel.seats if key[0] == node]:
                self._leave(channel, key)

    def subscribed(
        self, world: World, node: str, life: int, channel: str, subscription: int, criteria: Criteria
    ) -> None:
        books = self._channels[channel]
        group = books.groups.setdefault(repr(criteria), Peers(criteria))
        group.members += 1
        self._order += 1
        key = (node, life, subscription)
        books.seats[key] = Seat(key, group, self._order)

    def unsubscribed(self, world: World, node: str, life: int, channel: str, subscription: int) -> None:
        self._leave(self._channels[channel], (node, life, subscription))

    def _leave(self, books: _Channel, key: SeatKey) -> None:
        seat = books.seats.pop(key)
        seat.group.members -= 1
        self.counts.expected -= seat.missing
        if not seat.group.members:
            del books.groups[repr(seat.criteria)]

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
        self.counts.published += 1
        self._order += 1
        books = self._channels[channel]
        attributes = envelope.attributes or None
        events = books.events.setdefault((node, life), {})
        now = world.clock.now
        events[number] = Published(now, self._order, len(payload), crc32(payload), attributes)
        self._oldest.append((events, number))
        if len(self._oldest) > self._remembered:
            forgotten, oldest = self._oldest.popleft()
            del forgotten[oldest]
        for group in books.groups.values():
            if not group.criteria or (attributes and group.criteria.matches(attributes)):
                group.matched += 1
                self.counts.expected += group.members
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
        books = self._channels[channel]
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
            self.counts.duplicates += again
            self.counts.delivered += not again
            expected = self._fits(seat, event, parcel, index)
            if expected:
                self._violate(world, INTEGRITY, channel, key, source, number, expected)
            elif event is not None and not again:
                self.latency.add(world.clock.now - event.at)
                seat.got += event.order > seat.order
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

    def missed(self, world: World, node: str, life: int, channel: str, source: str) -> None:
        books = self._channels[channel]
        for seat in books.seats.values():
            if seat.key[:2] == (node, life):
                self.counts.missed += 1
                for check in books.checks:
                    check.missed(seat, source)

    def answered(self, world: World, node: str, life: int, receipt: Receipt, number: int) -> None:
        self.counts.answered += 1
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
            seat = self._answers_here[here] = Seat((node, life, 0), Peers(Criteria()), 0)
        again = seat.mark(source, number)
        self.counts.feedback_duplicates += again
        self.counts.feedback += not again
        key = (node, life, 0)
        target = self._answers.get((channel, *source, number))
        if target is None and len(self._answers) < self._remembered:
            self._violate(world, INTEGRITY, channel, key, source, number, "an answer that was given")
        elif target is not None and target != (node, life, answers.number):
            expected = f"an answer to event {target[2]} of {target[0]}, life {target[1]}, handed over there"
            self._violate(world, INTEGRITY, channel, key, source, number, expected)
        for check in self._channels[channel].checks:
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
        self.counts.violations += 1
        if len(self.examples) < MAX_EXAMPLES:
            found = Violation(promise, channel, *where, *source, number, world.clock.now, expected)
            self.examples.append(found)
