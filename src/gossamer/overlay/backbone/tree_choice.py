"""The architect: which tree a node advertises, and the measurements it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gossamer.core.context import Context
from gossamer.core.names import NANOSECONDS
from gossamer.overlay.backbone.members import Roster, pairs
from gossamer.overlay.backbone.spanner import burden, repaired_edges, spanning_edges
from gossamer.overlay.backbone.tree_codec import Plan, decode_plan, encode_plan

UNKNOWN = 10 * NANOSECONDS
"""Distance of an edge that nobody has measured: it is used where there is no other."""
GAIN = 0.9
"""A new tree replaces one that still holds only if its burden is less than this part of the old one's."""
RENEWED = 0.9
"""Part of the nodes of a tree that must be left of it for a repair to be enough."""


class Links(Mapping[tuple[str, str], int]):
    """All measured distances as (lower, higher) to nanoseconds; read at the first look and then kept.

    Of two measurements of one pair the smaller counts. Equal to another only if made for the same tree.
    """

    def __init__(self, roster: Roster, here: str, made_for: object) -> None:
        self._roster, self._here, self._made_for = roster, here, made_for
        self._found: dict[tuple[str, str], int] | None = None

    def _links(self) -> dict[tuple[str, str], int]:
        if self._found is None:
            self._found = gather(self._roster, self._here)
        return self._found

    def __getitem__(self, pair: tuple[str, str]) -> int:
        return self._links()[pair]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._links())

    def __len__(self) -> int:
        return len(self._links())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Links) and self._made_for is other._made_for

    __hash__: Any = None


def gather(roster: Roster, here: str) -> dict[tuple[str, str], int]:
    """Links between living nodes, as this node and all others measured them."""
    live = roster.live
    links: dict[tuple[str, str], int] = {}
    for name in sorted(live):
        distances = roster.distances if name == here else roster.measured(name)
        for pair, distance in pairs(name, distances):
            if pair[0] in live and pair[1] in live and distance < links.get(pair, distance + 1):
                links[pair] = distance
    return links


class Architect:
    """Makes trees for one node.

    factor
        Of the spanner.
    """

    def __init__(self, roster: Roster, factor: float) -> None:
        self._roster = roster
        self._factor = factor
        self._best: Plan | None = None
        self._made_for: tuple[int, Plan | None] = (-1, None)

    def best(self, ctx: Context, official: Plan | None) -> Plan:
        """The official tree if it is over just the living, or else what it takes to make it so."""
        roster = self._roster
        if self._best is None or self._made_for != (roster.version, official):
            live = roster.live
            if official is not None and official.members == live:
                self._best = official
            else:
                self._best = self._repaired(ctx, official or self._best)
            self._made_for = (roster.version, official)
        return self._best

    def _repaired(self, ctx: Context, old: Plan | None) -> Plan:
        roster = self._roster
        edges = old.edges if old is not None else []

        def measured(name: str) -> Mapping[str, int]:
            if name == ctx.node:
                return roster.distances
            found = dict(roster.measured(name))
            state = roster.states.get(name)
            if state is not None:
                for other in decode_plan(state.plan).near.get(name, ()):
                    found.setdefault(other, UNKNOWN)
            return found

        return self._plan(repaired_edges(roster.live, edges, measured, ctx.node))

    def _plan(self, edges: list[tuple[str, str]]) -> Plan:
        return decode_plan(encode_plan(self._roster.live, edges))

    def plan(self, ctx: Context, official: Plan | None, lowest: str) -> Plan:
        """What to advertise; the lowest of all computes anew and changes the tree if that is worth it."""
        best = self.best(ctx, official)
        if lowest != ctx.node or len(self._roster.live) < 3:
            return best
        links = gather(self._roster, ctx.node)
        # edges of the present tree hold together what nobody has measured
        joined = {edge: links.get(edge, UNKNOWN) for edge in best.edges} | links
        edges = spanning_edges(joined, self._factor)
        left = len(official.members & best.members) if official is not None else 0
        new = burden(edges, joined, UNKNOWN)
        if left < RENEWED * len(best.names) or new < GAIN * burden(best.edges, joined, UNKNOWN):
            self._best = self._plan(edges)
            self._made_for = (-1, None)
            return self._best
        return best
