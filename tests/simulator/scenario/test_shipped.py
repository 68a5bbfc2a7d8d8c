"""Every scenario that is shipped keeps its promises, in small; ``make proof`` runs them as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gossamer import catalog
from gossamer.simulator.scenario.run import Scenario, load, run
from gossamer.simulator.scenario.shrink import smaller

SCENARIOS = Path(__file__).parents[3] / "scenarios"
SHIPPED = [
    path
    for path in sorted(SCENARIOS.rglob("*.toml"))
    if path.parent.name not in ("whatif", "plain")  # questions; and test_progress runs those as they are
    and (path.parent != SCENARIOS or path.stem not in catalog.templates())  # test_proof runs these
]
MOST, LONGEST = 40, 300.0
"""Nodes, and seconds."""


def shortened(path: Path, folder: Path) -> Scenario:
    """The scenario with fewer nodes and less time, under the names that so few nodes have."""
    scenario = load(path)
    if scenario.network.nodes <= MOST:
        return scenario
    fitting = folder / path.name
    names = re.sub(r'"n0*(\d+)"', lambda name: f'"n{(int(name[1]) - 1) % MOST + 1:02}"', path.read_text())
    fitting.write_text(names)
    return smaller(load(fitting), MOST, max(1.0, scenario.duration / LONGEST))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(SCENARIOS)))
def test_a_shipped_scenario_keeps_its_promises_in_small(path: Path, tmp_path: Path) -> None:
    result = run(shortened(path, tmp_path), 1, traced=False)
    assert result.violations == 0, result.examples
    assert not result.unchecked
    assert not result.unjudged
    assert result.delivered > 50
