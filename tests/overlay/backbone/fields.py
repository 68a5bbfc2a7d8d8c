"""A monitored backbone in virtual time: nodes in a field that begin with a few contacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from gossamer.core.context import CONTACTS, NODES, TREE
from gossamer.core.control import Control
from gossamer.core.names import Role
from gossamer.core.tree import Tree
from gossamer.core.wire import Item, encode
from gossamer.overlay.backbone.linkstate import Linkstate
from gossamer.overlay.backbone.messages import State
from gossamer.overlay.backbone.probing import Hello
from gossamer.overlay.backbone.setup import MonitorSettings, monitor
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.network.field import Field
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.world import World


class Backbone:
    """A world of monitored nodes a, b, c …, and what they sent."""

    def __init__(
        self, count: int = 12, seed: int = 1, loss: float = 0.0, later: int = 0, **settings: Any
    ) -> None:
        self.names = [f"n{number:02d}" for number in range(1, count + later + 1)]
        dice = SeededDice(seed, label="field")
        self.field = Field(self.names, 0.005, 0.1, dice)
        self.contacts = self.field.contacts(3, dice)
        self.world = World(
            seed,
            templates={},
            link=LinkModel(loss=loss),
            services=lambda stored: monitor(MonitorSettings(**settings)),
        )
        self.world.spread(self.field)
        self.world.add_tap(self._tap)
        self.sent: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.probes: Counter[tuple[str, str]] = Counter()
        self.copies: Counter[tuple[str, str, int, int]] = Counter()
        """How often whom was sent which message of whom."""
        self.join(self.names[:count])

    def join(self, names: Iterable[str], role: Role = Role.PEER) -> None:
        for name in names:
            self.world.add_node(name, role)
            self.world.set(name, CONTACTS, self.contacts[name])

    def _tap(self, sender: str, to: str, item: Item) -> None:
        assert isinstance(item, Control)
        kind = type(item.message).__name__
        self.sent[kind] += 1
        self.bytes[kind] += len(encode(item))
        if kind == "Probe":
            self.probes[sender, to] += 1
        elif isinstance(item.message, State):
            message = item.message
            self.copies[to, message.origin, message.incarnation, message.counter] += 1

    def forget(self) -> None:
        """Count from now on."""
        for counter in (self.sent, self.bytes, self.probes, self.copies):
            counter.clear()

    @property
    def up(self) -> list[str]:
        return [name for name in self.world.nodes if self.world.engine(name) is not None]

    def container(self, node: str, name: str) -> Any:
        engine = self.world.engine(node)
        assert engine is not None
        return engine.containers.get(name)

    def tree(self, node: str) -> Tree:
        found = self.container(node, TREE)
        assert isinstance(found, Tree)
        return found

    def known(self, node: str) -> set[str]:
        return set(self.container(node, NODES) or ())

    def service(self, node: str, kind: type[Any]) -> Any:
        engine = self.world.engine(node)
        assert engine is not None
        return next(each.template for each in engine._services if isinstance(each.template, kind))

    def hello(self, node: str) -> Hello:
        found: Hello = self.service(node, Hello)
        return found

    def linkstate(self, node: str) -> Linkstate:
        found: Linkstate = self.service(node, Linkstate)
        return found

    def agreed(self, among: Iterable[str] | None = None) -> bool:
        """Whether all of these, by default all that are up, know just each other and share one tree."""
        names = set(self.up if among is None else among)
        trees = {self.tree(name) for name in names if self.container(name, TREE) is not None}
        return (
            all(self.known(name) == names for name in names)
            and len(trees) == 1
            and set(next(iter(trees)).nodes) == names
            and all(self.container(name, TREE) is not None for name in names)
        )

    def until_agreed(self, limit: float, among: Iterable[str] | None = None) -> float:
        """Let time pass until all agree; how long that took. Fails after ``limit`` seconds."""
        begin = self.world.now
        names = None if among is None else list(among)
        while not self.agreed(names):
            passed = self.world.now - begin
            assert passed < limit, f"no agreement after {passed} s"
            self.world.run(self.world.now + 1)
        return self.world.now - begin
