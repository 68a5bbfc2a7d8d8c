"""A field: nodes at random places in a square, where every pair can talk and distance is latency.

Links come about when they are first used and nobody is told of them: nodes find out about each other by
probing, from the few contacts that each begins with.
"""

from __future__ import annotations

from math import hypot

import msgspec

from gossamer.core.context import Dice
from gossamer.core.tree import Tree
from gossamer.overlay.backbone.spanner import minimum_spanning_edges
from gossamer.simulator.network.link_models import LinkModel

Place = tuple[float, float]


class Field:
    """Places of nodes.

    latency
        ``base + distance × scale`` seconds, distance between 0 and √2.
    """

    def __init__(self, names: list[str], base: float, scale: float, dice: Dice) -> None:
        self.places: dict[str, Place] = {name: (dice.random(), dice.random()) for name in names}
        self._base, self._scale = base, scale

    def latency(self, a: str, b: str) -> float:
        """Seconds from one node to another."""
        (x, y), (u, v) = self.places[a], self.places[b]
        return self._base + hypot(x - u, y - v) * self._scale

    def model(self, a: str, b: str, like: LinkModel) -> LinkModel:
        """The link between two nodes, in all but latency like a given one."""
        return msgspec.structs.replace(like, latency=self.latency(a, b))

    def contacts(self, count: int, dice: Dice) -> dict[str, dict[str, tuple[str, ...]]]:
        """Whom each node knows at the beginning: so many others, without a node that nobody leads to.

        One contact of each node comes before it, so that all hang together; the others are any.
        """
        names = list(self.places)
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for number, name in enumerate(names):
            known = {names[dice.randrange(number)]} if number else set()
            while len(known) < min(count, len(names) - 1):
                known.add(dice.choice(names))
                known.discard(name)
            found[name] = dict.fromkeys(sorted(known), ())
        return found

    def tree(self) -> Tree:
        """The minimum spanning tree of the true latencies, for runs without monitoring."""
        names = sorted(self.places)
        links = {
            (a, b): round(1e9 * self.latency(a, b))
            for number, a in enumerate(names)
            for b in names[number + 1 :]
        }
        return Tree(minimum_spanning_edges(links))
