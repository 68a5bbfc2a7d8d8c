"""The order of places, and one ring as one of its peers sees it."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gossamer.templates.multiring.circle import CIRCLE, between, middle
from gossamer.templates.multiring.messages import REACH, Person
from gossamer.templates.multiring.ring import Ring

PLACES = st.integers(0, 15)


def person(name: str, place: int, version: int = 1) -> Person:
    return Person(name, 1, version, place, 1)


@given(PLACES, PLACES, PLACES)
def test_of_three_different_places_exactly_one_way_round_is_right(a: int, x: int, b: int) -> None:
    keys = [(a, "a"), (x, "x"), (b, "b")]
    assert between(*keys) != between(keys[2], keys[1], keys[0])


@given(st.integers(0, CIRCLE - 1), st.integers(0, CIRCLE - 1), st.integers())
def test_the_middle_is_between(left: int, right: int, seed: int) -> None:
    place = middle(left, right, Random(seed))
    assert 0 <= place < CIRCLE
    assert (right - left) % CIRCLE < 4 or between((left, "b"), (place, "a"), (right, "a"))


@given(st.lists(PLACES, min_size=1, max_size=12), PLACES, st.randoms(use_true_random=False))
def test_whatever_the_order_of_their_coming_the_nearest_are_next(
    places: list[int], own: int, dice: Random
) -> None:
    me = (own, "me")
    people = [person(f"p{number}", place) for number, place in enumerate(places)]
    dice.shuffle(people)
    ring = Ring()
    for each in people:
        ring.take(me, each)
    ordered = sorted(people, key=lambda each: (each.key < me, each.key))
    assert list(ring.right) == ordered[:REACH]
    assert list(ring.left) == ordered[::-1][:REACH]


def test_who_stands_behind_a_neighbour_moves_up_when_it_goes() -> None:
    ring = Ring()
    for name, place in (("b", 20), ("c", 30), ("z", 5)):
        ring.take((10, "a"), person(name, place))
    ring.drop("b")
    assert [each.name for each in ring.neighbours] == ["z", "c"]


def test_a_neighbour_is_believed_about_those_behind_it_until_they_come_round() -> None:
    ring = Ring()
    ring.take((10, "a"), person("b", 20))
    ring.follow("a", "b", (), (person("c", 30), person("a", 10), person("b", 20)))
    assert [each.name for each in ring.right] == ["b", "c"]


def test_somebody_who_is_no_neighbour_is_not_believed() -> None:
    ring = Ring()
    for name, place in (("b", 20), ("c", 30)):
        ring.take((10, "a"), person(name, place))
    ring.follow("a", "x", (person("y", 1),), (person("z", 2),))
    assert ring.known("y") is None
    assert ring.known("z") is None
