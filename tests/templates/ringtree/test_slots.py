"""The list: who gets which slot, and that every seat fits every other, whatever comes and goes."""

from __future__ import annotations

import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.templates.ringtree.messages import Seat
from gossamer.templates.ringtree.slots import MAX_GONE, MAX_SLOTS, Roll


def roll(count: int, entries: int = 4) -> Roll:
    made = Roll(entries)
    for number in range(count):
        made.join(f"n{number}")
    return made


def seats(of: Roll) -> dict[str, Seat]:
    return {name: of.seat(name, 1, 1, b"") for name in of.where}


def test_the_first_newcomer_takes_the_slot_of_who_failed() -> None:
    own = roll(20)
    own.remove("n9")
    own.remove("n5")
    assert [own.join("x"), own.join("y"), own.join("z")] == [5, 9, 20]


def test_who_returns_becomes_a_leaf_though_slots_are_open() -> None:
    own = roll(20)
    own.remove("n5")
    assert own.join("n5") == 20
    assert own.open == (5,)
    assert not own.seat("n5", 1, 1, b"").left_child
    assert own.join("x") == 5


def test_who_left_with_a_word_may_take_an_open_slot_again() -> None:
    own = roll(20)
    own.remove("n5", failed=False)
    assert own.join("n5") == 5


def test_mending_a_slot_behind_which_only_the_moved_member_is_left_keeps_that_member() -> None:
    own = roll(4, entries=1)
    own.remove("n2", failed=False)
    own.remove("n1", failed=False)
    for slot in own.open:
        own.mend(slot)
    assert set(own.where) == {"n0", "n3"}
    assert {own.at(slot) for slot in own.where.values()} == {"n0", "n3"}
    own = roll(3, entries=1)
    own.remove("n1", failed=False)
    own.mend(1)
    assert (own.at(1), own.where, len(own.slots)) == ("n2", {"n0": 0, "n2": 1}, 2)


def test_a_slot_that_is_far_beyond_every_group_is_not_claimed() -> None:
    own = roll(3)
    assert not own.claim("x", 2**62)
    assert len(own.slots) == 3


def test_mending_moves_the_last_into_an_open_slot_and_those_who_returned_only_if_there_is_nobody_else() -> (
    None
):
    own = roll(20)
    own.remove("n5")
    own.join("n5")
    own.mend(5)
    assert own.where["n19"] == 5
    assert own.slots[20] is not None
    assert own.slots[20].name == "n5"
    own = roll(6)
    own.remove("n4")
    own.remove("n5")
    own.join("n5")
    own.remove("n0")
    own.mend(0)
    assert own.where == {"n3": 0, "n1": 1, "n2": 2, "n5": 4}


def test_open_slots_at_the_end_are_no_slots() -> None:
    own = roll(20)
    own.remove("n18")
    assert own.open == (18,)
    own.remove("n19")
    assert own.open == ()
    assert own.join("x") == 18


def test_claims_make_the_list_again_whatever_order_they_come_in() -> None:
    old = roll(40)
    old.remove("n7")
    new = Roll(4)
    for name, slot in sorted(old.where.items(), reverse=True):
        assert new.claim(name, slot)
    assert not new.claim("x", 3)
    assert (seats(new), new.open) == (seats(old), (7,))


def test_how_many_are_remembered_to_have_failed_is_bounded() -> None:
    own = Roll()
    for number in range(MAX_GONE + 5):
        own.join(f"n{number}")
        own.remove(f"n{number}")
    assert len(own._gone) == MAX_GONE


steps = st.lists(
    st.tuples(st.sampled_from(["join", "fail", "leave", "mend", "resize"]), st.integers(0, 40)), max_size=120
)


@settings(max_examples=200)
@given(steps)
def test_whatever_comes_and_goes_seats_fit_each_other_and_whose_seat_changed_is_named(
    story: list[tuple[str, int]],
) -> None:
    own, known = Roll(3), {}
    for what, number in story:
        match what:
            case "join":
                own.join(f"n{number}")
            case "fail" | "leave":
                own.remove(f"n{number}", what == "fail")
            case "mend" if own.open:
                own.mend(own.open[number % len(own.open)])
            case "resize":
                own.resize(1 + number % 5)
        known = {name: seat for name, seat in known.items() if name in own.where}
        known |= {name: own.seat(name, 1, 1, b"") for name in own.changed()}
        assert known == seats(own)  # nobody's seat changes without a word
        assert sorted(own.where.values()) == [at for at, each in enumerate(own.slots) if each]
        fitting(known)


def fitting(known: dict[str, Seat]) -> None:
    """Neighbours name each other."""
    for name, seat in known.items():
        for child in filter(None, (seat.left_child, seat.right_child)):
            assert known[child].parent == name
        if seat.right:
            assert known[seat.right].left == name
            assert known[seat.right].left_child == seat.left_of_right
        if seat.left:
            assert known[seat.left].right_child == seat.right_of_left


def test_a_claim_far_away_costs_little_and_the_slots_before_it_are_taken_one_by_one() -> None:
    roll = Roll(1)
    tracemalloc.start()
    try:
        assert roll.claim("far", MAX_SLOTS - 1)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert [roll.join(f"n{number}") for number in range(5)] == [0, 1, 2, 3, 4]
    roll.remove("n1", failed=False)
    assert roll.join("again") == 1
    roll.remove("far", failed=False)
    assert [roll.join(f"m{number}") for number in range(3)] == [5, 6, 7]
    assert roll.open == ()
