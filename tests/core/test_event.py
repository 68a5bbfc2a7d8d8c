"""Envelopes, quality of service and criteria: what may travel, and what a subscriber's filter picks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.errors import BadEnvelope, TooLarge
from gossamer.core.event import (
    MAX_ATTRIBUTE_BYTES,
    MAX_ATTRIBUTE_NAME,
    MAX_ATTRIBUTES,
    MAX_CONSTRAINTS,
    Criteria,
    Envelope,
    QoS,
    check_attributes,
)

# envelopes


@pytest.mark.parametrize(
    "attributes",
    [
        {"a": None},
        {"a": [1]},
        {"a": {"b": 1}},
        {"a": 1j},
        {"a": bytearray(b"x")},
        {"a": 2**63},
        {"a": -(2**63) - 1},
        {"": 1},
        {"x" * (MAX_ATTRIBUTE_NAME + 1): 1},
        {1: 1},
        {"a": "\ud800"},
        {"\udfff": 1},
    ],
)
def test_an_attribute_that_cannot_travel_is_refused_and_named(attributes: dict[Any, Any]) -> None:
    with pytest.raises(BadEnvelope) as caught:
        Envelope(attributes)
    assert "attribute" in caught.value.field


@pytest.mark.parametrize("value", ["x" * (MAX_ATTRIBUTE_BYTES + 1), b"x" * (MAX_ATTRIBUTE_BYTES + 1)])
def test_an_attribute_over_its_limit_is_refused_with_both_numbers(value: str | bytes) -> None:
    with pytest.raises(TooLarge, match=rf"'a'.*{MAX_ATTRIBUTE_BYTES + 1}.*{MAX_ATTRIBUTE_BYTES}"):
        Envelope({"a": value})


def test_too_many_attributes_are_refused() -> None:
    check_attributes({str(n): n for n in range(MAX_ATTRIBUTES)})
    with pytest.raises(TooLarge):
        check_attributes({str(n): n for n in range(MAX_ATTRIBUTES + 1)})


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 0.5, True, "ü€𝄞", b"", ""])
def test_an_attribute_at_its_limit_is_taken(value: Any) -> None:
    assert Envelope({"x" * MAX_ATTRIBUTE_NAME: value}).attributes


@pytest.mark.parametrize(("attributes", "qos"), [([("a", 1)], QoS()), ({}, {"priority": 3})])
def test_an_envelope_of_other_things_is_refused(attributes: Any, qos: Any) -> None:
    with pytest.raises(BadEnvelope):
        Envelope(attributes, qos)


def test_changing_a_dict_after_it_was_given_changes_no_envelope() -> None:
    attributes: dict[str, Any] = {"n": 1}
    envelope = Envelope(attributes)
    attributes["n"] = 2
    assert envelope.attributes == {"n": 1}


# quality of service


@pytest.mark.parametrize("priority", [-1, 10, 4.0, "4", True, None])
def test_a_priority_out_of_range_is_refused(priority: Any) -> None:
    with pytest.raises(BadEnvelope, match="priority"):
        QoS(priority=priority)


@pytest.mark.parametrize("expiry", [0, -1, float("nan"), float("inf"), 10 * 365 * 86400 + 1, "2", True, 1j])
def test_an_expiry_out_of_range_is_refused(expiry: Any) -> None:
    with pytest.raises(BadEnvelope, match="expiry"):
        QoS(expiry=expiry)


# criteria


@pytest.mark.parametrize(
    ("symbol", "value", "wanted", "answer"),
    [
        ("=", 5, 5, True),
        ("=", 5, 5.0, True),
        ("=", "a", "b", False),
        ("!=", "a", "b", True),
        ("!=", 5, 5, False),
        ("<", 4, 5, True),
        ("<", 5, 5, False),
        ("<=", 5, 5, True),
        ("<=", 6, 5, False),
        (">", 5.5, 5, True),
        (">", 5, 5, False),
        (">=", 5, 5, True),
        (">=", 4, 5, False),
        ("<", "apple", "pear", True),
        (">", b"\x02", b"\x01", True),
        ("prefix", "apple", "app", True),
        ("prefix", "apple", "ple", False),
        ("suffix", "apple", "ple", True),
        ("suffix", "apple", "app", False),
        ("contains", "apple", "ppl", True),
        ("contains", "apple", "x", False),
        ("contains", b"\x01\x02\x03", b"\x02", True),
        ("like", "WinNT", "Win*", True),
        ("like", "WinNT", "*N", False),
        ("any", b"", 0, True),
        ("any", "text", 0, True),
        ("any", False, "x", True),
    ],
)
def test_an_operator_says_yes_and_no(symbol: str, value: Any, wanted: Any, answer: bool) -> None:
    assert Criteria(("a", symbol, wanted)).matches({"a": value}) is answer


@pytest.mark.parametrize("symbol", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("value", "wanted"),
    [("5", 5), (5, "5"), (b"5", "5"), ("5", b"5"), (True, 1), (1, True), (True, "True"), (0.0, False)],
)
def test_an_attribute_of_another_kind_never_matches(symbol: str, value: Any, wanted: Any) -> None:
    assert not Criteria(("a", symbol, wanted)).matches({"a": value})


@pytest.mark.parametrize("symbol", ["=", "!=", "<", "any"])
def test_a_missing_attribute_never_matches(symbol: str) -> None:
    assert not Criteria(("a", symbol, 1)).matches({"b": 1})


def test_every_constraint_must_hold_and_none_matches_everything() -> None:
    criteria = Criteria(("price", ">", 10.0), symbol="ACME")
    assert criteria.matches({"price": 11, "symbol": "ACME"})
    assert not criteria.matches({"price": 11, "symbol": "OTHER"})
    assert not criteria.matches({"price": 9, "symbol": "ACME"})
    assert Criteria().matches({})
    assert not Criteria()
    assert criteria


@pytest.mark.parametrize(
    "constraint",
    [
        ("a", "~", 1),
        ("a", "=", None),
        ("a", "prefix", 1),
        ("a", "contains", 1.5),
        ("a", "like", b"x"),
        ("", "=", 1),
        (1, "=", 1),
        ("a", "="),
        "abcd",
        7,
        ("a", "=", 2**63),
        ("a", "=", "\ud800"),
    ],
)
def test_a_constraint_that_means_nothing_is_refused_when_it_is_made(constraint: Any) -> None:
    with pytest.raises(BadEnvelope):
        Criteria(constraint)


def test_too_many_constraints_are_refused() -> None:
    Criteria(*[("a", "=", 1)] * MAX_CONSTRAINTS)
    with pytest.raises(TooLarge):
        Criteria(*[("a", "=", 1)] * (MAX_CONSTRAINTS + 1))


def test_criteria_are_values() -> None:
    assert Criteria(a=1) == Criteria(("a", "=", 1))
    assert hash(Criteria(a=1)) == hash(Criteria(("a", "=", 1)))
    assert Criteria(a=1) != Criteria(a=2)


small = st.one_of(
    st.integers(-2, 2),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.booleans(),
    st.text("ab", max_size=2),
    st.binary(max_size=1),
)
names = st.sampled_from(["a", "b"])
comparisons = st.tuples(names, st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "any"]), small)
searches = st.tuples(
    names,
    st.sampled_from(["prefix", "suffix", "contains"]),
    st.text("ab", max_size=2) | st.binary(max_size=1),
)


def naive(constraint: tuple[str, str, Any], attributes: dict[str, Any]) -> bool:
    """The words of the docstring, written out."""
    name, symbol, wanted = constraint
    if name not in attributes:
        return False
    value = attributes[name]
    if symbol == "any":
        return True

    def sort(x: Any) -> str:
        return "number" if type(x) in (int, float) else type(x).__name__

    if sort(value) != sort(wanted):
        return False
    match symbol:
        case "=":
            return bool(value == wanted)
        case "!=":
            return bool(value != wanted)
        case "<":
            return bool(value < wanted)
        case ">":
            return bool(wanted < value)
        case "<=":
            return not wanted < value
        case ">=":
            return not value < wanted
        case "prefix":
            return bool(value[: len(wanted)] == wanted)
        case "suffix":
            return bool(value[len(value) - len(wanted) :] == wanted) if len(wanted) <= len(value) else False
        case _:
            return any(value[i : i + len(wanted)] == wanted for i in range(len(value) + 1))


@given(st.lists(comparisons | searches, max_size=3), st.dictionaries(names, small, max_size=2))
def test_criteria_agree_with_their_own_words(constraints: list[Any], attributes: dict[str, Any]) -> None:
    expected = all(naive(each, attributes) for each in constraints)
    assert Criteria(*constraints).matches(attributes) is expected
