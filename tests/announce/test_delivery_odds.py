"""Closed forms agree with counting, and what they call enough is enough and not more."""

from __future__ import annotations

import itertools

import pytest

from gossamer.announce import delivery_odds as odds
from gossamer.core.errors import ConfigError


@pytest.mark.parametrize(("needed", "sent"), [(1, 1), (1, 4), (2, 5), (3, 3), (4, 6)])
def test_the_closed_form_counts_every_way_to_lose_packets(needed: int, sent: int) -> None:
    counted = 0.0
    for kept in itertools.product([True, False], repeat=sent):
        if sum(kept) >= needed:
            counted += 0.7 ** sum(kept) * 0.3 ** (sent - sum(kept))
    assert odds.arrives(needed, sent, 0.3) == pytest.approx(counted)


def test_at_a_loss_of_thirty_percent_eight_repetitions_are_enough_and_seven_are_not() -> None:
    assert odds.enough(1, 0.3, 0.9999) == 8
    assert odds.arrives(1, 8, 0.3) >= 0.9999 > odds.arrives(1, 7, 0.3)


def test_ten_fragments_need_far_less_than_eight_times_ten() -> None:
    assert odds.enough(10, 0.3, 0.9999) == 27
    assert odds.misses(10, 27, 0.3) <= 1e-4 < odds.misses(10, 26, 0.3)


def test_nothing_is_lost_where_nothing_gets_lost() -> None:
    assert odds.enough(5, 0.0, 0.9999) == 5


def test_an_index_in_between_is_counted_every_way() -> None:
    index, data, join = 3, 5, 1
    counted = 0.0
    for heard in itertools.product([True, False], repeat=index + data):
        chance = 1.0
        for each in heard:
            chance *= 0.6 if each else 0.4
        first = next((i for i in range(index) if heard[i]), None)
        if first is None or not any(heard[index + r] for r in range(first + join, data)):
            counted += chance
    assert odds.managed_misses(index, data, join, 0.4) == pytest.approx(counted)


@pytest.mark.parametrize(("loss", "target"), [(1.0, 0.9), (-0.1, 0.9), (0.3, 1.0), (0.3, 0.0)])
def test_what_cannot_be_is_refused(loss: float, target: float) -> None:
    with pytest.raises(ConfigError):
        odds.enough(1, loss, target)


def test_more_than_anybody_would_send_is_refused() -> None:
    with pytest.raises(ConfigError, match="ask for less"):
        odds.enough(1, 0.9999, 0.9999)
