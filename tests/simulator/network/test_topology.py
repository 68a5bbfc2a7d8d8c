"""Networks by kind."""

from __future__ import annotations

import pytest

from gossamer.core.errors import ConfigError
from gossamer.core.tree import Tree
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.network.topology import Network, layout, spanning


def made(network: Network, seed: int = 1) -> tuple[list[str], list[tuple[str, str]]]:
    return layout(network, SeededDice(seed))


def test_a_line_joins_each_node_to_the_next() -> None:
    assert made(Network("line", 3)) == (["n1", "n2", "n3"], [("n1", "n2"), ("n2", "n3")])


def test_a_star_joins_all_to_the_first() -> None:
    assert made(Network("star", 4))[1] == [("n1", "n2"), ("n1", "n3"), ("n1", "n4")]


def test_a_tree_has_arity_nodes_below_each() -> None:
    assert made(Network("tree", 6, arity=3))[1] == [
        ("n1", "n2"),
        ("n1", "n3"),
        ("n1", "n4"),
        ("n2", "n5"),
        ("n2", "n6"),
    ]


def test_names_sort_like_numbers() -> None:
    names = made(Network("line", 120))[0]
    assert names[:2] == ["n001", "n002"]
    assert names == sorted(names)


def test_a_random_network_is_in_one_piece_has_the_degree_and_depends_on_the_dice_only() -> None:
    network = Network("random", 50, degree=4)
    names, edges = made(network)
    assert len(edges) == len({frozenset(edge) for edge in edges}) == 100
    assert spanning(names, edges).nodes == tuple(sorted(names))
    assert made(network) == (names, edges)
    assert made(network, seed=2)[1] != edges


def test_a_random_network_of_few_nodes_is_at_most_complete() -> None:
    assert len(made(Network("random", 4, degree=100))[1]) == 6


def test_one_node_is_a_network_without_links() -> None:
    assert made(Network("tree", 1)) == (["n1"], [])
    assert spanning(["n1"], []) == Tree()


def test_the_tree_of_a_ring_leaves_out_one_link_and_takes_shortest_ways() -> None:
    ring = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))
    names, edges = made(Network("explicit", edges=ring))
    assert names == ["a", "b", "c", "d"]
    assert spanning(names, edges) == Tree([("a", "b"), ("a", "d"), ("b", "c")])


@pytest.mark.parametrize("edges", [(), (("a", "a"),), (("a", "b"), ("b", "a"))])
def test_edges_that_make_no_sense_are_refused(edges: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        made(Network("explicit", edges=edges))
    assert caught.value.key == "network.edges"


def test_a_network_in_two_pieces_is_refused() -> None:
    with pytest.raises(ConfigError, match="'c' is not connected to 'a'"):
        spanning(*made(Network("explicit", edges=(("a", "b"), ("c", "d")))))
