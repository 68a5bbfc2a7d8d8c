"""A lean simulation of dispatching: the clock, the lanes and the workload of a world, without its engines.

Promises: dispatchers receive just the events, and links just the copies, that they would in a world of the
dispatch template with the same workload; ``tests/whatif`` compares them. Filters are taken to be in place
when traffic begins; their number is counted, they take no time. Topologies for which there is no template yet
are simulated in this way only.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.simulator.clock import APPLICATION, NETWORK, Clock
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.invariants.quantiles import Quantiles
from gossamer.simulator.network.link_models import Lane
from gossamer.whatif.measures import Measures
from gossamer.whatif.places import Places, frame
from gossamer.whatif.propagation import Told
from gossamer.whatif.script import Question
from gossamer.whatif.workload import PROACTIVE, Publication, Workload, answer, attributes


class Route(msgspec.Struct, gc=False):
    """Where events of one kind go.

    steps
        Next nodes, by node.
    here
        Agents that listen, by node.
    asked
        The agent that gets answers from who listens; -1 if nobody answers.
    size
        Bytes of an event on a link.
    """

    steps: dict[int, tuple[int, ...]]
    here: dict[int, tuple[int, ...]]
    asked: int
    size: int


Item = tuple[Route, int]
"""An event on its way: where it goes, and when it was published."""


class Model:
    """One run."""

    def __init__(self, question: Question, seed: int) -> None:
        self.question = question
        self.workload = Workload(question, seed)
        self.places = Places(question)
        self.clock = Clock()
        self.bytes: Counter[tuple[int, int]] = Counter()
        """Handed to each hop."""
        self.received = [0] * self.places.count
        self._arrived = [0] * self.places.dispatchers
        self._everywhere = question.propagation == "subscription"
        self._dice = SeededDice(seed, label="network")
        self._lanes: dict[tuple[int, int], Lane] = {}
        self._cost = nanoseconds(question.dispatcher.event)
        self._free = [0] * self.places.dispatchers
        self._routes: dict[tuple[int, int], Route] = {}
        self._answers: dict[tuple[int, int], Route] = {}
        self._latency = Quantiles()
        self._waited = self._deliveries = self._published = 0
        middle = len(self.workload.agents) // 2
        self._notice = frame(question, self.places, attributes(middle, question.traffic.kinds - 1))
        self._reply = frame(question, self.places, answer(middle))

    def run(self) -> Measures:
        """Let the window pass."""
        for each in self.workload.publications():
            self.clock.schedule(each.at, APPLICATION, self._turn, each)
        self.clock.run(nanoseconds(self.question.window))
        return self._measures()

    # events

    def _turn(self, publication: Publication, _: object) -> None:
        key = (publication.agent, publication.kind)
        route = self._routes.get(key)
        if route is None:
            route = self._routes[key] = self._made(*key)
        self._publish(publication.agent, route)

    def _made(self, agent: int, kind: int) -> Route:
        own = self.workload.agents[agent]
        asked = agent if own.role == PROACTIVE else -1
        return self._route(self.places.node(own), self.workload.listeners[agent, kind], asked, self._notice)

    def _route(self, start: int, listeners: tuple[int, ...], asked: int, size: int) -> Route:
        here: dict[int, tuple[int, ...]] = {}
        for listener in listeners:
            node = self.places.node(self.workload.agents[listener])
            here[node] = (*here.get(node, ()), listener)
        return Route(self.places.route(start, here, self._everywhere), here, asked, size)

    def _publish(self, agent: int, route: Route) -> None:
        self._published += 1
        self._handle(self.places.node(self.workload.agents[agent]), (route, self.clock.now))

    def _answer(self, agent: int, asked: int) -> None:
        key = (self.places.node(self.workload.agents[agent]), asked)
        route = self._answers.get(key)
        if route is None:
            route = self._answers[key] = self._route(key[0], (asked,), -1, self._reply)
        self._publish(agent, route)

    # nodes and links

    def _arrive(self, node: int, item: Item) -> None:
        """A copy reaches a node, and waits there until it has been worked on."""
        if node >= self.places.dispatchers:
            self._handle(node, item)
            return
        self._arrived[node] += 1
        if not self._cost:
            self._handle(node, item)
            return
        self._free[node] = max(self.clock.now, self._free[node]) + self._cost
        self.clock.schedule(self._free[node], NETWORK, self._handle, node, item)

    def _handle(self, node: int, item: Item) -> None:
        route, born = item
        self.received[node] += 1
        for other in route.steps.get(node, ()):
            self._send(node, other, item)
        for listener in route.here.get(node, ()):
            self._deliveries += 1
            self._waited += self.clock.now - born
            self._latency.add(self.clock.now - born)
            if route.asked >= 0:
                self._answer(listener, route.asked)

    def _send(self, node: int, other: int, item: Item) -> None:
        hop = (node, other)
        lane = self._lanes.get(hop)
        if lane is None:
            lane = self._lanes[hop] = Lane(self.question.lanes)
        self.bytes[hop] += item[0].size
        arrives = lane.carry(self.clock.now, item[0].size, self._dice)
        if arrives >= 0:
            self.clock.schedule(arrives, NETWORK, self._arrive, other, item)

    # figures

    def _measures(self) -> Measures:
        window, dispatchers = self.question.window, self.places.dispatchers
        filters, extra = Told(self.workload, self.places).received()
        links = self.places.shape.links
        return Measures(
            method="model",
            loads=[float(each) for each in self.received[:dispatchers]],
            busy=[each * self._cost / NANOSECONDS / window for each in self._arrived],
            toward=[self._used(b, a) for a, b in links],
            away=[self._used(a, b) for a, b in links],
            access=self._access(),
            filters=filters,
            extra=extra,
            latency=self._waited / self._deliveries / NANOSECONDS if self._deliveries else 0.0,
            latency_p99=self._latency.seconds(0.99),
            published=self._published,
            deliveries=self._deliveries,
        )

    def _used(self, sender: int, receiver: int) -> float:
        bandwidth = self.question.link.bandwidth
        offered = self.bytes[sender, receiver] / self.question.window
        return offered / bandwidth if bandwidth else 0.0

    def _access(self) -> tuple[float, float]:
        hosts = range(self.places.dispatchers, self.places.count)
        if not hosts:
            return 0.0, 0.0
        up = sum(self._used(host, self.places.home(host)) for host in hosts)
        down = sum(self._used(self.places.home(host), host) for host in hosts)
        return up / len(hosts), down / len(hosts)


def simulate(question: Question, seed: int) -> Measures:
    """One run of the lean model."""
    return Model(question, seed).run()
