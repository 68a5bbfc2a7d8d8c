"""Which parts nodes play in the scenarios that are shipped, and why some parts are not played in some."""

from __future__ import annotations

from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from gossamer import catalog
from gossamer.core.template import DURABLE
from gossamer.simulator.scenario import builder
from gossamer.simulator.scenario.run import Scenario, build, load
from tests.simulator.scenario.test_shipped import SCENARIOS, shortened

ALL = [path for path in sorted(SCENARIOS.rglob("*.toml")) if path.parent.name != "whatif"]

MOST_BUILT = 1000
"""Nodes of a scenario that is built here as it is; larger ones are made smaller first."""

SEEDS = (1, 2, 3)
"""Nodes are picked at random: a part counts as played if it is with one of these; the proof runs more."""

NO_CLIENTS = "a fixed tree of nodes without clients; plain/ has small networks with clients that move"
BY_RULES = "its faults are rules at given times, or none; plain/ has a small network for each template"
ALONE = "what a node publishes never leaves it, so a node that only does one of both does nothing"
PEERS = "peers alone: there is no server to move to or to restart, and churn ends and starts peers"
EXEMPT: dict[str, dict[str, str]] = {
    "loop.toml": {
        "moves": "what a node publishes never leaves it, wherever it hangs",
        "restarts in turn": "churn restarts nodes already, and no node is the server of another",
        "only publishes": ALONE,
        "only listens": ALONE,
    },
    "small/loop.toml": {
        "moves": "one node, which has nowhere to move to",
        "restarts in turn": "one node, which nothing else needs",
        "only publishes": ALONE,
        "only listens": ALONE,
    },
    "multiring/*.toml": {
        "moves": PEERS,
        "restarts in turn": PEERS,
        "only publishes": "a peer is a member of the ring when it listens, and publishes into the ring",
    },
    "overlay.toml": {
        "moves": "only a backbone, which has to find itself and to mend its tree",
        "restarts in turn": "crashes and a partition at given times are what the backbone is checked against",
    },
    "thousand.toml": {"moves": "it is about the number of backbone nodes, and nothing hangs below them"},
    "small/[!l]*.toml": {"moves": NO_CLIENTS, "restarts in turn": BY_RULES},
    "small/leaf.toml": {"moves": NO_CLIENTS, "restarts in turn": BY_RULES},
}
"""Parts that no node plays, by the file's name or a pattern of it, and the reason."""

WITHOUT_SCENARIO = {
    "direct": "no node passes anything on, so there is no network to speak of",
    "multiring": "multiring/ has its scenarios, of peers alone",
}


def exemptions(name: str) -> list[tuple[str, str]]:
    return [each for pattern, parts in EXEMPT.items() if fnmatch(name, pattern) for each in parts.items()]


class Parts:
    """Which nodes publish and which listen, by channel."""

    def __init__(self, scenario: Scenario, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.publishers: dict[str, set[str]] = defaultdict(set)
        self.listeners: dict[str, set[str]] = defaultdict(set)
        for kind, found in (("Publisher", self.publishers), ("Subscriber", self.listeners)):
            monkeypatch.setattr(builder, kind, self._noting(getattr(builder, kind), found))
        build(scenario, seed)
        self.scenario = scenario

    @staticmethod
    def _noting(kind: Any, found: dict[str, set[str]]) -> Any:
        def make(world: Any, node: str, channel: str, **rest: Any) -> Any:
            found[channel].add(node)
            return kind(world, node, channel, **rest)

        return make

    def played(self) -> set[str]:
        parts = {"moves"} if self.scenario.move else set()
        parts |= {"restarts in turn"} if self.scenario.rolling else set()
        channels = [channel.name for channel in self.scenario.channel]
        if any(self.publishers[each] - self.listeners[each] for each in channels):
            parts.add("only publishes")
        if any(self.listeners[each] - self.publishers[each] for each in channels):
            parts.add("only listens")
        if any(each.history for each in self.scenario.subscribe):
            parts.add("wants the history")
        return parts


def wanted(scenario: Scenario) -> set[str]:
    parts = {"moves", "restarts in turn", "only publishes", "only listens"}
    keeps = (DURABLE in catalog.templates()[each.template].promises for each in scenario.channel)
    return {*parts, "wants the history"} if any(keeps) else parts


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, set[str]]:
    """For each scenario the parts that no node plays."""
    found = {}
    for path in ALL:
        scenario = load(path)
        if scenario.network.nodes > MOST_BUILT:
            scenario = shortened(path, tmp_path)
        parts = wanted(scenario)
        for seed in SEEDS:
            with monkeypatch.context() as patch:
                parts -= Parts(scenario, seed, patch).played()
        found[str(path.relative_to(SCENARIOS))] = parts
    return found


def test_every_part_is_played_in_every_scenario_or_there_is_a_reason_why_not(
    lacking: dict[str, set[str]],
) -> None:
    excused = {name: {part for part, _ in exemptions(name)} for name in lacking}
    assert {name: parts - excused[name] for name, parts in lacking.items() if parts - excused[name]} == {}


def test_no_reason_outlives_its_scenario_or_excuses_a_part_that_is_played(
    lacking: dict[str, set[str]],
) -> None:
    idle = [
        (pattern, part)
        for pattern, parts in EXEMPT.items()
        for part in parts
        if not any(fnmatch(name, pattern) and part in lacks for name, lacks in lacking.items())
    ]
    assert idle == []
    assert all(len(reason.split()) > 3 for parts in EXEMPT.values() for reason in parts.values())


def test_every_template_that_has_servers_has_a_scenario_of_its_own_and_a_plain_one() -> None:
    names = {path.stem for path in ALL if path.parent == SCENARIOS}
    plain = {path.stem for path in ALL if path.parent.name == "plain"}
    templates = set(catalog.templates())
    assert templates - names == {*WITHOUT_SCENARIO}
    assert templates - plain == {*WITHOUT_SCENARIO, "loop"}  # that never leaves its node
