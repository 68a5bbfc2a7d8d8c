"""At a loss of 30 % the stated repetition brings 99.99 % of announcements, as the closed form says."""

from __future__ import annotations

import pytest

from gossamer.announce import delivery_odds as odds
from gossamer.announce.reliability import Erasure, Repetition
from gossamer.simulator.workload.announcement_loss import managed, raw


def test_eight_repetitions_bring_what_they_promise_and_four_do_not() -> None:
    stated = raw("stated", Repetition(0.3, 0.9999), 100, 0.3, 60_000)
    assert (stated.sent, stated.expected >= 0.9999) == (8, True)
    mean = 60_000 * 0.3**8
    assert stated.missed <= mean + 4 * mean**0.5
    fewer = raw("fewer", Repetition(0.3, 0.99), 100, 0.3, 5_000)
    assert fewer.sent == 4
    assert fewer.arrived == pytest.approx(fewer.expected, abs=3 * (0.0081 * 0.9919 / 5_000) ** 0.5)
    assert fewer.arrived < 0.9999


def test_an_erasure_code_brings_the_same_with_a_third_of_the_packets() -> None:
    coded = raw("coded", Erasure(0.3, 0.9999), 13_000, 0.3, 3_000)
    assert coded.arrived >= 0.9999
    assert coded.sent <= 30
    assert coded.expected == odds.arrives(10, coded.sent, 0.3) >= 0.9999
    starved = raw("starved", Erasure(0.05, 0.9), 13_000, 0.5, 1_000)
    assert starved.arrived == pytest.approx(starved.expected, abs=0.05)
    assert starved.arrived < 0.9


def test_through_an_index_as_many_arrive() -> None:
    found = managed(0.3, 0.9999, 5_000)
    assert found.expected >= 0.9999
    assert found.missed <= 3, "0.25 are expected to be missed"
