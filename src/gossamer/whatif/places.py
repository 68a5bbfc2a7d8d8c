"""Nodes of a simulated network: dispatchers first, then the hosts of each site; and frames between them."""

from __future__ import annotations

from collections.abc import Iterable

from gossamer.core.event import Attributes
from gossamer.core.names import channel_id
from gossamer.core.parcel import Header, Parcel, make_body
from gossamer.core.receipt import PROOF_BYTES, Stamp
from gossamer.core.wire import encode
from gossamer.templates.dispatch.ordered_hop import RELAYS
from gossamer.whatif.script import Question
from gossamer.whatif.topology import shape
from gossamer.whatif.workload import Agent

CHANNEL = "events"


class Places:
    """Which node is where: numbers, names, and who hangs below whom."""

    def __init__(self, question: Question) -> None:
        self.shape = shape(question.topology)
        self.hosts = question.topology.hosts
        self.dispatchers = self.shape.size
        sites = len(self.shape.homes)
        self.count = self.dispatchers + sites * self.hosts
        self.above = [self.shape.homes[number // self.hosts] for number in range(sites * self.hosts)]
        """For each host the dispatcher that it hangs below."""
        width = len(str(sites))
        self.names = [
            *self.shape.names,
            *(f"s{n // self.hosts + 1:0{width}d}-h{n % self.hosts + 1}" for n in range(sites * self.hosts)),
        ]

    def node(self, agent: Agent) -> int:
        """The node that an agent is on."""
        if self.hosts:
            return self.dispatchers + agent.site * self.hosts + agent.host
        return self.shape.homes[agent.site]

    def home(self, node: int) -> int:
        """The dispatcher that a node is, or hangs below."""
        return node if node < self.dispatchers else self.above[node - self.dispatchers]

    def route(self, start: int, targets: Iterable[int], everywhere: bool) -> dict[int, tuple[int, ...]]:
        """Where an event goes from each node that it comes to: shortest ways to all targets.

        everywhere
            Whether it has to go to the core too, wherever the targets are.
        """
        wanted = {node for node in targets if node != start}
        ends = {self.home(node) for node in wanted} | (set(self.shape.core) if everywhere else set())
        steps: dict[int, dict[int, None]] = {}
        first = self.home(start)
        if start != first and ends:
            steps[start] = {first: None}
        before = self.shape.routes.before[first]
        for end in sorted(ends):
            while end != first:
                last = int(before[end])
                if end in steps.setdefault(last, {}):
                    break
                steps[last][end] = None
                end = last
        for node in sorted(wanted):
            if node >= self.dispatchers:
                steps.setdefault(self.home(node), {})[node] = None
        return {node: tuple(sorted(after)) for node, after in steps.items()}


def frame(question: Question, places: Places, own: Attributes) -> int:
    """Bytes of a typical event on a link, as the wire has it.

    own
        Its attributes.
    """
    traffic = question.traffic
    publishing = traffic.sources + traffic.proactive
    number = round(question.window * traffic.rate * publishing / max(1, places.hosts) / 2)
    address = (
        "/".join(dict.fromkeys((places.names[0], places.names[-1]))) if places.hosts else places.names[0]
    )
    body, split = make_body([bytes(traffic.size)], [own])
    stamp = Stamp(address, 1, number, number, 1, bytes(PROOF_BYTES))
    parcel = Parcel(Header(channel_id(CHANNEL), stamp, 10**11, split), body)
    return len(encode(parcel.relayed((RELAYS, number))))
