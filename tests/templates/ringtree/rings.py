"""Worlds for tests of ringtree: nodes that all reach each other, one channel, and who got what from whom."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from gossamer.core.context import NODES, REGION
from gossamer.core.event import NO_ENVELOPE, Criteria, Envelope
from gossamer.core.parcel import Parcel
from gossamer.core.wire import Item
from gossamer.simulator.invariants.checks import Ledger
from gossamer.simulator.network.field import Field
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.workload.observers import Witness
from gossamer.simulator.world import World
from gossamer.templates.ringtree.messages import Seat
from gossamer.templates.ringtree.registrar import Registrar
from gossamer.templates.ringtree.template import RingTree

CHANNEL = "news"
SERVER = "s0"


class Ring(Witness):
    """Members m0, m1 … in the order of their slots, and publishers p0, p1 …, as many as ring 0 needs.

    got
        Numbers of events by node.
    hops
        Sender, receiver and parcel of every transmission.
    """

    def __init__(
        self,
        members: int = 0,
        publishers: int = 0,
        *,
        kind: type[RingTree] = RingTree,
        servers: Mapping[str, Iterable[str]] | None = None,
        seed: int = 1,
        link: LinkModel | None = None,
        **settings: Any,
    ) -> None:
        self.kind = kind
        self.servers = servers or {"": (SERVER,)}
        self.world = World(seed, templates={kind.name: kind}, link=link)
        self.ledger = Ledger()
        self.got: dict[str, list[int]] = defaultdict(list)
        self.hops: list[tuple[str, str, Parcel]] = []
        self.world.add_witness(self.ledger)
        self.world.add_witness(self)
        self.world.add_tap(self.tap)
        named = [name for each in self.servers.values() for name in each]
        self.names = [*named, *names("p", publishers), *names("m", members)]
        for name in self.names:
            self.world.add_node(name)
        self.field = Field(self.names, 0.01, 0.0, self.world.dice("places"))
        self.world.spread(self.field)
        self.world.set(None, NODES, dict.fromkeys(self.names, ()))
        parts = ((f"{region}: " if region else "") + " ".join(each) for region, each in self.servers.items())
        text = "; ".join(parts)
        self.world.open(CHANNEL, kind.name, {"servers": text, **settings})
        for number, name in enumerate(names("m", members)):  # one after the other, so that slots are known
            self.world.at(2.0 + number * 0.001, lambda name=name: self.join(name))  # type: ignore[misc]
        for name in names("p", publishers):
            self.world.at(1.5, lambda name=name: self.offer(name))  # type: ignore[misc]
        if members:
            self.world.run(5.0 + members * 0.001)

    def add(self, *new: str, region: str = "") -> None:
        """Nodes that come later."""
        for name in new:
            self.world.add_node(name)
            self.names.append(name)
            self.field.places[name] = (0.0, 0.0)
            self.world.set(name, REGION, region)
        self.world.set(None, NODES, dict.fromkeys(self.names, ()))

    def join(self, name: str, criteria: Criteria | None = None) -> int:
        return self.world.subscribe(name, CHANNEL, criteria)

    def offer(self, name: str) -> None:
        """Let a node say that it is about to publish."""
        self.world.intend(name, CHANNEL)

    def kill(self, *dead: str) -> None:
        for name in dead:
            self.world.crash(name)

    def publish(self, node: str = "p0", envelope: Envelope = NO_ENVELOPE, wait: float = 2.0) -> int:
        """Publish an event and let it travel."""
        number = self.world.publish(node, CHANNEL, b"", envelope)
        self.world.run(self.world.now + wait)
        return number

    def reached(self, node: str = "p0", wait: float = 2.0) -> set[str]:
        """Publish an event; who gets it."""
        self.hops.clear()
        before = {name: len(numbers) for name, numbers in self.got.items()}
        self.publish(node, wait=wait)
        return {name for name, numbers in self.got.items() if len(numbers) > before.get(name, 0)}

    def lost(self, node: str = "p0", wait: float = 2.0) -> set[str]:
        """Publish an event; which living members do not get it."""
        return self.members() - self.reached(node, wait)

    def members(self) -> set[str]:
        return {name for name in self.names if name[0] == "m" and self.world.running(name)}

    def loads(self) -> Counter[str]:
        """Copies that each node sent of the events since the last ``reached``."""
        return Counter(sender for sender, _, _ in self.hops)

    def feeders(self, node: str) -> list[str]:
        """Who sent copies to a node, the first first."""
        return [sender for sender, receiver, _ in self.hops if receiver == node]

    def at(self, node: str) -> RingTree:
        """The template as it runs on a node."""
        engine = self.world.engine(node)
        assert engine is not None
        template = engine.instance(CHANNEL).template
        assert isinstance(template, RingTree)
        return template

    def registrars(self) -> dict[str, Registrar]:
        """Who serves, by node."""
        up = (name for name in self.names if self.world.running(name))
        return {name: each for name in up if (each := self.at(name).service.registrar) is not None}

    def seats(self) -> dict[str, Seat | None]:
        """What members think where they are."""
        return {name: self.at(name).member.seat for name in sorted(self.members())}

    def listed(self) -> dict[str, Seat | None]:
        """What the only service thinks where members are, in the same words."""
        ((_, registrar),) = self.registrars().items()
        return {name: registrar.seat_of(name) for name in sorted(registrar.listed) if name[0] == "m"}

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def tap(self, sender: str, receiver: str, item: Item) -> None:
        if isinstance(item, Parcel):
            self.hops.append((sender, receiver, item))

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
        self.got[node] += [parcel.stamp.first + index for index in picks or range(parcel.stamp.count)]


def names(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]
