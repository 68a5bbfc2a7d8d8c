"""The tree of a group: it spans, it is as short as can be, and its parts know their places."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.tree import Tree
from gossamer.overlay.groups.tree import Rooted, span

NAMES = [f"n{number}" for number in range(8)]
Links = dict[tuple[str, str], int]


@st.composite
def measured(draw: st.DrawFn, connected: bool = True) -> tuple[str, set[str], Links]:
    """A root, members, and links measured between some of all nodes."""
    pairs = list(combinations(NAMES, 2))
    chosen = set(draw(st.lists(st.sampled_from(pairs), max_size=14)))
    if connected:
        for number, name in enumerate(NAMES[1:], 1):
            chosen.add((NAMES[draw(st.integers(0, number - 1))], name))
    links = {pair: draw(st.integers(1, 1000)) for pair in sorted(chosen)}
    members = draw(st.sets(st.sampled_from(NAMES)))
    return draw(st.sampled_from(NAMES)), members, links


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    return Tree((NAMES[draw(st.integers(0, number - 1))], NAMES[number]) for number in range(1, len(NAMES)))


def distances(links: Links) -> dict[tuple[str, str], float]:
    """Of the shortest ways between all pairs, the slow and obvious way."""
    near = {(a, b): 0.0 if a == b else float("inf") for a in NAMES for b in NAMES}
    for (a, b), distance in links.items():
        near[a, b] = near[b, a] = distance
    for middle in NAMES:
        for a in NAMES:
            for b in NAMES:
                near[a, b] = min(near[a, b], near[a, middle] + near[middle, b])
    return near


def least(wanted: set[str], near: dict[tuple[str, str], float]) -> float:
    """Cost of a minimum spanning tree: grow it from one node (Prim), always by the nearest."""
    inside = {min(wanted)}
    cost = 0.0
    while inside != wanted:
        step, name = min((near[a, b], b) for a in inside for b in wanted - inside)
        cost += step
        inside.add(name)
    return cost


def cost(tree: Rooted, near: dict[tuple[str, str], float]) -> float:
    return sum(near[edge] for edge in tree.tree.edges)


# over measured links


@given(measured())
def test_a_tree_over_measured_links_joins_root_and_members_and_nobody_else(
    given: tuple[str, set[str], Links],
) -> None:
    root, members, links = given
    tree = span(root, members, links, None)
    assert tree.root == root
    assert set(tree.nodes) == {root, *members}
    assert len(tree.tree.edges) == len(tree.nodes) - 1


@given(measured())
def test_no_tree_over_the_shortest_ways_costs_less(given: tuple[str, set[str], Links]) -> None:
    root, members, links = given
    near = distances(links)
    assert cost(span(root, members, links, None), near) == least({root, *members}, near)


@given(measured(connected=False))
def test_a_gap_in_what_is_known_leaves_nobody_out(given: tuple[str, set[str], Links]) -> None:
    root, members, links = given
    tree = span(root, members, links, None)
    assert set(tree.nodes) == {root, *members}


@given(measured(), st.randoms(use_true_random=False))
def test_the_tree_does_not_depend_on_the_order_of_what_is_known(
    given: tuple[str, set[str], Links], dice: object
) -> None:
    root, members, links = given
    shuffled = list(links.items())
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert span(root, members, dict(shuffled), None).tree == span(root, members, links, None).tree


def test_a_way_by_a_node_outside_the_group_counts() -> None:
    links = {("a", "x"): 1, ("b", "x"): 1, ("a", "b"): 10, ("a", "c"): 4, ("b", "c"): 5}
    tree = span("a", {"b", "c"}, links, None)
    assert set(tree.tree.edges) == {("a", "b"), ("a", "c")}


# over the backbone's tree


@given(trees(), st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES)))
def test_without_links_it_is_the_part_of_the_backbone_tree_between_root_and_members(
    backbone: Tree, root: str, members: set[str]
) -> None:
    tree = span(root, members, None, backbone)
    assert set(tree.tree.edges) <= set(backbone.edges)
    assert {root, *members} <= set(tree.nodes)
    leaves = {node for node in tree.nodes if not tree.children(node)}
    assert leaves <= {root, *members}, "a branch ends with a member"


def test_a_member_that_the_backbone_does_not_know_is_left_out() -> None:
    tree = span("a", {"b", "z"}, None, Tree([("a", "b")]))
    assert tree.nodes == ("a", "b")


def test_with_nothing_known_the_root_is_alone() -> None:
    assert span("a", {"b"}, None, None).nodes == ("a",)


# places


@given(trees(), st.sampled_from(NAMES))
def test_every_node_knows_its_place(backbone: Tree, root: str) -> None:
    tree = Rooted(root, backbone.edges)
    order = {node: place for place, node in enumerate(tree.nodes)}
    assert tree.parent(root) is None
    assert tree.depth(root) == 0
    assert tree.height == max(map(tree.depth, tree.nodes))
    for node in tree.nodes:
        for child in tree.children(node):
            assert tree.parent(child) == node
            assert order[node] < order[child]
            assert tree.depth(child) == tree.depth(node) + 1
        around = {*tree.children(node), *({tree.parent(node)} - {None})}
        assert set(tree.neighbours(node)) == around
        assert tree.above(node, root) == (node != root)
        assert not tree.above(node, node)


def test_above_means_on_the_way_to_the_root() -> None:
    tree = Rooted("a", [*pairwise("abc"), ("a", "d")])
    assert tree.above("c", "b")
    assert not tree.above("b", "c")
    assert not tree.above("d", "b")
    assert not tree.above("stranger", "b")


def test_a_root_alone_is_a_tree() -> None:
    tree = Rooted("a")
    assert (tree.nodes, tree.height, tree.children("a"), tree.neighbours("a")) == (("a",), 0, (), ())
    assert "a" in tree
    assert "b" not in tree


@pytest.mark.parametrize("node", ["stranger"])
def test_a_stranger_has_no_place(node: str) -> None:
    tree = Rooted("a", pairwise("abc"))
    assert node not in tree
    assert tree.parent(node) is None
    assert tree.children(node) == tree.neighbours(node) == ()
