"""Lengths of paths against counting them, and the reach of rings with trees against the seed's claims."""

from __future__ import annotations

import numpy as np
import pytest

from gossamer.analysis import reach
from gossamer.analysis.paths import hops, multi_ring, paths, ring, tree
from gossamer.core.errors import ConfigError


def longest(nodes: int, **settings: int) -> dict[str, tuple[float, int | None]]:
    return {each.topology: (each.longest, each.counted) for each in paths(nodes, **settings)}


@pytest.mark.parametrize("nodes", [2, 6, 40, 100])
def test_an_even_ring_is_exactly_half_as_long_as_it_has_nodes(nodes: int) -> None:
    form, counted = longest(nodes)["ring"]
    assert form == counted


@pytest.mark.parametrize(("arity", "nodes"), [(2, 7), (2, 63), (3, 40), (4, 85), (4, 341)])
def test_a_full_tree_is_exactly_as_deep_as_its_form(arity: int, nodes: int) -> None:
    form, counted = longest(nodes, arity=arity)["tree"]
    assert form == pytest.approx(counted)


@pytest.mark.parametrize("ratio", [2, 3, 4, 6])
@pytest.mark.parametrize("rings", [2, 3])
def test_a_multi_ring_is_never_longer_than_its_form(ratio: int, rings: int) -> None:
    form, counted = longest(ratio**rings, ratio=ratio)["multi-ring"]
    assert counted is not None
    assert form / 2 - 1 <= counted <= form


def test_a_multi_ring_is_far_shorter_than_a_ring() -> None:
    assert hops(multi_ring(512, 4))[0] < 20 < hops(ring(512))[0]
    assert hops(tree(511, 2))[0] == 16


def test_large_networks_are_not_counted() -> None:
    assert all(counted is None for _, counted in longest(10**9).values())


@pytest.mark.parametrize(
    ("settings", "key"), [({"nodes": 1}, "nodes"), ({"arity": 1}, "arity"), ({"ratio": 1}, "ratio")]
)
def test_a_path_that_cannot_be_is_refused_by_name(settings: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        paths(**{"nodes": 10, **settings})
    assert caught.value.key == key


def living(first: int, rings: int, *dead: tuple[int, int]) -> list[reach.Flags]:
    alive = [np.ones(size, np.bool_) for size in reach.sizes(first, rings)]
    for at, place in dead:
        alive[at][place % len(alive[at])] = False
    return alive


def lost(alive: list[reach.Flags], rules: set[int]) -> set[tuple[int, int]]:
    has = reach.reached(alive, frozenset(rules))
    return {
        (at, int(place))
        for at, (ring_, got) in enumerate(zip(alive, has, strict=True))
        for place in np.flatnonzero(ring_ & ~got)
    }


ALL = {1, 2, 3}


def test_the_second_rule_alone_reaches_the_right_child_when_the_left_is_dead_too() -> None:
    alive = living(4, 3, (1, 3), (2, 6))
    assert lost(alive, ALL) == set()
    assert lost(alive, {2}) == set()
    assert lost(alive, {1, 3}) == {(2, 7)}


def test_two_dead_neighbours_need_the_third_rule() -> None:
    alive = living(4, 3, (1, 3), (1, 4))
    assert lost(alive, ALL) == set()
    assert lost(alive, {1, 2}) == {(2, 7), (2, 8)}


def test_a_ring_that_is_dead_but_for_one_node_loses_nobody() -> None:
    alive = living(4, 4, *((1, place) for place in range(1, 8)))
    assert lost(alive, ALL) == set()


def test_two_dead_neighbours_and_a_dead_left_child_lose_two_nodes() -> None:
    assert lost(living(4, 3, (1, 3), (1, 4), (2, 6)), ALL) == {(2, 7), (2, 8)}


@pytest.mark.parametrize(("failed", "expected"), [(0.1, 0.998), (0.3, 0.89), (0.5, 0.5)])
def test_random_failures_reach_about_as_many_as_stated(failed: float, expected: float) -> None:
    dice = np.random.default_rng(3)
    alive = [dice.random((2000, size)) >= failed for size in reach.sizes(4, 5)]
    mean, deviation = reach.share(alive, reach.reached(alive))
    assert mean == pytest.approx(expected, abs=0.03)
    assert deviation < 0.01


def test_without_rules_the_form_is_what_dice_say() -> None:
    dice = np.random.default_rng(3)
    alive = [dice.random((4000, size)) >= 0.2 for size in reach.sizes(3, 4)]
    got = sum(ring_.sum() for ring_ in reach.reached(alive, frozenset()))
    assert got / sum(ring_.sum() for ring_ in alive) == pytest.approx(reach.parents_only(3, 4, 0.2), abs=0.01)


def test_the_first_ring_has_as_many_as_the_logarithm_of_the_publishers() -> None:
    assert [reach.entry_points(n) for n in (1, 2, 16, 1000)] == [1, 1, 4, 10]
    with pytest.raises(ConfigError):
        reach.entry_points(0)
    with pytest.raises(ConfigError):
        reach.sizes(4, 21)
