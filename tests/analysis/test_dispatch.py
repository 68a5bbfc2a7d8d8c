"""The load of dispatchers: the seed's formulas word by word, exact fractions, and dice."""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.analysis.dispatch import Traffic, loads, probabilities
from gossamer.analysis.hierarchy import Hierarchy
from gossamer.core.errors import ConfigError, NotATree

trees = st.lists(st.integers(0, 100), max_size=12).map(
    lambda draws: [-1, *(draw % (n + 1) for n, draw in enumerate(draws))]
)


def walk(above: list[int], start: int, without: int = -1) -> dict[int, int]:
    """Hops from a dispatcher to all that can be reached, one of them taken out."""
    near: dict[int, set[int]] = {n: set() for n in range(len(above))}
    for n, up in enumerate(above):
        if up >= 0:
            near[n].add(up)
            near[up].add(n)
    away, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        for other in near[node] - away.keys() - {without}:
            away[other] = away[node] + 1
            queue.append(other)
    return away


def by_the_seed(above: list[int], source: int, target: int, spread: Fraction) -> Fraction:
    """Formulas 1 to 4 for one pair, as they stand in the seed."""
    away = walk(above, source)
    count = [list(away.values()).count(level) for level in range(len(above))]
    here = away[target]
    first = spread**here / count[here]
    if source == target:
        return Fraction(1)
    rest = set(away) - set(walk(above, source, without=target)) - {target}
    missed = Fraction(1)
    for level in range(here + 1, len(above)):
        behind = sum(away[node] == level for node in rest)
        if behind:
            missed *= 1 - Fraction(behind, count[level]) * spread**level
    leaf = 0 if target not in above and target else 1
    return first + (1 - first) * leaf * (1 - missed)


@settings(max_examples=60)
@given(trees, st.fractions(0, 1, max_denominator=12))
def test_any_tree_gives_exactly_what_the_formulas_of_the_seed_say(above: list[int], spread: Fraction) -> None:
    found = probabilities(Hierarchy(above), Traffic(spread=float(spread)))
    for source in range(len(above)):
        for target in range(len(above)):
            expected = by_the_seed(above, source, target, spread)
            assert found[source, target] == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
def test_the_example_of_the_seed(spread: float) -> None:
    load = loads(Hierarchy.balanced(4, 3), Traffic(rate=10 / 10, window=390, spread=spread))
    assert load.subscription[0] == 8190
    assert 390 <= load.advertisement[0] <= 8190
    assert (load.advertisement <= load.subscription + 1e-9).all()


def test_with_advertisements_the_root_goes_from_its_own_events_to_all_of_them() -> None:
    roots = [
        loads(Hierarchy.balanced(4, 3), Traffic(1.0, 390, spread / 20)).advertisement[0]
        for spread in range(21)
    ]
    assert roots[0] == 390
    assert roots[-1] == 8190
    assert roots == sorted(roots)


def test_a_leaf_receives_the_same_with_and_without_advertisements() -> None:
    load = loads(Hierarchy.balanced(3, 4), Traffic(spread=0.6))
    leaves = np.arange(13, 40)
    assert load.subscription[leaves] == pytest.approx(load.advertisement[leaves])


def simulated(above: list[int], traffic: Traffic, events: int, seed: int) -> np.ndarray:
    """The share of events of each dispatcher (row) that each (column) receives, by throwing dice."""
    dice = np.random.default_rng(seed)
    size = len(above)
    spread = np.broadcast_to(np.asarray(traffic.spread, float), size)
    objects = np.broadcast_to(np.asarray(traffic.objects), size)
    received = np.zeros((size, size))
    for source in range(size):
        away = walk(above, source)
        way = {node: _way(above, source, node) for node in away}
        homes = {
            level: np.repeat(*zip(*[(n, objects[n]) for n in away if away[n] == level], strict=True))
            for level in range(1, max(away.values()) + 1)
        }
        for _ in range(events):
            reached = {source}
            for level, home in homes.items():
                if len(home) and dice.random() < spread[source] ** level:
                    for listener in dice.choice(home, min(_drawn(dice, traffic), len(home)), replace=False):
                        reached |= way[listener]
            received[source, list(reached)] += 1
    return received / events


