"""Match, cover and compatible, each held against trying every value of a small world."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.core.event import Constraint, Criteria, Value
from gossamer.filters.language import event, named, typed
from gossamer.filters.relations import compatible, covers, matches, witness
from tests.filters import domains

Constraints = list[Constraint]


def check(wide: Constraints, narrow: Constraints, events: Sequence[dict[str, Value]]) -> None:
    """All three functions against all events; the answers must be exact."""
    a, b = Criteria(*wide), Criteria(*narrow)
    met = [(domains.meets(wide, each), domains.meets(narrow, each)) for each in events]
    assert [(matches(a, each), matches(b, each)) for each in events] == met
    assert covers(a, b) is all(first or not second for first, second in met)
    assert compatible(a, b) is any(first and second for first, second in met)


def lists(of: st.SearchStrategy[Constraint]) -> st.SearchStrategy[Constraints]:
    return st.lists(of, min_size=1, max_size=3)


@settings(max_examples=500)
@given(lists(domains.number_constraints), lists(domains.number_constraints))
def test_of_numbers(wide: Constraints, narrow: Constraints) -> None:
    check(wide, narrow, [{"x": value} for value in domains.NUMBERS])


@settings(max_examples=300)
@given(st.tuples(domains.likes).map(list), st.tuples(domains.likes).map(list))
def test_of_patterns(wide: Constraints, narrow: Constraints) -> None:
    check(wide, narrow, [{"x": value} for value in domains.TEXTS])


@settings(max_examples=200)
@given(
    st.lists(domains.affixes | domains.likes, min_size=1, max_size=2),
    st.lists(domains.affixes | domains.likes, min_size=1, max_size=2),
)
def test_of_patterns_and_parts(wide: Constraints, narrow: Constraints) -> None:
    short = [each for each in (*wide, *narrow) if len(str(each[2])) > 3]
    check(wide[: 2 - bool(short)], narrow[:1], [{"x": value} for value in domains.TEXTS])


@given(
    st.lists(domains.orders, min_size=1, max_size=2),
    st.lists(domains.orders | domains.ordered_likes, max_size=2),
)
def test_of_texts_in_order(wide: Constraints, narrow: Constraints) -> None:
    check(wide, narrow, [{}, *({"x": value} for value in domains.ORDERED_TEXTS)])


@given(st.lists(domains.flags, max_size=2), st.lists(domains.flags, max_size=2))
def test_of_flags(wide: Constraints, narrow: Constraints) -> None:
    check(wide, narrow, [{}, {"x": False}, {"x": True}])


MIXED = st.tuples(
    st.sampled_from("xyz"),
    st.sampled_from(["=", "!=", "<", ">=", "any"]),
    st.sampled_from([0, 1.0, "b", b"b", True]),
)
MIXED_VALUES: list[Value | None] = [None, -1, 0, 0.5, 1, 2, "", "b", "c", b"", b"b", b"c", True, False]
MIXED_EVENTS = [
    {name: value for name, value in zip("xyz", values, strict=True) if value is not None}
    for values in itertools.product(MIXED_VALUES, repeat=3)
]


@given(st.lists(MIXED, max_size=3), st.lists(MIXED, max_size=3))
def test_of_several_attributes_of_all_kinds(wide: Constraints, narrow: Constraints) -> None:
    check(wide, narrow, MIXED_EVENTS)


@given(lists(domains.likes | domains.affixes | domains.orders) | lists(domains.number_constraints))
def test_a_witness_meets_its_filter_and_is_missing_only_where_nothing_does(own: Constraints) -> None:
    criteria = Criteria(*own)
    found = witness(criteria)
    assert criteria.matches(found) if found is not None else not compatible(criteria, criteria)


@given(lists(domains.likes), lists(domains.likes), st.text("abc", max_size=9))
def test_a_cover_is_never_refuted_by_a_longer_text(wide: Constraints, narrow: Constraints, text: str) -> None:
    if covers(Criteria(*wide), Criteria(*narrow)):
        assert domains.meets(wide, {"x": text}) or not domains.meets(narrow, {"x": text})


@pytest.mark.parametrize(
    ("wide", "narrow", "answer"),
    [
        ("*(Editor, *, Win*)", "SoftwareReleased(Editor, 1.3, WinNT)", True),
        ("*(Editor, *, Win*)", "*(Editor, *, Win*98)", True),
        ("*(Editor, *, Win*98)", "*(Editor, *, Win*)", False),
        ("*(Editor, *, Win*)", "*(Editor, *)", False),
        ("*(*)", "*()", False),
    ],
)
def test_covers_between_names_and_parameters(wide: str, narrow: str, answer: bool) -> None:
    assert covers(named(wide), named(narrow)) is answer


def test_the_example_of_the_seed_matches() -> None:
    released = event("SoftwareReleased(Editor, 1.3, WinNT)")
    assert matches(named("*(Editor, *, Win*)"), released)
    assert matches(typed('event = SoftwareReleased and 3 prefix "Win"'), released)
    assert not matches(named("*(Editor, *, Mac*)"), released)
    assert not matches(named("*(Editor, *)"), released)


def test_one_language_covers_the_other() -> None:
    assert covers(typed("event prefix Soft"), named("Software*(*)"))
    assert not covers(named("Software*(*)"), typed("event prefix Soft"))
    assert compatible(typed("event suffix Released and 1 > M"), named("Software*(N*)"))
    assert not compatible(typed("event suffix Released and 1 > M"), named("Software*(A*)"))


def test_everything_covers_and_is_compatible_with_everything_that_can_be() -> None:
    nothing = typed("x > 2 and x < 1")
    assert covers(Criteria(), typed("x > 2"))
    assert covers(typed("x > 2"), nothing)
    assert not covers(typed("x > 2"), Criteria())
    assert not compatible(Criteria(), nothing)


def test_filters_over_more_attributes_than_an_event_may_have_meet_nowhere() -> None:
    first = Criteria(*((f"a{n}", "=", 1) for n in range(40)))
    second = Criteria(*((f"b{n}", "=", 1) for n in range(40)))
    assert not compatible(first, second)
    assert compatible(first, first)


def test_a_search_that_would_take_too_long_is_given_up_on_the_safe_side() -> None:
    parts = [("x", "contains", "".join(each)) for each in itertools.product("ab", repeat=6)]
    hard, goal = Criteria(*parts), Criteria(("x", "like", "*" + "c" * 40 + "*"))
    assert not covers(goal, hard)
    assert compatible(goal, hard)
