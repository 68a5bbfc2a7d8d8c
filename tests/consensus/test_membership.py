"""Who gets a seat next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.consensus.membership import next_voters
from gossamer.consensus.messages import Voters

NAMES = "abcdef"
BEST = tuple(NAMES)
LIVES = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3))


def seats(names: str) -> Voters:
    return tuple((name, 1) for name in names)


def known(names: str) -> dict[str, int]:
    return dict.fromkeys(names, 1)


@given(st.sets(st.sampled_from(NAMES[1:])), st.sets(st.sampled_from(NAMES)), LIVES, st.integers(1, 5))
def test_one_seat_changes_at_a_time_and_never_that_of_who_leads(
    others: set[str], live: set[str], lives: dict[str, int], wanted: int
) -> None:
    before = (("a", 1), *seats("".join(sorted(others))))
    best = tuple(name for name in BEST if name in live)
    after = next_voters(("a", 1), before, best, live, lives, wanted)
    assert ("a", 1) in after
    assert len(set(before) ^ set(after)) <= 1
    assert len(dict(after)) == len(after), "nobody has two"
    assert all(name in lives for name, _ in set(after) - set(before)), "nobody that has not answered"


@given(st.sets(st.sampled_from(NAMES[1:])), st.sets(st.sampled_from(NAMES)), LIVES, st.integers(1, 5))
def test_changes_come_to_an_end(others: set[str], live: set[str], lives: dict[str, int], wanted: int) -> None:
    current: Voters = (("a", 1), *seats("".join(sorted(others))))
    best = tuple(name for name in BEST if name in live | {"a"})
    for _ in range(20):
        after = next_voters(("a", 1), current, best, live | {"a"}, lives, wanted)
        if after == current:
            break
        current = after
    else:
        raise AssertionError(f"seats change for ever, now {current}")
    assert len(current) <= max(1, wanted)


def test_who_lives_anew_goes_before_who_seems_to_be_gone() -> None:
    after = next_voters(("a", 1), seats("abc"), BEST, "ac", {**known("ab"), "c": 2}, 3)
    assert after == seats("ab")


def test_a_letter_of_an_earlier_life_takes_no_seat_away() -> None:
    current = (("a", 1), ("b", 4), ("c", 1))
    assert next_voters(("a", 1), current, BEST, NAMES, {**known("ac"), "b": 3}, 3) == current


def test_the_rendezvous_node_gets_a_seat_though_all_are_taken_and_then_the_worst_goes() -> None:
    more = next_voters(("b", 1), seats("bcd"), BEST, NAMES, known("abcd"), 3)
    assert more == seats("bcda")
    assert next_voters(("b", 1), more, BEST, NAMES, known("abcd"), 3) == seats("bca")
