"""The index finds what trying every filter finds, whatever was added and removed before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gossamer.core.errors import ProtocolError
from gossamer.core.event import Criteria, Value
from gossamer.filters import index as indexing
from gossamer.filters.identity import identity, restored
from gossamer.filters.index import Index
from gossamer.filters.language import event, named, typed

numbers = st.sampled_from([0, 1, 1.5, 2, 2**53 + 1, float("nan"), float("inf")])
texts = st.text("ab", max_size=3)
flags = st.booleans()
names = st.sampled_from("xyz")
compares = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "any"])
constraints = st.one_of(
    st.tuples(names, compares, numbers | texts | flags | texts.map(str.encode)),
    st.tuples(names, st.sampled_from(["prefix", "suffix", "contains"]), texts),
    st.tuples(names, st.just("like"), st.text("ab*", max_size=4)),
)
filters = st.lists(constraints, max_size=4).map(lambda own: Criteria(*own))
values = st.one_of(numbers, st.text("abc", max_size=4), flags, texts.map(str.encode), st.just(0.5))
events = st.dictionaries(names, values, max_size=3)


@settings(max_examples=400)
@given(st.lists(filters, max_size=40), st.lists(events, max_size=8), st.data())
def test_the_index_finds_what_trying_every_filter_finds(
    many: list[Criteria], seen: list[dict[str, Value]], data: st.DataObject
) -> None:
    index: Index[int] = Index()
    for holder, criteria in enumerate(many):
        index.add(criteria, holder)
    kept = dict(enumerate(many))
    for each in seen:
        assert index.matching(each) == {holder for holder, own in kept.items() if own.matches(each)}
        if kept:
            gone = data.draw(st.sampled_from(sorted(kept)))
            index.remove(kept.pop(gone), gone)
    for each in seen:
        assert index.matching(each) == {holder for holder, own in kept.items() if own.matches(each)}
    for holder, criteria in kept.items():
        index.remove(criteria, holder)
    assert len(index) == 0
    assert not index._root.branches
    assert not index._root.entries


ranges = st.tuples(st.integers(0, 60), st.integers(0, 20)).map(
    lambda own: Criteria(("x", ">=", own[0]), ("x", "<", own[0] + own[1]))
)


class ManyRanges(RuleBasedStateMachine):
    """Ranges come and go between looks, so that runs are merged and emptied."""

    @initialize(first=st.lists(ranges, max_size=60))
    def begin(self, first: list[Criteria]) -> None:
        self.index: Index[str] = Index()
        self.kept: list[Criteria] = []
        for each in first:
            self.add(each)

    @rule(criteria=ranges)
    def add(self, criteria: Criteria) -> None:
        self.index.add(criteria, repr(criteria))
        self.kept.append(criteria)

    @rule(place=st.integers(0, 1000))
    def remove(self, place: int) -> None:
        if self.kept:
            gone = self.kept[place % len(self.kept)]
            self.kept = [each for each in self.kept if each != gone]
            self.index.remove(gone, repr(gone))

    @invariant()
    def finds_all(self) -> None:
        for value in (0, 7, 31, 59, 80):
            expected = {repr(each) for each in self.kept if each.matches({"x": value})}
            assert self.index.matching({"x": value}) == expected


TestManyRanges = ManyRanges.TestCase


def test_both_languages_share_an_index() -> None:
    index: Index[str] = Index()
    index.add(named("*(Editor, *, Win*)"), "a")
    index.add(typed("event prefix Soft and 2 = '1.3'"), "b")
    index.add(Criteria(), "everything")
    assert index.matching(event("SoftwareReleased(Editor, 1.3, WinNT)")) == {"a", "b", "everything"}
    assert index.matching(event("SoftwareReleased(Viewer, 1.3, WinNT)")) == {"b", "everything"}
    assert index.matching({}) == {"everything"}


def test_two_holders_of_one_filter_are_two_and_one_may_go() -> None:
    index: Index[str] = Index()
    index.add(typed("a = 1 and b = 2"), "here")
    index.add(typed("b = 2 and a = 1"), "there")
    index.add(typed("a = 1 and b = 2"), "here")
    assert len(index) == 1
    index.remove(typed("a = 1 and b = 2"), "here")
    index.remove(typed("a = 1 and b = 2"), "nobody")
    assert index.matching({"a": 1, "b": 2}) == {"there"}


def test_filters_that_look_alike_and_are_not_are_kept_apart() -> None:
    assert len({identity(Criteria(a=value)) for value in (1, True, "1", b"1", 1.5)}) == 5


@given(filters)
def test_a_filter_is_made_again_from_its_identity(criteria: Criteria) -> None:
    again = restored(identity(criteria))
    assert identity(again) == identity(criteria)
    assert len(again.constraints) == len(criteria.constraints)


@pytest.mark.parametrize(
    "garbage", [b"", b"\xc1", b"\x91\x92\xa1a\xa1=", b"\x91\x93\xa1a\xa1~\x01", b"\x91" * 5000]
)
def test_what_is_no_filter_is_refused(garbage: bytes) -> None:
    with pytest.raises(ProtocolError):
        restored(garbage)


def test_few_of_many_filters_are_tried() -> None:
    tried = 0

    class Counted(Criteria):
        def matches(self, attributes: object) -> bool:
            nonlocal tried
            tried += 1
            return super().matches(attributes)  # type: ignore[arg-type]

    index: Index[int] = Index()
    for n in range(10_000):
        index.add(Counted(("symbol", "=", f"s{n % 5000}"), ("price", ">", n)), n)
    assert index.matching({"symbol": "s17", "price": 100.0}) == {17}
    assert tried <= indexing.HANDFUL
