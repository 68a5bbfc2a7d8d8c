"""Who still gets an event when nodes have failed: a ring and binary trees below it (seed 001, section III).

The publisher sends to the first ring. Node i of a ring has the children 2i and 2i + 1 in the next, and sends
to them; also to the left child of its right neighbour and to the right child of its left neighbour, if that
neighbour has failed. Who gets an event from another node than its parent passes it on to the right, and so
does who gets it that way, until it comes to one that has it or has failed. Parents are taken to be first.
"""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from gossamer.core.errors import ConfigError
from gossamer.ringtrees import places

Flags = NDArray[np.bool_]
MOST_RINGS = 20


class Reach(msgspec.Struct, frozen=True):
    """The share of living nodes that get an event.

    failed
        The chance of each node to have failed.
    reached
        With all rules, in the trials that were made.
    deviation
        Of the mean of those trials.
    parents_only
        Without the rules for failures, exactly.
    """

    failed: float
    reached: float
    deviation: float
    parents_only: float


def entry_points(publishers: int) -> int:
    """Nodes in the first ring: m = log2(n), rounded up, at least one."""
    if publishers < 1:
        raise ConfigError(f"{publishers}: there is at least 1 publisher", key="publishers")
    return places.entry_points(publishers)


def sizes(first: int, rings: int) -> list[int]:
    """Nodes of each ring, the first one inside."""
    if first < 1:
        raise ConfigError(f"{first}: the first ring has at least 1 node", key="ring")
    if not 1 <= rings <= MOST_RINGS:
        raise ConfigError(f"{rings}: from 1 to {MOST_RINGS}", key="rings")
    return [first * 2**ring for ring in range(rings)]


def reached(alive: list[Flags], rules: frozenset[int] = frozenset({1, 2, 3})) -> list[Flags]:
    """Which nodes get the event.

    alive
        For each ring, the inner ones first, which nodes live: the last axis is the place in the ring, those
        before it are trials.
    rules
        Which of the three rules for failures are followed.
    """
    has = alive[0].copy()
    found = [has]
    for ring, living in pairwise(alive):
        sent = np.repeat(has, 2, axis=-1)
        aside = np.zeros_like(sent)
        if 1 in rules:
            aside[..., 0::2] = np.roll(has, 1, axis=-1) & ~ring
        if 2 in rules:
            aside[..., 1::2] = np.roll(has, -1, axis=-1) & ~ring
        sent &= living
        has = sent | (_to_the_right(sent, aside & living, living) if 3 in rules else aside & living)
        found.append(has)
    return found


def _to_the_right(sent: Flags, aside: Flags, living: Flags) -> Flags:
    """Who has it from another node than the parent, when everyone of them passes it on."""
    moving = aside = aside & ~sent
    while moving.any():
        moving = np.roll(moving, 1, axis=-1) & living & ~sent & ~aside
        aside = aside | moving
    return aside


def share(alive: list[Flags], has: list[Flags]) -> tuple[float, float]:
    """The share of living nodes that get an event: mean over trials, and the deviation of that mean."""
    living = sum(ring.sum(axis=-1) for ring in alive)
    got = sum(ring.sum(axis=-1) for ring in has)
    shares = np.asarray(got)[living > 0] / np.asarray(living)[living > 0]
    if not shares.size:
        return 1.0, 0.0
    return float(shares.mean()), float(shares.std() / math.sqrt(shares.size))


def parents_only(first: int, rings: int, failed: float) -> float:
    """The expected share without the rules: a node gets the event if everybody above it lives."""
    each = sizes(first, rings)
    return sum(size * (1 - failed) ** ring for ring, size in enumerate(each)) / sum(each)
