"""Spanning trees of measured networks: minimum, derived from a spanner, or an old one made whole again.

Pure functions over ``links``: (lower name, higher name) to a distance. Ties are broken by name, so that the
same links give the same tree everywhere.

A minimum spanning tree is cheap and meanders. A spanner adds shortcuts to it until no measured pair is
farther apart than ``factor`` × its direct distance; the tree of shortest ways through it from its centre is
shallow when the factor is small, and near the minimum spanning tree when it is large (seed 000, 3.2.1.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heappop, heappush

import msgspec

from gossamer.core.tree import Tree

Edge = tuple[str, str]
Links = Mapping[Edge, int]
Adjacency = list[list[tuple[int, int]]]
"""Per node its neighbours and their distances, all by index."""


class Report(msgspec.Struct, frozen=True):
    """A spanner's tree beside the plain minimum spanning tree of the same links.

    depth
        Hops from the farthest node to the best root there is.
    cost
        Sum of the distances of all edges of the tree.
    stretch, mean_stretch
        Way along the tree over direct distance: at worst, and on average over the measured pairs.
    edges
        Of the spanner graph.
    """

    nodes: int
    edges: int
    depth: int
    cost: int
    stretch: float
    mean_stretch: float
    mst_depth: int
    mst_cost: int
    mst_stretch: float
    mst_mean_stretch: float


class _Groups:
    """Which nodes are joined already; by index."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def of(self, node: int) -> int:
        above = self._above
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    def join(self, a: int, b: int) -> bool:
        """Make one of two groups; False if they are one already."""
        one, other = self.of(a), self.of(b)
        self._above[max(one, other)] = min(one, other)
        return one != other


def minimum_spanning_edges(links: Links) -> list[Edge]:
    """Edges of the cheapest tree over all nodes of the links; a forest if they are in several pieces."""
    index = _index(links)
    groups = _Groups(len(index))
    return [edge for _, edge in _by_distance(links) if groups.join(index[edge[0]], index[edge[1]])]


def spanner(links: Links, factor: float) -> dict[Edge, int]:
    """The greedy spanner: contains a minimum spanning tree, and for every link a way ≤ factor × its distance.

    Links are taken from the shortest on; one is kept unless what has been kept offers such a way already.
    What earlier searches found stays an upper bound as links are only added, so most links need no search.
    """
    index = _index(links)
    near: Adjacency = [[] for _ in index]
    bounds: list[dict[int, int]] = [{} for _ in index]
    kept: dict[Edge, int] = {}
    for distance, edge in _by_distance(links):
        a, b = index[edge[0]], index[edge[1]]
        reach = int(factor * distance)
        if bounds[a].get(b, reach + 1) <= reach or bounds[b].get(a, reach + 1) <= reach:
            continue
        found = bounds[a] = _within(near, a, reach)
        if b not in found:
            kept[edge] = distance
            near[a].append((b, distance))
            near[b].append((a, distance))
            found[b] = distance
    return kept


def spanning_edges(links: Links, factor: float) -> list[Edge]:
    """Edges of the tree of shortest ways through the spanner, from its centre; the links are connected."""
    graph = spanner(links, factor)
    index = _index(graph)
    names = list(index)
    above = _ways(_adjacency(graph, index), _centre(graph, index))[1]
    return [_edge(names[node], names[parent]) for node, parent in enumerate(above) if parent >= 0]


def repaired_edges(
    nodes: Collection[str],
    edges: Iterable[Edge],
    measured: Callable[[str], Mapping[str, int]],
    here: str,
) -> list[Edge]:
    """A tree over just these nodes that keeps what is left of an old one.

    Pieces are joined by the shortest link that a node outside the largest piece has ``measured``; a piece
    that nobody has measured a way to is joined to ``here`` by its lowest node.
    """
    names = sorted(nodes)
    index = {name: number for number, name in enumerate(names)}
    groups = _Groups(len(names))
    kept = [
        edge
        for edge in edges
        if edge[0] in index and edge[1] in index and groups.join(index[edge[0]], index[edge[1]])
    ]
    if len(kept) == len(names) - 1:
        return kept
    sizes: dict[int, int] = {}
    for number in range(len(names)):
        group = groups.of(number)
        sizes[group] = sizes.get(group, 0) + 1
    largest = min(sizes, key=lambda group: (-sizes[group], group))
    lost = [name for name in names if groups.of(index[name]) != largest]
    candidates = {
        _edge(name, other): distance
        for name in [here, *lost]
        for other, distance in measured(name).items()
        if other in index and other != name
    }
    for _, edge in _by_distance(candidates):
        if groups.join(index[edge[0]], index[edge[1]]):
            kept.append(edge)
    for name in names:
        if groups.join(index[name], index[here]):
            kept.append(_edge(name, here))
    return kept


