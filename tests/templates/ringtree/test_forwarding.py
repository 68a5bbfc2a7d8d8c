"""Whom a parcel goes to from a seat, rule by rule."""

from __future__ import annotations

import pytest

from gossamer.templates.ringtree.forwarding import ALL_RULES, onward
from gossamer.templates.ringtree.messages import Seat

SEAT = Seat(1, 1, b"", 4, 5, "parent", "lc", "rc", "left", "right", "rc of left", "lc of right")
FIRST = Seat(1, 1, b"", 4, 1, "", "lc", "rc", "left", "right", "rc of left", "lc of right")


@pytest.mark.parametrize(
    ("missing", "sender", "extra"),
    [
        ((), "parent", []),
        (("right",), "parent", ["lc of right"]),
        (("left",), "parent", ["rc of left"]),
        (("left", "right"), "parent", ["lc of right", "rc of left"]),
        ((), "left", ["right"]),
        ((), "stranger", ["right"]),
        (("right",), "left", ["lc of right"]),
        (("left",), "stranger", ["rc of left", "right"]),
        (("left", "right"), "stranger", ["lc of right", "rc of left"]),
    ],
)
def test_a_member_feeds_two_children_and_nobody_has_to_feed_more_than_four(
    missing: tuple[str, ...], sender: str, extra: list[str]
) -> None:
    assert onward(SEAT, missing, sender) == ["lc", "rc", *extra]
    assert len(extra) <= 2


def test_an_open_slot_is_a_missing_neighbour() -> None:
    seat = Seat(1, 1, b"", 4, 5, "parent", "lc", "rc", "", "", "rc of left", "lc of right")
    assert onward(seat, (), "parent") == ["lc", "rc", "lc of right", "rc of left"]


def test_the_parent_of_the_first_ring_is_whoever_publishes() -> None:
    assert onward(FIRST, (), "anybody") == ["lc", "rc"]
    assert onward(FIRST, (), "left") == ["lc", "rc", "right"]


def test_nothing_goes_back_and_nobody_gets_it_twice() -> None:
    two = Seat(1, 1, b"", 1, 1, "parent", "lc", "rc", "other", "other", "other's rc", "other's lc")
    assert onward(two, ("other",), "parent") == ["lc", "rc", "other's lc", "other's rc"]
    assert onward(two, (), "other") == ["lc", "rc"]


@pytest.mark.parametrize("rule", sorted(ALL_RULES))
def test_each_rule_can_be_left_out(rule: int) -> None:
    without = {
        1: onward(SEAT, ("right",), "parent", ALL_RULES - {1}),
        2: onward(SEAT, ("left",), "parent", ALL_RULES - {2}),
        3: onward(SEAT, (), "stranger", ALL_RULES - {3}),
    }
    assert without[rule] == ["lc", "rc"]
