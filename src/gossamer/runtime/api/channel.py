"""A channel as an application holds it: publish, subscribe, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from gossamer import catalog
from gossamer.core.errors import Closed, NoAnswer, UnsupportedQoS
from gossamer.core.event import MAX_ATTRIBUTES, NO_ENVELOPE, NO_QOS, Criteria, Envelope, QoS, Value
from gossamer.core.names import channel_id
from gossamer.core.operations import ForgetSession
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Receipt, Stamp
from gossamer.links import codecs
from gossamer.overlay.directory.service import Entry
from gossamer.runtime.api.event import Callback, ReceivedEvent, opened
from gossamer.runtime.api.options import MAX_PENDING, OnFull, Terms
from gossamer.runtime.api.publisher import Options, Outlet, with_options
from gossamer.runtime.api.subscription import Subscription
from gossamer.runtime.delivery import replay as history
from gossamer.runtime.delivery import sessions as kept
from gossamer.runtime.delivery.acks import Mode, Redelivery
from gossamer.runtime.delivery.overrides import Mapping
from gossamer.runtime.delivery.queue import Order

if TYPE_CHECKING:
    from gossamer.runtime.host import Host
    from gossamer.runtime.net.connection import Strand


class Channel(Outlet):
    """A named channel, bound to a template. Get one from ``node.channel(...)``.

    ``publish`` returns as soon as the event is accepted: it is numbered, and leaves at once if it is the
    first since the event loop turned, else when that turns again or the parcel is full. While the way is full
    it waits; cancelled while it waits, nothing was accepted.
    """

    def __init__(
        self,
        host: Host,
        entry: Entry,
        linger: float = 0.0,
        qos: QoS = NO_QOS,
        codec: codecs.Codec | None = None,
    ) -> None:
        super().__init__(host, entry, linger, qos, codec)
        self._answers: set[Subscription] = set()

    # subscribing

    def subscribe(
        self,
        where: Criteria | None = None,
        *,
        max_pending: int = MAX_PENDING,
        on_full: OnFull = "block",
        handback: Value | None = None,
        callback: Callback | None = None,
        order: Order = "arrival",
        ack: Mode = "automatic",
        redelivery: Redelivery | None = None,
        dead_letter: Channel | None = None,
        mapping: Sequence[Mapping] = (),
        durable: str = "",
        from_offset: int | None = None,
        from_time: float | datetime | None = None,
        retained: bool = False,
    ) -> Subscription:
        """Events whose envelopes match; use it with ``async with``.

        max_pending
            Events that may wait here, and that may be in hand without being acknowledged.
        on_full
            What happens when they do: block, drop_oldest, drop_newest, drop_priority or disconnect.
        handback
            A value that comes back in every receipt of this subscription.
        callback
            Called with each event instead of iterating; may be a coroutine function.
        order
            Which of those that wait comes next: by arrival, priority or deadline.
        ack, redelivery, dead_letter
            Whether an event counts as done when the next is taken or the callback has returned (automatic),
            when ``events.ack(event)`` is called (explicit), or at once (none). What is rejected, fails or is
            not acknowledged in time comes again, and after so many attempts goes to the dead-letter channel.
        mapping
            Pairs of criteria and wishes: of an event that matches, the wishes are others here.
        durable
            A name under which it is kept how far everything is done; with it, a subscription goes on there
            after a restart. Where the template has a history this node keeps it, and the first time it
            begins with the history. On a ``dispatch`` channel the dispatcher keeps it, with all that comes
            meanwhile, and it may be taken up at another dispatcher.
        from_offset, from_time
            The history first, from ``event.offset`` or an instant on (seconds since 1970, or a datetime),
            then live events; only where the template keeps a history.
        retained
            The last event that was published with the wish ``retain``, if it matches, before any newer one.
        """
        terms = Terms(
            where=where,
            max_pending=max_pending,
            on_full=on_full,
            handback=handback,
            callback=callback,
            order=order,
            ack=ack,
            redelivery=redelivery,
            dead_letter=dead_letter,
            mapping=tuple(mapping),
            durable=durable,
            history=history.wanted(from_offset, from_time),
            retained=retained,
        )
        self.refuse(*terms.qos())
        return Subscription(self, terms)

    async def last(self) -> ReceivedEvent | None:
        """The last event that was published with the wish ``retain``, as the registry near here knows it."""
        parcel = await self._retained.last()
        return opened(parcel, parcel.picks, self, None)[-1] if parcel is not None else None

    def drops(self) -> dict[str, int]:
        """Events published here that were given up, by reason: all that were on this node, and of those with
        the wish ``report`` also what was elsewhere. One that several subscribers miss counts for each.
        """
        return self._host.losses.of(self.name)

    async def acknowledged(self, event: Receipt | int, timeout: float | None = None) -> None:
        """Wait until an event published here, by receipt or number, and all before it are acknowledged.

        What that means is the template's: see `Acknowledged` in ``gossamer templates NAME``. Raises
        UnsupportedQoS at once where the template never acknowledges, and NoAnswer after so many seconds.
        Raises Lost if the nodes responsible gave it up, or an earlier event that the application does not
        know of. Raises DiskFull while the disk that stores the event is full: the event stays on its way,
        and is stored once there is room.
        """
        if not self._instance.template.acknowledges:
            able = [name for name, each in catalog.templates().items() if each.acknowledges]
            raise UnsupportedQoS("acknowledged", self.template, able)
        number = event if isinstance(event, int) else event.number
        known, channel = self._host.acknowledged, channel_id(self.name)
        self.flush()
        try:
            async with asyncio.timeout(timeout):
                await self._host.until(
                    lambda: (
                        self._host.closed or known.get(channel, 0) >= number or self._failure() is not None
                    )
                )
        except TimeoutError:
            raise NoAnswer(f"acknowledgement of event {number} on {self.name!r}", timeout or 0) from None
        if known.get(channel, 0) < number and (failure := self._failure()) is not None:
            raise failure
        self.tell_lost(number, number)
        if self._host.closed and known.get(channel, 0) < number:
            raise Closed(f"channel {self.name!r}")

    # answering

    async def feedback(
        self,
        receipt: Receipt,
        payload: Any = b"",
        envelope: Envelope = NO_ENVELOPE,
        **options: Unpack[Options],
    ) -> Receipt:
        """Answer the event that a receipt belongs to; reaches its source and nobody else.

        Raises ForgedReceipt unless this node handed the receipt out, just as it is.
        """
        if options:
            envelope = with_options(envelope, options)
        payload = self._check(payload, envelope)
        host, qos = self._host, self._whole_qos(envelope)
        whole = envelope if qos == envelope.qos else Envelope(envelope.attributes, qos)
        sent, effects = host.engine.feedback(host.now(), self.name, receipt, payload, whole)
        host.do(effects)
        return sent

    def answers(self, *, max_pending: int = MAX_PENDING, on_full: OnFull = "block") -> Subscription:
        """Feedback to events published here, and to feedback given here; use it with ``async with``."""
        return Subscription(self, Terms(max_pending=max_pending, on_full=on_full, answers=True))

    def on_feedback(self, callback: Callback, *, max_pending: int = MAX_PENDING) -> Subscription:
        """Call back with each answer from now on, until it is closed; ``async with`` closes it for you."""
        return Subscription(self, Terms(max_pending=max_pending, callback=callback, answers=True)).open()

    async def request(
        self,
        payload: Any = b"",
        envelope: Envelope = NO_ENVELOPE,
        *,
        timeout: float = 5.0,
        **options: Unpack[Options],
    ) -> ReceivedEvent:
        """Publish an event and wait for the first answer to it; raises NoAnswer."""
        async with self.answers() as answers:
            receipt = await self.publish(payload, envelope, **options)
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

    def now(self) -> int:
        """Nanoseconds, as the host counts them."""
        return self._host.now()

    @property
    def keeps(self) -> bool:
        """Whether durable subscriptions are kept by dispatchers, not by this node."""
        return self._instance.template.keeps

    def resumed(self, name: str) -> tuple[int, int]:
        """Place and index up to which a durable subscription has done everything; -1 if nothing is known."""
        return kept.NOTHING if self.keeps else history.resumed(self._host, self.name, name)

    async def forget(self, durable: str) -> None:
        """Nobody will come back for the durable subscription of a name that a dispatcher keeps."""
        self.refuse("durable")
        await self.call(ForgetSession(durable))
        kept.forgotten(self._host, self.name, durable)

    def remember(self, name: str, place: int, index: int) -> None:
        """A durable subscription has done everything up to there."""
        (kept if self.keeps else history).remember(self._host, self.name, name, (place, index))

    def dead_letter(self, letters: Channel | None, event: ReceivedEvent, attempts: int) -> None:
        """An event that nobody could deal with: send it where somebody may look at it."""
        if letters is not None:
            self._host.spawn(letters.publish(event.payload, letter(event, attempts)))

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
        if subscription.terms.retained:
            host.spawn(self._recall(subscription))
        if subscription.terms.durable and self.keeps:
            kept.follow(host, self.name, subscription)
        elif subscription.history is not None:
            history.replay(host, self.name, number, *subscription.history)

    async def _recall(self, subscription: Subscription) -> None:
        """Give a subscription the last value, unless it has a newer one by then."""
        event = await self.last()
        if event is not None and (not subscription.where or subscription.where.matches(event.attributes)):
            subscription.recall(event.parcel, event.index)

    def detach(self, subscription: Subscription, answers: bool) -> None:
        host = self._host
        if answers:
            self._answers.discard(subscription)
            if not self._answers:
                host.feedback_to.pop(channel_id(self.name), None)
        elif self._subscriptions.pop(subscription.number, None) is not None:
            host.do_soon()  # what is done is said before it goes
            del host.subscribers[subscription.number]
            host.do(host.engine.unsubscribe(host.now(), self.name, subscription.number))

    def _answered(self, parcel: Parcel, origin: Strand | None) -> None:
        for subscription in tuple(self._answers):
            subscription.put(parcel, None, origin)

    def discard(self, subscription: Subscription, events: list[ReceivedEvent], reason: str) -> None:
        """Count and trace what a subscription gave up."""
        engine, now = self._host.engine, self._host.now()
        parcels: dict[int, list[ReceivedEvent]] = {}
        for event in events:
            parcels.setdefault(id(event.parcel), []).append(event)
        for same in parcels.values():
            picks = [event.index for event in same]
            engine.discard(now, subscription.number, same[0].parcel, picks, reason)
            self._host.losses.discarded(same[0].parcel, len(picks), reason)

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


def letter(event: ReceivedEvent, attempts: int) -> Envelope:
    """The envelope of a dead letter: what the event had, as far as there is room, and where it comes from."""
    about: dict[str, Value] = {
        "dead-channel": event.channel.name,
        "dead-source": event.source,
        "dead-number": event.number,
        "dead-attempts": attempts,
    }
    kept = dict(islice(event.attributes.items(), MAX_ATTRIBUTES - len(about)))
    return Envelope({**kept, **about}, QoS(codec=event.parcel.qos.codec))
