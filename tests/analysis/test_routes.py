"""Loads and flows on any graph: on trees as for hierarchies, on rings as counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.analysis.dispatch import Traffic, loads, probabilities
from gossamer.analysis.hierarchy import Hierarchy
from gossamer.analysis.routes import Interest, Routes
from gossamer.core.errors import ConfigError, NotATree

trees = st.lists(st.integers(0, 100), min_size=1, max_size=12).map(
    lambda draws: [-1, *(draw % (n + 1) for n, draw in enumerate(draws))]
)


def routes_of(above: list[int]) -> Routes:
    return Routes([(up, n) for n, up in enumerate(above) if up >= 0], len(above))


@settings(max_examples=40)
@given(trees, st.floats(0, 1), st.integers(1, 3))
def test_on_a_tree_chances_are_those_of_the_hierarchy(
    above: list[int], spread: float, listeners: int
) -> None:
    routes = routes_of(above)
    interest = Interest(routes.distances, np.full(len(above), 10.0), spread, listeners)
    found = interest.reached(routes, range(len(above)))
    expected = probabilities(Hierarchy(above), Traffic(spread=spread, objects=10, listeners=listeners))
    assert found == pytest.approx(expected, abs=1e-12)


@given(trees)
def test_the_ways_to_the_root_are_those_of_the_hierarchy(above: list[int]) -> None:
    assert (routes_of(above).along([0]) == Hierarchy(above).subtrees).all()


def test_what_comes_over_links_and_what_begins_there_is_the_load() -> None:
    hierarchy = Hierarchy.balanced(4, 3)
    routes = routes_of(hierarchy.above)
    chances = Interest(routes.distances, np.full(21, 10.0), 0.5).reached(routes, range(21))
    flows = routes.flows(390.0 * chances)
    assert flows.sum(axis=0) + 390 == pytest.approx(
        loads(hierarchy, Traffic(1.0, 390, 0.5)).advertisement, rel=1e-12
    )
    assert flows[1, 0] == pytest.approx(390 * chances[[1, 5, 6, 7, 8], 0].sum())


def test_a_ring_is_walked_both_ways_and_ties_go_to_the_lower_neighbour() -> None:
    routes = Routes([(n, (n + 1) % 6) for n in range(6)], 6)
    assert routes.way(0, 2) == [0, 1, 2]
    assert routes.way(0, 4) == [0, 5, 4]
    assert routes.way(0, 3) == [0, 1, 2, 3]
    flows = routes.flows(np.ones((6, 6)))
    assert flows.sum() == 30


def test_interest_may_be_measured_along_another_graph() -> None:
    tree, ring = routes_of([-1, 0, 0]), Routes([(0, 1), (1, 2), (2, 0)], 3)
    same = Interest(tree.distances, np.full(3, 5.0), 0.5)
    assert same.pairs()[1] == pytest.approx([0.5, 1, 0.25])
    found = same.reached(ring, range(3))
    assert found[1] == pytest.approx([0.5, 1, 0.25]), "on a ring of three nobody is behind anybody"


def test_listeners_cannot_be_more_than_there_are() -> None:
    interest = Interest(routes_of([-1, 0]).distances, np.array([1.0, 2.0]), 1.0, 5)
    assert interest.pairs() == pytest.approx(np.array([[1, 2], [1, 2]]))


def test_a_graph_in_two_parts_is_refused_and_so_is_one_too_large() -> None:
    with pytest.raises(NotATree, match="from dispatcher 0 to dispatcher 2"):
        Routes([(0, 1)], 3)
    with pytest.raises(ConfigError, match="2000 dispatchers"):
        Routes([], 2001)
