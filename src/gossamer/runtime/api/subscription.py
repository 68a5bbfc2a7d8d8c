"""Subscriptions: a bounded queue of events, and the ways to take them out.

What happens when the queue is full is the subscriber's choice (``on_full``):

``block``          whoever feeds the queue waits; it may hold one parcel more than its limit
``drop_oldest``    the events that wait longest are given up
``drop_newest``    the events that come are given up
``drop_priority``  the events of lowest priority are given up, the oldest of them first
``disconnect``     the subscription ends: what waits is still delivered, then ``Full`` is raised

Connections that cannot be made to wait (datagrams) turn ``block`` into ``drop_newest``. Every event given
up is counted in ``dropped`` and traced; so is one whose time ends while it waits.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Iterator
from operator import length_hint
from typing import TYPE_CHECKING

from gossamer.core.errors import Closed, Full, NoAnswer
from gossamer.core.event import Criteria
from gossamer.core.names import NANOSECONDS, channel_id
from gossamer.core.parcel import Parcel
from gossamer.runtime.api.event import Callback, ReceivedEvent, opened
from gossamer.runtime.api.options import Terms
from gossamer.runtime.delivery import queue as waiting
from gossamer.runtime.delivery import replay as history
from gossamer.runtime.delivery.acks import Acknowledging, Redelivery
from gossamer.runtime.delivery.overrides import mapped
from gossamer.runtime.delivery.retained import Recalled

if TYPE_CHECKING:
    from gossamer.runtime.api.channel import Channel
    from gossamer.runtime.net.connection import Strand

log = logging.getLogger("gossamer")


class Subscription:
    """Events of one channel for one subscriber.

    Use it as ``async with channel.subscribe(...) as events`` and then ``async for event in events``,
    ``await events.next(timeout=1)`` or ``async for batch in events.batches()``. With a callback, events
    go there, one after the other; an error in it is logged and counted in ``failed``.
    """

    def __init__(self, channel: Channel, terms: Terms) -> None:
        self.channel = channel
        self.terms = terms
        self.where = terms.where or Criteria()
        self.max_pending = terms.max_pending
        self.on_full = terms.on_full
        self.handback = terms.handback
        self.failed = 0
        self.dropped = 0
        self.missed = 0
        """How often events of a source went missing because this node did not keep up."""
        self.dead = 0
        """Events that were not acknowledged, however often they came."""
        self.number = 0
        self._consumer: asyncio.Task[None] | None = None
        self._queue = waiting.make(terms.order)
        self._accepted = 0
        self._current: Iterator[ReceivedEvent] = iter(())
        self._early: dict[int, tuple[asyncio.TimerHandle, list[ReceivedEvent]]] = {}
        """Events whose time has not come."""
        self._serial = 0
        self._acks: Acknowledging | None = None
        self._taken: list[ReceivedEvent] = []
        """What the application has in hand; taking more acknowledges it, unless it does so itself."""
        self._resumed: tuple[int, int] = (-1, -1)
        """Place and index up to which an earlier life has done everything."""
        self._recalled = Recalled()
        self._waiters: set[Strand] = set()
        self._arrivals = waiting.Arrivals()
        self._open = False
        self._error: Exception | None = None

    # counters

    @property
    def pending(self) -> int:
        """Events that wait here."""
        return self._queue.count + length_hint(self._current)

    @property
    def delivered(self) -> int:
        """Events handed to the application, counting again those that were handed over again."""
        return self._accepted - self.pending

    @property
    def unacknowledged(self) -> int:
        """Events that the application has, and has not acknowledged."""
        return len(self._acks) if self._acks is not None else 0

    @property
    def full(self) -> bool:
        """Whether a publisher on this node has to wait for this subscriber."""
        return self._open and self.on_full == "block" and self._queue.count >= self.max_pending

    # opening and closing

    def open(self) -> Subscription:
        """Take events from now on; ``async with`` does it for you."""
        if not self._open:
            terms = self.terms
            if terms.remembers:
                again = terms.redelivery or Redelivery()
                self._acks = Acknowledging(again, self._again, self._give_away, self._progress)
            if terms.durable:
                self._resumed = self.channel.resumed(terms.durable)
            self._open = True  # what is kept may come at once
            try:
                self.channel.attach(self, terms.answers)
            except BaseException:
                self._open = False
                raise
            if terms.callback is not None:
                self._consumer = asyncio.create_task(self._consume(terms.callback))
        return self

    def resume(self, done: tuple[int, int]) -> None:
        """All up to a place and an index is done; called by who keeps it."""
        self._resumed = done

    @property
    def history(self) -> tuple[int, float] | None:
        """From which place and instant on the history is wanted; None if it is not."""
        if self.terms.durable and self._resumed[0] >= 0:
            return self._resumed[0], 0.0
        return self.terms.history or ((0, 0.0) if self.terms.durable else None)

    async def __aenter__(self) -> Subscription:
        return self.open()

    async def __aexit__(self, *exc: object) -> None:
        if self._taken and exc[0] is None:
            self._hand([])
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
            self.channel.detach(self, self.terms.answers)
            for timer, events in self._early.values():
                timer.cancel()
                self._give_up(events, "subscription closed")
            self._early.clear()
            if self._acks is not None:
                self._acks.stop()
                self._taken = []
            self._release()
            self._arrivals.tell()

    # filling

    def put(self, parcel: Parcel, picks: tuple[int, ...] | None, origin: Strand | None) -> None:
        """Take the events of a parcel that match; called by the host."""
        if not self._open:
            return
        if self.terms.durable:
            picks = history.unread(parcel, picks, self._resumed)
        if self.terms.retained:
            picks = self._recalled.newer(parcel, picks)
        if self.terms.mapping:
            every = range(parcel.stamp.count) if picks is None else picks
            for seen, some in mapped(self.terms.mapping, parcel, every):
                self._put(seen, some, origin)
        else:
            self._put(parcel, picks, origin)

    def recall(self, parcel: Parcel, index: int) -> None:
        """Take the last value unless something has come already; called by the channel."""
        if self._open and self._recalled.takes(parcel, index):
            self._put(parcel, (index,), None)

    def _put(self, parcel: Parcel, picks: tuple[int, ...] | None, origin: Strand | None) -> None:
        events = opened(parcel, picks, self.channel, self.handback)
        held = sum(len(each) for _, each in self._early.values()) if self._early else 0
        room = self.max_pending - self._queue.count - held
        if len(events) > room:
            events = self._overflow(events, room, origin)
        if not events:
            return
        early = parcel.earliest - self.channel.now() if parcel.earliest is not None else 0
        if early > 0:
            self._serial = serial = self._serial + 1
            come = asyncio.get_running_loop().call_later(
                early / NANOSECONDS, lambda: self._take_in(self._early.pop(serial)[1])
            )
            self._early[serial] = (come, events)
        else:
            self._take_in(events)

    def _take_in(self, events: list[ReceivedEvent]) -> None:
        self._queue.add(events)
        self._accepted += len(events)
        self._arrivals.tell()

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
            if events[: max(0, room)]:
                self._take_in(events[: max(0, room)])
            self.end(Full(f"subscription to {self.channel.name!r}", self.max_pending))
            return []
        if policy == "drop_oldest":
            self._give_up(events[: -self.max_pending])
            events = events[-self.max_pending :]
            self._uncount(self._queue.oldest(min(len(events) - room, self._queue.count)))
            return events
        if policy == "drop_priority":
            priority = events[0].parcel.qos.priority
            gone = self._queue.least(len(events) - room, priority)
            self._uncount(gone)
            room += len(gone)
            self._give_up(events[: max(0, len(events) - room)])
            return events[max(0, len(events) - room) :]
        self._give_up(events[max(0, room) :])
        return events[: max(0, room)]

    def _uncount(self, events: list[ReceivedEvent]) -> None:
        self._accepted -= len(events)
        self._give_up(events)

    def _give_up(self, events: list[ReceivedEvent], reason: str = "subscription full") -> None:
        if events:
            self.dropped += len(events)
            self.channel.discard(self, events, reason)

    # acknowledging

    def ack(self, event: ReceivedEvent) -> bool:
        """It is done, and will not come again; False if it was done before."""
        done = self._acks is not None and self._acks.acknowledge(event)
        self._arrivals.tell()
        return done

    def reject(self, event: ReceivedEvent) -> bool:
        """It could not be done: it comes again, or ends as a dead letter; False if it was done before."""
        return self._acks is not None and self._acks.reject(event)

    def attempt(self, event: ReceivedEvent) -> int:
        """How often an event that is not acknowledged has been handed out."""
        return self._acks.attempt(event) if self._acks is not None else 1

    def _again(self, events: list[ReceivedEvent]) -> None:
        if self._open:
            for event in events:
                self._queue.add([event])
            self._accepted += len(events)
            self._arrivals.tell()

    def _give_away(self, event: ReceivedEvent, attempts: int) -> None:
        self.dead += 1
        self.channel.discard(self, [event], "not acknowledged")
        self.channel.dead_letter(self.terms.dead_letter, event, attempts)

    def _progress(self, event: ReceivedEvent) -> None:
        if self.terms.durable and event.offset is not None:
            self.channel.remember(self.terms.durable, event.offset, event.index)

    def _hand(self, events: list[ReceivedEvent]) -> None:
        """The application takes these, and has therefore done what it had, if that is how it is meant."""
        acks = self._acks
        assert acks is not None
        if self.terms.ack == "automatic" and self.terms.callback is None:
            for event in self._taken:
                acks.acknowledge(event)
            self._taken = events
        for event in events:
            acks.handed(event)

    # taking

    def _release(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for origin in waiters:
            origin.go_on(self)
        self.channel.room()

    async def _batch(self) -> list[ReceivedEvent] | None:
        """The next events, or None at the end."""
        rest = list(self._current)
        while not rest:
            while not self._queue.count or (self._open and self.unacknowledged >= self.max_pending):
                if not self._open:
                    if self._error is not None:
                        raise self._error
                    return None
                if self._taken:
                    self._hand([])
                    continue
                await self._arrivals.wait()
            rest = self._queue.take()
            if self.on_full == "block" and self._queue.count < self.max_pending:
                self._release()
            if (deadline := rest[0].parcel.deadline) is not None and self.channel.now() > deadline:
                self._accepted -= len(rest)
                self._give_up(rest, "expired")
                rest = []
        return rest

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> ReceivedEvent:
        for event in self._current:
            if self._acks is not None:
                self._hand([event])
            return event
        batch = await self._batch()
        if batch is None:
            raise StopAsyncIteration
        self._current = iter(batch)
        return await self.__anext__()

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
            if self._acks is not None:
                self._hand(batch)
            yield batch

    async def _consume(self, callback: Callback) -> None:
        while (batch := await self._batch()) is not None:
            self._current = iter(batch)
            if self._acks is not None:
                await self._consume_acknowledging(callback, self._acks)
                continue
            # the same without what acknowledging needs, and without a step of ours for each event
            while length_hint(self._current):
                try:
                    for result in filter(None, map(callback, self._current)):
                        if inspect.isawaitable(result):
                            await result
                except Exception:
                    self._failed(batch[-1 - length_hint(self._current)])

    async def _consume_acknowledging(self, callback: Callback, acks: Acknowledging) -> None:
        for event in self._current:
            acks.handed(event)
            try:
                result = callback(event)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                self._failed(event)
                acks.reject(event)
            else:
                if self.terms.ack == "automatic":
                    self.ack(event)

    def _failed(self, event: ReceivedEvent) -> None:
        self.failed += 1
        log.exception("a subscriber of %r failed on event %d", self.channel.name, event.number)
