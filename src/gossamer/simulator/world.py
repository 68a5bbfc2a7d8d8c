"""The world: one simulated network. It hosts an engine per node and carries out effects in virtual time.

Promises: the same seed and the same calls leave the same trace, whatever PYTHONHASHSEED is; templates run
as they are, the very classes that the runtime runs.

Every item that a trace calls sent is accounted for. It is received by its target, or dropped: by the sender
with the target as peer (reasons "no link", "queue full", "lost on the way", "node is down", and those of
rules), or by the target with the sender as peer ("inbox full", "node crashed"). Only what is still on the
way when a run ends, or waits in an inbox, is neither. Models and rules may add copies. A row about the loss
of an item that a node sent before it crashed belongs to that life of the node and may come after its end.

Items travel as objects; their size is that of their frame. A crash is the end of a process: what it had
handed to its links still arrives, be it at a later life of the target.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gossamer.catalog import templates as installed_templates
from gossamer.core.control import Control
from gossamer.core.effect import Deliver, DeliverFeedback, Drop, Effect, Reply, Send, Wake
from gossamer.core.engine import Engine
from gossamer.core.errors import ChannelExists, Closed, ConfigError, UnknownTemplate
from gossamer.core.event import NO_ENVELOPE, Criteria, Envelope
from gossamer.core.names import NANOSECONDS, Role, channel_id, check_channel, check_node, nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Receipt
from gossamer.core.template import Template
from gossamer.core.trace import Recorder
from gossamer.core.wire import Item, encode
from gossamer.overlay.directory import Entry
from gossamer.simulator import rules
from gossamer.simulator.clock import APPLICATION, FAULT, NETWORK, TIMER, Clock
from gossamer.simulator.dice import SeededDice, derive
from gossamer.simulator.host import Host, Way
from gossamer.simulator.models import FULL, LinkModel, NodeModel, Skew
from gossamer.simulator.witness import Witness

NO_LINK, QUEUE_FULL, LOST_ON_THE_WAY = "no link", "queue full", "lost on the way"
NODE_DOWN, INBOX_FULL, CRASHED = "node is down", "inbox full", "node crashed"

Tap = Callable[[str, str, Item], None]
"""Hears sender, target and item of every transmission, before rules and models see it."""


class World:
    """A seed, nodes, links, rules and a virtual clock.

    templates
        Classes by name; those installed if not given.
    recorder
        Takes the rows of the trace; None traces nothing.
    services
        Makes the services of one node, such as the directory.
    link, node
        Models of links and nodes that are made without one.
    detection
        Seconds after which neighbours notice that a node has crashed.
    """

    def __init__(
        self,
        seed: int,
        *,
        templates: Mapping[str, type[Template[Any]]] | None = None,
        recorder: Recorder | None = None,
        services: Callable[[], Iterable[Template[Any]]] = tuple,
        link: LinkModel | None = None,
        node: NodeModel | None = None,
        detection: float = 1.0,
    ) -> None:
        self.seed = seed
        self.templates = installed_templates() if templates is None else templates
        self.clock = Clock()
        self.drops: Counter[str] = Counter()
        """Drops by reason."""
        self.messages: Counter[str] = Counter()
        """Transmissions by kind of item: parcel, feedback, control."""
        self.bytes: Counter[str] = Counter()
        """Bytes transmitted by kind of item."""
        self._recorder = recorder
        self._services = services
        self._link = link or LinkModel()
        self._node = node or NodeModel()
        self._detection = nanoseconds(detection)
        self._dice = self.dice("network")
        self._hosts: dict[str, Host] = {}
        self._channels: dict[int, Entry] = {}
        self._shared: dict[str, Any] = {}
        self._rules = 0
        self._judges: list[tuple[int, rules.Judge]] = []
        self._witnesses: list[Witness] = []
        self._taps: list[Tap] = []
        self._calls: dict[int, Callable[[Reply], None]] = {}
        self._call = 0
        self._carrying = False
        self._pending: deque[tuple[Host, list[Effect]]] = deque()

    # reading

    @property
    def now(self) -> float:
        """Seconds of virtual time since the beginning."""
        return self.clock.now / NANOSECONDS

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, up or down, in the order they were added."""
        return tuple(self._hosts)

    def links(self, node: str) -> tuple[str, ...]:
        """Names of the nodes that a node has a link to, up or down."""
        return tuple(self._host(node).models)

    def engine(self, node: str) -> Engine | None:
        """The engine of a node for a look inside; None while it is down."""
        return self._host(node).engine

    def running(self, node: str) -> bool:
        """Whether a node is up and not paused."""
        host = self._host(node)
        return host.engine is not None and not host.paused

    def dice(self, label: str) -> SeededDice:
        """Dice of the world's own for a purpose; ask once per label."""
        return SeededDice(self.seed, label=label)

    # building

    def add_node(self, name: str, role: Role = Role.PEER, model: NodeModel | None = None) -> None:
        """A new node, up and running."""
        if check_node(name) in self._hosts:
            raise ConfigError(f"there are two nodes {name!r}", key="node")
        host = Host(name, role, model or self._node, self.clock, self._recorder)
        host.witnesses.extend(self._witnesses)
        self._hosts[name] = host
        self._start(host)

    def link(self, a: str, b: str, model: LinkModel | None = None) -> None:
        """Join two nodes; both are told at once."""
        one, other = self._host(a), self._host(b)
        if one is other or b in one.models:
            raise ConfigError(f"{a!r} and {b!r} cannot be joined (again)", key="link")
        one.models[b] = other.models[a] = model or self._link
        self._join(one, other)

    def unlink(self, a: str, b: str) -> None:
        """Part two nodes; both are told at once."""
        one, other = self._host(a), self._host(b)
        if b not in one.models:
            raise ConfigError(f"{a!r} and {b!r} are not joined", key="link")
        self._part(one, other)
        self._part(other, one)
        del one.models[b], other.models[a]

    def set(self, node: str | None, name: str, value: object) -> None:
        """Set a container of a node, or of all nodes with None, in all their lives."""
        if node is None:
            self._shared[name] = value
        for host in self._hosts.values() if node is None else (self._host(node),):
            host.containers[name] = value
            self._tell(host, "set", name, value)

    def open(self, name: str, template: str, settings: Mapping[str, Any] | None = None) -> None:
        """Run a channel on all nodes, those that come later included."""
        if template not in self.templates:
            raise UnknownTemplate(template, self.templates)
        kind = self.templates[template]
        kind.parse(dict(settings or {}))
        entry = Entry(check_channel(name), template, dict(settings or {}))
        if channel_id(name) in self._channels:
            raise ChannelExists(name, self._channels[channel_id(name)].made_of, entry.made_of)
        self._channels[channel_id(name)] = entry
        for witness in self._witnesses:
            witness.opened(self, name, kind.promises)
        for host in self._hosts.values():
            self._tell(host, "run", entry)

    def add_witness(self, witness: Witness, node: str | None = None) -> None:
        """Let somebody look on, at one node or at all; tell them first what channels there are."""
        if node is None:
            self._witnesses.append(witness)
            for host in self._hosts.values():
                host.witnesses.append(witness)
        else:
            self._host(node).witnesses.append(witness)
        for entry in self._channels.values():
            witness.opened(self, entry.name, self.templates[entry.template].promises)

    def add_tap(self, tap: Tap) -> None:
        """Let somebody see every transmission."""
        self._taps.append(tap)

    def add_rule(self, rule: rules.AnyRule, key: str = "rule") -> None:
        """Put a rule at the end of the list; raises ConfigError naming what is wrong below ``key``."""
        rule.check(self._hosts.keys(), key)
        match rule:
            case rules.Crash(node=node, at=at):
                self._at_fault(at, self._crash, self._hosts[node])
            case rules.Restart(node=node, at=at):
                self._at_fault(at, self._restart, self._hosts[node])
            case rules.Pause(node=node, start=start, end=end):
                self._at_fault(start, self._pause, self._hosts[node], end)
            case rules.ClockSkew(node=node, start=start, end=end):
                self._at_fault(start, self._skew, self._hosts[node], rule)
                if end is not None:
                    self._at_fault(end, self._skew, self._hosts[node], None)
            case rules.Loss() | rules.Lag() | rules.Echo() | rules.Partition():
                self._rules += 1
                judge = (self._rules, rule.judge())
                self._at_fault(rule.start, self._begin, judge)
                if rule.end is not None:
                    self._at_fault(rule.end, self._end, judge)

    # what applications do

    def subscribe(self, node: str, channel: str, criteria: Criteria | None = None) -> int:
        """Want events on a node; the subscription's number. It ends with the node's life."""
        host, engine = self._up(node)
        criteria = criteria or Criteria()
        number, effects = engine.subscribe(host.time(), channel, criteria)
        for witness in host.witnesses:
            witness.subscribed(self, node, host.life, channel, number, criteria)
        self._carry(host, effects)
        return number

    def unsubscribe(self, node: str, channel: str, subscription: int) -> None:
        """Want no more."""
        host, engine = self._up(node)
        effects = engine.unsubscribe(host.time(), channel, subscription)
        for witness in host.witnesses:
            witness.unsubscribed(self, node, host.life, channel, subscription)
        self._carry(host, effects)

    def publish(self, node: str, channel: str, payload: bytes = b"", envelope: Envelope = NO_ENVELOPE) -> int:
        """Publish one event as a parcel of its own; its number."""
        host, engine = self._up(node)
        number = engine.publish(channel, payload, envelope)
        for witness in host.witnesses:
            witness.published(self, node, host.life, channel, number, payload, envelope)
        self._carry(host, engine.seal(host.time(), channel))
        return number

    def receipt(self, node: str, channel: str, parcel: Parcel, number: int) -> Receipt:
        """What a subscriber on a node holds about an event that it was given."""
        return self._up(node)[1].notary.receipt(channel, parcel.stamp, number)

    def feedback(
        self,
        node: str,
        channel: str,
        receipt: Receipt,
        payload: bytes = b"",
        envelope: Envelope = NO_ENVELOPE,
    ) -> None:
        """Answer an event."""
        host, engine = self._up(node)
        own, effects = engine.feedback(host.time(), channel, receipt, payload, envelope)
        for witness in host.witnesses:
            witness.answered(self, node, host.life, receipt, own.number)
        self._carry(host, effects)

    def call(self, node: str, service: str, request: Any, then: Callable[[Reply], None]) -> None:
        """Ask a service of a node; ``then`` takes the reply, now or later."""
        host, engine = self._up(node)
        self._call += 1
        self._calls[self._call] = then
        self._carry(host, engine.call(host.time(), service, self._call, request))

    # time

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do something at an instant, in seconds."""
        self.clock.schedule(nanoseconds(time), APPLICATION, _call, action)

    def run(self, until: float) -> None:
        """Let time pass up to an instant, in seconds."""
        try:
            self.clock.run(nanoseconds(until))
        except Exception as error:
            error.add_note(f"after {self.clock.now} ns of virtual time in a world with seed {self.seed}")
            raise

    # lives

    def crash(self, node: str) -> None:
        """End a node without a word."""
        self._crash(self._host(node), None)

    def restart(self, node: str) -> None:
        """Begin the next life of a node that is down."""
        self._restart(self._host(node), None)

    def _crash(self, host: Host, _: object) -> None:
        engine = host.engine
        if engine is None:
            return
        for handle in host.wakes.values():
            self.clock.cancel(handle)
        if host.serving is not None:
            self.clock.cancel(host.serving)
        waiting = ([host.work] if host.work else []) + list(host.inbox)
        for sender, item in waiting:
            self._lose(host, engine, sender, item, CRASHED)
        host.engine = None
        host.reset()
        for witness in host.witnesses:
            witness.stopped(self, host.name, host.life)
        noticed = self.clock.now + self._detection
        self.clock.schedule(noticed, NETWORK, self._notice, host, host.life)

    def _notice(self, host: Host, life: int) -> None:
        """The neighbours find out, unless the node is back and they know already."""
        if host.life == life:
            for name in host.models:
                self._part(self._hosts[name], host)

    def _restart(self, host: Host, _: object) -> None:
        if host.engine is None:
            self._start(host)

    def _start(self, host: Host) -> None:
        host.life += 1
        host.engine = Engine(
            host.name,
            role=host.role,
            incarnation=host.life,
            templates=self.templates,
            services=self._services(),
            dice=_DiceOf(self.seed, host.name, host.life),
            secret=derive(self.seed, host.name, 0, "secret"),
            recorder=None if self._recorder is None else host.record,
        )
        for name, value in (self._shared | host.containers).items():
            self._tell(host, "set", name, value)
        for entry in self._channels.values():
            self._tell(host, "run", entry)
        for name in host.models:
            other = self._hosts[name]
            self._part(other, host)
            self._join(host, other)
        for witness in host.witnesses:
            witness.started(self, host.name, host.life)

    def _join(self, one: Host, other: Host) -> None:
        """Bring up both lanes between two nodes, if both are up, and tell both."""
        if one.engine is None or other.engine is None:
            return
        pairs = ((one, one.engine, other), (other, other.engine, one))
        for sender, engine, receiver in pairs:
            way = sender.ways.get(receiver.name)
            if way is None:
                model = sender.models[receiver.name]
                way = sender.ways[receiver.name] = Way(model, sender, engine, receiver)
            way.up = True
        for sender, _, receiver in pairs:
            self._tell(sender, "linked", receiver.name)

    def _part(self, host: Host, lost: Host) -> None:
        """Tell a node that its link to another is down, if it believes otherwise."""
        way = host.ways.get(lost.name)
        if way is not None and way.up:
            way.up = False
            self._tell(host, "unlinked", lost.name)

    def _pause(self, host: Host, end: float) -> None:
        if host.engine is not None:
            host.paused += 1
            self._at_fault(end, self._resume, host, host.life)

    def _resume(self, host: Host, life: int) -> None:
        if host.life != life or not host.paused:
            return
        host.paused -= 1
        if host.paused:
            return
        late, host.late = host.late, []
        for method, arguments in late:
            self._tell(host, method, *arguments)
        if host.serving is None:
            self._finish(host)
        self._serve(host)
        for witness in host.witnesses:
            witness.started(self, host.name, host.life)

    def _skew(self, host: Host, skew: rules.ClockSkew | None) -> None:
        if skew is None:
            host.skew = None
        else:
            host.skew = Skew(host.time() + nanoseconds(skew.offset), self.clock.now, skew.drift)

    def _at_fault(self, time: float, handler: Callable[[Any, Any], None], *arguments: Any) -> None:
        """At once if it is time: what is done before the world runs finds the fault there already."""
        at = nanoseconds(time)
        if at <= self.clock.now:
            handler(*(*arguments, None)[:2])
        else:
            self.clock.schedule(at, FAULT, handler, *arguments)

    def _begin(self, judge: tuple[int, rules.Judge], _: object) -> None:
        insort(self._judges, judge, key=_order)

    def _end(self, judge: tuple[int, rules.Judge], _: object) -> None:
        self._judges.remove(judge)

    # inputs of engines

    def _host(self, node: str) -> Host:
        host = self._hosts.get(node)
        if host is None:
            rules.known((node,), self._hosts.keys(), "node")
        assert host is not None
        return host

    def _up(self, node: str) -> tuple[Host, Engine]:
        host = self._host(node)
        if host.engine is None or host.paused:
            raise Closed(f"node {node!r} ({'paused' if host.paused else 'down'})")
        return host, host.engine

    def _tell(self, host: Host, method: str, *arguments: Any) -> None:
        """Give an engine an input by its name; it waits during a pause, and is gone if the node is down."""
        if host.paused:
            host.late.append((method, arguments))
        elif host.engine is not None:
            self._carry(host, getattr(host.engine, method)(host.time(), *arguments))

    def _arrive(self, way: Way, item: Item) -> None:
        host = way.receiver
        engine = host.engine
        if engine is None:
            self._lose(self._hosts[way.sender], way.engine, host.name, item, NODE_DOWN)
        elif host.free and not host.paused:
            self._carry(host, engine.receive(host.time(), way.sender, item))
        elif len(host.inbox) >= host.limit:
            self._lose(host, engine, way.sender, item, INBOX_FULL)
        else:
            host.inbox.append((way.sender, item))
            self._serve(host)

    def _serve(self, host: Host) -> None:
        """Let an idle server take what waits, until something costs time."""
        while host.inbox and host.work is None and not host.paused:
            host.work = host.inbox.popleft()
            cost = 0 if host.free else host.costs[_kind(host.work[1])]
            if cost:
                host.serving = self.clock.schedule(self.clock.now + cost, NETWORK, self._served, host)
            else:
                self._finish(host)

    def _served(self, host: Host, _: object) -> None:
        host.serving = None
        if not host.paused:
            self._finish(host)
            self._serve(host)

    def _finish(self, host: Host) -> None:
        """The work on an item, if there is one, takes effect."""
        if host.work is not None:
            (sender, item), host.work = host.work, None
            assert host.engine is not None
            self._carry(host, host.engine.receive(host.time(), sender, item))

    def _wake(self, host: Host, key: tuple[int, str]) -> None:
        del host.wakes[key]
        self._tell(host, "wake", *key)

    def _lose(self, host: Host, engine: Engine, peer: str, item: Item, reason: str) -> None:
        self._carry(host, engine.lost(host.time(), peer, item, reason))

    # effects of engines

    def _carry(self, host: Host, effects: list[Effect]) -> None:
        """Carry out effects in order; those caused meanwhile come after all of them."""
        if not effects:
            return
        if self._carrying:
            self._pending.append((host, effects))
            return
        self._carrying = True
        try:
            self._carry_out(host, effects)
            while self._pending:
                self._carry_out(*self._pending.popleft())
        finally:
            self._carrying = False

    def _carry_out(self, host: Host, effects: list[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Drop:
                self.drops[effect.reason] += 1  # type: ignore[attr-defined]
            elif host.engine is None:
                continue  # crashed by a witness in the middle of it
            elif kind is Send:
                self._send(host, effect)  # type: ignore[arg-type]
            elif kind is Deliver:
                self._deliver(host, effect)  # type: ignore[arg-type]
            elif kind is Wake:
                self._set_wake(host, effect)  # type: ignore[arg-type]
            elif kind is DeliverFeedback:
                self._deliver_feedback(host, effect)  # type: ignore[arg-type]
            elif kind is Reply:
                self._calls.pop(effect.call)(effect)  # type: ignore[attr-defined,arg-type]

    def _send(self, host: Host, send: Send) -> None:
        item = send.item
        size = len(encode(item))
        kind = _kind(item)
        for peer in send.to:
            for tap in self._taps:
                tap(host.name, peer, item)
            way = host.ways.get(peer)
            if way is None or not way.up:
                assert host.engine is not None
                self._lose(host, host.engine, peer, item, NO_LINK)
            else:
                self.messages[kind] += 1
                self.bytes[kind] += size
                self._transmit(host, way, item, size, kind)

    def _transmit(self, host: Host, way: Way, item: Item, size: int, kind: str) -> None:
        extra, copies = 0, 0
        dice, clock = self._dice, self.clock
        for _, judge in self._judges:
            verdict = judge(host.name, way.receiver.name, kind, dice)
            if type(verdict) is rules.Drop:
                self._lose(host, way.engine, way.receiver.name, item, verdict.reason)
                return
            if type(verdict) is rules.Delay:
                extra += verdict.by
            elif type(verdict) is rules.Duplicate:
                copies += 1
        arrives = way.carry(clock.now, size, dice, extra)
        if arrives < 0:
            reason = QUEUE_FULL if arrives == FULL else LOST_ON_THE_WAY
            self._lose(host, way.engine, way.receiver.name, item, reason)
            return
        clock.schedule(arrives, NETWORK, self._arrive, way, item)
        if way.duplicate:
            again = way.again(arrives, dice)
            if again >= 0:
                clock.schedule(again, NETWORK, self._arrive, way, item)
        for _ in range(copies):
            clock.schedule(way.copy(arrives, dice), NETWORK, self._arrive, way, item)

    def _deliver(self, host: Host, effect: Deliver) -> None:
        channel = self._channels[effect.channel].name
        for witness in host.witnesses:
            witness.delivered(
                self, host.name, host.life, channel, effect.subscription, effect.parcel, effect.picks
            )

    def _deliver_feedback(self, host: Host, effect: DeliverFeedback) -> None:
        channel = self._channels[effect.channel].name
        for witness in host.witnesses:
            witness.feedback(self, host.name, host.life, channel, effect.parcel)

    def _set_wake(self, host: Host, wake: Wake) -> None:
        key = (wake.channel, wake.name)
        earlier = host.wakes.pop(key, None)
        if earlier is not None:
            self.clock.cancel(earlier)
        if wake.at is not None:
            at = wake.at
            if host.skew is not None:
                at = host.skew.true(self.clock.now, host.time(), at)
            host.wakes[key] = self.clock.schedule(at, TIMER, self._wake, host, key)


class _DiceOf:
    """Makes the dice of one life of a node, by label."""

    __slots__ = ("_life", "_node", "_seed")

    def __init__(self, seed: int, node: str, life: int) -> None:
        self._seed, self._node, self._life = seed, node, life

    def __call__(self, label: str) -> SeededDice:
        return SeededDice(self._seed, self._node, self._life, label)


def _kind(item: Item) -> str:
    if type(item) is Control:
        return "control"
    return "parcel" if item.header.answers is None else "feedback"  # type: ignore[union-attr]


def _order(judge: tuple[int, rules.Judge]) -> int:
    return judge[0]


def _call(action: Callable[[], None], _: object) -> None:
    action()
