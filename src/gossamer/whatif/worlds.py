"""Simulation with the dispatch template itself, in a world: the same workload, and everything it costs.

Filters are told first, for as long as that takes; then traffic begins. What is measured is read from the
trace.
"""

from __future__ import annotations

from collections import Counter

from gossamer.core import trace
from gossamer.core.context import BELOW, SERVER, TREE
from gossamer.core.event import Envelope
from gossamer.core.names import NANOSECONDS, Role, nanoseconds
from gossamer.core.operations import Advertise
from gossamer.core.parcel import Parcel
from gossamer.core.trace import Row
from gossamer.core.tree import Tree
from gossamer.simulator.clock import APPLICATION
from gossamer.simulator.invariants.quantiles import Quantiles
from gossamer.simulator.network.link_models import NodeModel
from gossamer.simulator.workload.observers import Witness
from gossamer.simulator.world import World
from gossamer.templates.dispatch.messages import TOLD_BYTES
from gossamer.whatif.measures import Measures
from gossamer.whatif.places import CHANNEL, Places
from gossamer.whatif.script import Question
from gossamer.whatif.workload import REACTIVE, Publication, Workload, answer, attributes

STEP = 10.0
"""Seconds without a word about filters after which all are told, at least."""


class Meter:
    """Counts rows of the trace: events that nodes receive, bytes that they send, messages about filters."""

    def __init__(self) -> None:
        self.received: Counter[str] = Counter()
        self.over_links: Counter[str] = Counter()
        """Of what was received, what came from another node."""
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.control: Counter[tuple[str, str]] = Counter()
        """Messages about filters, by sender and receiver."""
        self.published = 0
        self.begun = False
        """Whether all filters are told and traffic has begun."""

    def __call__(self, row: Row) -> None:
        node, kind, action, peer = row[2], row[4], row[5], row[12]
        if kind == trace.CONTROL:
            if action == trace.RECEIVED and not self.begun:
                self.control[peer, node] += 1
        elif action == trace.RECEIVED:
            self.received[node] += 1
            self.over_links[node] += 1
        elif action == trace.PUBLISHED:
            self.received[node] += 1
            self.published += 1
        if action == trace.SENT:
            self.bytes[node, peer] += row[13]

    def begin(self) -> None:
        """Traffic begins: forget what was sent before."""
        self.bytes.clear()
        self.begun = True


class Delivery(Witness):
    """Looks on at deliveries, and lets reactive agents answer.

    owners
        Agents by node and number of their subscription.
    """

    def __init__(self, workload: Workload) -> None:
        self.owners: dict[tuple[str, int], int] = {}
        self.count = self.waited = 0
        self.latency = Quantiles()
        self._workload = workload

    def delivered(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        subscription: int,
        parcel: Parcel,
        picks: tuple[int, ...] | None,
    ) -> None:
        waited = world.clock.now - parcel.header.sent
        self.count += 1
        self.waited += waited
        self.latency.add(waited)
        heard = (parcel.attributes or [None])[0] or {}
        owner = self._workload.agents[self.owners[node, subscription]]
        if owner.role == REACTIVE:
            payload = bytes(self._workload.question.traffic.size)
            world.publish(node, channel, payload, Envelope(answer(int(heard["agent"]))))


