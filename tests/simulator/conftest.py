"""Small worlds and a template that shows what happens to it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from gossamer.core.context import TREE, Context
from gossamer.core.control import Message, on
from gossamer.core.parcel import Parcel
from gossamer.core.template import Membership, Settings, Template
from gossamer.core.trace import COLUMNS, Row
from gossamer.core.tree import Tree
from gossamer.simulator.world import World


class Hint(Message, frozen=True):
    """A control message without a meaning."""

    number: int


class Probe(Template[Settings]):
    """Passes parcels to all neighbours, wakes when told to, and notes what happens to it."""

    name = "probe"
    log: list[tuple[Any, ...]]

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        ctx.send(ctx.neighbours, parcel)
        ctx.deliver(parcel)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        self.log.append(("parcel", ctx.now, ctx.node, sender, parcel.stamp.sequence))
        ctx.deliver(parcel, sender)

    @on(Hint)
    def hint(self, ctx: Context, hint: Hint, sender: str) -> None:
        self.log.append(("hint", ctx.now, ctx.node, sender, hint.number))

    def on_timer(self, ctx: Context, name: str) -> None:
        self.log.append(("timer", ctx.now, ctx.node, name, ctx.incarnation))

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        self.log.append((membership.change, ctx.now, ctx.node, membership.who, ctx.incarnation))

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        self.log.append((name, ctx.now, ctx.node, value, ctx.incarnation))

    def on_open(self, ctx: Context) -> None:
        self.log.append(("open", ctx.now, ctx.node, ctx.rng.random(), ctx.incarnation))

    def on_call(self, ctx: Context, call: int, request: Callable[[Context], None]) -> None:
        request(ctx)
        ctx.reply(call, ctx.now)


class Bench:
    """A world of nodes in a line (a, b, c …), its trace, and the probe's notes."""

    def __init__(self, nodes: str = "ab", seed: int = 1, **options: Any) -> None:
        self.rows: list[Row] = []
        self.log: list[tuple[Any, ...]] = []
        self.probe = type("Probe", (Probe,), {"log": self.log, "watches": (TREE,)})
        self.world = World(seed, templates={"probe": self.probe}, recorder=self.rows.append, **options)
        for name in nodes:
            self.world.add_node(name)
        edges = list(pairwise(nodes))
        for one, other in edges:
            self.world.link(one, other)
        self.world.set(None, TREE, Tree(edges))
        self.world.open("c", "probe")
        self.log.clear()

    def noted(self, kind: str, node: str | None = None) -> list[tuple[Any, ...]]:
        """What the probe noted of one kind: (instant, node, what, what more)."""
        return [note[1:] for note in self.log if note[0] == kind and node in (None, note[2])]

    def traced(self, action: str, **wanted: Any) -> list[dict[str, Any]]:
        """Rows of one action, as dictionaries."""
        names = [name for name, _ in COLUMNS]
        rows = [dict(zip(names, row, strict=True)) for row in self.rows]
        return [
            row
            for row in rows
            if row["action"] == action and all(row[name] == value for name, value in wanted.items())
        ]

    def wake(self, node: str, name: str, after: float) -> None:
        """Let the probe ask for a wake, as a template would inside a handler."""
        self.within(node, lambda ctx: ctx.wake(name, after))

    def hint(self, node: str, to: str, number: int = 1) -> None:
        self.within(node, lambda ctx: ctx.send(to, Hint(number)))

    def within(self, node: str, action: Callable[[Context], None]) -> None:
        """Do something inside a handler of the probe on a node, right now."""
        self.world.call(node, "c", action, lambda reply: None)


@pytest.fixture
def bench() -> Callable[..., Bench]:
    return Bench
