"""How long the longest path is: ring, tree and multi-ring (seed 004, section 5.2.2).

The forms are the seed's. Where there are few nodes, the same topology is also built and its paths are
counted. Those of rings of even size and full trees are exact, that of the multi-ring is a bound.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from gossamer.core.errors import ConfigError

MOST_COUNTED = 1000
"""Nodes up to which paths are counted: all pairs take a second or two."""

Neighbours = list[set[int]]


class Paths(msgspec.Struct, frozen=True):
    """Hops in one topology; what was not counted is None."""

    topology: str
    form: str
    longest: float
    counted: int | None
    mean: float | None


def paths(nodes: int, arity: int = 2, ratio: int = 4) -> list[Paths]:
    """The longest paths among so many nodes.

    arity
        Nodes below each node of the tree.
    ratio
        How many times fewer nodes each inner ring has than the one around it.
    """
    if nodes < 2:
        raise ConfigError(f"{nodes}: a path needs at least 2 nodes", key="nodes")
    if arity < 2:
        raise ConfigError(f"{arity}: a tree has at least 2 below each node, or it is a line", key="arity")
    if ratio < 2:
        raise ConfigError(f"{ratio}: an inner ring has at most half the nodes", key="ratio")
    height = math.log(nodes * (arity - 1) + 1, arity) - 1
    forms = (
        ("ring", "n / 2", nodes / 2, ring),
        ("tree", "2 · log_k(n · (k − 1) + 1) − 2", 2 * height, lambda n: tree(n, arity)),
        ("multi-ring", "q · log_q(n)", ratio * math.log(nodes, ratio), lambda n: multi_ring(n, ratio)),
    )
    found = []
    for topology, form, longest, build in forms:
        counted, mean = hops(build(nodes)) if nodes <= MOST_COUNTED else (None, None)
        found.append(Paths(topology, form, longest, counted, mean))
    return found


def ring(nodes: int) -> Neighbours:
    """Each node between two others."""
    return _linked(nodes, [(n, (n + 1) % nodes) for n in range(nodes)])


def tree(nodes: int, arity: int) -> Neighbours:
    """Filled level by level."""
    return _linked(nodes, [(n, (n - 1) // arity) for n in range(1, nodes)])


def multi_ring(nodes: int, ratio: int) -> Neighbours:
    """Each inner ring joins every ratio-th node of the ring around it, while two are left to be joined."""
    edges, members = [], list(range(nodes))
    while len(members) > 1:
        edges += list(zip(members, [*members[1:], members[0]], strict=True))
        members = members[::ratio]
    return _linked(nodes, edges)


def _linked(nodes: int, edges: list[tuple[int, int]]) -> Neighbours:
    near: Neighbours = [set() for _ in range(nodes)]
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    return near


def hops(near: Neighbours) -> tuple[int, float]:
    """The longest of the shortest paths between two nodes, and their mean."""
    longest = total = 0
    for start in range(len(near)):
        away = {start: 0}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for other in near[node]:
                if other not in away:
                    away[other] = away[node] + 1
                    queue.append(other)
        longest = max(longest, *away.values())
        total += sum(away.values())
    return longest, total / (len(near) * (len(near) - 1))