class Trial:
    """One run in a world."""

    def __init__(self, question: Question, seed: int) -> None:
        self.question = question
        self.workload = Workload(question, seed)
        self.places = Places(question)
        self.meter = Meter()
        self.delivery = Delivery(self.workload)
        self.world = World(seed, recorder=self.meter, link=question.lanes)
        self._build()
        self._agents()

    def _build(self) -> None:
        world, places, names = self.world, self.places, self.places.names
        costs = NodeModel(
            parcel=self.question.dispatcher.event, control=self.question.dispatcher.control, inbox=10_000_000
        )
        for name in names[: places.dispatchers]:
            world.add_node(name, Role.BACKBONE, costs)
        for a, b in places.shape.links:
            world.link(names[a], names[b])
        if places.shape.links:
            world.set(None, TREE, Tree([(names[a], names[b]) for a, b in places.shape.links]))
        below: dict[str, tuple[str, ...]] = {}
        for host in range(places.dispatchers, places.count):
            server = names[places.home(host)]
            world.add_node(names[host], Role.CLIENT)
            world.link(server, names[host])
            world.set(names[host], SERVER, server)
            below[server] = (*below.get(server, ()), names[host])
        for server, hosts in below.items():
            world.set(server, BELOW, hosts)
        settings = {
            "propagation": self.question.propagation,
            "root": names[places.shape.core[0]],
            "retry": 600.0,  # nothing gets lost here, and slow links only look as if
            "ack": 600.0,
            "waiting": 2**32,
        }
        world.open(CHANNEL, "dispatch", settings)
        world.add_witness(self.delivery)

    def _agents(self) -> None:
        kinds = self.question.traffic.kinds
        for agent, wanted in self.workload.subscriptions():
            node = self.places.names[self.places.node(agent)]
            number = self.world.subscribe(node, CHANNEL, wanted.criteria(kinds))
            self.delivery.owners[node, number] = agent.number
        for agent, offered in self.workload.advertisements():
            node = self.places.names[self.places.node(agent)]
            request = Advertise(offered.criteria(kinds))
            self.world.call(node, CHANNEL, request, lambda reply: None)

    def run(self) -> Measures:
        """Let filters be told and the window pass."""
        bandwidth = self.question.link.bandwidth
        step = STEP + (4 * TOLD_BYTES / bandwidth if bandwidth else 0.0)
        told = -1
        while told != (told := self.meter.control.total()):
            self.world.run(self.world.now + step)
        self.meter.begin()
        since = self.world.clock.now
        for each in self.workload.publications():
            self.world.clock.schedule(since + each.at, APPLICATION, self._publish, each)
        self.world.run((since + nanoseconds(self.question.window)) / NANOSECONDS)
        return self._measures()

    def _publish(self, publication: Publication, _: object) -> None:
        node = self.places.names[self.places.node(self.workload.agents[publication.agent])]
        payload = bytes(self.question.traffic.size)
        self.world.publish(node, CHANNEL, payload, Envelope(attributes(publication.agent, publication.kind)))

    # figures

    def _measures(self) -> Measures:
        names, window = self.places.names, self.question.window
        dispatchers = names[: self.places.dispatchers]
        filters, extra = self._filters()
        delivery = self.delivery
        return Measures(
            method="template",
            loads=[float(self.meter.received[name]) for name in dispatchers],
            busy=[
                self.meter.over_links[name] * self.question.dispatcher.event / window for name in dispatchers
            ],
            toward=[self._used(names[b], names[a]) for a, b in self.places.shape.links],
            away=[self._used(names[a], names[b]) for a, b in self.places.shape.links],
            access=self._access(),
            filters=filters,
            extra=extra,
            latency=delivery.waited / delivery.count / NANOSECONDS if delivery.count else 0.0,
            latency_p99=delivery.latency.seconds(0.99),
            published=self.meter.published,
            deliveries=delivery.count,
            messages=self._messages(),
        )

    def _filters(self) -> tuple[list[float], list[float]]:
        """What dispatchers know of each other's filters, and what of it advertisements brought about."""
        shape, names = self.places.shape, self.places.names
        every, extra = [0.0] * shape.size, [0.0] * shape.size
        for a, b in shape.links:
            for sender, receiver in ((a, b), (b, a)):
                subscriptions, advertisements = self.told(names[sender], names[receiver])
                every[receiver] += subscriptions + advertisements
                extra[receiver] += advertisements + (subscriptions if sender == a else 0)
        return every, extra

    def told(self, sender: str, receiver: str) -> tuple[int, int]:
        """How many subscriptions and advertisements a node has told another."""
        engine = self.world.engine(receiver)
        assert engine is not None
        said = engine.instance(CHANNEL).template.telling.said.get(sender)  # type: ignore[attr-defined]
        table = said.table if said else {}
        advertised = sum(key[0] for key in table)
        whole = any(
            not criteria for criteria in table.values()
        )  # that anybody listens elsewhere is no filter
        return len(table) - advertised - whole, advertised

    def _messages(self) -> list[float]:
        names = self.places.names[: self.places.dispatchers]
        count: Counter[str] = Counter()
        for (sender, receiver), number in self.meter.control.items():
            count[receiver] += number if sender in names else 0
        return [float(count[name]) for name in names]

    def _used(self, sender: str, receiver: str) -> float:
        bandwidth = self.question.link.bandwidth
        offered = self.meter.bytes[sender, receiver] / self.question.window
        return offered / bandwidth if bandwidth else 0.0

    def _access(self) -> tuple[float, float]:
        names, hosts = self.places.names, range(self.places.dispatchers, self.places.count)
        if not hosts:
            return 0.0, 0.0
        pairs = [(names[host], names[self.places.home(host)]) for host in hosts]
        up = sum(self._used(host, home) for host, home in pairs)
        down = sum(self._used(home, host) for host, home in pairs)
        return up / len(hosts), down / len(hosts)


def simulate(question: Question, seed: int) -> Measures:
    """One run of the template."""
    return Trial(question, seed).run()
