"""Indexes are pairs and nothing else; the graph of indexes has no cycle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.announce import index
from gossamer.announce.index import ENTRY_BYTES, Graph
from gossamer.core.errors import Cyclic, ProtocolError, TooLarge

identifiers = st.binary(min_size=16, max_size=16)
A, B, C, D = (bytes([number] * 16) for number in range(4))


@given(st.dictionaries(identifiers, st.integers(0, 2**32 - 1), max_size=20))
def test_an_index_is_pairs_of_thread_and_version_and_nothing_else(table: dict[bytes, int]) -> None:
    payload = index.encode(table)
    assert index.decode(payload) == table
    assert len(payload) == ENTRY_BYTES * len(table) == 20 * len(table)


@given(st.binary(max_size=100))
def test_any_bytes_are_refused_or_encode_to_the_same_again(payload: bytes) -> None:
    try:
        table = index.decode(payload)
    except ProtocolError:
        return
    assert index.encode(table) == payload


def test_a_thread_twice_or_out_of_order_is_refused() -> None:
    entries = [thread + bytes(4) for thread in (A, B)]
    for wrong in ([entries[0], entries[0]], [entries[1], entries[0]]):
        with pytest.raises(ProtocolError, match="thread in index"):
            index.decode(b"".join(wrong))


def test_more_entries_than_an_announcement_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MOST_ENTRIES", 1)
    with pytest.raises(TooLarge):
        index.encode({A: 1, B: 1})


def test_indexes_list_indexes_and_a_thread_is_in_several() -> None:
    graph = Graph()
    graph.add(B, [A])
    graph.add(C, [A, B])
    assert graph.listing(A) == {B, C}
    assert graph.members(C) == {A, B}
    graph.drop(B)
    assert graph.listing(A) == {C}


@pytest.mark.parametrize("members", [[D], [B], [C, A]])
def test_a_cycle_is_refused_however_long_and_changes_nothing(members: list[bytes]) -> None:
    graph = Graph()
    graph.add(B, [A])
    graph.add(C, [B])
    graph.add(D, [C])
    if D not in members:
        members = [D, *members]
    with pytest.raises(Cyclic) as refused:
        graph.add(B, members)
    assert len(refused.value.path) >= 2
    assert graph.members(B) == {A}
    assert graph.listing(D) == set()


def test_an_index_of_itself_is_refused() -> None:
    with pytest.raises(Cyclic):
        Graph().add(A, [A])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30))
def test_whatever_is_added_the_graph_stays_without_cycle(edges: list[tuple[int, int]]) -> None:
    graph = Graph()
    for above, below in edges:
        try:
            graph.add(bytes([above] * 16), [bytes([below] * 16)])
        except Cyclic:
            continue
    left = {bytes([number] * 16) for number in range(7)}
    while left:
        leaves = {each for each in left if not graph.members(each) & left}
        assert leaves, "everybody left lists somebody"
        left -= leaves
