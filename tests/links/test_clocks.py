"""Clocks of neighbours: told apart as well as exchanges can tell, and left alone where they cannot."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.links.clocks import KEPT, LEAST, ROUGH, Offset

MS = 1_000_000
S = 1000 * MS
latencies = st.integers(0, 500 * MS)


def exchange(offset: Offset, wrong: int, there: int, back: int, at: int = 10**18) -> None:
    """A neighbour whose clock is wrong by so much answers over such a connection."""
    offset.exchanged(at, at + there + wrong, at + there + back)


@given(st.integers(-3600 * S, 3600 * S), st.lists(st.tuples(latencies, latencies), min_size=1, max_size=20))
def test_the_error_is_at_most_half_of_the_quickest_round_trip(
    wrong: int, trips: list[tuple[int, int]]
) -> None:
    offset = Offset()
    for there, back in trips:
        exchange(offset, wrong, there, back)
    quickest = min(there + back for there, back in trips[-KEPT:])
    assert abs(offset.value - wrong) <= max(quickest, LEAST) + 1
    if offset.value:
        assert abs(offset.value - wrong) <= quickest // 2 + 1


def test_clocks_that_cannot_be_told_apart_are_taken_for_the_same() -> None:
    offset = Offset()
    exchange(offset, 20 * MS, 25 * MS, 25 * MS)
    assert offset.value == 0
    exchange(offset, 20 * MS, 5 * MS, 5 * MS)
    assert offset.value == 20 * MS


def test_a_clock_that_was_put_right_is_believed_at_once() -> None:
    offset = Offset()
    for _ in range(KEPT):
        exchange(offset, 3600 * S, 2 * MS, 2 * MS)
    exchange(offset, 0, 40 * MS, 40 * MS)
    assert offset.value == 0


def test_a_greeting_tells_of_a_clock_that_is_plainly_wrong_until_the_first_exchange() -> None:
    offset = Offset()
    offset.greeted(10 * S, 10 * S + ROUGH)
    assert offset.value == 0, "it may have been on its way"
    offset.greeted(3610 * S, 10 * S)
    assert offset.value == 3600 * S
    exchange(offset, 3601 * S, MS, MS)
    offset.greeted(10 * S, 5000 * S)
    assert offset.value == 3601 * S
