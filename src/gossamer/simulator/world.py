"""The world: one simulated network. It hosts an engine per node and carries out effects in virtual time.

Promises: the same seed and the same calls leave the same trace, whatever PYTHONHASHSEED is; templates run
as they are, the very classes that the runtime runs.

The world is what scenarios, agents and tests call; ``carrier`` carries out effects, ``lives`` begins and
ends the lives of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gossamer.catalog import templates as installed_templates
from gossamer.core.context import BANDWIDTH, BELOW, NODES, SERVER
from gossamer.core.effect import Reply
from gossamer.core.engine import Engine
from gossamer.core.errors import ChannelExists, Closed, ConfigError, UnknownTemplate
from gossamer.core.event import NO_ENVELOPE, Criteria, Envelope
from gossamer.core.names import NANOSECONDS, Role, channel_id, check_channel, check_node, last, nanoseconds
from gossamer.core.operations import MoreHistory, ReadHistory
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Receipt
from gossamer.core.template import Template
from gossamer.core.trace import Recorder
from gossamer.core.wire import decode
from gossamer.overlay.directory.service import Entry
from gossamer.simulator.clock import APPLICATION, Clock
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.effects import Carrier, Tap
from gossamer.simulator.host import Host
from gossamer.simulator.lives import Lives
from gossamer.simulator.network import rules
from gossamer.simulator.network.access_lines import Access, Line
from gossamer.simulator.network.field import Field
from gossamer.simulator.network.link_models import LinkModel, NodeModel
from gossamer.simulator.tally import Traffic
from gossamer.simulator.workload.observers import Witness


class World:
    """A seed, nodes, links, rules and a virtual clock.

    templates
        Classes by name; those installed if not given.
    recorder
        Takes the rows of the trace; None traces nothing.
    services
        Makes the services of one life of a node, such as the directory, from what its earlier lives stored.
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
        services: Callable[[Mapping[str, bytes]], Iterable[Template[Any]]] = lambda stored: (),
        link: LinkModel | None = None,
        node: NodeModel | None = None,
        detection: float = 1.0,
    ) -> None:
        self.seed = seed
        self.templates = installed_templates() if templates is None else templates
        self.clock = Clock()
        self._carrier = Carrier(self, self.clock, self.dice("network").made())
        self._services = [service.name for service in services({})]
        self._lives = Lives(self, self._carrier, services, nanoseconds(detection))
        self.drops = self._carrier.drops
        """Drops by reason."""
        self.tally = self._carrier.tally
        """Transmissions by channel, and what else there is to count."""
        self._recorder = recorder
        self._link = link or LinkModel()
        self._node = node or NodeModel()
        self._hosts = self._carrier.hosts
        self._channels = self._carrier.channels
        self.witnesses: list[Witness] = []
        self._rules = 0
        self._call = 0

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

    def template(self, channel: str) -> type[Template[Any]]:
        """The class that a channel was made of."""
        return self.templates[self._channels[channel_id(channel)].template]

    def recovery(self, channel: str) -> float:
        """Seconds after the last fault by which a channel makes progress again, as its template says."""
        kind = self.template(channel)
        return kind.recovery(kind.parse(dict(self._channels[channel_id(channel)].settings)))

    def container(self, node: str, name: str) -> Any:
        """What a container of a node was set to from outside; None if it was not."""
        return self._host(node).containers.get(name)

    def address(self, node: str) -> str:
        """The path from the backbone down to a node."""
        server: str | None = self.container(node, SERVER)
        return f"{server}/{node}" if server else node

    def connected(self, node: str) -> bool:
        """Whether a node is up and not paused, and so are those that it hangs below."""
        return all(self.running(each) for each in self.address(node).split("/"))

    def since(self, node: str) -> int:
        """The instant since which a node and its servers have neither moved nor begun anew."""
        return max(self._host(each).since for each in self.address(node).split("/"))

    def calm(self, seconds: float) -> bool:
        """Whether no fault has begun or ended for so long, and those before keep no living nodes apart."""
        engines = [host.engine for host in self._hosts.values()]
        mends = None not in engines or any(each and NODES in each.containers for each in engines)
        quiet = self.clock.now - self._carrier.disturbed
        return mends and not self._carrier.severed and quiet >= nanoseconds(seconds)

    @property
    def figures(self) -> dict[str, dict[str, int]]:
        """What templates counted, by channel and name, summed over nodes and their lives."""
        return self.tally.figures(host.engine for host in self._hosts.values() if host.engine)

    @property
    def messages(self) -> Counter[str]:
        """Transmissions by kind of item: parcel, feedback, control."""
        return self.tally.messages

    def traffic(self) -> dict[str, Traffic]:
        """Transmissions by channel and service."""
        names = {channel_id(name): name for name in self._services}
        names |= {number: entry.name for number, entry in self._channels.items()}
        return {names[number]: traffic for number, traffic in self.tally.channels.items()}

    def kept(self, channel: str) -> Iterator[Parcel]:
        """What the logs of all nodes hold of a channel."""
        for node in self._hosts:
            log = self._carrier.storage.log(node, channel_id(channel))
            for record in log.read(log.begin, log.end)[1]:
                item = decode(record)
                if isinstance(item, Parcel):
                    yield item

    def copies(self, channel: str, event: tuple[tuple[str, int], int]) -> tuple[int, int]:
        """On how many disks an event is, and how many make a majority of the voters; 0 if none leads."""
        engines = [host.engine for host in self._hosts.values() if host.engine is not None]
        told = [each.instance(channel).template.quorum() for each in engines if channel in each.channels]
        majority = min(filter(None, told), default=0)
        if not majority:
            return 0, 0
        disks = self._carrier.storage.disks(self._hosts.values(), channel_id(channel), event)
        return disks, majority

    def dice(self, label: str) -> SeededDice:
        """Dice of the world's own for a purpose; ask once per label."""
        return SeededDice(self.seed, label=label)

    # building

    def add_node(self, name: str, role: Role = Role.PEER, model: NodeModel | None = None) -> None:
        """A new node, up and running."""
        if check_node(name) in self._hosts:
            raise ConfigError(f"there are two nodes {name!r}", key="node")
        host = Host(name, role, model or self._node, self.clock, self._recorder)
        host.witnesses.extend(self.witnesses)
        self._hosts[name] = host
        self._lives.start(host)

    def link(self, a: str, b: str, model: LinkModel | None = None) -> None:
        """Join two nodes; both are told at once."""
        one, other = self._host(a), self._host(b)
        if one is other or b in one.models:
            raise ConfigError(f"{a!r} and {b!r} cannot be joined (again)", key="link")
        one.models[b] = other.models[a] = model or self._link
        self._lives.join(one, other)

    def spread(self, field: Field) -> None:
        """Let all pairs of nodes talk, as far from each other as they are; nobody is told of these links."""
        places = field.places
        self._carrier.reach = lambda a, b: (
            field.model(a, b, self._link) if a in places and b in places else None
        )

    def connect(self, node: str, access: Access) -> None:
        """Give a node an access line that all its links share; it is told what it can send."""
        self._host(node).line = Line(access)
        self.set(node, BANDWIDTH, access.up)

    def unlink(self, a: str, b: str) -> None:
        """Part two nodes; both are told at once."""
        one, other = self._host(a), self._host(b)
        if b not in one.models:
            raise ConfigError(f"{a!r} and {b!r} are not joined", key="link")
        self._lives.part(one, other)
        self._lives.part(other, one)
        one.ways.pop(b, None)
        other.ways.pop(a, None)
        del one.models[b], other.models[a]

    def relocate(self, node: str, server: str) -> None:
        """Let a node leave its server and hang below another; all three are told at once."""
        before = last(self.container(node, SERVER) or "")
        if before:
            self.unlink(before, node)
            self.set(before, BELOW, tuple(each for each in self.container(before, BELOW) if each != node))
        self._host(node).since = self.clock.now
        self.set(node, SERVER, self.address(server))
        self.link(server, node)
        self.set(server, BELOW, tuple(sorted((*(self.container(server, BELOW) or ()), node))))

    def set(self, node: str | None, name: str, value: object) -> None:
        """Set a container of a node, or of all nodes with None, in all their lives."""
        if node is None:
            self._lives.shared[name] = value
        for host in self._hosts.values() if node is None else (self._host(node),):
            host.containers[name] = value
            self._carrier.tell(host, "set", name, value)

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
        for witness in self.witnesses:
            witness.opened(self, name, kind.promises)
        for host in self._hosts.values():
            self._carrier.tell(host, "run", entry)

    def add_witness(self, witness: Witness, node: str | None = None) -> None:
        """Let somebody look on, at one node or at all; tell them first what channels there are."""
        if node is None:
            self.witnesses.append(witness)
            for host in self._hosts.values():
                host.witnesses.append(witness)
        else:
            self._host(node).witnesses.append(witness)
        for entry in self._channels.values():
            witness.opened(self, entry.name, self.templates[entry.template].promises)

    def add_tap(self, tap: Tap) -> None:
        """Let somebody see every transmission."""
        self._carrier.taps.append(tap)

    def add_rule(self, rule: rules.AnyRule, key: str = "rule") -> None:
        """Put a rule at the end of the list; raises ConfigError naming what is wrong below ``key``."""
        rule.check(self._hosts.keys(), key)
        match rule:
            case rules.Crash(node=node, at=at):
                self.clock.appoint(nanoseconds(at), self._lives.crash, self._hosts[node])
            case rules.Restart(node=node, at=at):
                self.clock.appoint(nanoseconds(at), self._lives.restart, self._hosts[node])
            case rules.Pause(node=node, start=start, end=end):
                self.clock.appoint(nanoseconds(start), self._lives.pause, self._hosts[node], end)
            case rules.ClockSkew(node=node, start=start, end=end):
                self.clock.appoint(nanoseconds(start), self._lives.skew, self._hosts[node], rule)
                if end is not None:
                    self.clock.appoint(nanoseconds(end), self._lives.skew, self._hosts[node], None)
            case rules.Loss() | rules.Lag() | rules.Echo() | rules.Partition():
                self._rules += 1
                judge = (self._rules, rule.judge())
                self.clock.appoint(nanoseconds(rule.start), self._carrier.begin, judge, rule.severs)
                if rule.end is not None:
                    self.clock.appoint(nanoseconds(rule.end), self._carrier.end, judge, rule.severs)

    # what applications do

    def subscribe(self, node: str, channel: str, criteria: Criteria | None = None) -> int:
        """Want events on a node; the subscription's number. It ends with the node's life."""
        host, engine = self._up(node)
        criteria = criteria or Criteria()
        number, effects = engine.subscribe(host.time(), channel, criteria)
        for witness in host.witnesses:
            witness.subscribed(self, node, host.life, channel, number, criteria)
        self._carrier.carry(host, effects)
        return number

    def replay(self, node: str, channel: str, subscription: int) -> None:
        """Have the history sent to a subscription, as fast as it comes."""
        host, _ = self._up(node)
        life = host.life
        for witness in host.witnesses:
            witness.replaying(self, node, life, channel, subscription)

        def more(_: Reply) -> None:
            if host.life == life and self.running(node):
                self.call(node, channel, MoreHistory(subscription), lambda _: None)

        self.call(node, channel, ReadHistory(subscription), more)

    def unsubscribe(self, node: str, channel: str, subscription: int) -> None:
        """Want no more."""
        host, engine = self._up(node)
        effects = engine.unsubscribe(host.time(), channel, subscription)
        for witness in host.witnesses:
            witness.unsubscribed(self, node, host.life, channel, subscription)
        self._carrier.carry(host, effects)

    def publish(self, node: str, channel: str, payload: bytes = b"", envelope: Envelope = NO_ENVELOPE) -> int:
        """Publish one event as a parcel of its own; its number."""
        host, engine = self._up(node)
        number = engine.publish(channel, payload, envelope)
        for witness in host.witnesses:
            witness.published(self, node, host.life, channel, number, payload, envelope)
        self._carrier.carry(host, engine.seal(host.time(), channel))
        return number

    def intend(self, node: str, channel: str) -> None:
        """Say that a node is about to publish."""
        host, engine = self._up(node)
        self._carrier.carry(host, engine.intend(host.time(), channel))

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
        self._carrier.carry(host, effects)

    def call(self, node: str, service: str, request: Any, then: Callable[[Reply], None]) -> None:
        """Ask a service of a node; ``then`` takes the reply, now or later, or each of several."""
        host, engine = self._up(node)
        self._call += 1
        self._carrier.calls[self._call] = then
        self._carrier.carry(host, engine.call(host.time(), service, self._call, request))

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
        self._lives.crash(self._host(node), None)

    def restart(self, node: str) -> None:
        """Begin the next life of a node that is down."""
        self._lives.restart(self._host(node), None)

    # inside

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


def _call(action: Callable[[], None], _: object) -> None:
    action()
