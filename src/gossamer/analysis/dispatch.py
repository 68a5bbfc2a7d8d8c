"""How many events a dispatcher receives (seed 002, section 3; docs/analysis.md has the derivation).

Events that begin at a dispatcher S have listeners at distance n with probability R(n) = spread ** n, for each
distance on its own (formula 1). If so, there are so many of them, drawn among the active objects at that
distance. A dispatcher D receives the event if a listener is at D or behind it (formulas 2 to 4).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from gossamer.analysis.hierarchy import Hierarchy, Real
from gossamer.core.errors import ConfigError

MOST_LISTENERS = 1000


class Traffic(msgspec.Struct, frozen=True):
    """What happens at the dispatchers; a single number holds for all of them, else there is one for each.

    rate
        Events that begin at a dispatcher, per second.
    window
        Seconds that are looked at.
    spread
        The spreading coefficient of events that begin at a dispatcher, 0 to 1.
    objects
        Active objects of a dispatcher, any of which may listen.
    listeners
        How many active objects at one distance listen to an event, if any does: a number, or the
        probabilities of 1, 2, 3 and so on.
    """

    rate: float | Sequence[float] = 1.0
    window: float = 1.0
    spread: float | Sequence[float] = 0.5
    objects: int | Sequence[int] = 10
    listeners: int | Sequence[float] = 1


class Loads(msgspec.Struct, frozen=True):
    """Events that each dispatcher receives in the window, with each way to propagate."""

    subscription: Real
    advertisement: Real


def loads(hierarchy: Hierarchy, traffic: Traffic) -> Loads:
    """The load of every dispatcher: formula B1 with advertisements, B2 without."""
    begun = each_of(hierarchy.size, "rate", traffic.rate, 0, np.inf) * _window(traffic.window)
    chances = probabilities(hierarchy, traffic)
    always = np.where(hierarchy.subtrees, 1.0, chances)
    return Loads(subscription=begun @ always, advertisement=begun @ chances)


def probabilities(hierarchy: Hierarchy, traffic: Traffic) -> Real:
    """P(S, D): an event that begins at S (row) has a listener at D or behind it (column); formula 2."""
    spread = each_of(hierarchy.size, "spread", traffic.spread, 0, 1)
    objects = each_of(hierarchy.size, "objects", traffic.objects, 0, 10**9)
    weights = weights_of(traffic.listeners)
    behind, around = hierarchy.behind(objects), hierarchy.around(objects)
    reach = behind.shape[1]
    spreading = spread[:, None] ** np.arange(reach)  # formula 1
    chances = np.empty((hierarchy.size, hierarchy.size))
    for source in range(hierarchy.size):
        hops = hierarchy.distances[source]
        distance = hops[:, None] + np.arange(reach)
        there = distance < reach
        distance = np.where(there, distance, 0)
        part = np.where(there, behind[hierarchy.entries[source]], 0.0)
        hit = spreading[source][distance] * hit_of(part, around[source][distance], weights)
        chances[source] = 1 - np.prod(1 - hit, axis=1)  # 2, 3 and 4 in one: nobody at D, and nobody behind
        chances[source, source] = 1.0  # it begins there
    return chances


def hit_of(part: Real, whole: Real, weights: Real) -> Real:
    """The chance that of some listeners drawn out of a whole at least one is in a part of it.

    With m listeners none is in the part with probability C(whole - part, m) / C(whole, m), a product of m
    fractions; when nobody is left to be drawn, nobody is.
    """
    missed = np.ones_like(part)
    chance = np.zeros_like(part)
    for drawn, weight in enumerate(weights):
        left = whole - drawn
        missed = missed * np.where(left > 0, np.maximum(left - part, 0) / np.maximum(left, 1), 1.0)
        chance += weight * (1 - missed)
    return chance


def weights_of(listeners: int | Sequence[float]) -> Real:
    """The probabilities of 1, 2, 3 … listeners."""
    if isinstance(listeners, int):
        if not 1 <= listeners <= MOST_LISTENERS:
            raise ConfigError(f"{listeners}: from 1 to {MOST_LISTENERS}", key="listeners")
        return np.array([0.0] * (listeners - 1) + [1.0])
    weights = np.asarray(listeners, float)
    if not 1 <= len(weights) <= MOST_LISTENERS or (weights < 0).any() or abs(weights.sum() - 1) > 1e-9:
        raise ConfigError(f"{list(listeners)[:9]}: probabilities of 1, 2, 3 … must sum to 1", key="listeners")
    return weights


def _window(seconds: float) -> float:
    if not 0 < seconds < np.inf:
        raise ConfigError(f"{seconds:g}: seconds, more than 0", key="window")
    return seconds


def each_of(size: int, key: str, values: ArrayLike, least: float, most: float) -> Real:
    """One value for each dispatcher."""
    given = np.asarray(values, float)
    if given.ndim and given.shape != (size,):
        raise ConfigError(f"{given.size} values for {size} dispatchers", key=key)
    wrong = given[~((given >= least) & (given <= most) & np.isfinite(given))]
    if wrong.size:
        raise ConfigError(f"{wrong.flat[0]:g}: from {least:g} to {most:g}", key=key)
    return np.broadcast_to(given, (size,))
