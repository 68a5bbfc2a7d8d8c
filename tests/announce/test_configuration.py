"""Pages are decoded strictly; a book of them finds the few indexes that a listener has to follow."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.announce import configuration
from gossamer.announce.catalog import Book
from gossamer.announce.configuration import Listed, Named, Page, Reports
from gossamer.core.errors import ProtocolError

A, B, C, D, E, P, Q = (bytes([number] * 16) for number in range(7))
PAGE = Page(5.0, (Named(A, "a", "one"), Named(B, "b", "two")), (Listed(C, "three", (A, B)),), Reports("r"))


def test_a_page_is_decoded_as_it_was() -> None:
    assert configuration.decode(configuration.encode(PAGE)) == PAGE


@given(st.binary(max_size=60))
def test_any_bytes_are_a_page_or_refused(payload: bytes) -> None:
    with suppress(ProtocolError):
        assert isinstance(configuration.decode(payload), Page)


@pytest.mark.parametrize("wrong", [b"\x91" * 5000, configuration.encode(PAGE) + b"\0", b""])
def test_nested_trailing_and_missing_bytes_are_refused(wrong: bytes) -> None:
    with pytest.raises(ProtocolError, match="configuration"):
        configuration.decode(wrong)


def test_a_later_page_replaces_an_earlier_one_and_not_the_other_way_round() -> None:
    book = Book()
    assert book.put(P, 2, PAGE)
    assert not book.put(P, 1, Page(1.0))
    assert (book.named("a"), book.channel(C), book.page_of(C), book.refresh_of(C)) == ({A}, "three", P, 5.0)
    assert book.put(P, 3, Page(1.0, (Named(A, "z", "four"),)))
    assert (book.named("a"), book.named("z"), book.channel(A), book.page_of(C)) == (set(), {A}, "four", None)
    assert book.reports is None


def test_a_listener_follows_one_index_for_all_that_it_lists() -> None:
    book = Book()
    book.put(P, 1, PAGE)
    book.put(Q, 1, Page(1.0, (), (Listed(D, "four", (B,)), Listed(E, "five", (C,)))))
    one = book.route([A, B], 1)
    assert (one.follow, one.relays, one.direct, one.short) == ({C}, set(), set(), False)
    two = book.route([A], 2)
    assert (two.follow, two.relays, two.short) == ({E}, {C}, False)
    none = book.route([A], 0)
    assert (none.follow, none.direct) == (set(), {A})


def test_a_listener_stays_with_the_index_that_it_follows_already() -> None:
    book = Book()
    book.put(P, 1, Page(1.0, (), (Listed(C, "x", (A,)), Listed(D, "x", (A,)))))
    assert book.route([A], 1, {D}).follow == {D}


def test_a_thread_that_no_index_lists_is_listened_to_directly() -> None:
    book = Book()
    book.put(P, 1, Page(1.0, (Named(A, "a", "one"),)))
    route = book.route([A], 1)
    assert (route.direct, route.short) == ({A}, True)


def test_a_page_too_many_is_refused_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.announce.catalog.MOST_PAGES", 1)
    book = Book()
    assert book.put(P, 1, PAGE)
    assert not book.put(Q, 1, PAGE)
    assert book.refused == 1
    assert book.put(P, 2, PAGE)
