"""Shades: what is shown covers all that is hidden, and what a filter hid comes out when it goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.event import Criteria
from gossamer.filters.automata import GivenUp
from gossamer.filters.identity import identity
from gossamer.filters.language import typed
from gossamer.filters.relations import covers, witness
from gossamer.templates.dispatch import covering as shades
from gossamer.templates.dispatch.covering import Shade

bounds = st.tuples(st.just("x"), st.sampled_from([">", "<", "="]), st.integers(0, 4))
begins = st.tuples(st.just("y"), st.just("prefix"), st.text("ab", max_size=2))
filters = st.lists(bounds | begins, max_size=2).map(lambda own: Criteria(*own))


@given(st.lists(filters, max_size=14), st.lists(st.integers(0, 13), max_size=10))
def test_what_is_shown_is_what_no_other_covers(many: list[Criteria], gone: list[int]) -> None:
    shade = Shade()
    there = {identity(each): each for each in many}
    for key, criteria in there.items():
        shade.add(key, criteria)
    for place in gone:
        key = identity(many[place % len(many)]) if many else b"nothing"
        shade.remove(key)
        there.pop(key, None)
    assert all(key in shade for key in there)
    assert shade.shown.keys() <= there.keys()
    for criteria in there.values():
        met = witness(criteria) is not None
        assert not met or any(covers(wide, criteria) for wide in shade.shown.values())
    for key, criteria in shade.shown.items():
        assert not any(covers(wide, criteria) for other, wide in shade.shown.items() if other != key)


def test_what_a_filter_hid_comes_out_unless_another_covers_it_too() -> None:
    wide, middle, narrow, other = map(typed, ("x > 1", "x > 5", "x > 7", "y = 1"))
    shade = Shade()
    for each in (narrow, wide, middle, other):
        shade.add(identity(each), each)
    assert set(shade.shown) == {identity(wide), identity(other)}
    shade.remove(identity(wide))
    assert set(shade.shown) == {identity(middle), identity(other)}
    shade.remove(identity(narrow))
    shade.remove(identity(middle))
    assert set(shade.shown) == {identity(other)}


def test_of_filters_that_cannot_be_met_none_is_shown() -> None:
    nothing = typed("x > 2 and x < 1")
    shade = Shade()
    shade.add(identity(nothing), nothing)
    assert identity(nothing) in shade
    assert not shade.shown
    shade.remove(identity(nothing))
    assert identity(nothing) not in shade


def test_a_filter_without_a_witness_is_compared_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(criteria: Criteria) -> None:
        raise GivenUp

    wide, narrow = typed("x > 1 and y = 1"), typed("x > 5 and y = 1")
    for first, second in ((wide, narrow), (narrow, wide)):
        shade = Shade()
        with monkeypatch.context() as patched:
            patched.setattr(shades, "witness", give_up)
            shade.add(identity(first), first)
            shade.add(identity(second), second)
        assert set(shade.shown) == {identity(wide)}
        shade.remove(identity(wide))
        assert set(shade.shown) == {identity(narrow)}
