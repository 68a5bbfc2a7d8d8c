"""Spanning trees: minimum, from a spanner, repaired; against brute force."""

from __future__ import annotations

from itertools import combinations
from math import hypot
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.core.errors import NotATree
from gossamer.core.tree import Tree
from gossamer.overlay.backbone.spanner import (
    burden,
    depth,
    minimum_spanning_edges,
    repaired_edges,
    report,
    spanner,
    spanning_edges,
)

Links = dict[tuple[str, str], int]


def square(count: int, seed: int, near: int | None = None) -> Links:
    """Nodes in a unit square: 5 ms and up to 141 ms more from one to the other; perhaps only the nearest."""
    dice = Random(seed)
    places = {f"n{number:04d}": (dice.random(), dice.random()) for number in range(count)}

    def far(a: str, b: str) -> int:
        (x, y), (u, v) = places[a], places[b]
        return 5_000_000 + int(hypot(x - u, y - v) * 100_000_000)

    links = {}
    for name in places:
        others = sorted((far(name, other), other) for other in places if other != name)
        for distance, other in others[:near]:
            links[min(name, other), max(name, other)] = distance
    return links


def shortest(links: Links) -> dict[tuple[str, str], int]:
    """All shortest ways, by Floyd and Warshall."""
    names = sorted({name for edge in links for name in edge})
    far = {(a, b): 0 if a == b else 10**18 for a in names for b in names}
    for (a, b), distance in links.items():
        far[a, b] = far[b, a] = min(distance, far[a, b])
    for middle in names:
        for a in names:
            for b in names:
                far[a, b] = min(far[a, b], far[a, middle] + far[middle, b])
    return far


def cost(links: Links, edges: list[tuple[str, str]]) -> int:
    return sum(links[edge] for edge in edges)


@st.composite
def networks(draw: st.DrawFn) -> Links:
    """Connected, with any distances, which need not obey the triangle inequality."""
    names = [f"n{number}" for number in range(draw(st.integers(2, 8)))]
    above = [draw(st.integers(0, number)) for number in range(len(names) - 1)]
    links = {
        (names[parent], names[number + 1]): draw(st.integers(1, 50)) for number, parent in enumerate(above)
    }
    for pair in combinations(names, 2):
        if draw(st.booleans()):
            links.setdefault(pair, draw(st.integers(1, 50)))
    return links


@settings(max_examples=40)
@given(networks())
def test_no_spanning_tree_is_cheaper_than_the_minimum(links: Links) -> None:
    best = minimum_spanning_edges(links)
    names = {name for edge in links for name in edge}
    assert set(Tree(best).nodes) == names
    if len(links) > 12:
        return
    for edges in combinations(links, len(names) - 1):
        try:
            tree = Tree(edges)
        except NotATree:
            continue
        if set(tree.nodes) == names:
            assert cost(links, best) <= cost(links, list(tree.edges))


@given(networks(), st.floats(1, 5))
def test_in_a_spanner_no_measured_pair_is_farther_apart_than_factor_times_direct(
    links: Links, factor: float
) -> None:
    kept = spanner(links, factor)
    far = shortest(kept)
    for (a, b), direct in links.items():
        assert far[a, b] <= factor * direct
    assert all(links[edge] == distance for edge, distance in kept.items())


@given(networks(), st.floats(1, 5))
def test_a_spanner_contains_a_minimum_spanning_tree(links: Links, factor: float) -> None:
    assert set(minimum_spanning_edges(links)) <= spanner(links, factor).keys()


@given(networks(), st.floats(1, 5))
def test_the_tree_of_a_spanner_reaches_all_by_shortest_ways_through_it_from_some_root(
    links: Links, factor: float
) -> None:
    kept = spanner(links, factor)
    edges = spanning_edges(links, factor)
    assert set(Tree(edges).nodes) == {name for edge in links for name in edge}
    assert set(edges) <= kept.keys()
    by_graph, by_tree = shortest(kept), shortest({edge: links[edge] for edge in edges})
    names = Tree(edges).nodes
    assert any(all(by_tree[root, each] == by_graph[root, each] for each in names) for root in names)


@given(networks(), st.randoms(use_true_random=False))
def test_the_order_of_the_links_changes_nothing(links: Links, dice: Random) -> None:
    shuffled = list(links.items())
    dice.shuffle(shuffled)
    assert spanning_edges(dict(shuffled), 1.5) == spanning_edges(links, 1.5)


def test_with_a_small_factor_the_tree_is_not_the_minimum_spanning_tree() -> None:
    links = square(60, 3)
    assert set(spanning_edges(links, 1.2)) != set(minimum_spanning_edges(links))


def test_depth_falls_as_the_factor_falls() -> None:
    factors = (1.05, 1.2, 1.5, 2.0, 4.0, 50.0)
    depths = [sum(report(square(60, seed), factor).depth for seed in range(6)) for factor in factors]
    assert depths == sorted(depths)
    assert depths[0] * 4 < depths[-1]


def test_the_cost_rises_as_the_factor_falls_and_is_never_below_the_minimum() -> None:
    found = [report(square(60, 1), factor) for factor in (50.0, 2.0, 1.2)]
    costs = [each.cost for each in found]
    assert costs == sorted(costs)
    assert found[0].cost >= found[0].mst_cost


def test_a_report_compares_with_the_minimum_spanning_tree() -> None:
    links = {("a", "b"): 2, ("b", "c"): 2, ("c", "d"): 2, ("a", "d"): 3, ("a", "c"): 3}
    found = report(links, 1.0)
    assert (found.nodes, found.mst_cost, found.mst_depth) == (4, 6, 2)
    assert found.mst_stretch == pytest.approx(2.0)
    assert (found.depth, found.cost, found.edges) == (1, 8, 5)
    assert found.stretch == pytest.approx(3.0)


def test_a_large_factor_leaves_the_minimum_spanning_tree() -> None:
    links = square(40, 2)
    assert set(spanner(links, 10_000)) == set(minimum_spanning_edges(links))


@settings(max_examples=20)
@given(st.integers(0, 100))
def test_what_is_left_of_a_tree_stays_when_a_node_dies(seed: int) -> None:
    links = square(15, seed)
    edges = spanning_edges(links, 1.5)
    names = set(Tree(edges).nodes)
    dead = sorted(names)[seed % 15]
    here = min(names - {dead})
    measured = {
        name: {other_end(edge, name): far for edge, far in links.items() if name in edge} for name in names
    }
    mended = repaired_edges(names - {dead}, edges, measured.__getitem__, here)
    assert set(Tree(mended).nodes) == names - {dead}
    assert {edge for edge in edges if dead not in edge} <= set(mended)


def other_end(edge: tuple[str, str], name: str) -> str:
    return edge[0] if edge[1] == name else edge[1]


def test_a_newcomer_is_joined_to_the_nearest_that_measured_it() -> None:
    measured = {"d": {"a": 9, "b": 2, "c": 5}}
    edges = repaired_edges("abcd", [("a", "b"), ("b", "c")], lambda name: measured.get(name, {}), "a")
    assert edges == [("a", "b"), ("b", "c"), ("b", "d")]


def test_a_node_that_nobody_measured_is_joined_to_the_one_that_mends() -> None:
    assert repaired_edges("abc", [("a", "b")], lambda name: {}, "b") == [("a", "b"), ("b", "c")]


def test_one_node_needs_no_edges() -> None:
    assert repaired_edges("a", [], lambda name: {}, "a") == []
    assert depth(Tree()) == burden([], {}, 1) == 0
