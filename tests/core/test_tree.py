"""A tree is a tree, and the next hop is the first step of the only way."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.errors import NotATree
from gossamer.core.tree import Tree


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([("a", "a")], "'a' is joined to itself"),
        ([("a", "b"), ("b", "c"), ("c", "a")], "cycle"),
        ([("a", "b"), ("c", "d")], "not connected"),
        ([("a", "b"), ("c", "d"), ("d", "e"), ("e", "c")], "not connected|cycle"),
        ([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], "cycle"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_reason(edges: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(NotATree, match=words):
        Tree(edges)


def test_an_edge_said_twice_or_backwards_is_one_edge() -> None:
    tree = Tree([("b", "a"), ("a", "b")])
    assert tree.edges == (("a", "b"),)
    assert tree == Tree([("a", "b")])
    assert hash(tree) == hash(Tree([("a", "b")]))


def test_a_tree_without_edges_knows_nobody() -> None:
    tree = Tree()
    assert tree.nodes == ()
    assert tree.neighbours("a") == ()
    assert tree.next_hop("a", "b") is None


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, str]]:
    size = draw(st.integers(2, 14))
    return [(f"n{draw(st.integers(0, child - 1))}", f"n{child}") for child in range(1, size)]


def first_step(edges: list[tuple[str, str]], here: str, target: str) -> str | None:
    """The way, found by searching breadth first from here."""
    came: dict[str, str] = {here: here}
    queue = deque([here])
    while queue:
        node = queue.popleft()
        for a, b in (*edges, *((b, a) for a, b in edges)):
            if a == node and b not in came:
                came[b] = a
                queue.append(b)
    if target not in came or target == here:
        return None
    while came[target] != here:
        target = came[target]
    return target


@given(trees())
def test_the_next_hop_is_the_first_step_of_a_breadth_first_search(edges: list[tuple[str, str]]) -> None:
    tree = Tree(edges)
    assert len(tree.nodes) == len(edges) + 1
    for here in (*tree.nodes, "stranger"):
        for target in (*tree.nodes, "stranger"):
            assert tree.next_hop(here, target) == first_step(edges, here, target)


@given(trees())
def test_neighbours_are_mutual_and_in_order(edges: list[tuple[str, str]]) -> None:
    tree = Tree(edges)
    for node in tree.nodes:
        near = tree.neighbours(node)
        assert list(near) == sorted(near)
        assert all(node in tree.neighbours(each) for each in near)


@given(trees(), st.data())
def test_any_further_edge_makes_a_cycle(edges: list[tuple[str, str]], data: st.DataObject) -> None:
    nodes = Tree(edges).nodes
    a, b = data.draw(st.sampled_from(nodes)), data.draw(st.sampled_from(nodes))
    if (a, b) not in edges and (b, a) not in edges:
        with pytest.raises(NotATree):
            Tree([*edges, (a, b)])
