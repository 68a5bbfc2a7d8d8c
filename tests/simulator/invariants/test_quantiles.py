"""Quantiles in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.simulator.invariants.quantiles import Quantiles


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=300), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_at_most_one_part_in_128_too_low(durations: list[int], share: float) -> None:
    quantiles = Quantiles()
    for duration in durations:
        quantiles.add(duration)
    exact = next(d for n, d in enumerate(sorted(durations), 1) if n >= share * len(durations)) / 1e9
    assert exact * (1 - 1 / 128) <= quantiles.seconds(share) <= exact + 1e-12


def test_nothing_has_no_latency() -> None:
    assert Quantiles().seconds(0.5) == 0


def test_a_million_durations_fit_few_buckets() -> None:
    quantiles = Quantiles()
    for number in range(100_000):
        quantiles.add(number * 104_729)
    assert len(quantiles._buckets) < 5000
    assert quantiles.seconds(0.5) == pytest.approx(50_000 * 104_729 / 1e9, rel=0.01)
