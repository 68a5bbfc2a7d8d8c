"""Networks by kind: names of nodes, links between them, and the tree that templates get."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gossamer.core.context import Dice
from gossamer.core.errors import ConfigError
from gossamer.core.names import check_node
from gossamer.core.tree import Tree
from gossamer.simulator.network.access_lines import SPREAD, Access
from gossamer.simulator.network.link_models import Seconds

Edge = tuple[str, str]
Name = Annotated[str, Meta(min_length=1, max_length=64)]


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which nodes there are and how they are joined.

    kind
        ``line``, ``star`` (the first node in the middle), ``tree`` (each node has ``arity`` below it),
        ``random`` (a random tree, and random links on top up to ``degree`` per node on average),
        ``field`` (random places in a unit square, every pair can talk), ``peers`` (a field without a tree,
        each node with an access line of its own), or ``explicit`` (``edges`` says it all).
    nodes
        How many, 1 to 1 000 000; named n1, n2 … with leading zeros so that they sort. Not for explicit.
    arity
        Nodes below each node of a tree, 1 to 1000.
    degree
        Links per node on average in a random network, at least about 2.
    edges
        Pairs of names.
    base, scale
        Latency in a field: base + distance × scale seconds.
    contacts
        How many others each node of a field knows at the beginning.
    access
        Classes of access lines among peers; by default as in networks of file sharers (see access.SPREAD).
    seed
        Of a random network or field; that of the run if not given, so that every run has another network.
    """

    kind: Literal["line", "star", "tree", "random", "field", "peers", "explicit"] = "tree"
    nodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    arity: Annotated[int, Meta(ge=1, le=1000)] = 2
    degree: Annotated[float, Meta(ge=1, le=1000)] = 3.0
    edges: tuple[tuple[Name, Name], ...] = ()
    base: Seconds = 0.005
    scale: Seconds = 0.1
    contacts: Annotated[int, Meta(ge=1, le=1000)] = 3
    access: Annotated[tuple[Access, ...], Meta(min_length=1)] = SPREAD
    seed: int | None = None


def layout(network: Network, dice: Dice) -> tuple[list[str], list[Edge]]:
    """Names and edges; raises ConfigError if the edges make no sense."""
    if network.kind == "explicit":
        return _explicit(network.edges)
    names = named(network)
    count = network.nodes
    match network.kind:
        case "line":
            above = [number - 1 for number in range(count)]
        case "star":
            above = [0] * count
        case "tree":
            above = [(number - 1) // network.arity for number in range(count)]
        case _:
            above = [dice.randrange(number) if number else 0 for number in range(count)]
    edges = [(names[above[number]], names[number]) for number in range(1, count)]
    if network.kind == "random":
        edges += _chords(names, edges, network.degree, dice)
    return names, edges


def named(network: Network) -> list[str]:
    """Names that sort like numbers."""
    width = len(str(network.nodes))
    return [f"n{number:0{width}d}" for number in range(1, network.nodes + 1)]


def _explicit(edges: tuple[Edge, ...]) -> tuple[list[str], list[Edge]]:
    if not edges:
        raise ConfigError("an explicit network needs edges", key="network.edges")
    seen: set[Edge] = set()
    for a, b in edges:
        pair = (min(a, b), max(a, b))
        if a == b or pair in seen:
            raise ConfigError(f"{a!r} and {b!r} cannot be joined (again)", key="network.edges")
        seen.add(pair)
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    for name in names:
        check_node(name)
    return names, list(edges)


def _chords(names: list[str], edges: list[Edge], degree: float, dice: Dice) -> list[Edge]:
    """Random links on top of a tree, as many as there is room and need for."""
    count = len(names)
    taken = {(min(edge), max(edge)) for edge in edges}
    wanted = min(round(count * degree / 2), count * (count - 1) // 2) - len(edges)
    chords: list[Edge] = []
    while len(chords) < wanted:
        a, b = dice.choice(names), dice.choice(names)
        pair = (min(a, b), max(a, b))
        if a != b and pair not in taken:
            taken.add(pair)
            chords.append(pair)
    return chords


def spanning(names: list[str], edges: list[Edge]) -> Tree:
    """A tree of shortest ways from the first node; raises ConfigError unless it reaches all."""
    near: dict[str, list[str]] = {name: [] for name in names}
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    found = {names[0]}
    queue = deque(names[:1])
    kept: list[Edge] = []
    while queue:
        here = queue.popleft()
        for other in near[here]:
            if other not in found:
                found.add(other)
                kept.append((here, other))
                queue.append(other)
    if len(found) < len(names):
        lonely = next(name for name in names if name not in found)
        raise ConfigError(f"{lonely!r} is not connected to {names[0]!r}", key="network.edges")
    return Tree(kept)
