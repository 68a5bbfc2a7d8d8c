"""Loads and flows where dispatchers form any graph: rings, rings of trees, trees as a special case.

An event takes shortest ways, so that each dispatcher where it begins has a tree of its own over the graph.
What the forms of ``dispatch`` say of a hierarchy holds on those trees too: D receives an event if a listener
is at D or behind it. How interest spreads may be measured in other distances than hops, so that different
graphs can be compared under the same interest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gossamer.analysis.dispatch import hit_of, weights_of
from gossamer.analysis.hierarchy import Real, Whole
from gossamer.core.errors import ConfigError, NotATree

MOST_NODES = 2000
"""Ways between all pairs of so many take a few seconds."""


class Routes:
    """Shortest ways between all pairs; of two equally short ones the one found first, by lower numbers.

    edges
        Pairs of dispatchers, numbered from 0.
    size
        How many dispatchers there are.
    """

    def __init__(self, edges: Iterable[tuple[int, int]], size: int) -> None:
        if not 1 <= size <= MOST_NODES:
            raise ConfigError(f"{size}: from 1 to {MOST_NODES} dispatchers", key="dispatchers")
        self.size = size
        self.edges = tuple(edges)
        near: list[set[int]] = [set() for _ in range(size)]
        for a, b in self.edges:
            near[a].add(b)
            near[b].add(a)
        self.near = [sorted(each) for each in near]
        self.distances: Whole = np.full((size, size), -1, np.int32)
        """Hops between each two."""
        self.before: Whole = np.full((size, size), -1, np.int32)
        """The last dispatcher before another (column) on the way there (from row); -1 where it begins."""
        for start in range(size):
            self._walk(start)

    def _walk(self, start: int) -> None:
        hops, before = [-1] * self.size, [-1] * self.size
        hops[start] = 0
        queue = [start]
        for node in queue:
            for other in self.near[node]:
                if hops[other] < 0:
                    hops[other], before[other] = hops[node] + 1, node
                    queue.append(other)
        if len(queue) < self.size:
            lost = hops.index(-1)
            raise NotATree(f"no way leads from dispatcher {start} to dispatcher {lost}")
        self.distances[start], self.before[start] = hops, before

    @cached_property
    def rounds(self) -> list[list[NDArray[np.intp]]]:
        """For each dispatcher where ways begin, the others by distance, the farthest first."""
        return [
            [np.flatnonzero(hops == away) for away in range(int(hops.max()), 0, -1)]
            for hops in self.distances
        ]

    def gathered(self, start: int, weights: Real) -> Real:
        """What lies at each dispatcher or behind it, seen from one of them: sums along its ways.

        weights
            One row for each dispatcher.
        """
        found = weights.copy()
        before = self.before[start]
        for nodes in self.rounds[start]:
            np.add.at(found, before[nodes], found[nodes])
        return found

    def along(self, targets: Iterable[int]) -> NDArray[np.bool_]:
        """Whether a dispatcher (column) is on a way to any of the targets (from row)."""
        marked = np.zeros(self.size)
        marked[list(targets)] = 1
        return np.array([self.gathered(start, marked) > 0 for start in range(self.size)])

    def way(self, start: int, target: int) -> list[int]:
        """All dispatchers from one to another, both included."""
        found = [target]
        while found[-1] != start:
            found.append(int(self.before[start, found[-1]]))
        return found[::-1]

    def flows(self, visits: Real) -> Real:
        """Events from each dispatcher (row) straight to another (column).

        visits
            Events that begin at a dispatcher (row) and come to another (column).
        """
        found = np.zeros((self.size, self.size))
        rows, columns = np.nonzero(self.before >= 0)
        np.add.at(found, (self.before[rows, columns], columns), visits[rows, columns])
        return found


class Interest:
    """Who listens to events that begin at a site, by how far apart sites are (seed 002, formula 1).

    apart
        Distances between each two sites.
    objects
        Active objects at each site, any of which may listen.
    spread, listeners
        As in ``dispatch.Traffic``.
    """

    def __init__(
        self, apart: Whole, objects: Real, spread: float, listeners: int | Sequence[float] = 1
    ) -> None:
        self.apart = apart
        self.objects = objects
        self.weights = weights_of(listeners)
        self.reach = int(apart.max()) + 1
        self.chances: Real = np.power(float(spread), np.arange(self.reach, dtype=np.float64))
        self.around = np.array([np.bincount(row, objects, self.reach) for row in apart])
        """Objects at each distance (column) from each site (row)."""

    def pairs(self) -> Real:
        """Listeners at a site (column) of an event that begins at another (row), on average."""
        counts = np.arange(1, len(self.weights) + 1)
        drawn = np.minimum(counts, self.around[..., None]) @ self.weights
        share = np.divide(drawn, self.around, out=np.zeros_like(drawn), where=self.around > 0)
        at = np.arange(len(self.apart))[:, None]
        found: Real = (self.chances * share)[at, self.apart] * self.objects
        return found

    def reached(self, routes: Routes, homes: Sequence[int]) -> Real:
        """The chance that an event of a site (row) has a listener at a dispatcher (column) or behind it.

        homes
            The dispatcher of each site.
        """
        found = np.empty((len(homes), routes.size))
        for site, home in enumerate(homes):
            part = np.zeros((routes.size, self.reach))
            np.add.at(part, (np.asarray(homes), self.apart[site]), self.objects)
            part = routes.gathered(home, part)
            hit = self.chances * hit_of(part, np.broadcast_to(self.around[site], part.shape), self.weights)
            found[site] = 1 - np.prod(1 - hit, axis=1)
            found[site, home] = 1.0  # it begins there
        return found
