"""One check per promise: does what subscriptions get on one channel keep it?

To check one more promise, write a Check and put it into CHECKS (or hand it to a ledger).
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar

from gossamer.core.template import AT_MOST_ONCE, CAUSAL, DURABLE, GAP_FREE, PROGRESS, TOTAL_ORDER
from gossamer.simulator.books import Seat, SeatKey

MAX_DEPENDENT = 1_000_000
"""Events whose dependencies are remembered; of older ones nothing is known any more."""

Event = tuple[tuple[str, int], int]
"""Source and number."""


class Check:
    """One promise on one channel. Answers None if it is kept, else what should have been."""

    promise: ClassVar[str]
    clock: Callable[[], int] = staticmethod(lambda: 0)
    """Nanoseconds of virtual time; set before anything happens."""
    patience: int = 0
    """Nanoseconds after which what was promised has come; set before the run is judged."""

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

    def acknowledged(self, source: tuple[str, int], number: int) -> None:
        """A source was told that its events up to a number are acknowledged."""

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
            if seats.get(seat.key) is seat and last < tails.get(source, 0):
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
    """What was acknowledged, in whatever life, is in a log when all has calmed down."""

    promise = DURABLE

    def __init__(self) -> None:
        self._acknowledged: dict[tuple[str, int], int] = {}
        self._lost: set[Event] = set()

    def lost(self, source: tuple[str, int], first: int, last: int) -> None:
        self._lost.update((source, number) for number in range(first, last + 1))

    def acknowledged(self, source: tuple[str, int], number: int) -> None:
        self._acknowledged[source] = max(number, self._acknowledged.get(source, 0))

    def kept(self, events: Collection[Event]) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        for source, last in self._acknowledged.items():
            for number in range(1, last + 1):
                if (source, number) not in events and (source, number) not in self._lost:
                    yield (*source, 0), source, number, "on disk, for it was acknowledged"


class Progress(Check):
    """When all has calmed down, what sources that live have published has reached every subscription that was
    there long enough before it, and is acknowledged; and so has all that was acknowledged to any source.

    A subscription that was told of a gap counts anew from then on. One with criteria is not asked. One that
    asked for the history has every acknowledged event from the first on.
    """

    promise = PROGRESS

    def __init__(self) -> None:
        self._times: dict[tuple[str, int], array[int]] = {}
        self._acknowledged: dict[tuple[str, int], int] = {}
        self._lost: set[Event] = set()
        self._got: dict[tuple[Seat, tuple[str, int]], int] = {}
        self._since: dict[tuple[Seat, str], int] = {}

    def published(self, source: tuple[str, int], number: int) -> None:
        self._times.setdefault(source, array("q")).append(self.clock())

    def delivered(self, seat: Seat, source: tuple[str, int], number: int, again: bool) -> str | None:
        self._got[seat, source] = max(number, self._got.get((seat, source), 0))
        return None

    def missed(self, seat: Seat, source: str) -> None:
        self._since[seat, source] = self.clock()

    def lost(self, source: tuple[str, int], first: int, last: int) -> None:
        self._lost.update((source, number) for number in range(first, last + 1))

    def acknowledged(self, source: tuple[str, int], number: int) -> None:
        self._acknowledged[source] = max(number, self._acknowledged.get(source, 0))

    def settled(
        self, seats: Mapping[SeatKey, Seat], tails: Mapping[tuple[str, int], int]
    ) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        for source, last in tails.items():
            if self._acknowledged.get(source, 0) < last:
                yield (*source, 0), source, last, "acknowledged, for its source lives and all is calm"
        for source, times in self._times.items():
            due = max(tails.get(source, 0), self._acknowledged.get(source, 0))
            while (source, due) in self._lost:
                due -= 1
            for seat in seats.values() if due else ():
                since = self._since.get((seat, source[0]), seat.at) + self.patience
                if seat.history and not seat.told and self.clock() >= since:
                    asked = (each for each in range(1, due + 1) if (source, each) not in self._lost)
                    hole = next((each for each in asked if not seat.has(source, each)), 0)
                    if hole:
                        yield seat.key, source, hole, "delivered here, for the history was asked for"
                    continue
                if seat.criteria or times[due - 1] < since or self._got.get((seat, source), 0) >= due:
                    continue
                said = "acknowledged" if due <= self._acknowledged.get(source, 0) else "published"
                yield seat.key, source, due, f"delivered here, for it was {said} and all is calm"


CHECKS: Mapping[str, type[Check]] = {
    check.promise: check for check in (AtMostOnce, GapFree, Causal, TotalOrder, Durable, Progress)
}
