"""A channel as an application holds it: publish, subscribe, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from gossamer import catalog
from gossamer.core.errors import BadEnvelope, Closed, Full, NoAnswer, TooLarge
from gossamer.core.event import MAX_PAYLOAD, NO_ENVELOPE, Criteria, Envelope, Value
from gossamer.core.names import Role, channel_id
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Receipt, Stamp
from gossamer.core.sealer import HEADER_ALLOWANCE
from gossamer.core.template import DURABLE
from gossamer.overlay.directory import Entry
from gossamer.overlay.filterwords import Advertise, Withdraw
from gossamer.overlay.replay import HistoryWish, MoreHistory
from gossamer.runtime.subscription import MAX_PENDING, Callback, OnFull, ReceivedEvent, Subscription

if TYPE_CHECKING:
    from gossamer.runtime.host import Host
    from gossamer.runtime.strand import Strand


class Channel:
    """A named channel, bound to a template. Get one from ``node.channel(...)``.

    ``publish`` returns as soon as the event is accepted: it is numbered, and leaves when the event loop
    turns or its parcel is full. While the way is full it waits; cancelled while it waits, nothing was
    accepted.
    """

    def __init__(self, host: Host, entry: Entry, linger: float = 0.0) -> None:
        self.name = entry.name
        self.template = entry.template
        self.settings = dict(entry.settings)
        self._host = host
        self._linger = linger
        self._instance = host.engine.instance(entry.name)
        self._sealer = self._instance.sealer
        self._sealer.limit = host.neighbours.parcel_bytes(entry.name)
        self._publishes = False
        self._subscriptions: dict[int, Subscription] = {}
        self._answers: set[Subscription] = set()
        self._sealing: asyncio.Handle | None = None
        self._breathless = False

    # publishing

    async def publish(self, payload: bytes = b"", envelope: Envelope = NO_ENVELOPE) -> Receipt:
        """Publish an event, waiting while the way is full; its receipt."""
        self._check(payload, envelope)
        if self._breathless or self._obstacle() is not None:
            await self._room()
        return self._host.engine.receipt(self.name, self._accept(payload, envelope))

    def try_publish(self, payload: bytes = b"", envelope: Envelope = NO_ENVELOPE) -> Receipt:
        """Publish an event at once, or raise Full."""
        self._check(payload, envelope)
        obstacle = self._obstacle()
        if obstacle is not None:
            raise Full(*obstacle)
        return self._host.engine.receipt(self.name, self._accept(payload, envelope))

    async def publish_many(self, payloads: Iterable[bytes], envelope: Envelope = NO_ENVELOPE) -> range:
        """Publish events alike in their envelope, waiting where the way is full; their numbers.

        Cancelled, the events of the range up to that point have been accepted and will leave.
        """
        first = self._sealer.next_number
        for payload in payloads:
            self._check(payload, envelope)
            if self._sealer.full:
                self._seal()
            if self._breathless or self._obstacle() is not None:
                await self._room()
            self._accept(payload, envelope)
        return range(first, self._sealer.next_number)

    def _check(self, payload: bytes, envelope: Envelope) -> None:
        if self._host.closed:
            raise Closed(f"channel {self.name!r}")
        if not isinstance(payload, bytes):
            raise BadEnvelope("payload", payload, "bytes; encode text or objects first")
        if len(payload) > MAX_PAYLOAD:
            raise TooLarge("payload", len(payload), MAX_PAYLOAD)
        if len(payload) > self._host.max_event - HEADER_ALLOWANCE:
            raise TooLarge(
                "payload for this node's links", len(payload), self._host.max_event - HEADER_ALLOWANCE
            )
        if not isinstance(envelope, Envelope):
            raise BadEnvelope("envelope", envelope, "an Envelope object")

    def _intend(self) -> None:
        """Tell the template once that somebody here publishes."""
        self._publishes = True
        self._host.do(self._host.engine.intend(self._host.now(), self.name))

    def _obstacle(self) -> tuple[str, int] | None:
        """What a publisher has to wait for, and its limit."""
        if not self._publishes:
            self._intend()
        host = self._host
        if host.engine.role in (Role.CLIENT, Role.SECONDARY) and host.wants_server and not host.links:
            return "the way to a server (not connected)", host.limits.queue_bytes
        for link in host.links.values():
            if link.congested:
                return f"the link to {link.peer!r}", host.limits.queue_bytes
        for subscription in self._subscriptions.values():
            if subscription.full:
                return f"a subscriber of {self.name!r} on this node", subscription.max_pending
        waiting = self._instance.obstacle
        return (waiting, self._sealer.limit) if waiting else None

    async def _room(self) -> None:
        if self._breathless:
            # a publisher that never has to wait would otherwise keep the loop from everybody else
            self._breathless = False
            await asyncio.sleep(0)
        await self._host.until(lambda: self._host.closed or self._obstacle() is None)
        if self._host.closed:
            raise Closed(f"channel {self.name!r}")

    def _accept(self, payload: bytes, envelope: Envelope) -> int:
        number = self._sealer.add(payload, envelope.attributes, envelope.wishes)
        if self._sealer.full:
            self._seal()
            self._breathless = True
        elif self._sealing is None:
            loop = asyncio.get_running_loop()
            self._sealing = (
                loop.call_later(self._linger, self._seal) if self._linger else loop.call_soon(self._seal)
            )
        return number

    def _seal(self) -> None:
        if self._sealing is not None:
            self._sealing.cancel()
            self._sealing = None
        host = self._host
        host.guarded(lambda: host.do(host.engine.seal(host.now(), self.name)), "template")

    async def drain(self) -> None:
        """Wait until everything published has left this node."""
        self.flush()
        # transports tell that they have drained only above their high water, so look
        while self._host.pending and not self._host.closed:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    def flush(self) -> None:
        """Send the open parcel now."""
        if self._sealer.waiting:
            self._seal()

    def matching(self) -> bool:
        """Whether somebody, anywhere, listens, as far as this node knows."""
        return self._host.engine.matching(self.name)

    async def wait_matching(self, timeout: float | None = None) -> None:
        """Wait until somebody listens; raises NoAnswer after so many seconds."""
        if not self._publishes:
            self._intend()
        try:
            async with asyncio.timeout(timeout):
                await self._host.until(lambda: self._host.closed or self.matching())
        except TimeoutError:
            raise NoAnswer(f"waiting for subscribers of {self.name!r}", timeout or 0) from None
        if self._host.closed:
            raise Closed(f"channel {self.name!r}")

    async def advertise(self, criteria: Criteria) -> None:
        """Say which events are going to be published here, before the first of them.

        Needed on channels that propagate by advertisements; templates that do not look at attributes take no
        notice. Two that are equal need two withdrawals.
        """
        await self._offer(Advertise(criteria))

    async def withdraw(self, criteria: Criteria) -> None:
        """Take an advertisement back."""
        await self._offer(Withdraw(criteria))

    async def _offer(self, offer: Advertise | Withdraw) -> None:
        if not isinstance(offer.criteria, Criteria):
            raise BadEnvelope("advertisement", offer.criteria, "a Criteria object")
        if self._instance.template.content_based:
            await self._host.ask(self.name, offer)

    # subscribing

    def subscribe(
        self,
        where: Criteria | None = None,
        *,
        max_pending: int = MAX_PENDING,
        on_full: OnFull = "block",
        handback: Value | None = None,
        callback: Callback | None = None,
        from_place: int | None = None,
        from_time: float | datetime | None = None,
    ) -> Subscription:
        """Events whose envelopes match; use it with ``async with``.

        max_pending
            Events that may wait here.
        on_full
            What happens when they do: block, drop_oldest, drop_newest, drop_priority or disconnect.
        handback
            A value that comes back in every receipt of this subscription.
        callback
            Called with each event instead of iterating; may be a coroutine function.
        from_place, from_time
            The history first, from ``event.place`` or from an instant on (seconds since 1970, or a datetime),
            then what comes live; only where the template keeps one.
        """
        history = self._wish(from_place, from_time)
        return Subscription(
            self,
            where=where,
            max_pending=max_pending,
            on_full=on_full,
            handback=handback,
            callback=callback,
            history=history,
        )

    def _wish(self, place: int | None, time: float | datetime | None) -> tuple[int, float] | None:
        """What of the history is wanted: from which place, and not sent before which instant."""
        if place is None and time is None:
            return None
        if DURABLE not in self._instance.template.promises:
            kept = [name for name, each in catalog.templates().items() if DURABLE in each.promises]
            raise BadEnvelope("history", self.template, f"a channel that keeps one: {', '.join(kept)}")
        seconds = time.timestamp() if isinstance(time, datetime) else float(time or 0)
        if (place or 0) < 0 or not 0 <= seconds < 2**33:
            wrong = place if time is None else time
            raise BadEnvelope("history", wrong, "a place from 0 on, or an instant since 1970")
        return place or 0, seconds

    def _replay(self, subscription: Subscription, place: int, seconds: float) -> None:
        """Have the history sent, as fast as the subscriber takes it."""
        host = self._host

        def more(_: object) -> None:
            host.spawn(self._go_on(subscription))

        host.follow(self.name, HistoryWish(subscription.number, place, seconds), more)

    async def _go_on(self, subscription: Subscription) -> None:
        host, number = self._host, subscription.number
        await host.until(lambda: host.closed or not subscription.full or number not in host.subscribers)
        if not host.closed and number in host.subscribers:
            host.follow(self.name, MoreHistory(number), lambda _: None)

    async def acknowledged(self, event: Receipt | int, timeout: float | None = None) -> None:
        """Wait until an event published here, by receipt or number, and all before it are acknowledged.

        Every member that keeps up has it then, and on a persistent channel it is on disk. Raises NoAnswer
        after so many seconds; a template without acknowledgements gives none.
        """
        number = event if isinstance(event, int) else event.number
        known, channel = self._host.acknowledged, channel_id(self.name)
        self.flush()
        try:
            async with asyncio.timeout(timeout):
                await self._host.until(lambda: self._host.closed or known.get(channel, 0) >= number)
        except TimeoutError:
            raise NoAnswer(f"acknowledgement of event {number} on {self.name!r}", timeout or 0) from None
        if self._host.closed and known.get(channel, 0) < number:
            raise Closed(f"channel {self.name!r}")

    # answering

    async def feedback(
        self, receipt: Receipt, payload: bytes = b"", envelope: Envelope = NO_ENVELOPE
    ) -> Receipt:
        """Answer the event that a receipt belongs to; reaches its source and nobody else.

        Raises ForgedReceipt unless this node handed the receipt out, just as it is.
        """
        self._check(payload, envelope)
        host = self._host
        sent, effects = host.engine.feedback(host.now(), self.name, receipt, payload, envelope)
        host.do(effects)
        return sent

    def answers(self, *, max_pending: int = MAX_PENDING, on_full: OnFull = "block") -> Subscription:
        """Feedback to events published here, and to feedback given here; use it with ``async with``."""
        return Subscription(self, max_pending=max_pending, on_full=on_full, answers=True)

    def on_feedback(self, callback: Callback, *, max_pending: int = MAX_PENDING) -> Subscription:
        """Call back with each answer from now on, until it is closed; ``async with`` closes it for you."""
        return Subscription(self, max_pending=max_pending, callback=callback, answers=True).open()

    async def request(
        self, payload: bytes = b"", envelope: Envelope = NO_ENVELOPE, *, timeout: float = 5.0
    ) -> ReceivedEvent:
        """Publish an event and wait for the first answer to it; raises NoAnswer."""
        async with self.answers() as answers:
            receipt = await self.publish(payload, envelope)
            try:
                async with asyncio.timeout(timeout):
                    async for answer in answers:
                        told = answer.parcel.header.answers
                        if told and told.stamp.sequence and told.number == receipt.number:
                            return answer
            except TimeoutError:
                pass
        raise NoAnswer(f"event {receipt.number} on {self.name!r}", timeout)

    # for subscriptions and the node

    @property
    def drain_limit(self) -> float:
        return self._host.limits.drain

    def receipt(self, stamp: Stamp, number: int, handback: Value | None) -> Receipt:
        return self._host.engine.notary.receipt(self.name, stamp, number, handback)

    def attach(self, subscription: Subscription, answers: bool) -> None:
        host = self._host
        if host.closed:
            raise Closed(f"channel {self.name!r}")
        if answers:
            self._answers.add(subscription)
            host.feedback_to[channel_id(self.name)] = self._answered
            return
        number, effects = host.engine.subscribe(host.now(), self.name, subscription.where)
        subscription.number = number
        host.subscribers[number] = subscription
        self._subscriptions[number] = subscription
        host.do(effects)
        if subscription.history is not None:
            self._replay(subscription, *subscription.history)

    def detach(self, subscription: Subscription, answers: bool) -> None:
        host = self._host
        if answers:
            self._answers.discard(subscription)
            if not self._answers:
                host.feedback_to.pop(channel_id(self.name), None)
        elif self._subscriptions.pop(subscription.number, None) is not None:
            del host.subscribers[subscription.number]
            host.do(host.engine.unsubscribe(host.now(), self.name, subscription.number))

    def _answered(self, parcel: Parcel, origin: Strand | None) -> None:
        for subscription in tuple(self._answers):
            subscription.put(parcel, None, origin)

    def discard(self, subscription: Subscription, events: list[ReceivedEvent]) -> None:
        """Count and trace what a subscription gave up."""
        engine, now = self._host.engine, self._host.now()
        parcels: dict[int, list[ReceivedEvent]] = {}
        for event in events:
            parcels.setdefault(id(event.parcel), []).append(event)
        for same in parcels.values():
            picks = [event.index for event in same]
            engine.discard(now, subscription.number, same[0].parcel, picks, "subscription full")

    def room(self) -> None:
        """A subscriber has room again."""
        self._host.changed()

    def close(self) -> None:
        """End every subscription."""
        for subscription in (*self._subscriptions.values(), *self._answers):
            subscription.end()
        if self._sealing is not None:
            self._sealing.cancel()

    def __repr__(self) -> str:
        return f"<channel {self.name!r} of template {self.template!r}>"
