"""Networks of dispatchers by kind: who is linked with whom, and who is at the core.

Sites are where agents are. Each has a dispatcher of its own, but in a centralised network, where one
dispatcher serves all. The core are the dispatchers that get every event where nothing but subscriptions says
where events are wanted: the root of a hierarchy, and all dispatchers of a ring.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from gossamer.analysis import paths
from gossamer.analysis.hierarchy import Whole
from gossamer.analysis.routes import MOST_NODES, Routes
from gossamer.core.errors import ConfigError, NotATree
from gossamer.simulator.dice import SeededDice

Edge = tuple[int, int]
TEMPLATES = ("centralised", "hierarchy", "acyclic")
"""Kinds that the dispatch template can make."""


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network of dispatchers, and how agents hang below.

    kind
        ``centralised`` (one dispatcher for all sites), ``hierarchy`` (each dispatcher has ``arity`` below it,
        filled level by level), ``acyclic`` (``edges``, or a random tree by ``seed``; its middle is the core),
        ``ring``, ``multiring`` (each inner ring joins every ``ratio``-th dispatcher of the one around it), or
        ``ringtree`` (a ring of ``ring`` entry points, each the root of a tree of ``arity``).
    dispatchers
        How many; for centralised, how many sites.
    hosts
        Machines of each site on which its agents are, linked with its dispatcher; 0 has agents on the
        dispatcher itself.
    """

    kind: Literal["centralised", "hierarchy", "acyclic", "ring", "multiring", "ringtree"] = "hierarchy"
    dispatchers: Annotated[int, Meta(ge=1, le=MOST_NODES)] = 21
    arity: Annotated[int, Meta(ge=1, le=MOST_NODES)] = 4
    ratio: Annotated[int, Meta(ge=2, le=MOST_NODES)] = 4
    ring: Annotated[int, Meta(ge=1, le=MOST_NODES)] = 4
    edges: tuple[tuple[int, int], ...] = ()
    seed: int = 1
    hosts: Annotated[int, Meta(ge=0, le=1000)] = 0

    @property
    def has_template(self) -> bool:
        """Whether the dispatch template can make it."""
        return self.kind in TEMPLATES


class Shape:
    """A topology made out.

    routes
        The graph of dispatchers and the ways in it.
    core
        The dispatchers that see every event with ``subscription``.
    homes
        The dispatcher of each site.
    levels
        How far each dispatcher is from the core.
    links
        Pairs of dispatchers, the one nearer to the core first.
    """

    def __init__(self, edges: list[Edge], size: int, core: tuple[int, ...], homes: tuple[int, ...]) -> None:
        self.routes = Routes(edges, size)
        self.core = core
        self.homes = homes
        self.levels: Whole = self.routes.distances[list(core)].min(axis=0)
        self.links = [(a, b) if (self.levels[a], a) < (self.levels[b], b) else (b, a) for a, b in edges]
        self.names = [f"d{number:0{len(str(size))}d}" for number in range(1, size + 1)]

    @property
    def size(self) -> int:
        """How many dispatchers there are."""
        return self.routes.size

    @property
    def apart(self) -> Whole:
        """Hops between the dispatchers of each two sites."""
        homes = np.asarray(self.homes)
        found: Whole = self.routes.distances[np.ix_(homes, homes)]
        return found

    def level_names(self) -> list[str]:
        """What people call each level."""
        deepest = int(self.levels.max())
        first = "root" if len(self.core) == 1 else "ring"
        if deepest == 0:
            return ["dispatcher" if self.size == 1 else first]
        middle = ["middle"] if deepest == 2 else [f"level {level}" for level in range(1, deepest)]
        return [first, *middle, "leaf"]


@lru_cache(maxsize=64)
def shape(topology: Topology) -> Shape:
    """The dispatchers, links and core of a topology; raises ConfigError if its edges make no tree."""
    size = topology.dispatchers
    everybody = tuple(range(size))
    match topology.kind:
        case "centralised":
            return Shape([], 1, (0,), (0,) * size)
        case "hierarchy":
            return Shape([((n - 1) // topology.arity, n) for n in range(1, size)], size, (0,), everybody)
        case "acyclic":
            return _acyclic(topology, everybody)
        case "ring":
            return Shape(_pairs(paths.ring(size)) if size > 1 else [], size, everybody, everybody)
        case "multiring":
            edges = _pairs(paths.multi_ring(size, topology.ratio)) if size > 1 else []
            return Shape(edges, size, everybody, everybody)
        case "ringtree":
            return _ring_of_trees(topology, everybody)


def _acyclic(topology: Topology, everybody: tuple[int, ...]) -> Shape:
    size = topology.dispatchers
    dice = SeededDice(topology.seed, label="topology")
    edges = list(topology.edges) or [(dice.randrange(n), n) for n in range(1, size)]
    for a, b in edges:
        if not (0 <= a < size and 0 <= b < size) or a == b:
            raise ConfigError(f"{[a, b]}: two different dispatchers from 0 to {size - 1}", key="edges")
    if len(set(map(frozenset, edges))) != size - 1:
        reason = f"{len(edges)} edges: an acyclic graph of {size} dispatchers has {size - 1}, each once"
        raise ConfigError(reason, key="edges")
    try:
        farthest = Routes(edges, size).distances.max(axis=1)
    except NotATree as error:
        raise ConfigError(f"{error}: edges must join all", key="edges") from None
    return Shape(edges, size, (int(farthest.argmin()),), everybody)


def _ring_of_trees(topology: Topology, everybody: tuple[int, ...]) -> Shape:
    size, ring = topology.dispatchers, topology.ring
    if ring > size:
        raise ConfigError(f"{ring} entry points of {size} dispatchers: at most all", key="ring")
    edges = _pairs(paths.ring(ring)) if ring > 1 else []
    edges += [((n - ring) // topology.arity, n) for n in range(ring, size)]
    return Shape(edges, size, everybody[:ring], everybody)


def _pairs(near: paths.Neighbours) -> list[Edge]:
    return [(a, b) for a, others in enumerate(near) for b in sorted(others) if a < b]
