"""Trees and measurements as bytes: small on the wire, read once however often they come.

A plan is a tree over named nodes: the names in order, each without what it shares with the one before, then
per name the index of the one above it, the lowest name being the root. One tree has one encoding, so nodes
that agree send the same bytes, and whoever has read them once need not read them again.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from struct import Struct, pack, unpack
from sys import intern
from typing import Final

from gossamer.core.errors import ProtocolError
from gossamer.core.names import MAX_NODE_NAME, NANOSECONDS
from gossamer.core.tree import Tree

MAX_NODES = 4096
"""Nodes of one backbone."""
MAX_PLAN = MAX_NODES * (MAX_NODE_NAME + 4)
"""Bytes of a plan."""
DISTANCE_UNIT = 100
"""Nanoseconds; distances are rounded to 11 significant bits of it: to 0.05 %."""
AGE_UNIT = NANOSECONDS // 10
"""Ages are rounded up to 4 significant bits of it: by at most 13 %."""

_PAIR = Struct(">HH")
_NAMES_KEPT = 32 * MAX_NODES
"""Names in all plans that are kept, at some 350 bytes each; the plans used last are kept."""
_NAMES_LEAST = 512
"""As how many names a plan counts at least."""


class Plan:
    """A tree as it travels, ready for routing along it.

    names, members
        The nodes, in order and as a set.
    near
        Neighbours of each node.
    """

    __slots__ = ("_enter", "_leave", "_tree", "above", "encoded", "members", "names", "near")

    def __init__(self, encoded: bytes, names: tuple[str, ...], parents: tuple[int, ...]) -> None:
        self.encoded = encoded
        self.names = names
        self.members = frozenset(names)
        self.above = {name: names[parent] for name, parent in zip(names[1:], parents[1:], strict=True)}
        self._tree: Tree | None = None
        children: list[list[int]] = [[] for _ in names]
        for node, parent in enumerate(parents[1:], 1):
            children[parent].append(node)
        self.near = {
            name: tuple(names[child] for child in below) for name, below in zip(names, children, strict=True)
        }
        for node, parent in enumerate(parents[1:], 1):
            self.near[names[node]] += (names[parent],)
        self._number(children)

    def _number(self, children: list[list[int]]) -> None:
        """Number the nodes so that what lies below one is a run; fails on a cycle."""
        names = self.names
        self._enter: dict[str, int] = {}
        self._leave: dict[str, int] = {}
        todo = [0] if names else []
        while todo:
            node = todo.pop()
            if node < 0:
                self._leave[names[~node]] = len(self._enter)
                continue
            self._enter[names[node]] = len(self._enter)
            todo.append(~node)
            todo.extend(children[node])
        if len(self._enter) != len(names):
            raise ProtocolError("plan", "parents", "a tree in one piece")

    @property
    def tree(self) -> Tree:
        """The same as others see it; made at the first call."""
        if self._tree is None:
            self._tree = Tree(self.above.items())
        return self._tree

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Pairs of names, the lower first."""
        return [(min(pair), max(pair)) for pair in self.above.items()]

    def routes(self, node: str) -> dict[str, str]:
        """From a node to each other, the neighbour on the way."""
        hops: dict[str, str] = {}
        todo = [(near, node, near) for near in self.near.get(node, ())]
        for each, before, hop in todo:
            hops[each] = hop
            todo.extend((further, each, hop) for further in self.near[each] if further != before)
        return hops

    def beyond(self, node: str, origin: str) -> list[str]:
        """Neighbours of a node on the far side of it, as seen from the origin; none if either is unknown."""
        start = self._enter.get(origin)
        if start is None or node not in self.near:
            return []
        if node == origin:
            return list(self.near[node])
        back = self.above.get(node)
        for child in self.near[node]:
            if child != back and self._enter[child] <= start < self._leave[child]:
                back = child
                break
        return [each for each in self.near[node] if each != back]


