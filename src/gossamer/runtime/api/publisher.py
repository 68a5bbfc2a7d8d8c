"""Where events go into a channel: accepted, numbered, sealed into parcels, and sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from gossamer import catalog
from gossamer.core import qos as qos_rules
from gossamer.core.errors import (
    BadEnvelope,
    Closed,
    Full,
    Lost,
    NoAnswer,
    NotHandedOver,
    StorageError,
    TooLarge,
    UnsupportedOperation,
)
from gossamer.core.event import MAX_PAYLOAD, NO_ENVELOPE, NO_QOS, Attributes, Criteria, Envelope, QoS
from gossamer.core.names import Role
from gossamer.core.operations import Advertise, Withdraw
from gossamer.core.receipt import Receipt
from gossamer.core.sealer import HEADER_ALLOWANCE
from gossamer.links import codecs
from gossamer.overlay.directory.service import Entry
from gossamer.runtime.api.transaction import Transaction
from gossamer.runtime.delivery.retained import MAX_RETAINED, Retained

if TYPE_CHECKING:
    from gossamer.runtime.api.subscription import Subscription
    from gossamer.runtime.host import Host
    from gossamer.runtime.net.connection import Strand

FIRST_RUN, RUN = 64, 4096
"""Events that ``publish_many`` looks at together, at first and at most; else as many as fill a parcel."""
BROKEN = "the connection broke before the neighbour answered"
"""Why an event is not taken over of which it is not known whether it was read."""
MAX_KNOWN_QOS = 1024
"""Different wishes of events whose check is remembered."""


class Options(TypedDict, total=False):
    """What ``publish`` takes beside a payload: the attributes of the event, and the fields of ``QoS``."""

    attributes: Attributes
    priority: int
    expiry: float | None
    earliest: float | None
    essential: bool | None
    report: bool
    retain: bool


def with_options(envelope: Envelope, options: Options) -> Envelope:
    """An envelope with further attributes and other quality of service."""
    rest: dict[str, Any] = dict(options)
    attributes = rest.pop("attributes", {})
    if not isinstance(attributes, dict):
        raise BadEnvelope("attributes", attributes, "a dict of names and values")
    qos = QoS(**rest).within(envelope.qos) if rest else envelope.qos
    return Envelope({**envelope.attributes, **attributes}, qos)


class Outlet:
    """The publishing side of a channel."""

    def __init__(
        self,
        host: Host,
        entry: Entry,
        linger: float = 0.0,
        qos: QoS = NO_QOS,
        codec: codecs.Codec | None = None,
    ) -> None:
        self.name = entry.name
        self.template = entry.template
        self.settings = dict(entry.settings)
        self.codec = codec
        """How values that are published here become payloads; None takes bytes."""
        self._host = host
        self._qos = qos
        self._known: dict[QoS, QoS] = {}
        self._linger = linger
        self._instance = host.engine.instance(entry.name)
        self._sealer = self._instance.sealer
        best = host.neighbours.best_frame(entry.name)
        self._sealer.limit = min(self._instance.template.parcel_bytes, best)
        self._publishes = False
        self._told_lost = 0
        """The number up to which the application has heard of lost events."""
        self._subscriptions: dict[int, Subscription] = {}
        self._sealing: asyncio.Handle | None = None
        self._breathless = False
        self._plain = self._fit(NO_QOS)
        self._retained = Retained(host, entry.name, self._instance.template.local)
        self._sealer.retain = self._retained.keep

    async def publish(
        self, payload: Any = b"", envelope: Envelope = NO_ENVELOPE, **options: Unpack[Options]
    ) -> Receipt:
        """Publish an event, waiting while the way is full; its receipt.

        ``publish(b"...", attributes={"symbol": "ACME"}, priority=7, expiry=1.0)``: attributes and quality of
        service are given by name, or ready-made as an envelope. The payload is bytes, or a value for the
        channel's codec. Raises DiskFull, and accepts nothing, while the disk that stores the event is known
        to be full.
        """
        if options:
            envelope = with_options(envelope, options)
        payload = self._check(payload, envelope)
        if self._breathless or self._obstacle() is not None:
            await self._room()
        return self._host.engine.receipt(self.name, self._accept(payload, envelope))

    def try_publish(
        self, payload: Any = b"", envelope: Envelope = NO_ENVELOPE, **options: Unpack[Options]
    ) -> Receipt:
        """Publish an event at once, or raise Full."""
        if options:
            envelope = with_options(envelope, options)
        payload = self._check(payload, envelope)
        obstacle = self._obstacle()
        if obstacle is not None:
            raise Full(*obstacle)
        return self._host.engine.receipt(self.name, self._accept(payload, envelope))

    async def publish_many(
        self, payloads: Iterable[Any], envelope: Envelope = NO_ENVELOPE, **options: Unpack[Options]
    ) -> range:
        """Publish events alike in their envelope, waiting where the way is full; their numbers.

        Cancelled, the events of the range up to that point have been accepted and will leave.
        """
        if options:
            envelope = with_options(envelope, options)
        first, rest, length = self._sealer.next_number, iter(payloads), FIRST_RUN
        run = list(islice(rest, length))
        while run:
            if self._breathless or self._obstacle() is not None:
                await self._room()
            count, size = (0, 0) if envelope.attributes else self._accept_run(run, envelope)
            if count:
                # one more than a parcel takes: what is left over waits here, and for its parcel to be full
                length = min(RUN, self._sealer.limit * count // size + 1)
            else:
                count = 1
                self._accept(self._check(run[0], envelope), envelope, at_once=False)
            run = run[count:]
            run += islice(rest, max(0, length - len(run)))
        return range(first, self._sealer.next_number)

    def _accept_run(self, payloads: list[Any], envelope: Envelope) -> tuple[int, int]:
        """Accept many events in one step, if nothing about them has to be looked at; how many, and bytes."""
        if self.codec is not None or set(map(type, payloads)) != {bytes}:
            return 0, 0
        self._check(b"", envelope)
        count, size = self._sealer.add_run(payloads, self._whole_qos(envelope))
        if count:
            self._accepted(at_once=False)
        return count, size

    def _check(self, payload: Any, envelope: Envelope) -> bytes:
        """The payload as bytes; raises if it may not be published."""
        if self._host.closed:
            raise Closed(f"channel {self.name!r}")
        if self.codec is not None:
            payload = codecs.encode(self.codec, payload)
        elif not isinstance(payload, bytes):
            raise BadEnvelope("payload", payload, "bytes; give the channel a codec for other values")
        if len(payload) > MAX_PAYLOAD:
            raise TooLarge("payload", len(payload), MAX_PAYLOAD)
        if len(payload) > self._host.max_event - HEADER_ALLOWANCE:
            raise TooLarge(
                "payload for this node's links", len(payload), self._host.max_event - HEADER_ALLOWANCE
            )
        if not isinstance(envelope, Envelope):
            raise BadEnvelope("envelope", envelope, "an Envelope object")
        if envelope is not NO_ENVELOPE and envelope.qos not in self._known:
            self._fit(envelope.qos)
        if len(payload) > MAX_RETAINED and self._whole_qos(envelope).retain:
            raise TooLarge("payload that is to be retained", len(payload), MAX_RETAINED)
        return payload  # type: ignore[no-any-return]

    def _whole_qos(self, envelope: Envelope) -> QoS:
        """The wishes of an event and, where it has none, of the channel."""
        return self._plain if envelope is NO_ENVELOPE else self._known[envelope.qos]

    def _fit(self, qos: QoS) -> QoS:
        """See that the template can keep the wishes of an event; together with those of the channel."""
        whole = qos.within(self._qos)
        self.refuse(*qos_rules.made(whole))
        if self.codec is not None:
            whole = QoS(codec=self.codec.id).within(whole)
        if len(self._known) >= MAX_KNOWN_QOS:
            self._known.clear()
        self._known[qos] = whole
        return whole

    def refuse(self, *qos: str) -> None:
        """Raise UnsupportedQoS, naming templates that can, if the template here cannot keep all of these."""
        for wish in qos:
            qos_rules.refuse(wish, type(self._instance.template), catalog.templates)

    def _intend(self) -> None:
        """Tell the template once that somebody here publishes."""
        self._publishes = True
        self._host.do(self._host.engine.intend(self._host.now(), self.name))

    def _failure(self) -> StorageError | None:
        """Why what is published here is not stored now, and waiting may not help."""
        instance = self._instance
        return instance.template.failure(instance.context) if instance.obstacle else None

    def _obstacle(self) -> tuple[str, int] | None:
        """What a publisher has to wait for, and its limit; raises StorageError where waiting may not help."""
        if not self._publishes:
            self._intend()
        host = self._host
        if (failure := self._failure()) is not None:
            raise failure
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

    def _accept(self, payload: bytes, envelope: Envelope, at_once: bool = True) -> int:
        number = self._sealer.add(payload, envelope.attributes, self._whole_qos(envelope))
        self._accepted(at_once)
        return number

    def _accepted(self, at_once: bool) -> None:
        """Send a parcel that is full now, others when the loop turns.

        ``at_once`` the first event of a turn does not wait for that, if no others are known to follow.
        """
        if self._sealer.full:
            self._send(complete=True)
            self._breathless = True
        if self._sealing is None and self._sealer.waiting:
            loop = asyncio.get_running_loop()
            if self._linger:
                self._sealing = loop.call_later(self._linger, self._seal)
            else:
                if at_once:
                    self._send()
                self._sealing = loop.call_soon(self._seal)

    def _seal(self) -> None:
        if self._sealing is not None:
            self._sealing.cancel()
            self._sealing = None
        if self._sealer.waiting:
            self._send()

    def _send(self, complete: bool = False) -> None:
        host = self._host
        host.guarded(lambda: host.do(host.engine.seal(host.now(), self.name, complete)), "template")

    def transaction(self) -> Transaction:
        """Events that appear together or not at all; use it with ``async with``.

        They leave in one parcel when the block ends, if it ends without an error.
        """
        self.refuse("transaction")
        return Transaction(self)

    async def publish_together(self, events: Sequence[tuple[Any, Envelope]]) -> range:
        """Publish events in one parcel, waiting while the way is full; their numbers."""
        self.refuse("transaction")
        some = [
            (self._check(payload, envelope), envelope.attributes, self._whole_qos(envelope))
            for payload, envelope in events
        ]
        if self._breathless or self._obstacle() is not None:
            await self._room()
        numbers = self._sealer.add_together(some)
        self._seal()
        return numbers

    async def drain(self, timeout: float | None = None) -> None:
        """Wait until another node answers for everything published here: it may be closed without loss.

        What that means is the template's: on a best-effort channel that the next nodes have answered a ping
        behind everything, on connections that lose nothing, and that the network has it on others; on
        ``dispatch`` that the next dispatcher has confirmed it, on ``reliable`` and ``causal`` that the server
        has it (a backbone node waits for the other members), on ``total-order`` and ``persistent`` that it is
        acknowledged. What is to be retained is written down.
        Raises NoAnswer after so many seconds, NotHandedOver if events ended on this node since they were
        published (each is told once), Lost if they were given up elsewhere, and DiskFull while the disk that
        it has to go to is full.
        """
        self.flush()
        asked: set[Strand] = set()
        try:
            async with asyncio.timeout(timeout):
                await self._retained.written()
                # transports tell that they have drained only above their high water, so look
                while (
                    self._host.pending or self.unconfirmed or self._unread(asked)
                ) and not self._host.closed:
                    if self.unconfirmed and (failure := self._failure()) is not None:
                        raise failure
                    await asyncio.sleep(0.001)
        except TimeoutError:
            raise NoAnswer(f"confirmation that events on {self.name!r} arrived", timeout or 0) from None
        reasons = self._host.losses.not_handed_over(self.name, self._instance.template.repairs)
        for strand in asked:
            if unread := strand.unread(self._instance.context.id):
                reasons[BROKEN] = max(reasons.get(BROKEN, 0), unread)
        if reasons:
            raise NotHandedOver(self.name, reasons)
        self.tell_lost(self._sealer.next_number)

    def _unread(self, asked: set[Strand]) -> bool:
        """Whether a neighbour has not shown that it read what was published here; it is asked once.

        Only where nothing else says so: other templates have confirmations or acknowledgements of their own.
        """
        template = self._instance.template
        if template.repairs or template.acknowledges:
            return False
        waiting = self._host.neighbours.unread(self._instance.context.id)
        asked.update(waiting)
        for strand in waiting:
            strand.ask()
        return bool(waiting)

    def tell_lost(self, upto: int, event: int = 0) -> None:
        """Raise Lost for events up to a number of which the application has not heard, and for one event."""
        known = self._host.lost.get(self._instance.context.id, [])
        found = [
            (first, last)
            for first, last in known
            if (self._told_lost < last and first <= upto) or first <= event <= last
        ]
        if found:
            self._told_lost = max(self._told_lost, *(last for _, last in found))
            raise Lost(self.name, found)

    @property
    def unconfirmed(self) -> bool:
        """Whether this node alone answers for something published here: closed now, that would be lost."""
        template, ctx = self._instance.template, self._instance.context
        return any(name == ctx.node or name in self._host.links for name in template.unconfirmed(ctx))

    def flush(self) -> None:
        """Send the open parcel now."""
        if self._sealer.waiting:
            self._seal()

    def has_subscribers(self) -> bool:
        """Whether somebody, anywhere, listens, as far as this node knows."""
        return self._host.engine.has_subscribers(self.name)

    async def wait_for_subscribers(self, timeout: float | None = None) -> None:
        """Wait until somebody listens; raises NoAnswer after so many seconds."""
        if not self._publishes:
            self._intend()
        try:
            async with asyncio.timeout(timeout):
                await self._host.until(lambda: self._host.closed or self.has_subscribers())
        except TimeoutError:
            raise NoAnswer(f"waiting for subscribers of {self.name!r}", timeout or 0) from None
        if self._host.closed:
            raise Closed(f"channel {self.name!r}")

    async def advertise(self, criteria: Criteria) -> None:
        """Say which events are going to be published here, before the first of them.

        Needed on channels that propagate by advertisements; templates that do not look at attributes take no
        notice. Two that are equal need two withdrawals.
        """
        await self._offer(Advertise(_criteria(criteria)))

    async def withdraw(self, criteria: Criteria) -> None:
        """Take an advertisement back."""
        await self._offer(Withdraw(_criteria(criteria)))

    async def _offer(self, offer: Advertise | Withdraw) -> None:
        if type(offer) in self._instance.template.operations:
            await self.call(offer)

    async def call(self, operation: Any) -> Any:
        """Ask the template for one of the operations that it offers; its answer.

        Raises UnsupportedOperation if the template does not offer it. A template declares its operations in
        ``Template.operations`` and answers them in ``on_call``.
        """
        template = self._instance.template
        if type(operation) not in template.operations:
            offered = [each.__name__ for each in template.operations]
            raise UnsupportedOperation(type(operation).__name__, self.template, offered)
        return await self._host.ask(self.name, operation)


def _criteria(criteria: Criteria) -> Criteria:
    if not isinstance(criteria, Criteria):
        raise BadEnvelope("advertisement", criteria, "a Criteria object")
    return criteria
