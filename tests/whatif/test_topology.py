"""Topologies: who is linked with whom, who is at the core, and what is refused."""

from __future__ import annotations

import pytest

from gossamer.core.errors import ConfigError
from gossamer.whatif.topology import Topology, shape


def test_a_hierarchy_is_filled_level_by_level_and_its_root_is_the_core() -> None:
    made = shape(Topology(dispatchers=21, arity=4))
    assert made.core == (0,)
    assert made.levels.tolist() == [0] + [1] * 4 + [2] * 16
    assert made.links[:5] == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5)]
    assert made.level_names() == ["root", "middle", "leaf"]


def test_in_a_centralised_network_one_dispatcher_serves_all_sites() -> None:
    made = shape(Topology(kind="centralised", dispatchers=9))
    assert (made.size, made.homes, made.links) == (1, (0,) * 9, [])
    assert not made.apart.any()
    assert made.level_names() == ["dispatcher"]


@pytest.mark.parametrize("kind", ["ring", "multiring"])
def test_of_a_ring_all_are_the_core(kind: str) -> None:
    made = shape(Topology(kind=kind, dispatchers=16, ratio=4))  # type: ignore[arg-type]
    assert made.core == tuple(range(16))
    assert len(made.links) == (16 if kind == "ring" else 16 + 4)
    assert made.routes.distances[0].max() == (8 if kind == "ring" else 3)


def test_of_a_ring_of_trees_the_ring_is_the_core() -> None:
    made = shape(Topology(kind="ringtree", dispatchers=12, ring=3, arity=2))
    assert made.core == (0, 1, 2)
    assert made.levels.tolist() == [0] * 3 + [1] * 6 + [2] * 3
    assert made.links[:6] == [(0, 1), (0, 2), (1, 2), (0, 3), (0, 4), (1, 5)]


def test_the_core_of_an_acyclic_graph_is_in_its_middle() -> None:
    line = Topology(kind="acyclic", dispatchers=5, edges=((0, 1), (1, 2), (2, 3), (3, 4)))
    assert shape(line).core == (2,)
    one, same, other = (shape(Topology(kind="acyclic", seed=seed)).links for seed in (1, 1, 2))
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        (((0, 1), (1, 0)), "2 edges: an acyclic graph of 3 dispatchers has 2, each once"),
        (((0, 1), (1, 3)), r"\[1, 3\]: two different dispatchers from 0 to 2"),
        (((0, 1), (1, 2), (2, 0)), "3 edges"),
    ],
)
def test_edges_that_make_no_acyclic_graph_are_refused(edges: tuple[tuple[int, int], ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        shape(Topology(kind="acyclic", dispatchers=3, edges=edges))


def test_edges_in_two_parts_are_refused() -> None:
    edges = ((0, 1), (2, 3), (3, 4), (4, 2))
    with pytest.raises(ConfigError, match="edges must join all"):
        shape(Topology(kind="acyclic", dispatchers=5, edges=edges))


def test_more_entry_points_than_dispatchers_are_refused() -> None:
    with pytest.raises(ConfigError, match="8 entry points of 4 dispatchers"):
        shape(Topology(kind="ringtree", dispatchers=4, ring=8))
