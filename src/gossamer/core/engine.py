"""The engine: one node without I/O. A host tells it what happened; it answers with effects.

Every input takes the time and returns the effects it caused, in order. One engine runs many channels;
each channel that runs here is one template instance with its context. The engine also writes the trace,
so that both hosts leave the same one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gossamer.core import trace
from gossamer.core.context import LINKED, SERVER, SUBSCRIBERS, ChannelSpec, Context, Dice
from gossamer.core.control import AHEAD, Control, check_instants
from gossamer.core.effect import (
    Deliver,
    DeliverFeedback,
    Drop,
    Effect,
    Note,
    Report,
    Room,
    SubscribersChanged,
    senseless,
)
from gossamer.core.errors import ProtocolError, UnknownChannel, UnknownTemplate
from gossamer.core.event import NO_ENVELOPE, Criteria, Envelope
from gossamer.core.instance import Instance
from gossamer.core.names import MILLISECOND, Role, channel_id, check_node, nanoseconds
from gossamer.core.parcel import Answer, Parcel
from gossamer.core.pending import Hold
from gossamer.core.receipt import Notary, Receipt
from gossamer.core.sealer import PARCEL_BYTES, Sealer
from gossamer.core.template import Membership, Template
from gossamer.core.tracer import Tracer, runs
from gossamer.core.wire import Item, decode_message


class Engine:
    """One node: inputs in, effects out.

    templates
        Classes by name; a channel of another template cannot run here.
    services
        Templates that run on every node on a channel of their own, such as the directory.
    dice
        Makes seeded dice for a label.
    recorder
        Takes the rows of the trace; None traces nothing.
    """

    def __init__(
        self,
        node: str,
        *,
        templates: Mapping[str, type[Template[Any]]],
        dice: Callable[[str], Dice],
        secret: bytes,
        role: Role = Role.PEER,
        incarnation: int = 1,
        services: Iterable[Template[Any]] = (),
        recorder: trace.Recorder | None = None,
    ) -> None:
        self.node = check_node(node)
        self.role = role
        self.incarnation = incarnation
        self.notary = Notary(secret)
        self.now = 0
        self.containers: dict[str, Any] = {}
        self.drops: Counter[str] = Counter()
        self._parcel_bytes = PARCEL_BYTES
        self._templates = templates
        self._dice = dice
        self._tracer = Tracer(node, incarnation, recorder, self._name)
        self._effects: list[Effect] = []
        self._changed: deque[str] = deque()
        self._subscription = 0
        self._instances: dict[int, Instance] = {}
        self._hold = Hold()
        self._services: list[Instance] = [self._start(service.name, service) for service in services]

    # what the host may read

    @property
    def address(self) -> str:
        """The path from the backbone down to this node."""
        server: str | None = self.containers.get(SERVER)
        return f"{server}/{self.node}" if server else self.node

    @property
    def parcel_bytes(self) -> int:
        """Size at which parcels of this node are sealed."""
        return self._parcel_bytes

    @parcel_bytes.setter
    def parcel_bytes(self, limit: int) -> None:
        self._parcel_bytes = limit
        for instance in self._instances.values():
            instance.sealer.limit = limit

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels that run here, services aside."""
        running = (each for each in self._instances.values() if each not in self._services)
        return tuple(sorted(each.context.channel for each in running))

    def has_subscribers(self, channel: str) -> bool:
        """Whether somebody, as far as this node knows, listens."""
        return self.instance(channel).has_subscribers

    def receipt(self, channel: str, number: int) -> Receipt:
        """The publisher's receipt for an event just accepted."""
        stamp = self.instance(channel).sealer.stamp(self.address, number)
        return self.notary.receipt(channel, stamp, number)

    # inputs: channels and subscriptions

    def run(self, now: int, spec: ChannelSpec) -> list[Effect]:
        """Run a channel on this node, unless it runs already."""
        self.now = now
        self.open(spec)
        return self._done()

    def subscribe(self, now: int, channel: str, criteria: Criteria) -> tuple[int, list[Effect]]:
        """A local application wants events; the subscription's number."""
        self.now = now
        instance = self.instance(channel)
        self._subscription += 1
        instance.context.subscribers[self._subscription] = criteria
        self._member(instance, "subscribed", str(self._subscription), repr(criteria) if criteria else "")
        return self._subscription, self._done()

    def unsubscribe(self, now: int, channel: str, subscription: int) -> list[Effect]:
        """A local application wants no more."""
        self.now = now
        instance = self.instance(channel)
        if instance.context.subscribers.pop(subscription, None) is not None:
            self._member(instance, "unsubscribed", str(subscription))
        return self._done()

    def intend(self, now: int, channel: str) -> list[Effect]:
        """A local application is about to publish; a template may have to find listeners first."""
        self.now = now
        self._member(self.instance(channel), "publishing", self.node)
        return self._done()

    def call(self, now: int, service: str, call: int, request: Any) -> list[Effect]:
        """An application asks a service; a Reply with the same number will follow, now or later."""
        channel = self.instance(service).context.id
        return self._tell(now, channel, "on_call", call, request)

    # inputs: events

    def publish(self, channel: str, payload: bytes, envelope: Envelope = NO_ENVELOPE) -> int:
        """Accept an event into the channel's open parcel; its number. It leaves with ``seal``."""
        return self.instance(channel).sealer.add(payload, envelope.attributes, envelope.qos)

    def seal(self, now: int, channel: str, complete: bool = False) -> list[Effect]:
        """Close the open parcel of a channel and let its template route it; or only those that are full."""
        self.now = now
        instance = self.instance(channel)
        context = instance.at(self.now)
        for parcel in instance.sealer.seal(self.address, now, instance.template.blanks(context), complete):
            self._tracer.parcel(self.now, trace.PUBLISHED, parcel, "")
            instance.template.on_publish(context, parcel)
        self._compare(instance)
        return self._done()

    def feedback(
        self, now: int, channel: str, receipt: Receipt, payload: bytes, envelope: Envelope = NO_ENVELOPE
    ) -> tuple[Receipt, list[Effect]]:
        """Answer an event; raises ForgedReceipt unless this node made the receipt."""
        self.now = now
        instance = self.instance(channel)
        self.notary.check(receipt, channel)
        answers = Answer(receipt.stamp, receipt.number)
        parcel = instance.sealer.answer(answers, self.address, now, payload, envelope)
        self._tracer.parcel(self.now, trace.PUBLISHED, parcel, receipt.source)
        instance.template.on_feedback(instance.at(self.now), parcel, None)
        return self.notary.receipt(channel, parcel.stamp, parcel.stamp.first), self._done()

    # inputs: the network

    def receive(self, now: int, sender: str, item: Item) -> list[Effect]:
        """A neighbour sent something. Raises ProtocolError if it cannot be read; nothing has changed then.

        What can be read and makes no sense is dropped and counted: an honest neighbour whose clock differs a
        little may repeat a value that it could still believe.
        """
        self.now = now
        self._receive(sender, item)
        return self._done()

    def linked(self, now: int, peer: str) -> list[Effect]:
        """A link to a node came up."""
        return self.around(now, peer, "up")

    def unlinked(self, now: int, peer: str) -> list[Effect]:
        """A link to a node went down."""
        return self.around(now, peer, "down")

    def lost(self, now: int, peer: str, item: Item, reason: str) -> list[Effect]:
        """The host could not send an item to a peer."""
        self.now = now
        self._drop(item, reason, peer)
        return self._done()

    def discard(self, now: int, subscription: int, parcel: Parcel, picks: Iterable[int], reason: str) -> None:
        """The host could not keep some events of a delivered parcel for a subscription."""
        self.now = now
        self.drops[reason] += 1
        for first, count in runs(parcel.stamp, picks):
            self._tracer.parcel(self.now, trace.DROPPED, parcel, str(subscription), reason, first, count)

    def wake(self, now: int, channel: int, name: str) -> list[Effect]:
        """A wake is due."""
        return self._tell(now, channel, "on_timer", name)

    def report(self, now: int, channel: int, report: Report) -> list[Effect]:
        """Storage has done what a template asked for."""
        return self._tell(now, channel, "on_report", report)

    def set(self, now: int, name: str, value: object) -> list[Effect]:
        """Set a container."""
        self.now = now
        self.put(name, value)
        return self._done()

    # for contexts

    def open(self, spec: ChannelSpec) -> None:
        if channel_id(spec.name) in self._instances:
            return
        kind = self._templates.get(spec.template)
        if kind is None:
            raise UnknownTemplate(spec.template, self._templates)
        settings = kind.parse(dict(spec.settings))
        recovery = nanoseconds(kind.recovery(settings))
        self._tracer.opened(self.now, spec.name, kind.name, kind.promises, recovery)
        instance = self._start(spec.name, kind.for_role(self.role)(settings))
        self._compare(instance)
        for sender, item in self._hold.release(instance.context.id):
            try:
                self._receive(sender, item)
            except ProtocolError as error:
                self._drop(item, senseless(error))

    def put(self, name: str, value: object) -> None:
        if self.containers.get(name) != value:
            self.containers[name] = value
            self._changed.append(name)

    def deliver(self, context: Context, parcel: Parcel, sender: str | None) -> None:
        if not context.subscribers or not self._opens(parcel):
            return
        for subscription, criteria in context.subscribers.items():
            picks = parcel.picks
            if criteria:
                picks = tuple(i for i, own in enumerate(parcel.attributes) if own and criteria.matches(own))
                if not picks:
                    continue
            self._emit(Deliver(context.id, subscription, parcel, picks, sender))
            for first, count in runs(parcel.stamp, picks):
                self._tracer.parcel(self.now, trace.DELIVERED, parcel, str(subscription), "", first, count)

    def deliver_feedback(self, context: Context, parcel: Parcel) -> None:
        answers = parcel.header.answers
        assert answers is not None
        if answers.stamp.incarnation != self.incarnation:
            self._drop(parcel, "answers an earlier life of this node")
        elif not self.notary.verify(context.id, answers.stamp, answers.number):
            self._drop(parcel, "forged receipt")
        elif self._opens(parcel):
            if self._instances[context.id].answers.add(parcel.stamp):
                self._emit(DeliverFeedback(context.id, parcel))
                self._tracer.parcel(self.now, trace.DELIVERED, parcel, "")
            else:
                self._drop(parcel, "seen before")

    def _opens(self, parcel: Parcel) -> bool:
        """Whether a body is what its header says; if not, the parcel ends here."""
        try:
            return parcel.attributes is not None
        except ProtocolError as error:
            self._drop(parcel, senseless(error))
            return False

    def waits(self, channel: int, item: Item) -> bool:
        """Whether an item that is to be sent has to wait for what its channel stores."""
        instance = self._instances.get(channel)
        return instance is None or instance.template.waits(instance.context, item)

    def instance(self, channel: str) -> Instance:
        """A channel as it runs here; raises UnknownChannel."""
        instance = self._instances.get(channel_id(channel))
        if instance is None:
            raise UnknownChannel(channel, self.channels)
        return instance

    def _start(self, channel: str, template: Template[Any]) -> Instance:
        context = Context(
            node=self.node,
            role=self.role,
            incarnation=self.incarnation,
            channel=channel,
            emit=self._emit,
            desk=self,
            rng=self._dice(channel),
            containers=self.containers,
        )
        sealer = Sealer(channel, self.incarnation, self.notary, self._parcel_bytes)
        instance = Instance(context, template, sealer)
        self._instances[context.id] = instance
        template.on_open(instance.at(self.now))
        return instance

    def _receive(self, sender: str, item: Item) -> None:
        if isinstance(item, Control):
            self._receive_control(sender, item)
            return
        header = item.header
        instance = self._instances.get(header.channel)
        if instance is None:
            self._wonder(sender, item, header.channel)
            return
        self._tracer.parcel(self.now, trace.RECEIVED, item, sender)
        if header.stamp.incarnation * MILLISECOND > self.now + AHEAD:
            self._drop(item, "from the future")
            return
        try:
            self._receive_parcel(instance, sender, item)
        except ProtocolError as error:
            self._drop(item, senseless(error))

    def _receive_parcel(self, instance: Instance, sender: str, item: Parcel) -> None:
        header = item.header
        expired = item.deadline is not None and self.now > item.deadline
        if expired and header.answers is not None:
            self._drop(item, "expired")
        elif expired:
            instance.template.on_expired(instance.at(self.now), item, sender)
        elif header.answers is not None:
            instance.template.on_feedback(instance.at(self.now), item, sender)
        else:
            instance.template.on_parcel(instance.at(self.now), item, sender)

    def _receive_control(self, sender: str, control: Control) -> None:
        instance = self._instances.get(control.channel)
        if instance is None:
            self._wonder(sender, control, control.channel)
            return
        message = control.message or decode_message(control, instance.template.decoder())
        self._tracer.item(self.now, trace.RECEIVED, control, sender)
        try:
            check_instants(message, self.now)
            instance.template.dispatch(instance.at(self.now), message, sender)
        except ProtocolError as error:
            self._drop(control, senseless(error))
        self._compare(instance)

    def _wonder(self, sender: str, item: Item, channel: int) -> None:
        """Keep what came for an unknown channel, within bounds, and ask the services about it."""
        given_up = self._hold.keep(channel, sender, item) if self._services else [item]
        for each in given_up:
            self._drop(each, "unknown channel")
        for service in self._services:
            service.template.on_unknown(service.at(self.now), channel, sender)

    def _tell(self, now: int, channel: int, handler: str, *what: object) -> list[Effect]:
        self.now = now
        instance = self._instances.get(channel)
        if instance is not None:
            getattr(instance.template, handler)(instance.at(now), *what)
            self._compare(instance)
        return self._done()

    def around(self, now: int, peer: str, change: Any) -> list[Effect]:
        """Something about the link to a node has changed; see Membership."""
        self.now = now
        if change in ("up", "down"):
            others = (each for each in self.containers.get(LINKED, ()) if each != peer)
            self.put(LINKED, tuple(sorted((*others, peer) if change == "up" else others)))
        for instance in tuple(self._instances.values()):
            self._member(instance, change, peer)
        return self._done()

    def _member(self, instance: Instance, change: Any, who: str, detail: str = "") -> None:
        context = instance.context
        if change in (trace.SUBSCRIBED, trace.UNSUBSCRIBED):
            self.put(f"{SUBSCRIBERS}{context.channel}", tuple(context.subscribers))
        self._tracer.member(self.now, change, context.channel, who, detail)
        instance.template.on_membership(instance.at(self.now), Membership(change, who))
        self._compare(instance)

    def _compare(self, instance: Instance) -> None:
        has_subscribers = instance.template.has_subscribers(instance.context)
        if has_subscribers != instance.has_subscribers:
            instance.has_subscribers = has_subscribers
            self._effects.append(SubscribersChanged(instance.context.id, has_subscribers))
        obstacle = instance.template.obstacle(instance.context)
        if obstacle != instance.obstacle:
            instance.obstacle = obstacle
            self._effects.append(Room(instance.context.id, obstacle))

    def _done(self) -> list[Effect]:
        while self._changed:
            name = self._changed.popleft()
            for instance in tuple(self._instances.values()):
                if name in instance.template.watches:
                    instance.template.on_container(instance.at(self.now), name, self.containers[name])
                    self._compare(instance)
        effects, self._effects = self._effects, []
        return effects

    def _emit(self, effect: Effect) -> None:
        if isinstance(effect, Drop):
            self._drop(effect.item, effect.reason)
            return
        self._tracer.effect(self.now, effect)
        if not isinstance(effect, Note):
            self._effects.append(effect)

    def _drop(self, item: Item, reason: str, peer: str = "") -> None:
        self.drops[reason] += 1
        self._effects.append(Drop(item, reason, peer))
        self._tracer.item(self.now, trace.DROPPED, item, peer, reason)

    def _name(self, channel: int) -> str:
        known = self._instances.get(channel)
        return known.context.channel if known else f"#{channel:016x}"
