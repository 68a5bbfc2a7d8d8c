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
from gossamer.templates.ringtree import layout as places

Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]
ALL = frozenset({1, 2, 3})
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
    copies, hops
        What a node that gets the event sends, and from how far it has come, on average.
    """

    failed: float
    reached: float
    deviation: float
    parents_only: float
    copies: float
    hops: float


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


def reached(alive: list[Flags], rules: frozenset[int] = ALL) -> list[Flags]:
    """Which nodes get the event.

    alive
        For each ring, the inner ones first, which nodes live: the last axis is the place in the ring, those
        before it are trials.
    rules
        Which of the three rules for failures are followed.
    """
    return [hops > 0 for hops in distances(alive, rules)]


def distances(alive: list[Flags], rules: frozenset[int] = ALL) -> list[Counts]:
    """Over how many hops each node gets the event from the publisher; 0 is not at all."""
    found = [alive[0].astype(np.int64)]
    for ring, living in pairwise(alive):
        hops = found[-1]
        sent = np.where(living, _next(np.repeat(hops, 2, axis=-1)), 0)
        aside = np.zeros_like(sent)
        if 1 in rules:
            aside[..., 0::2] = np.where(ring, 0, _next(np.roll(hops, 1, axis=-1)))
        if 2 in rules:
            aside[..., 1::2] = np.where(ring, 0, _next(np.roll(hops, -1, axis=-1)))
        aside = np.where(living & (sent == 0), aside, 0)
        found.append(sent + (_to_the_right(aside, living & (sent == 0)) if 3 in rules else aside))
    return found


def _next(hops: Counts) -> Counts:
    return np.where(hops > 0, hops + 1, 0)


def _to_the_right(aside: Counts, open_to: Flags) -> Counts:
    """Who has it from another node than the parent, when everyone of them passes it on."""
    while True:
        moved = np.where(open_to, _next(np.roll(aside, 1, axis=-1)), 0)
        better = (moved > 0) & ((aside == 0) | (moved < aside))
        if not better.any():
            return aside
        aside = np.where(better, moved, aside)


def loads(alive: list[Flags], hops: list[Counts]) -> list[Counts]:
    """How many copies each node sends that has the event, when all three rules are followed.

    Nobody sends to a node that is known to have failed. Four at most: two children, and two children of
    failed neighbours; or one of these and the neighbour on the right.
    """
    found = []
    for number, (ring, has) in enumerate(zip(alive, hops, strict=True)):
        copies = np.zeros_like(has)
        if number + 1 < len(alive):
            left, right = alive[number + 1][..., 0::2], alive[number + 1][..., 1::2]
            copies += left.astype(np.int64) + right
            copies += np.roll(left & ~ring, -1, axis=-1) + np.roll(right & ~ring, 1, axis=-1).astype(np.int64)
        if number:
            fed = np.repeat(hops[number - 1] > 0, 2, axis=-1)
            copies += (~fed & np.roll(ring, -1, axis=-1)).astype(np.int64)
        found.append(np.where(has > 0, copies, 0))
    return found


def tried(alive: list[Flags], failed: float) -> Reach:
    """What came of trials with one chance to fail."""
    hops = distances(alive)
    has = [each > 0 for each in hops]
    mean, deviation = share(alive, has)
    got = max(1, sum(int(each.sum()) for each in has))
    copies = sum(int(each.sum()) for each in loads(alive, hops))
    far = sum(int(each.sum()) for each in hops)
    exactly = parents_only(alive[0].shape[-1], len(alive), failed)
    return Reach(failed, mean, deviation, exactly, copies / got, far / got)


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