def _drawn(dice: np.random.Generator, traffic: Traffic) -> int:
    if isinstance(traffic.listeners, int):
        return traffic.listeners
    return int(dice.choice(len(traffic.listeners), p=traffic.listeners)) + 1


def _way(above: list[int], source: int, target: int) -> set[int]:
    up = {}
    for end in (source, target):
        path = [end]
        while above[path[-1]] >= 0:
            path.append(above[path[-1]])
        up[end] = path
    meeting = next(node for node in up[source] if node in up[target])
    return {
        *up[source][: up[source].index(meeting) + 1],
        *up[target][: up[target].index(meeting) + 1],
    }


IRREGULAR = [-1, 0, 0, 0, 1, 1, 2, 4, 4, 6]


@pytest.mark.parametrize(
    "traffic",
    [
        Traffic(spread=0.6),
        Traffic(spread=0.7, listeners=3, objects=2),
        Traffic(spread=0.8, listeners=(0.5, 0.2, 0.3), objects=1),
        Traffic(
            spread=[0.1, 0.9, 0.5, 1.0, 0.3, 0.7, 0.6, 0.8, 0.2, 0.4],
            objects=[1, 2, 0, 3, 1, 5, 2, 1, 1, 4],
            listeners=2,
        ),
    ],
    ids=["one listener", "three listeners", "a random number of listeners", "everybody is different"],
)
def test_dice_agree_with_the_derivation(traffic: Traffic) -> None:
    events = 3000
    expected = probabilities(Hierarchy(IRREGULAR), traffic)
    found = simulated(IRREGULAR, traffic, events, seed=7)
    deviation = np.sqrt(expected * (1 - expected) / events)
    assert (np.abs(found - expected) <= 4.5 * deviation + 1e-9).all()


def test_rates_of_each_dispatcher_add_up() -> None:
    hierarchy = Hierarchy(IRREGULAR)
    rates = np.arange(10.0)
    parts = [loads(hierarchy, Traffic(list(np.eye(10)[n] * rates[n]), 5.0, 0.4)) for n in range(10)]
    whole = loads(hierarchy, Traffic(list(rates), 5.0, 0.4))
    assert whole.advertisement == pytest.approx(sum(part.advertisement for part in parts))
    assert whole.subscription[0] == pytest.approx(5 * rates.sum())


def test_more_listeners_never_mean_less_load_and_one_listener_needs_no_objects() -> None:
    hierarchy = Hierarchy.balanced(3, 3)
    load = [loads(hierarchy, Traffic(listeners=m, spread=0.5)).advertisement for m in (1, 2, 5, 1000)]
    assert all((more >= less - 1e-12).all() for less, more in pairwise(load))
    few, many = (loads(hierarchy, Traffic(objects=objects)).advertisement for objects in (1, 1000))
    assert few == pytest.approx(many)


def test_when_all_listen_the_spread_alone_decides() -> None:
    found = probabilities(Hierarchy([-1, 0, 0]), Traffic(spread=0.5, listeners=1000, objects=3))
    assert found[1] == pytest.approx([1 - 0.5 * 0.75, 1, 0.25])


@pytest.mark.parametrize(
    ("traffic", "key"),
    [
        (Traffic(spread=1.1), "spread"),
        (Traffic(spread=math.nan), "spread"),
        (Traffic(rate=-1), "rate"),
        (Traffic(rate=[1.0, 2.0]), "rate"),
        (Traffic(window=0), "window"),
        (Traffic(listeners=0), "listeners"),
        (Traffic(listeners=[0.5, 0.4]), "listeners"),
        (Traffic(objects=-1), "objects"),
    ],
)
def test_traffic_that_cannot_be_is_refused_by_name(traffic: Traffic, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(Hierarchy.balanced(2, 2), traffic)
    assert caught.value.key == key


@pytest.mark.parametrize("above", [[], [0], [-1, 1], [-1, 2, 0], [-1, -1]])
def test_what_is_no_hierarchy_is_refused(above: list[int]) -> None:
    with pytest.raises(NotATree):
        Hierarchy(above)
