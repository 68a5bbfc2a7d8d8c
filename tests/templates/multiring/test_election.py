"""The two listings, line by line, and when a peer of an inner ring should move."""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.templates.multiring.election import View, joins, resigns, unbalanced
from gossamer.templates.multiring.messages import Figure, Person

Q = 4


def figure(
    bandwidth: float, inner: bool = False, name: str = "", span: int = 0, weakest: float = 0
) -> Figure:
    person = Person(name or f"p{bandwidth:g}", 1, 1, 0, 2 if inner else 1)
    return Figure(person, bandwidth, span, weakest)


def view(me: Figure, left: Sequence[Figure], right: Sequence[Figure], level: int = 0) -> View:
    return View(level, me, left, right)


WEAK = [figure(each) for each in (1, 2, 3, 4)]


def test_who_is_not_the_strongest_of_those_outside_the_inner_ring_stays_out() -> None:
    assert not joins(view(figure(5), WEAK, [figure(6), *WEAK[:3]]), Q)


def test_the_strongest_joins_if_no_inner_peer_is_in_sight_on_one_side() -> None:
    inner = figure(9, inner=True)
    assert joins(view(figure(5), WEAK, WEAK), Q)
    assert joins(view(figure(5), [*WEAK[:2], inner], WEAK), Q)


def test_the_strongest_joins_if_those_on_both_sides_are_more_than_q_apart() -> None:
    inner = figure(9, inner=True, weakest=9)
    assert joins(view(figure(5), [*WEAK[:1], inner], [*WEAK[:2], inner]), Q)
    assert not joins(view(figure(5), [*WEAK[:1], inner], [*WEAK[:1], inner]), Q)


def test_the_strongest_joins_a_dense_inner_ring_if_it_is_stronger_than_the_weakest_there() -> None:
    inner = figure(9, inner=True, weakest=4.5)
    assert joins(view(figure(5), [inner], [inner]), Q)


def test_of_equals_only_one_elects_itself() -> None:
    peers = [figure(7, name=f"p{number}") for number in range(9)]
    elected = [
        number
        for number in range(9)
        if joins(
            view(
                peers[number],
                [peers[(number - each) % 9] for each in range(1, 5)],
                [peers[(number + each) % 9] for each in range(1, 5)],
            ),
            Q,
        )
    ]
    assert elected == [8]


def test_a_ring_of_no_more_than_q_needs_no_inner_one() -> None:
    few = View(0, figure(5), WEAK[:2], WEAK[:2], round=True)
    assert not joins(few, Q)


def crowded(own: float, left: int, right: int, span: int) -> tuple[View, View]:
    """A peer of the inner ring with the next at distances, among others that have such spans."""
    me = figure(own, inner=True, span=left + right)
    near = figure(50, inner=True)
    outer = view(me, [*WEAK[: left - 1], near], [*WEAK[: right - 1], near])
    others = [figure(50 + each, span=span, name=f"i{each}") for each in range(8)]
    return outer, view(me, others[:4], others[4:], level=1)


def test_the_weakest_of_a_crowded_inner_ring_resigns() -> None:
    assert resigns(*crowded(1, 2, 2, span=4), Q)


def test_nobody_resigns_who_is_not_the_weakest_or_stands_far_from_the_next() -> None:
    assert not resigns(*crowded(99, 2, 2, span=4), Q)
    assert not resigns(*crowded(1, 4, 4, span=4), Q)


def test_nobody_resigns_if_too_few_would_be_left() -> None:
    assert not resigns(*crowded(1, 2, 2, span=8), Q)


def test_a_difference_of_two_is_out_of_balance_and_of_one_is_not() -> None:
    inner = figure(9, inner=True)
    me = figure(5, inner=True)
    assert unbalanced(view(me, [inner], [*WEAK[:2], inner])) is True
    assert unbalanced(view(me, [*WEAK[:2], inner], [inner])) is False
    assert unbalanced(view(me, [*WEAK[:1], inner], [*WEAK[:2], inner])) is None
    assert unbalanced(view(me, [inner], WEAK)) is None
