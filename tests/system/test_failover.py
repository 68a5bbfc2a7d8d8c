"""A publisher's server is killed or stops: what was acknowledged was delivered, and publishing goes on.

``make proof-failover`` does it many times, by killing and by stopping, with every template that promises it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.failover import fail_over


@pytest.mark.parametrize(
    ("template", "stops"),
    [("reliable", True), ("causal", False), ("total-order", True), ("persistent", False)],
)
async def test_a_publisher_whose_server_dies_or_stops_goes_on_and_loses_nothing(
    template: str, stops: bool, tmp_path: Path
) -> None:
    states = tmp_path if template == "persistent" else None
    figures = await fail_over(template, 1, states, stops=stops)
    assert figures["published"] == 60
