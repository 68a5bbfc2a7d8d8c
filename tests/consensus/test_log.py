"""The record of a council beside a plain list of everything it was ever given."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.consensus.log import RaftLog
from gossamer.consensus.messages import MAX_POSITIONS, Entry, Voters

A: Voters = (("a", 1),)
AB: Voters = (("a", 1), ("b", 1))

ENTRIES = st.builds(
    Entry,
    st.integers(1, 3),
    st.sampled_from(["", "x", "s/y"]),
    st.just(1),
    st.integers(1, 9),
    st.sampled_from([(), A, AB]),
)


def filled(*entries: Entry, base: int = 0) -> RaftLog:
    record = RaftLog(base, 0, A)
    for entry in entries:
        record.append(entry)
    return record


@given(st.lists(ENTRIES, max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_it_says_the_same_whatever_of_it_is_summed_up(entries: list[Entry], cut: int, summed: int) -> None:
    record = filled(*entries)
    record.cut(cut)
    record.compact(summed)
    left = entries[:cut]
    assert record.last == len(left)
    assert record.base == min(summed, len(left))
    assert record.entries(record.base + 1, 99) == tuple(left[record.base :])
    assert record.seats == next((entry.seats for entry in reversed(left) if entry.seats), A)
    places = {entry.source.rpartition("/")[2]: entry.sequence for entry in left if entry.source}
    assert record.positions() == {(name, 1): number for name, number in places.items()}
    assert record.term(record.last) == (left[-1].term if left else 0)
    assert record.number == sum(bool(entry.source) for entry in left[: record.base])


@given(st.lists(ENTRIES, max_size=12), st.integers(0, 12))
def test_a_record_that_begins_with_the_state_of_another_goes_on_like_it(
    entries: list[Entry], summed: int
) -> None:
    record = filled(*entries)
    record.compact(summed)
    copy = RaftLog(*record.state())
    copy.merge(record.base, record.entries(record.base + 1, 99))
    assert copy.last == record.last
    assert copy.seats == record.seats
    assert copy.positions() == record.positions()


def test_what_is_known_already_stays_and_what_contradicts_goes_with_all_that_follows() -> None:
    record = filled(Entry(1), Entry(1, seats=AB), Entry(1))
    assert record.merge(0, [Entry(1), Entry(1, seats=AB)]) == 3, "nothing is lost by hearing less"
    assert record.merge(1, [Entry(2)]) == 1
    assert [record.term(index) for index in (1, 2, 3)] == [1, 2, None]
    assert record.seats == A


def test_an_entry_is_void_once_that_is_decided_and_as_long_as_it_stands() -> None:
    record = filled(Entry(1, "x", 1, 1), Entry(1), Entry(2, voids=1))
    assert not record.void(1, 2)
    assert record.void(1, 3)
    assert not record.void(2, 3)
    record.cut(2)
    assert not record.void(1, 3)


def test_it_covers_what_is_summed_up_and_what_is_here_in_the_same_term() -> None:
    record = filled(Entry(4), base=10)
    assert record.covers(9, 7)
    assert record.covers(11, 4)
    assert not record.covers(11, 5)
    assert not record.covers(12, 4)


def test_sources_that_have_been_silent_longest_are_forgotten_first() -> None:
    record = filled(
        *(Entry(1, f"s{number}", 1, 1) for number in range(MAX_POSITIONS + 2)), Entry(1, "s2", 1, 2)
    )
    positions = record.positions()
    assert len(positions) == MAX_POSITIONS
    assert ("s0", 1) not in positions
    assert positions["s2", 1] == 2
