"""Which node serves a region: the first of its servers that lives, as far as one knows.

The servers of a region have an order. Each asks those before it for signs of life and serves when all of them
are silent; when one of them is back it stops. Who registers goes to the first that answers. During a
partition a region may have two services, one on each side; afterwards the first of them goes on alone, and
the members of the other register with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gossamer.core.context import NODES, REGION, TREE, Context
from gossamer.core.errors import BadName
from gossamer.core.names import check_node
from gossamer.core.tree import Tree
from gossamer.overlay.groups.rendezvous import ranking
from gossamer.templates.ringtree.heartbeat import Pulse
from gossamer.templates.ringtree.messages import MAX_REGION

SERVERS = 3
"""Nodes that may serve the region without a name, if the settings name none."""


MAX_SERVERS = 16
"""Servers of one region."""


def servers_of(text: str) -> dict[str, tuple[str, ...]]:
    """Servers by region from ``eu: e1 e2; us: u1``; raises ValueError. No colon: that without a name."""
    found: dict[str, tuple[str, ...]] = {}
    for part in filter(str.strip, text.split(";")):
        region, colon, listed = part.rpartition(":")
        region, nodes = region.strip(), tuple(listed.split())
        if colon and not region:
            raise ValueError(f"{part.strip()!r} has a colon but no region before it")
        if region in found:
            raise ValueError(f"region {region!r} is there twice")
        if len(region) > MAX_REGION or not 1 <= len(nodes) <= MAX_SERVERS:
            limits = f"a region of at most {MAX_REGION} characters and 1 to {MAX_SERVERS} nodes"
            raise ValueError(f"{part.strip()!r} is not {limits}")
        for node in nodes:
            try:
                check_node(node)
            except BadName as error:
                raise ValueError(str(error)) from None
        found[region] = nodes
    return found


class Succession:
    """The servers of one node's region, and what that node thinks of them.

    servers
        Nodes that may serve each region, the first choice first; the region without a name has, unless it is
        named here, the best matches of the channel among all nodes.
    patience
        Beats without a sign of life after which the next server takes over.
    """

    def __init__(self, servers: Mapping[str, tuple[str, ...]], patience: int) -> None:
        self._servers = servers
        self._before = Pulse(patience)
        self._doubted: dict[str, None] = {}
        self._backbone: Any = None
        self._best: tuple[str, ...] = ()

    def region(self, ctx: Context) -> str:
        """The region of this node."""
        region = ctx.container(REGION) or ""
        return region if region in self._servers else ""

    @property
    def regions(self) -> tuple[str, ...]:
        """All regions there can be."""
        return tuple(dict.fromkeys((*self._servers, "")))

    def candidates(self, ctx: Context, region: str) -> tuple[str, ...]:
        """Nodes that may serve a region, the first choice first; those that are known to be dead aside."""
        nodes = ctx.container(NODES)
        named = self._servers.get(region)
        if named is not None:
            return tuple(each for each in named if nodes is None or each in nodes) or named
        tree: Tree | None = ctx.container(TREE)
        backbone = nodes if nodes is not None else tree
        if backbone is not self._backbone or not self._best:
            self._backbone = backbone
            live = nodes if nodes is not None else (tree.nodes if tree else ())
            self._best = tuple(ranking(ctx.id, live or (ctx.node,), SERVERS))
        return self._best

    def serving(self, ctx: Context) -> str:
        """Who serves the region of this node."""
        candidates = self.candidates(ctx, self.region(ctx))
        if ctx.node in candidates:
            before = candidates[: candidates.index(ctx.node)]
            self._before.watch(before)
            silent = self._before.missing
            return next((each for each in before if each not in silent), ctx.node)
        if all(each in self._doubted for each in candidates):
            self._doubted.clear()
        return next(each for each in candidates if each not in self._doubted)

    @property
    def watches(self) -> bool:
        """Whether there are servers before this node."""
        return bool(self._before.watched)

    def doubt(self, server: str) -> None:
        """A server does not answer."""
        if server:
            self._doubted[server] = None

    def trust(self, server: str) -> None:
        """A server answered, or another says that it serves."""
        self._doubted.pop(server, None)
        self._before.alive(server)

    def gone(self, node: str) -> None:
        """The link to a node broke."""
        self._before.gone(node)

    def beat(self) -> tuple[str, ...]:
        """A beat has passed; whom to ask for a sign of life."""
        self._before.beat()
        return self._before.watched
