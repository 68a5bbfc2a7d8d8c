"""Groups by attributes: event types, sets of them, typed attributes; and the publishers that serve them."""

from __future__ import annotations

from gossamer.core.event import Criteria
from gossamer.filters.identity import identity
from gossamer.templates.ringtree.matching import EVERYTHING, group_of, serves, together, wants
from gossamer.templates.ringtree.messages import MAX_FILTERS
from gossamer.testing.fake import parcel

TRADE, QUOTE = Criteria(event="trade"), Criteria(event="quote")


def test_who_wants_the_same_is_in_one_group_in_whatever_words() -> None:
    one = together([QUOTE, TRADE, Criteria(("price", ">", 20), event="trade")])
    other = together([TRADE, QUOTE, TRADE])
    assert one == other
    assert group_of(one) == group_of(other)
    swapped = Criteria(("b", "=", 1), ("a", "=", 2)), Criteria(("a", "=", 2), ("b", "=", 1))
    assert together(swapped[:1]) == together(swapped[1:]) == together(swapped)


def test_subsets_of_the_event_types_are_groups_of_their_own() -> None:
    groups = {group_of(together(each)) for each in ([TRADE], [QUOTE], [TRADE, QUOTE])}
    assert len(groups) == 3


def test_wanting_everything_covers_all_else() -> None:
    assert together([TRADE, Criteria()]) == EVERYTHING
    assert together([]) == ()


def test_more_filters_than_can_be_told_are_taken_for_everything() -> None:
    many = [Criteria(event=f"e{number}") for number in range(MAX_FILTERS + 1)]
    assert together(many) == EVERYTHING
    assert together([Criteria(event="e" * 4090)]) == EVERYTHING
    assert len(together(many[1:])) == MAX_FILTERS


def test_publishers_serve_groups_that_could_want_what_they_offer() -> None:
    cheap = together([Criteria(("price", "<", 10))])
    dear = together([Criteria(("price", ">", 20))])
    assert not serves(cheap, dear)
    assert serves(cheap, together([Criteria(("price", ">", 5))]))
    assert serves(EVERYTHING, dear)
    assert not serves((), dear)
    assert not serves(together([TRADE]), together([QUOTE]))


def test_an_event_is_wanted_if_it_meets_one_of_the_filters() -> None:
    both = together([TRADE, QUOTE])
    assert wants(both, parcel("a", attributes=[{"event": "quote"}]))
    assert not wants(both, parcel("a", attributes=[{"event": "news"}]))
    assert not wants(both, parcel("a"))
    assert wants(EVERYTHING, parcel("a"))
    assert identity(TRADE) in both
