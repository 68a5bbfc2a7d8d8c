"""One check per promise: does what subscriptions get on one channel keep it?

To check one more promise, write a Check and put it into CHECKS (or hand it to a ledger).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar

from gossamer.core.names import NANOSECONDS
from gossamer.core.template import AT_MOST_ONCE, CAUSAL, DURABLE, GAP_FREE, PROGRESS, TOTAL_ORDER
from gossamer.simulator.invariants.ledger import Seat, SeatKey

MAX_DEPENDENT = 1_000_000
"""Events whose dependencies are remembered; of older ones nothing is known any more."""

JOINED = 30 * NANOSECONDS
"""Nanoseconds after which the node of a subscription is part of a channel, after it came or moved."""

Event = tuple[tuple[str, int], int]
"""Source and number."""


class Check:
    """One promise on one channel. Answers None if it is kept, else what should have been."""

    promise: ClassVar[str]
    clock: Callable[[], int] = staticmethod(lambda: 0)
    """Nanoseconds of virtual time; set before anything happens."""
    patience: int = 0
    """Nanoseconds after which what was promised has come; set before the run is judged."""
    joined: int = 0
    """Nanoseconds after which a subscription is part of its channel; set before the run is judged."""
    members: Callable[[], Iterable[tuple[Seat, int]]] = staticmethod(tuple)
    """The subscriptions that can be reached, and since when; none while a fault is less than JOINED old."""
    copies: Callable[[Event], tuple[int, int]] = staticmethod(lambda event: (0, 0))
    """On how many disks an event is, and how many make a majority of the voters; 0 if no leader is known."""
    judged: int = 0
    """How often ``settled`` or ``kept`` had something to look at."""

    def published(self, source: tuple[str, int], number: int) -> None:
        """An event of a source (node and life) is about to leave."""

    def delivered(self, seat: Seat, source: tuple[str, int], number: int, again: bool) -> str | None:
        """An event reaches a subscription; ``again`` if it did so before."""
        return None

    def feedback(self, source: tuple[str, int], number: int, again: bool) -> str | None:
        """An answer reaches its target."""
        return None

    def missed(self, seat: Seat, source: str) -> None:
        """A subscription is told that events of a source (any life of a node) are missing."""

    def acknowledged(
        self, source: tuple[str, int], number: int
    ) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        """A source was told that its events up to a number are acknowledged; answers as ``settled``."""
        return ()

    def lost(self, source: tuple[str, int], first: int, last: int) -> None:
        """A source was told that its events of these numbers are lost."""

    def kept(self, events: Collection[Event]) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        """As ``settled``: these events are on the disks of nodes."""
        return ()

    def ended(self, seats: Mapping[SeatKey, Seat]) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        """The run is over; ``seats`` are the subscriptions still there. Seat, source, number of each event
        that broke the promise, and what should have been.
        """
        return ()

    def settled(
        self, seats: Mapping[SeatKey, Seat], tails: Mapping[tuple[str, int], int]
    ) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        """As ``ended``, at the end of a run that has calmed down: ``seats`` are the subscriptions that have
        been there long enough and can be reached, ``tails`` the sources that can reach them, each with its
        last number that is old enough to have come.
        """
        return ()


class AtMostOnce(Check):
    """No subscription gets an event twice, no source an answer."""

    promise = AT_MOST_ONCE

    def delivered(self, seat: Seat, source: tuple[str, int], number: int, again: bool) -> str | None:
        return "delivered once to this subscription" if again else None

    def feedback(self, source: tuple[str, int], number: int, again: bool) -> str | None:
        return "handed to the source once" if again else None


class GapFree(Check):
    """Once a subscription has an event of a source, it gets every later one, in order, while it is there.

    One that is told of a gap begins anew; how often that happens is counted. When all has calmed down the
    last event has come too.
    """

    promise = GAP_FREE

    def __init__(self) -> None:
        self._last: dict[tuple[Seat, tuple[str, int]], int] = {}

    def delivered(self, seat: Seat, source: tuple[str, int], number: int, again: bool) -> str | None:
        if seat.criteria:
            return None
        last = self._last.get((seat, source))
        self._last[seat, source] = number
        return None if last is None or number == last + 1 else f"number {last + 1} next"

    def missed(self, seat: Seat, source: str) -> None:
        for key in [key for key in self._last if key[0] is seat and key[1][0] == source]:
            del self._last[key]

    def settled(
        self, seats: Mapping[SeatKey, Seat], tails: Mapping[tuple[str, int], int]
    ) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        for (seat, source), last in self._last.items():
            asked = seats.get(seat.key) is seat and source in tails
            self.judged += asked
            if asked and last < tails[source]:
                yield seat.key, source, last + 1, f"number {last + 1} to {tails[source]} before the end"


class _Life:
    """What one life of a node has been given.

    recent
        Events since its last own one that no other of these implies: per source the number.
    horizon
        Per source the greatest number that something delivered here depends on.
    """

    __slots__ = ("horizon", "recent")

    def __init__(self) -> None:
        self.recent: dict[tuple[str, int], int] = {}
        self.horizon: dict[tuple[str, int], int] = {}


class Causal(Check):
    """No node gets an event after one that depends on it: one published where it had been delivered before.

    Per event only its direct dependencies are kept: what its publisher's node had been given since its event
    before, less what one of these depends on itself. Longer chains need no walk: what an event in the middle
    depends on entered the horizon when that event came. One that never came says nothing, since that node
    could not know.
    """

    promise = CAUSAL

    def __init__(self, remembered: int = MAX_DEPENDENT) -> None:
        self._remembered = remembered
        self._lives: dict[tuple[str, int], _Life] = {}
        self._depends: dict[tuple[tuple[str, int], int], dict[tuple[str, int], int]] = {}
        self._oldest: deque[tuple[tuple[str, int], int]] = deque()

    def published(self, source: tuple[str, int], number: int) -> None:
        life = self._lives.get(source)
        if life is not None and life.recent:
            self._depends[source, number] = life.recent
            self._oldest.append((source, number))
            life.recent = {}
            if len(self._oldest) > self._remembered:
                del self._depends[self._oldest.popleft()]

    def delivered(self, seat: Seat, source: tuple[str, int], number: int, again: bool) -> str | None:
        here = seat.key[:2]
        life = self._lives.get(here)
        if life is None:
            life = self._lives[here] = _Life()
        if again:
            return None
        late = number <= life.horizon.get(source, 0)
        for other, least in self._depends.get((source, number), {}).items():
            if least > life.horizon.get(other, 0):
                life.horizon[other] = least
            if life.recent.get(other, least + 1) <= least:
                del life.recent[other]
        if source != here:
            life.recent[source] = number
        return "before what depends on it" if late else None


class TotalOrder(Check):
    """There is one order of all events that no subscription contradicts.

    Whatever each subscription got next is an arrow between two events; the arrows of all must not form a
    circle. It says nothing about what a subscription did not get.
    """

    promise = TOTAL_ORDER

    def __init__(self) -> None:
        self._last: dict[Seat, Event] = {}
        self._arrows: dict[Event, dict[Event, SeatKey]] = {}

    def delivered(self, seat: Seat, source: tuple[str, int], number: int, again: bool) -> str | None:
        event, last = (source, number), self._last.get(seat)
        if last is not None and not again:
            self._arrows.setdefault(last, {}).setdefault(event, seat.key)
        if not again:
            self._last[seat] = event
        return None

    def ended(self, seats: Mapping[SeatKey, Seat]) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        """Take away events that nothing comes before, until none is left; what remains is in a circle."""
        before: dict[Event, int] = {}
        for arrows in self._arrows.values():
            for event in arrows:
                before[event] = before.get(event, 0) + 1
        free = [event for event in self._arrows if event not in before]
        while free:
            for event in self._arrows.get(free.pop(), ()):
                before[event] -= 1
                if not before[event]:
                    del before[event]
                    free.append(event)
        for event in before:
            for (source, number), where in self._arrows.get(event, {}).items():
                if (source, number) in before:
                    yield (
                        where,
                        source,
                        number,
                        f"not after number {event[1]} of {event[0][0]}, as for others",
                    )
                    return


class Durable(Check):
    """What is acknowledged is on the disks of a majority of the voters at that instant, and in a log when all
    has calmed down, whatever happened to the nodes meanwhile.

    An event needs no more disks than made a majority when it was published: voters may have been added since.
    """

    promise = DURABLE

    def __init__(self) -> None:
        self._acknowledged: dict[tuple[str, int], int] = {}
        self._majorities: dict[Event, int] = {}
        """Of events that are not acknowledged: the majority when they were published, if one was known."""
        self._lost: set[Event] = set()

    def lost(self, source: tuple[str, int], first: int, last: int) -> None:
        self._lost.update((source, number) for number in range(first, last + 1))

    def published(self, source: tuple[str, int], number: int) -> None:
        self._majorities[source, number] = self.copies((source, number))[1]

    def acknowledged(
        self, source: tuple[str, int], number: int
    ) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        before = self._acknowledged.get(source, 0)
        self._acknowledged[source] = max(number, before)
        for each in range(before + 1, number + 1):
            if (source, each) in self._lost:
                continue
            disks, majority = self.copies((source, each))
            majority = min(majority, self._majorities.pop((source, each), 0))
            if disks < majority:
                yield (*source, 0), source, each, f"on {majority} disks when it was acknowledged, not {disks}"

    def kept(self, events: Collection[Event]) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        for source, last in self._acknowledged.items():
            self.judged += 1
            for number in range(1, last + 1):
                if (source, number) not in events and (source, number) not in self._lost:
                    yield (*source, 0), source, number, "on disk, for it was acknowledged"


class Progress(Check):
    """Whenever all has been calm for as long as the template needs, what sources that live have published has
    reached every subscription that was there long enough before it, and is acknowledged; and so has all that
    was acknowledged to any source.

    A subscription that was told of a gap counts anew from then on, but an acknowledged event that none of the
    subscriptions has is lost, whatever they were told. A subscription with criteria is not asked. One that
    asked for the history has every acknowledged event from the first on.

    early
        Whether an event may be acknowledged before the subscriptions have it, because voters have it.
    """

    promise = PROGRESS
    early: bool = False

    def __init__(self) -> None:
        self._times: dict[tuple[str, int], array[int]] = {}
        self._acknowledged: dict[tuple[str, int], int] = {}
        self._lost: set[Event] = set()
        self._got: dict[tuple[Seat, tuple[str, int]], int] = {}
        self._since: dict[tuple[Seat, str], int] = {}
        self._found: dict[tuple[str, int], int] = {}
        """Per source the number up to which each acknowledged event is known to have reached some seat."""

    def published(self, source: tuple[str, int], number: int) -> None:
        self._times.setdefault(source, array("q")).append(self.clock())

    def delivered(self, seat: Seat, source: tuple[str, int], number: int, again: bool) -> str | None:
        self._got[seat, source] = max(number, self._got.get((seat, source), 0))
        return None

    def missed(self, seat: Seat, source: str) -> None:
        self._since[seat, source] = self.clock()

    def lost(self, source: tuple[str, int], first: int, last: int) -> None:
        self._lost.update((source, number) for number in range(first, last + 1))

    def acknowledged(
        self, source: tuple[str, int], number: int
    ) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        before = self._acknowledged.get(source, 0)
        self._acknowledged[source] = max(number, before)
        if self.early or number <= before or (source, number) in self._lost:
            return
        published = self._times[source][number - 1]
        for seat, reached in self.members():
            since = max(reached, self._since.get((seat, source[0]), seat.at))
            if seat.criteria or since + JOINED > published:
                continue
            if self._got.get((seat, source), 0) < number:
                yield seat.key, source, number, "delivered here before it was acknowledged"

    def settled(
        self, seats: Mapping[SeatKey, Seat], tails: Mapping[tuple[str, int], int]
    ) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        for source, last in tails.items():
            self.judged += bool(last)
            if self._acknowledged.get(source, 0) < last:
                yield (*source, 0), source, last, "acknowledged, for its source lives and all is calm"
        for source, times in self._times.items():
            old = bisect_right(times, self.clock() - self.patience)
            acknowledged = min(old, self._acknowledged.get(source, 0))
            nowhere = self._nowhere(seats.values(), source, acknowledged)
            if nowhere:
                yield (*source, 0), source, nowhere, "delivered somewhere, for it was acknowledged"
            due = max(tails.get(source, 0), acknowledged)
            while (source, due) in self._lost:
                due -= 1
            for seat in seats.values() if due else ():
                since = self._since.get((seat, source[0]), seat.at) + self.joined
                if seat.history and self.clock() >= seat.at + self.patience:
                    self.judged += 1
                    asked = (each for each in range(1, due + 1) if (source, each) not in self._lost)
                    hole = next((each for each in asked if not seat.has(source, each)), 0)
                    if hole:
                        yield seat.key, source, hole, "delivered here, for the history was asked for"
                    continue
                if seat.criteria or times[due - 1] < since:
                    continue
                self.judged += 1
                if self._got.get((seat, source), 0) < due:
                    said = "acknowledged" if due <= acknowledged else "published"
                    yield seat.key, source, due, f"delivered here, for it was {said} and all is calm"

    def _nowhere(self, seats: Collection[Seat], source: tuple[str, int], acknowledged: int) -> int:
        """The first acknowledged event that some seats were there for and none has; 0 if there is none."""
        times = self._times[source]
        for number in range(self._found.get(source, 0) + 1, acknowledged + 1):
            until = times[number - 1] - self.joined
            there = [seat for seat in seats if not seat.criteria and seat.at <= until]
            lost = (source, number) in self._lost
            if there and not lost and not any(seat.has(source, number) for seat in there):
                return number
            self._found[source] = number
        return 0


CHECKS: Mapping[str, type[Check]] = {
    check.promise: check for check in (AtMostOnce, GapFree, Causal, TotalOrder, Durable, Progress)
}
