"""Acknowledgements of a subscriber: what is not acknowledged comes again, and in the end is a dead letter.

Everything handed out is remembered until it is acknowledged. What is rejected, or not acknowledged in time,
comes again; after so many attempts it goes to the dead-letter channel, if there is one, and counts as done.
A durable subscription keeps how far everything is done, and goes on from there in the next life.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from gossamer.core.errors import BadEnvelope

if TYPE_CHECKING:
    from gossamer.runtime.api.event import ReceivedEvent

Mode = Literal["automatic", "explicit", "none"]
Key = tuple[str, int, int]
"""Source, incarnation and number of an event."""
ATTEMPTS = 5
REDELIVER = 30.0
NEVER = float("inf")


class Redelivery(msgspec.Struct, frozen=True):
    """How often, and when, an event comes that is not acknowledged.

    after
        Seconds without an acknowledgement after which it comes again.
    attempts
        How often it is delivered before it is a dead letter.
    """

    after: float = REDELIVER
    attempts: int = ATTEMPTS

    def __post_init__(self) -> None:
        if not (type(self.after) in (int, float) and 0 < self.after <= 86400):
            raise BadEnvelope("redelivery 'after'", self.after, "seconds, more than 0 and at most a day")
        if type(self.attempts) is not int or not 1 <= self.attempts <= 1000:
            raise BadEnvelope("redelivery 'attempts'", self.attempts, "a whole number from 1 to 1000")


class _Open(msgspec.Struct):
    """An event that was handed out: how often, and since when."""

    event: ReceivedEvent
    attempt: int
    due: float
    done: bool = False


class Acknowledging:
    """What was handed out and is not done.

    again
        Called with events that have to be delivered again.
    dead
        Called with each event that is given up, and how often it was delivered.
    progress
        Called with the last event up to which, in the order in which they came, all are done.
    """

    def __init__(
        self,
        redelivery: Redelivery,
        again: Callable[[list[ReceivedEvent]], None],
        dead: Callable[[ReceivedEvent, int], None],
        progress: Callable[[ReceivedEvent], None],
    ) -> None:
        self._redelivery = redelivery
        self._again, self._dead, self._progress = again, dead, progress
        self._open: dict[Key, _Open] = {}
        self._order: deque[_Open] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def attempt(self, event: ReceivedEvent) -> int:
        """How often an event that is not done has been handed out; 0 if it has not, or is done."""
        known = self._open.get(_key(event))
        return known.attempt if known else 0

    def handed(self, event: ReceivedEvent) -> None:
        """The application has it now."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._redelivery.after
        known = self._open.get(_key(event))
        if known is None:
            known = self._open[_key(event)] = _Open(event, 1, due)
            self._order.append(known)
        else:
            known.attempt, known.due = known.attempt + 1, due
        if self._timer is None:
            self._timer = loop.call_later(self._redelivery.after, self._look)

    def acknowledge(self, event: ReceivedEvent) -> bool:
        """It is done; False if it was done before, or never handed out."""
        known = self._open.pop(_key(event), None)
        if known is None:
            return False
        known.done = True
        last = None
        while self._order and self._order[0].done:
            last = self._order.popleft()
        if last is not None:
            self._progress(last.event)
        return True

    def reject(self, event: ReceivedEvent) -> bool:
        """It has to come again, or is a dead letter by now."""
        known = self._open.get(_key(event))
        if known is None:
            return False
        if known.due < NEVER:
            self._retry([known])
        return True

    def _retry(self, some: list[_Open]) -> None:
        again = [each for each in some if each.attempt < self._redelivery.attempts]
        for each in again:
            each.due = NEVER  # until it is handed out
        for each in some:
            if each.attempt >= self._redelivery.attempts:
                self._dead(each.event, each.attempt)
                self.acknowledge(each.event)
        if again:
            self._again([each.event for each in again])

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        self._retry([each for each in self._open.values() if each.due <= now])
        due = min((each.due for each in self._open.values()), default=NEVER)
        if due < NEVER:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due - now), self._look)

    def stop(self) -> None:
        """Nothing comes again, and nothing is remembered."""
        self._open.clear()
        self._order.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _key(event: ReceivedEvent) -> Key:
    stamp = event.parcel.stamp
    return stamp.node, stamp.incarnation, event.number
