"""One check per promise: does what subscriptions get on one channel keep it?

To check one more promise, write a Check and put it into CHECKS (or hand it to a ledger).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from gossamer.core.template import AT_MOST_ONCE, GAP_FREE
from gossamer.simulator.books import Seat, SeatKey


class Check:
    """One promise on one channel. Answers None if it is kept, else what should have been."""

    promise: ClassVar[str]

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

    def ended(self, seats: Mapping[SeatKey, Seat]) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        """The run is over; ``seats`` are the subscriptions still there. Seat, source, number of each event
        that broke the promise, and what should have been.
        """
        return ()

    def settled(
        self, seats: Mapping[SeatKey, Seat], tails: Mapping[tuple[str, int], int]
    ) -> Iterable[tuple[SeatKey, tuple[str, int], int, str]]:
        """As ``ended``, at the end of a run that has calmed down: ``seats`` are the subscriptions that can be
        reached, ``tails`` the sources that can reach them, each with its last number that is old enough to
        have come.
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


CHECKS: Mapping[str, type[Check]] = {check.promise: check for check in (AtMostOnce, GapFree)}
