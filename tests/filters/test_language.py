"""Texts become filters; what cannot be read is refused where it stands."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.errors import BadFilter
from gossamer.core.event import Criteria
from gossamer.filters.language import event, named, parse, typed


@pytest.mark.parametrize(
    ("text", "constraints"),
    [
        ("", []),
        ("price>10", [("price", ">", 10)]),
        ("price ≥ 1.5 and symbol=ACME", [("price", ">=", 1.5), ("symbol", "=", "ACME")]),
        ("a ≠ -1, b ≤ 2e3", [("a", "!=", -1), ("b", "<=", 2000.0)]),
        ('a == "10" and b = true', [("a", "=", "10"), ("b", "=", True)]),
        ("a = 'x and y' and b any", [("a", "=", "x and y"), ("b", "any", True)]),
        ("a ^= Win and b suffix 10", [("a", "prefix", "Win"), ("b", "suffix", "10")]),
        (r"a like Win*\* and b contains x", [("a", "like", r"Win*\*"), ("b", "contains", "x")]),
        ("a in [10, 20)", [("a", ">=", 10), ("a", "<", 20)]),
        ("a in (x, ] and b in [, 2]", [("a", ">", "x"), ("b", "<=", 2)]),
        ("a = x'00ff'", [("a", "=", b"\x00\xff")]),
        (r'"odd name" = "a\"b"', [("odd name", "=", 'a"b')]),
    ],
)
def test_typed_constraints(text: str, constraints: list[object]) -> None:
    assert repr(parse(text)) == repr(Criteria(*constraints))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "position", "hint"),
    [
        ("price ~ 10", 6, "expected one of ="),
        ("price >", 7, "expected a value"),
        ("price > 10 size < 3", 11, "'and'"),
        ("= 10", 0, "name of an attribute"),
        ("a = 99999999999999999999", 0, "64 bits"),
        ("a in 10", 5, "a range"),
        ("a in [10 20]", 9, "between the ends"),
        ("a in [10, 20", 12, "] or )"),
        ("a in [,]", 5, "at least one end"),
        ("a = x'0'", 4, "hexadecimal"),
        ("a prefix x'00' and b = \"open", 23, "expected a value"),
        ("a like x\\", 8, "expected 'and'"),
        ("a = 'x\ud800'", 0, "surrogates"),
    ],
)
def test_a_typed_filter_that_cannot_be_read_names_the_place(text: str, position: int, hint: str) -> None:
    with pytest.raises(BadFilter) as caught:
        typed(text)
    assert caught.value.position == position
    assert hint in str(caught.value)
    assert str(position + 1) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "event_text", "fits"),
    [
        ("*(Editor, *, Win*)", "SoftwareReleased(Editor, 1.3, WinNT)", True),
        ("Ping()", "Ping()", True),
        ("Ping( )", "Ping(x)", False),
        ("Ping(,)", "Ping(,)", True),
        (r"f(a\,b)", r"f(a\,b)", True),
        (r"f(\*)", "f(x)", False),
        (r"f(\*)", "f(*)", True),
        (r"f( a\ )", r"f(a\ )", True),
        (r"f\(x(*)", r"f\(x(1)", True),
    ],
)
def test_names_and_parameters(text: str, event_text: str, fits: bool) -> None:
    assert parse(text).matches(event(event_text)) is fits


@pytest.mark.parametrize(
    ("text", "position", "hint"),
    [
        ("Ping", 4, "expected ("),
        ("(x)", 0, "expected a name"),
        ("f(a", 3, "expected , or )"),
        ("f(a(b))", 3, "a bracket in a parameter"),
        ("f(a) b", 4, "nothing may follow"),
        ("f(" + "x," * 62 + "x)", 126, "at most 62"),
        ("f(" + "x" * 4097 + ")", 2, "4096"),
    ],
)
def test_a_named_filter_that_cannot_be_read_names_the_place(text: str, position: int, hint: str) -> None:
    with pytest.raises(BadFilter) as caught:
        named(text)
    assert caught.value.position == position
    assert hint in str(caught.value)


parameters = st.lists(st.text(st.characters(codec="utf-8"), max_size=5).map(str.strip), max_size=4)


def escaped(text: str) -> str:
    return "".join(f"\\{letter}" for letter in text)


@given(parameters)
def test_whatever_is_written_with_backslashes_is_read_as_it_was(values: list[str]) -> None:
    if values == [""]:
        return  # f() has no parameter
    text = f"f({', '.join(map(escaped, values))})"
    attributes = event(text)
    assert [attributes[str(n)] for n in range(1, len(values) + 1)] == values
    assert named(text).matches(attributes)


@given(st.text(max_size=30))
def test_any_text_is_a_filter_or_refused_in_words(text: str) -> None:
    with suppress(BadFilter):
        assert isinstance(parse(text), Criteria)
