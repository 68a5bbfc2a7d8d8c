"""A hierarchy of dispatchers as arrays: distances, who is above whom, and what lies behind whom.

Dispatchers are numbered so that everybody comes after the one above. What lies behind a dispatcher depends on
where one looks from: from above it is its own subtree, from a subtree of it all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gossamer.core.errors import ConfigError, NotATree

MOST_DISPATCHERS = 6000
"""Arrays over all pairs of so many take a gigabyte."""

Whole = NDArray[np.int32]
Real = NDArray[np.float64]


class Hierarchy:
    """A rooted tree.

    above
        For each dispatcher the number of the one above; -1 for the root, which comes first.
    """

    def __init__(self, above: Sequence[int]) -> None:
        if len(above) > MOST_DISPATCHERS:
            raise _too_many(len(above))
        if not above or above[0] != -1 or any(not 0 <= up < n for n, up in enumerate(above) if n):
            raise NotATree("the root comes first, and everybody after the one above")
        self.above = list(above)
        self.size = len(self.above)

    @classmethod
    def balanced(cls, arity: int, levels: int) -> Hierarchy:
        """Every dispatcher has so many below it, but those of the last level; the root is the first level."""
        if arity < 1:
            raise ConfigError(f"{arity}: a dispatcher has at least 1 below it", key="arity")
        if levels < 1:
            raise ConfigError(f"{levels}: there is at least 1 level, the root", key="levels")
        width, size = 1, 1
        for _ in range(levels - 1):
            width *= arity
            size += width
            if size > MOST_DISPATCHERS:
                raise _too_many(size)
        return cls([(n - 1) // arity if n else -1 for n in range(size)])

    @cached_property
    def levels(self) -> Whole:
        """How far each dispatcher is from the root."""
        levels = np.zeros(self.size, np.int32)
        for n, up in enumerate(self.above[1:], 1):
            levels[n] = levels[up] + 1
        return levels

    @cached_property
    def distances(self) -> Whole:
        """Hops between each two."""
        hops = np.zeros((self.size, self.size), np.int32)
        for n, up in enumerate(self.above[1:], 1):
            hops[n, :n] = hops[up, :n] + 1
            hops[:n, n] = hops[n, :n]
        return hops

    @cached_property
    def entries(self) -> Whole:
        """By which branch one comes from a dispatcher (row) to another (column).

        Branch b < size comes from above to dispatcher b; branch size + b from b to the one above it. Nobody
        comes to itself; there the branch from above stands.
        """
        branches = np.tile(np.arange(self.size, dtype=np.int32), (self.size, 1))
        for n, up in enumerate(self.above[1:], 1):
            for higher in self._all_above(n):
                branches[n, higher] = branches[up, higher] if higher != up else self.size + n
        return branches

    @cached_property
    def subtrees(self) -> NDArray[np.bool_]:
        """Whether a dispatcher (row) is another (column) or below it."""
        below = np.eye(self.size, dtype=np.bool_)
        for n, up in enumerate(self.above[1:], 1):
            below[n] |= below[up]
        return below

    def behind(self, weights: Real) -> Real:
        """The weight that lies behind each branch: rows are branches, columns distances from where it leads.

        Column 0 is the dispatcher itself to which the branch leads.
        """
        reach = 2 * int(self.levels.max()) + 1
        found = np.zeros((2 * self.size, reach))
        found[: self.size, 0] = weights
        for n in range(self.size - 1, 0, -1):
            found[self.above[n], 1:] += found[n, :-1]
        for n, up in enumerate(self.above[1:], 1):
            rest = found[up].copy()
            rest[1:] -= found[n, :-1]
            if up:
                rest[1:] += found[self.size + up, :-1]
            found[self.size + n] = rest
        return found

    def around(self, weights: Real) -> Real:
        """The weight at each distance (column) from each dispatcher (row)."""
        behind = self.behind(weights)
        found = behind[: self.size].copy()
        found[1:, 1:] += behind[self.size + 1 :, :-1]
        return found

    def _all_above(self, n: int) -> list[int]:
        found = []
        while (n := self.above[n]) >= 0:
            found.append(n)
        return found


def _too_many(dispatchers: int) -> ConfigError:
    return ConfigError(f"{dispatchers} or more dispatchers: at most {MOST_DISPATCHERS}", key="levels")