def burden(edges: Collection[Edge], links: Links, unknown: int) -> int:
    """Sum of the distances of all nodes to the best placed one along a tree: what a better tree has less of.

    unknown
        Distance of edges that nobody has measured.
    """
    graph = {edge: links.get(edge, unknown) for edge in edges}
    if not graph:
        return 0
    index = _index(graph)
    return sum(_ways(_adjacency(graph, index), _centre(graph, index))[0])


def depth(tree: Tree) -> int:
    """Hops from the farthest node to the best root: half the longest way, rounded up."""
    if not tree.edges:
        return 0
    graph = dict.fromkeys(tree.edges, 1)
    index = _index(graph)
    near = _adjacency(graph, index)
    far = _ways(near, _farthest(near, 0))[0]
    return (max(far) + 1) // 2


def report(links: Links, factor: float) -> Report:
    """How the spanner's tree compares with the minimum spanning tree; the links must be connected."""
    plain = Tree(minimum_spanning_edges(links))
    shallow = Tree(spanning_edges(links, factor))
    worst, mean = _stretch(shallow, links)
    mst_worst, mst_mean = _stretch(plain, links)
    return Report(
        nodes=len(shallow.nodes),
        edges=len(spanner(links, factor)),
        depth=depth(shallow),
        cost=sum(links[edge] for edge in shallow.edges),
        stretch=worst,
        mean_stretch=mean,
        mst_depth=depth(plain),
        mst_cost=sum(links[edge] for edge in plain.edges),
        mst_stretch=mst_worst,
        mst_mean_stretch=mst_mean,
    )


# inside: graphs by index


def _edge(a: str, b: str) -> Edge:
    return (a, b) if a < b else (b, a)


def _index(links: Iterable[Edge]) -> dict[str, int]:
    return {name: number for number, name in enumerate(sorted({name for edge in links for name in edge}))}


def _by_distance(links: Links) -> list[tuple[int, Edge]]:
    return sorted((distance, edge) for edge, distance in links.items())


def _adjacency(links: Links, index: Mapping[str, int]) -> Adjacency:
    near: Adjacency = [[] for _ in index]
    for (a, b), distance in links.items():
        near[index[a]].append((index[b], distance))
        near[index[b]].append((index[a], distance))
    return near


def _within(near: Adjacency, start: int, reach: int) -> dict[int, int]:
    """Distances of all nodes that are no farther than ``reach``; neighbours come in order of distance."""
    found: dict[int, int] = {}
    tried = {start: 0}
    heap = [(0, start)]
    while heap:
        distance, node = heappop(heap)
        if node in found:
            continue
        found[node] = distance
        rest = reach - distance
        for other, step in near[node]:
            if step > rest:
                break
            if tried.get(other, reach + 1) > distance + step:
                tried[other] = distance + step
                heappush(heap, (distance + step, other))
    return found


def _ways(near: Adjacency, start: int) -> tuple[list[int], list[int]]:
    """Distances from a node, and the node before each on the way; −1 before the start and the unreached."""
    unknown = -1
    distances = [unknown] * len(near)
    above = [-1] * len(near)
    heap = [(0, 0, start, -1)]
    while heap:
        distance, hops, node, parent = heappop(heap)
        if distances[node] != unknown:
            continue
        distances[node], above[node] = distance, parent
        for other, step in near[node]:
            if distances[other] == unknown:
                heappush(heap, (distance + step, hops + 1, other, node))
    return distances, above


def _farthest(near: Adjacency, start: int) -> int:
    distances = _ways(near, start)[0]
    return distances.index(max(distances))


def _centre(links: Links, index: Mapping[str, int]) -> int:
    """The node in the middle of the longest way that two sweeps find: exact in a tree, close in a graph."""
    near = _adjacency(links, index)
    one = _farthest(near, 0)
    distances, above = _ways(near, one)
    node = other = distances.index(max(distances))
    best = node
    while node >= 0:
        best = min(best, node, key=lambda each: abs(2 * distances[each] - distances[other]))
        node = above[node]
    return best


def _stretch(tree: Tree, links: Links) -> tuple[float, float]:
    """Way along the tree over direct distance, at worst and on average."""
    graph = {edge: links[edge] for edge in tree.edges}
    index = _index(graph)
    near = _adjacency(graph, index)
    start = _centre(graph, index)
    distances, above = _ways(near, start)
    levels = _levels(above)
    worst, total = 1.0, 0.0
    for (a, b), direct in links.items():
        one, other = index[a], index[b]
        way = distances[one] + distances[other]
        while one != other:
            if levels[one] < levels[other]:
                one, other = other, one
            one = above[one]
        ratio = (way - 2 * distances[one]) / max(direct, 1)
        worst, total = max(worst, ratio), total + ratio
    return worst, total / len(links)


def _levels(above: list[int]) -> list[int]:
    levels = [-1] * len(above)
    for node in range(len(above)):
        path = []
        each = node
        while each >= 0 and levels[each] < 0:
            path.append(each)
            each = above[each]
        level = levels[each] if each >= 0 else -1
        for step in reversed(path):
            level += 1
            levels[step] = level
    return levels
