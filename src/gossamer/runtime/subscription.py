"""Subscriptions: a bounded queue of events, and the ways to take them out.

What happens when the queue is full is the subscriber's choice (``on_full``):

``block``          whoever feeds the queue waits; it may hold one parcel more than its limit
``drop_oldest``    the events that wait longest are given up
``drop_newest``    the events that come are given up
``drop_priority``  the events of lowest priority are given up, the oldest of them first
``disconnect``     the subscription ends: what waits is still delivered, then ``Full`` is raised

Connections that cannot be made to wait (datagrams) turn ``block`` into ``drop_newest``. Every event given
up is counted in ``dropped`` and traced.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any, Literal, get_args

from gossamer.core.errors import BadEnvelope, Closed, Full, NoAnswer
from gossamer.core.event import NO_ENVELOPE, Criteria, Envelope, Value
from gossamer.core.names import channel_id
from gossamer.core.parcel import Event, Parcel
from gossamer.core.receipt import Receipt, check_handback

if TYPE_CHECKING:
    from gossamer.runtime.channel import Channel
    from gossamer.runtime.strand import Strand

log = logging.getLogger("gossamer")

OnFull = Literal["block", "drop_oldest", "drop_newest", "drop_priority", "disconnect"]
MAX_PENDING = 65_536


class ReceivedEvent(Event, frozen=True, gc=False):
    """An event as its subscriber gets it; answer it with ``await event.feedback(...)``.

    It knows its channel and not its subscription, whose queue it may wait in: the collector does not look
    into events, so a subscription closed before all was read would never be freed.
    """

    channel: Channel
    handback: Value | None

    @property
    def receipt(self) -> Receipt:
        """Who sent it, its number and the subscription's handback; feedback is addressed by it."""
        return self.channel.receipt(self.parcel.stamp, self.number, self.handback)

    @property
    def place(self) -> int | None:
        """The number of its parcel in the one order of its channel, where there is one: from 0, without
        gaps, the same for all subscribers.
        """
        return self.parcel.place

    @property
    def answers(self) -> int | None:
        """For feedback: the number of the event that it answers."""
        answers = self.parcel.header.answers
        return answers.number if answers else None

    async def feedback(self, payload: bytes = b"", envelope: Envelope = NO_ENVELOPE) -> Receipt:
        """Answer the source of this event, and nobody else."""
        return await self.channel.feedback(self.receipt, payload, envelope)


Callback = Callable[[ReceivedEvent], Any]


