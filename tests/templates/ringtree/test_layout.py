"""Slots, rings and who is next to whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.templates.ringtree.layout import (
    aware_of,
    begin,
    beside,
    children,
    entry_points,
    parent,
    ring_of,
)

slots = st.integers(0, 100_000)
entries = st.integers(1, 20)


@pytest.mark.parametrize(
    ("publishers", "m"), [(0, 1), (1, 1), (2, 1), (3, 2), (16, 4), (17, 5), (100_000, 17)]
)
def test_entry_points_are_the_logarithm_of_the_publishers(publishers: int, m: int) -> None:
    assert entry_points(publishers) == m


@given(slots, entries)
def test_a_slot_is_a_child_of_its_parent_and_the_parent_of_its_children(slot: int, m: int) -> None:
    above = parent(slot, m)
    assert (above is None) == (slot < m)
    assert above is None or slot in children(above, m)
    left, right = children(slot, m)
    assert parent(left, m) == parent(right, m) == slot
    assert beside(left, m, 1) == right


@given(slots, entries)
def test_rings_double_and_close(slot: int, m: int) -> None:
    ring = ring_of(slot, m)
    assert begin(ring, m) <= slot < begin(ring + 1, m)
    assert begin(ring + 1, m) - begin(ring, m) == m * 2**ring
    assert beside(beside(slot, m, 1), m, -1) == slot
    assert beside(slot, m, m * 2**ring) == slot


@given(slots, entries)
def test_at_most_eight_have_to_hear_of_a_change(slot: int, m: int) -> None:
    assert slot in set(aware_of(slot, m))
    assert len(set(aware_of(slot, m))) <= 8
