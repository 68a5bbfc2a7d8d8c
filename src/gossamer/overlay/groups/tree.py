"""The tree of a group: rooted, over its members, made from what is known of the backbone. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import heappop, heappush

from gossamer.core.errors import ProtocolError
from gossamer.core.tree import Tree
from gossamer.overlay.groups.messages import TreeUpdate

Links = Mapping[tuple[str, str], int]


class Rooted:
    """A tree with a root: parents, children, depth."""

    __slots__ = ("_children", "_parents", "height", "root", "tree")

    def __init__(self, root: str, edges: Iterable[tuple[str, str]] = ()) -> None:
        self.root = root
        self.tree = Tree(edges)
        self._parents: dict[str, str] = {}
        self._children: dict[str, list[str]] = {}
        self.height = 0
        level = [root]
        while level:
            below: list[str] = []
            for node in level:
                children = [each for each in self.tree.neighbours(node) if each != self._parents.get(node)]
                self._children[node] = children
                self._parents.update((child, node) for child in children)
                below += children
            self.height += bool(below)
            level = below

    def __contains__(self, node: object) -> bool:
        return node in self._children

    @property
    def nodes(self) -> tuple[str, ...]:
        """All of them, each after its parent."""
        return tuple(self._children)

    def parent(self, node: str) -> str | None:
        return self._parents.get(node)

    def children(self, node: str) -> tuple[str, ...]:
        return tuple(self._children.get(node, ()))

    def neighbours(self, node: str) -> tuple[str, ...]:
        return self.tree.neighbours(node)

    def above(self, node: str, other: str) -> bool:
        """Whether the other is on a node's way to the root."""
        step = self._parents.get(node)
        while step is not None and step != other:
            step = self._parents.get(step)
        return step == other

    def below(self, node: str) -> set[str]:
        """The nodes that have a node on their way to the root."""
        found: set[str] = set()
        stack = [node]
        while stack:
            children = self._children.get(stack.pop(), ())
            found.update(children)
            stack += children
        return found

    def side(self, node: str, neighbour: str) -> frozenset[str]:
        """The nodes that a node reaches by a neighbour, which is one of them."""
        found, stack = {node, neighbour}, [neighbour]
        while stack:
            further = [each for each in self.neighbours(stack.pop()) if each not in found]
            found.update(further)
            stack += further
        return frozenset(found - {node})

    def depth(self, node: str) -> int:
        depth, above = 0, self._parents.get(node)
        while above is not None:
            depth, above = depth + 1, self._parents.get(above)
        return depth


def packed(
    version: tuple[int, int], tree: Rooted, marks: Mapping[str, int], complete: bool = True
) -> TreeUpdate:
    """A tree as it travels."""
    nodes = tree.nodes
    places = {node: place for place, node in enumerate(nodes)}
    parents = tuple(places[tree.parent(node) or node] for node in nodes)
    return TreeUpdate(*version, nodes, parents, tuple(marks[node] for node in nodes), complete)


def unpacked(update: TreeUpdate) -> tuple[Rooted, dict[str, int]]:
    """A tree that has travelled, and the marks of its nodes; raises ProtocolError if it is none."""
    nodes, parents = update.nodes, update.parents
    if not len(nodes) == len(set(nodes)) == len(parents) == len(update.marks) or any(
        parent >= max(place, 1) for place, parent in enumerate(parents)
    ):
        raise ProtocolError("message.parents", len(parents), "an earlier node for each but the first")
    edges = [(nodes[parents[place]], nodes[place]) for place in range(1, len(nodes))]
    return Rooted(nodes[0], edges), dict(zip(nodes, update.marks, strict=True))


def span(root: str, members: Collection[str], links: Links | None, backbone: Tree | None) -> Rooted:
    """The tree of a group.

    With measured links: the minimum spanning tree over root and members, distances between them being
    those of the shortest known way. Without: the part of the backbone tree that joins them.
    """
    wanted = {root, *members}
    if links is not None:
        return Rooted(root, _minimum(wanted, links))
    return Rooted(root, _pruned(wanted, root, backbone) if backbone else ())


def _pruned(wanted: set[str], root: str, backbone: Tree) -> set[tuple[str, str]]:
    edges: set[tuple[str, str]] = set()
    for node in wanted:
        while node != root:
            hop = backbone.next_hop(node, root)
            if hop is None or (node, hop) in edges:
                break
            edges.add((node, hop))
            node = hop
    return edges


def _minimum(wanted: set[str], links: Links) -> list[tuple[str, str]]:
    """Minimum spanning tree of the shortest ways between wanted nodes.

    Every node is given to the wanted node nearest to it (one search from all of them at once); only links
    between two such regions can be part of the tree (Mehlhorn 1988). Pieces that no link joins are hung on
    in order of name, so that a gap in what is known never leaves anybody out.
    """
    near: dict[str, list[tuple[int, str]]] = {}
    for (a, b), distance in links.items():
        near.setdefault(a, []).append((distance, b))
        near.setdefault(b, []).append((distance, a))
    home: dict[str, tuple[int, str]] = {}
    heap = [(0, node, node) for node in sorted(wanted)]
    while heap:
        distance, start, node = heappop(heap)
        if node in home:
            continue
        home[node] = (distance, start)
        for step, further in near.get(node, ()):
            if further not in home:
                heappush(heap, (distance + step, start, further))
    between: list[tuple[int, str, str]] = []
    for (a, b), distance in links.items():
        if a in home and b in home and home[a][1] != home[b][1]:
            ends = sorted((home[a][1], home[b][1]))
            between.append((home[a][0] + distance + home[b][0], ends[0], ends[1]))
    return _kruskal(wanted, sorted(between))


def _kruskal(wanted: set[str], between: list[tuple[int, str, str]]) -> list[tuple[str, str]]:
    above = {node: node for node in wanted}

    def top(node: str) -> str:
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    edges: list[tuple[str, str]] = []
    names = sorted(wanted)
    for a, b in [(a, b) for _, a, b in between] + [(names[0], name) for name in names[1:]]:
        if top(a) != top(b):
            above[top(a)] = top(b)
            edges.append((a, b))
    return edges
