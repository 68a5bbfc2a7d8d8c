"""A tree of nodes, and the way along it. Immutable: a change of the network is a new tree."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from gossamer.core.errors import NotATree


class Tree:
    """Undirected edges between node names, without cycles and in one piece."""

    __slots__ = ("_hops", "_neighbours", "edges")

    def __init__(self, edges: Iterable[tuple[str, str]] = ()) -> None:
        self.edges = tuple(sorted({(min(a, b), max(a, b)) for a, b in edges}))
        neighbours: dict[str, list[str]] = {}
        for a, b in self.edges:
            if a == b:
                raise NotATree(f"{a!r} is joined to itself")
            neighbours.setdefault(a, []).append(b)
            neighbours.setdefault(b, []).append(a)
        self._neighbours = {node: tuple(sorted(near)) for node, near in neighbours.items()}
        self._hops: dict[str, dict[str, str]] = {}
        if neighbours:
            self._check()

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(sorted(self._neighbours))

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Who is joined to a node, in order of name."""
        return self._neighbours.get(node, ())

    def next_hop(self, here: str, target: str) -> str | None:
        """The neighbour through whom the target is reached; None if it is not in the tree."""
        hops = self._hops.get(here)
        if hops is None:
            hops = self._hops[here] = self._spread(here)
        return hops.get(target)

    def _spread(self, here: str) -> dict[str, str]:
        hops = {near: near for near in self.neighbours(here)}
        queue = deque(hops)
        while queue:
            node = queue.popleft()
            for further in self._neighbours[node]:
                if further != here and further not in hops:
                    hops[further] = hops[node]
                    queue.append(further)
        return hops

    def _check(self) -> None:
        if len(self.edges) >= len(self._neighbours):
            raise NotATree(f"{len(self.edges)} edges between {len(self._neighbours)} nodes make a cycle")
        start = min(self._neighbours)
        missing = set(self._neighbours) - set(self._spread(start)) - {start}
        if missing:
            raise NotATree(f"{min(missing)!r} is not connected to {start!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self.edges == other.edges

    def __hash__(self) -> int:
        return hash(self.edges)

    def __repr__(self) -> str:
        return f"Tree({list(self.edges)!r})"
