"""Wishes: the narrower wins, and what a template promises says what it can keep."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.core.errors import BadEnvelope, UnsupportedQoS
from gossamer.core.event import NO_QOS, QoS
from gossamer.core.qos import CHANNEL, EVENT, QOS_OPTIONS, SUBSCRIPTION, made, refuse
from gossamer.core.template import AT_MOST_ONCE, CAUSAL, DURABLE, GAP_FREE, TOTAL_ORDER, Template


class Free(Template[Any]):
    name = "free"
    promises = frozenset({AT_MOST_ONCE})


class Strict(Free):
    name = "strict"
    promises = frozenset({AT_MOST_ONCE, GAP_FREE, TOTAL_ORDER, DURABLE})


class ByContent(Free):
    name = "by-content"
    content_based = True


INSTALLED = {each.name: each for each in (Free, Strict, ByContent)}


def test_the_narrower_wins_and_what_it_does_not_say_stays() -> None:
    channel = QoS(priority=2, expiry=10.0, essential=True)
    assert QoS(priority=7).within(channel) == QoS(priority=7, expiry=10.0, essential=True)
    assert QoS(essential=False).within(channel) == QoS(priority=2, expiry=10.0, essential=False)
    assert NO_QOS.within(channel) == channel
    assert channel.within(NO_QOS) == channel


def test_only_what_is_made_is_named() -> None:
    assert made(NO_QOS) == []
    assert made(QoS(priority=7, earliest=1, codec=2)) == ["priority", "earliest"]


@pytest.mark.parametrize("option", ["earliest", "order=priority", "order=deadline"])
@pytest.mark.parametrize("promise", [GAP_FREE, CAUSAL, TOTAL_ORDER])
def test_where_an_order_is_promised_nothing_may_change_it(option: str, promise: str) -> None:
    ordered = type("Ordered", (Free,), {"name": "ordered", "promises": frozenset({promise})})
    with pytest.raises(UnsupportedQoS) as refused:
        refuse(option, ordered, lambda: INSTALLED)
    assert refused.value.able == ["by-content", "free"]
    refuse(option, Free, lambda: INSTALLED)


@pytest.mark.parametrize("option", ["durable", "history", "reliability=exactly-once"])
def test_what_has_to_survive_needs_a_template_that_keeps_it(option: str) -> None:
    with pytest.raises(UnsupportedQoS, match="strict"):
        refuse(option, Free, lambda: INSTALLED)
    refuse(option, Strict, lambda: INSTALLED)


def test_what_belongs_together_is_not_taken_apart() -> None:
    with pytest.raises(UnsupportedQoS, match="transaction"):
        refuse("transaction", ByContent, lambda: INSTALLED)
    refuse("transaction", Strict, lambda: INSTALLED)


def test_an_option_that_is_none_is_bad_input_and_says_what_fits() -> None:
    with pytest.raises(BadEnvelope, match="at-most-once, at-least-once, exactly-once"):
        refuse("reliability=twice", Free, lambda: INSTALLED)


def test_every_option_says_where_it_is_made_and_what_it_means() -> None:
    for option in QOS_OPTIONS.values():
        assert option.on
        assert set(option.on) <= {CHANNEL, SUBSCRIPTION, EVENT}
        assert option.meaning


@pytest.mark.parametrize(
    "qos",
    [{"earliest": 0}, {"earliest": "soon"}, {"essential": "yes"}, {"codec": -1}, {"codec": 70_000}],
)
def test_qos_out_of_range_are_named(qos: dict[str, Any]) -> None:
    with pytest.raises(BadEnvelope, match=next(iter(qos))):
        QoS(**qos)