class Subscription:
    """Events of one channel for one subscriber.

    Use it as ``async with channel.subscribe(...) as events`` and then ``async for event in events``,
    ``await events.next(timeout=1)`` or ``async for batch in events.batches()``. With a callback, events
    go there, one after the other; an error in it is logged and counted in ``failed``.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        where: Criteria | None = None,
        max_pending: int = MAX_PENDING,
        on_full: OnFull = "block",
        handback: Value | None = None,
        callback: Callback | None = None,
        answers: bool = False,
        history: tuple[int, float] | None = None,
    ) -> None:
        if on_full not in get_args(OnFull):
            raise BadEnvelope("on_full", on_full, f"one of {', '.join(get_args(OnFull))}")
        if not isinstance(max_pending, int) or max_pending < 1:
            raise BadEnvelope("max_pending", max_pending, "a whole number of events, at least 1")
        if where is not None and not isinstance(where, Criteria):
            raise BadEnvelope("where", where, "a Criteria object")
        check_handback(handback)
        self.channel = channel
        self.where = where or Criteria()
        self.max_pending = max_pending
        self.on_full = on_full
        self.handback = handback
        self.failed = 0
        self.dropped = 0
        self.missed = 0
        """How often events of a source went missing because this node did not keep up."""
        self.number = 0
        self.history = history
        """From which place and instant on the history is wanted; None if it is not."""
        self._answers = answers
        self._callback = callback
        self._consumer: asyncio.Task[None] | None = None
        self._queue: deque[list[ReceivedEvent]] = deque()
        self._queued = 0
        self._accepted = 0
        self._current: Iterator[ReceivedEvent] = iter(())
        self._waiters: set[Strand] = set()
        self._arrival: asyncio.Future[None] | None = None
        self._open = False
        self._error: Exception | None = None

    # counters

    @property
    def pending(self) -> int:
        """Events that wait here."""
        return self._queued + length_hint(self._current)

    @property
    def delivered(self) -> int:
        """Events handed to the application."""
        return self._accepted - self.pending

    @property
    def full(self) -> bool:
        """Whether a publisher on this node has to wait for this subscriber."""
        return self._open and self.on_full == "block" and self._queued >= self.max_pending

    # opening and closing

    def open(self) -> Subscription:
        """Take events from now on; ``async with`` does it for you."""
        if not self._open:
            self.channel.attach(self, self._answers)
            self._open = True
            if self._callback is not None:
                self._consumer = asyncio.create_task(self._consume(self._callback))
        return self

    async def __aenter__(self) -> Subscription:
        return self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Take no more; what waits can still be read, and a callback gets it within the drain limit."""
        self.end()
        consumer = self._consumer
        if consumer is not None and consumer is not asyncio.current_task():
            await asyncio.wait({consumer}, timeout=self.channel.drain_limit)
            consumer.cancel()
            await asyncio.gather(consumer, return_exceptions=True)

    def end(self, error: Exception | None = None) -> None:
        """Stop taking events; whoever reads gets what waits, then the end or the error."""
        if self._open:
            self._open = False
            self._error = error
            self.channel.detach(self, self._answers)
            self._release()
            self._arrived()

    # filling

    def put(self, parcel: Parcel, picks: tuple[int, ...] | None, origin: Strand | None) -> None:
        """Take the events of a parcel that match; called by the host."""
        if not self._open:
            return
        payloads, channel, handback = parcel.payloads, self.channel, self.handback
        if picks is None:
            whole = (repeat(parcel), range(len(payloads)), payloads, repeat(channel), repeat(handback))
            events = list(map(ReceivedEvent, *whole))
        else:
            events = [ReceivedEvent(parcel, pick, payloads[pick], channel, handback) for pick in picks]
        room = self.max_pending - self._queued
        if len(events) > room:
            events = self._overflow(events, room, origin)
        if events:
            self._queue.append(events)
            self._queued += len(events)
            self._accepted += len(events)
            self._arrived()

    def gap(self, channel: int, source: str) -> None:
        """Events of a source are missing; called by the host."""
        if channel == channel_id(self.channel.name):
            self.missed += 1
            log.warning("%r: events of %s are missing, this node did not keep up", self.channel.name, source)

    def _overflow(self, events: list[ReceivedEvent], room: int, origin: Strand | None) -> list[ReceivedEvent]:
        """Make the events fit in the way the subscriber chose; those that go into the queue."""
        policy = self.on_full
        if policy == "block" and (origin is None or origin.reliable):
            if origin is not None:
                self._waiters.add(origin)
                origin.wait_for(self)
            return events
        if policy == "disconnect":
            self._give_up(events[max(0, room) :])
            self._queue_last(events[: max(0, room)])
            self.end(Full(f"subscription to {self.channel.name!r}", self.max_pending))
            return []
        if policy == "drop_oldest":
            self._give_up(events[: -self.max_pending])
            events = events[-self.max_pending :]
            self._shorten(len(events) - (self.max_pending - self._queued))
            return events
        if policy == "drop_priority":
            return self._keep_important(events)
        self._give_up(events[max(0, room) :])
        return events[: max(0, room)]

    def _queue_last(self, events: list[ReceivedEvent]) -> None:
        if events:
            self._queue.append(events)
            self._queued += len(events)
            self._accepted += len(events)

    def _shorten(self, excess: int) -> None:
        """Give up the oldest events of the queue."""
        while excess > 0:
            oldest = self._queue.popleft()
            gone, kept = oldest[:excess], oldest[excess:]
            if kept:
                self._queue.appendleft(kept)
            excess -= len(gone)
            self._uncount(gone)

    def _keep_important(self, events: list[ReceivedEvent]) -> list[ReceivedEvent]:
        """Give up the least important of what waits and what comes."""
        excess = self._queued + len(events) - self.max_pending
        for batch in sorted(self._queue, key=lambda each: each[0].parcel.wishes.priority):
            if excess <= 0 or batch[0].parcel.wishes.priority > events[0].parcel.wishes.priority:
                break
            gone = batch[:excess]
            del batch[:excess]
            excess -= len(gone)
            self._uncount(gone)
        self._queue = deque(batch for batch in self._queue if batch)
        if excess > 0:
            self._give_up(events[:excess])
            events = events[excess:]
        return events

    def _uncount(self, events: list[ReceivedEvent]) -> None:
        self._queued -= len(events)
        self._accepted -= len(events)
        self._give_up(events)

    def _give_up(self, events: list[ReceivedEvent]) -> None:
        if events:
            self.dropped += len(events)
            self.channel.discard(self, events)

    # taking

    def _arrived(self) -> None:
        arrival, self._arrival = self._arrival, None
        if arrival is not None and not arrival.done():
            arrival.set_result(None)

    def _release(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for origin in waiters:
            origin.go_on(self)
        self.channel.room()

    async def _batch(self) -> list[ReceivedEvent] | None:
        """The next events, or None at the end."""
        rest = list(self._current)
        if rest:
            return rest
        while not self._queue:
            if not self._open:
                if self._error is not None:
                    raise self._error
                return None
            if self._arrival is None:
                self._arrival = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._arrival)
        batch = self._queue.popleft()
        self._queued -= len(batch)
        if self._queued < self.max_pending and self.on_full == "block":
            self._release()
        return batch

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> ReceivedEvent:
        for event in self._current:
            return event
        batch = await self._batch()
        if batch is None:
            raise StopAsyncIteration
        self._current = iter(batch)
        return next(self._current)

    async def next(self, timeout: float | None = None) -> ReceivedEvent:
        """The next event; raises NoAnswer after so many seconds, Closed at the end."""
        try:
            async with asyncio.timeout(timeout):
                return await self.__anext__()
        except TimeoutError:
            raise NoAnswer(f"waiting for an event on {self.channel.name!r}", timeout or 0) from None
        except StopAsyncIteration:
            raise Closed(f"subscription to {self.channel.name!r}") from None

    async def batches(self) -> AsyncIterator[list[ReceivedEvent]]:
        """Whole parcels at a time: what came in one piece is handed over in one piece."""
        while (batch := await self._batch()) is not None:
            yield batch

    async def _consume(self, callback: Callback) -> None:
        async for event in self:
            try:
                result = callback(event)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                self.failed += 1
                log.exception("a subscriber of %r failed on event %d", self.channel.name, event.number)
