"""The proof in small: all templates that have a scenario, a few seeds, faults and all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer import catalog
from gossamer.core.errors import ConfigError
from gossamer.simulator.scenario.run import build, load
from gossamer.simulator.scenario.shrink import smaller

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "scenarios"
PROVEN = [name for name in sorted(catalog.templates()) if (SCENARIOS / f"{name}.toml").exists()]


def proof(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(ROOT / "benchmarks" / "proof.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


CALM = {"total-order", "persistent"}
"""Scenarios that run half as fast: what their voters need to recover in does not shrink with the pace."""


@pytest.mark.parametrize(
    ("names", "duration"), [(sorted({*PROVEN} - CALM), 900), (sorted(CALM), 1800)], ids=["fast", "calm"]
)
def test_in_small_every_template_keeps_its_promises(names: list[str], duration: int, tmp_path: Path) -> None:
    out = tmp_path / "proof.json"
    done = proof(*names, "--nodes", "20", "--duration", str(duration), "--seeds", "2", "--out", str(out))
    assert done.returncode == 0, done.stderr
    runs = json.loads(out.read_bytes())
    assert {(each["scenario"], each["seed"]) for each in runs} == {
        (name, seed) for name in names for seed in (1, 2)
    }
    for each in runs:
        result = each["result"]
        scenario = load(SCENARIOS / f"{each['scenario']}.toml")
        assert (result["virtual_seconds"], result["unchecked"]) == (duration, [])
        assert all(result["judged"].values()), result["judged"]
        assert result["delivered"] > 100
        assert result["drops"]["lost on the way"] > 1000
        assert not scenario.churn or result["drops"]["node is down"] > 50


PLANTED = """
import sys
sys.path.insert(0, {benchmarks!r})
import proof
from gossamer.templates.reliable.template import Reliable

class Inline:
    def __init__(self, *_, **__): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def submit(self, call, *arguments):
        self.result = lambda: call(*arguments)
        return self

proof.ProcessPoolExecutor, proof.as_completed = Inline, list
Reliable.advance = lambda self, ctx, stream, sender: [ctx.deliver(each) for each in stream.held.values()]
sys.exit(proof.main(["small/reliable", "--seeds", "1", "--nodes", "15", "--duration", "30"]))
"""


def test_a_broken_promise_ends_the_proof_with_a_command_that_replays_it() -> None:
    """Planted: what is in the window is delivered again and again."""
    program = PLANTED.format(benchmarks=str(ROOT / "benchmarks"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1, done.stderr
    assert "at-most-once" in done.stderr
    assert (
        "replay with: python benchmarks/proof.py small/reliable --first 1 --seeds 1 --nodes 15 --duration 30"
        in done.stderr
    )


@pytest.mark.parametrize("name", PROVEN)
def test_a_scenario_of_a_template_is_about_it_at_the_papers_scale(name: str) -> None:
    scenario = load(SCENARIOS / f"{name}.toml")
    assert {each.template for each in scenario.channel} == {name}
    assert (scenario.network.kind, scenario.network.nodes) == ("field", 100)
    assert scenario.duration >= 7200
    assert scenario.link.loss == 0.5
    assert scenario.monitor
    assert scenario.churn
    assert {each.role for each in scenario.below} == {"secondary", "client"}
    assert any(each.stay for each in scenario.subscribe)


def test_a_smaller_scenario_has_fewer_of_everybody_and_goes_faster() -> None:
    large = load(SCENARIOS / "reliable.toml")
    small = smaller(large, 10, 20)
    assert (small.network.nodes, small.duration, small.patience) == (10, 360, large.patience / 20)
    assert small.monitor.probe_budget == 20 * large.monitor.probe_budget
    assert [each.pick for each in small.subscribe] == [2, 2, 2]
    assert small.churn[0].every == large.churn[0].every / 20
    assert small.publish[0].rate == large.publish[0].rate
    assert small.link == large.link
    assert len([node for node in build(small, 1).nodes if "-" not in node]) == 10


@pytest.mark.parametrize("name", PROVEN)
def test_every_proof_can_be_made_as_small_as_twenty_nodes(name: str) -> None:
    large = load(SCENARIOS / f"{name}.toml")
    small = smaller(large, 20, 8)
    build(small, 1)
    assert [each.end for each in small.react] == [each.end / 8 for each in large.react]


def test_names_that_do_not_fit_a_smaller_network_are_refused() -> None:
    with pytest.raises(ConfigError, match="n020"):
        build(smaller(load(SCENARIOS / "overlay.toml"), 30), 1)
