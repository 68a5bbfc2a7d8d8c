"""Patterns with ``*``, held against the standard library's."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.errors import BadFilter
from gossamer.core.pattern import Pattern, literal

small = st.text("ab*", max_size=7)


@given(small, st.text("ab", max_size=8))
def test_a_star_stands_for_any_run_of_characters(pattern: str, text: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL)
    assert Pattern(pattern).matches(text) is bool(expected)


@given(st.text("a*\\,", max_size=6), st.text("a*\\,", max_size=6))
def test_a_literal_fits_itself_and_nothing_else(text: str, other: str) -> None:
    assert Pattern(literal(text)).matches(text)
    assert Pattern(literal(text)).matches(other) is (text == other)


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        (r"a\*", "a*", "ab"),
        (r"\\*", r"\x", "x"),
        ("a*a", "aa", "a"),
        ("*ab*ba*", "xabbay", "xaba"),
        ("", "", "x"),
    ],
)
def test_what_fits_and_what_does_not(pattern: str, fits: str, does_not: str) -> None:
    assert Pattern(pattern).matches(fits)
    assert not Pattern(pattern).matches(does_not)


def test_a_backslash_before_nothing_is_refused_where_it_stands() -> None:
    with pytest.raises(BadFilter) as caught:
        Pattern("ab\\")
    assert caught.value.position == 2
