"""Worlds for tests of templates: one channel on a given tree, what came where, and who said what."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from gossamer.core.context import BELOW, SERVER, TREE, Context
from gossamer.core.control import Control
from gossamer.core.names import Role
from gossamer.core.parcel import Parcel
from gossamer.core.template import Template
from gossamer.core.tree import Tree
from gossamer.core.wire import Item
from gossamer.simulator.invariants.checks import Ledger
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.workload.observers import Witness
from gossamer.simulator.world import World

CHANNEL = "news"


class Net(Witness):
    """One channel on a tree.

    got
        Numbers of the events delivered, by node and source, in the order they came.
    order
        Source and number of the events delivered, by node, in the order they came.
    gaps
        Sources of which a node was told that it missed some.
    said
        Transmissions by sender, receiver and the name of the message ("Parcel" for parcels).
    """

    def __init__(
        self,
        template: type[Template[Any]],
        edges: Iterable[tuple[str, str]],
        settings: dict[str, Any] | None = None,
        *,
        below: dict[str, str] | None = None,
        seed: int = 1,
        link: LinkModel | None = None,
        lossy: dict[tuple[str, str], LinkModel] | None = None,
    ) -> None:
        edges, below = list(edges), below or {}
        self.kind = template
        self.world = World(seed, templates={template.name: template}, link=link)
        self.ledger = Ledger()
        self.got: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.order: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.gaps: dict[str, list[str]] = defaultdict(list)
        self.said: Counter[tuple[str, str, str]] = Counter()
        tree = Tree(edges)
        for node in tree.nodes:
            self.world.add_node(node)
        for node in below:
            self.world.add_node(node, Role.CLIENT)
        for a, b in [*edges, *below.items()]:
            self.world.link(a, b, (lossy or {}).get((a, b)))
        for node in tree.nodes:
            self.world.set(node, TREE, tree)
            hanging = tuple(sorted(client for client, server in below.items() if server == node))
            self.world.set(node, BELOW, hanging)
        for node, server in below.items():
            self.world.set(node, SERVER, server)
        self.world.add_witness(self.ledger)
        self.world.add_witness(self)
        self.world.add_tap(self.tap)
        self.world.open(CHANNEL, template.name, settings)

    def tap(self, sender: str, receiver: str, item: Item) -> None:
        kind = type(item.message).__name__ if isinstance(item, Control) else "Parcel"
        self.said[sender, receiver, kind] += 1

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
        numbers = [parcel.stamp.first + index for index in picks or range(parcel.stamp.count)]
        self.got[node, parcel.stamp.node].extend(numbers)
        self.order[node].extend((parcel.stamp.node, number) for number in numbers)

    def missed(
        self, world: World, node: str, life: int, channel: str, source: str, to: tuple[int, ...] | None = None
    ) -> None:
        self.gaps[node].append(source)

    def at(self, node: str) -> Any:
        """The template as it runs on a node."""
        engine = self.world.engine(node)
        assert engine is not None
        return engine.instance(CHANNEL).template

    def ctx(self, node: str) -> Context:
        engine = self.world.engine(node)
        assert engine is not None
        return engine.instance(CHANNEL).context

    def obstacle(self, node: str) -> str | None:
        engine = self.world.engine(node)
        assert engine is not None
        return engine.instance(CHANNEL).obstacle

    def subscribe(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self.world.subscribe(node, CHANNEL)

    def publish(self, node: str, count: int = 1, start: float | None = None, every: float = 0.1) -> None:
        """Publish so many events, one at a time; the node must be up at each instant."""
        begin = self.world.now if start is None else start
        for number in range(count):
            self.world.at(begin + number * every, lambda: self._publish(node))

    def _publish(self, node: str) -> None:
        self.world.publish(node, CHANNEL)

    def heard(self, node: str, kind: str) -> dict[str, int]:
        """Who said a kind of message to a node, and how often."""
        return {
            sender: count
            for (sender, receiver, name), count in sorted(self.said.items())
            if (receiver, name) == (node, kind)
        }
