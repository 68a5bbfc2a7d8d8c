"""Events by the hundred thousand from one process to another."""

from __future__ import annotations

import pytest

from tests.system.programs import address_of, script

MEMORY = 200 * 1024
"""Kibibytes."""


@pytest.mark.parametrize(
    ("count", "size", "pause", "pending"),
    [
        pytest.param(1_000_000, 10, 0.0, 65_536, id="a million small ones, fast"),
        pytest.param(1_000_000, 10, 0.1, 65_536, id="a million small ones, slowly"),
        pytest.param(230_000, 1000, 0.005, 10_000, id="more than memory may hold, slowly"),
    ],
)
def test_all_events_arrive_in_order_and_memory_stays_small(
    count: int, size: int, pause: float, pending: int
) -> None:
    with (
        script("flow_subscriber.py", count, size, pause, pending) as reader,
        script("flow_publisher.py", address_of(reader), count, size) as writer,
    ):
        sent = writer.json()
        seen = reader.json()
        assert (writer.end(), reader.end()) == (0, 0)
    assert {key: seen[key] for key in ("received", "in_order", "dropped")} == {
        "received": count,
        "in_order": True,
        "dropped": 0,
    }
    assert sent["drops"] == {}
    assert sent["kibibytes"] < MEMORY
    assert seen["kibibytes"] < MEMORY