def encode_plan(nodes: Collection[str], edges: Iterable[tuple[str, str]]) -> bytes:
    """The encoding of a tree over these nodes."""
    names = sorted(nodes)
    index = {name: number for number, name in enumerate(names)}
    near: list[list[int]] = [[] for _ in names]
    for a, b in edges:
        near[index[a]].append(index[b])
        near[index[b]].append(index[a])
    parents = [-1] * len(names)
    parents[0] = 0
    todo = [0]
    for node in todo:
        for other in near[node]:
            if parents[other] < 0:
                parents[other] = node
                todo.append(other)
    parts = [pack(">H", len(names))]
    before = b""
    for name in names:
        own = name.encode()
        shared = 0
        while shared < len(own) and own[shared : shared + 1] == before[shared : shared + 1]:
            shared += 1
        parts.append(bytes((shared, len(own) - shared)) + own[shared:])
        before = own
    return b"".join(parts) + pack(f">{len(names)}H", *parents)


class Plans:
    """Plans that have been read, by their bytes, in bounded memory."""

    def __init__(self, names: int) -> None:
        self.names = names
        self.kept = 0
        self._plans: dict[bytes, Plan] = {}

    def read(self, encoded: bytes) -> Plan:
        """The plan in these bytes; raises ProtocolError if they are none."""
        plan = self._plans.pop(encoded, None)
        if plan is None:
            plan = _read(encoded)
            self.kept += self._cost(plan)
            while self.kept > self.names and self._plans:
                self.kept -= self._cost(self._plans.pop(next(iter(self._plans))))
        self._plans[encoded] = plan
        return plan

    def _cost(self, plan: Plan) -> int:
        return max(len(plan.names), _NAMES_LEAST)


_PLANS: Final = Plans(_NAMES_KEPT)


def decode_plan(encoded: bytes) -> Plan:
    """The plan in these bytes; raises ProtocolError unless they are a tree of named nodes in order."""
    return _PLANS.read(encoded)


def _read(encoded: bytes) -> Plan:
    try:
        (count,) = unpack(">H", encoded[:2])
        position, before, names = 2, b"", []
        for _ in range(count):
            shared, more = encoded[position], encoded[position + 1]
            position += 2 + more
            before = before[:shared] + encoded[position - more : position]
            names.append(intern(before.decode("ascii")))
        parents = unpack(f">{count}H", encoded[position:])
    except (ValueError, IndexError, struct.error) as error:
        raise ProtocolError("plan", encoded[:32], str(error)) from None
    if not 0 < count <= MAX_NODES or any(a >= b for a, b in pairwise(names)):
        raise ProtocolError("plan", count, f"1 to {MAX_NODES} names in order")
    if max(parents) >= count or not all(0 < len(name) <= MAX_NODE_NAME for name in names):
        raise ProtocolError("plan", count, "names and parents within bounds")
    return Plan(encoded, tuple(names), parents)


def encode_distances(names: tuple[str, ...], distances: Mapping[str, int]) -> bytes:
    """Distances to some of the names, four bytes each."""
    return b"".join(
        _PAIR.pack(number, _squeeze(distances[name] // DISTANCE_UNIT, 11, 0xFFFF))
        for number, name in enumerate(names)
        if name in distances
    )


def decode_distances(names: tuple[str, ...], encoded: bytes) -> dict[str, int]:
    """Nanoseconds by name; what makes no sense is left out."""
    whole = encoded[: len(encoded) // 4 * 4]
    return {
        names[number]: max(1, _stretch(code, 11)) * DISTANCE_UNIT
        for number, code in _PAIR.iter_unpack(whole)
        if number < len(names)
    }


def encode_age(age: int) -> int:
    """An age in nanoseconds as one byte, never younger than it is."""
    return _squeeze(-(-max(age, 0) // AGE_UNIT), 4, 0xFF, up=True)


def decode_age(code: int) -> int:
    """Nanoseconds."""
    return _stretch(code, 4) * AGE_UNIT


def _squeeze(value: int, bits: int, most: int, up: bool = False) -> int:
    """A number as mantissa of so many bits and exponent above it."""
    exponent = max(0, value.bit_length() - bits)
    mantissa = -(-value >> exponent) if up else value >> exponent
    if mantissa >> bits:
        mantissa, exponent = mantissa >> 1, exponent + 1
    return min(exponent << bits | mantissa, most)


def _stretch(code: int, bits: int) -> int:
    return (code & (1 << bits) - 1) << (code >> bits)
