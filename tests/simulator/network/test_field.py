"""A field: places, latencies, contacts, links that nobody is told of, and a monitored backbone in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from math import hypot
from pathlib import Path

import pytest

from gossamer.core.config import parse
from gossamer.core.context import CONTACTS, NODES, TREE
from gossamer.core.errors import ConfigError
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.invariants.checks import CHECKS, Ledger
from gossamer.simulator.network.field import Field
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.scenario.run import Scenario, build, load, run

ROOT = Path(__file__).parents[3]

FIELD = """
name = "field"
duration = 20.0
[network]
kind = "field"
nodes = 12
base = 0.01
scale = 0.2
contacts = 2
"""

CHANNEL = """
[[channel]]
name = "c"
template = "multicast"
[[publish]]
channel = "c"
nodes = ["n03"]
rate = 5.0
start = 10.0
end = 19.0
[[subscribe]]
channel = "c"
join = 6.0
"""


def field(count: int = 20, seed: int = 1) -> Field:
    return Field([f"n{number:02d}" for number in range(count)], 0.005, 0.1, SeededDice(seed))


def test_places_are_in_the_unit_square_and_depend_on_the_dice_only() -> None:
    places = field().places
    assert all(0 <= x < 1 and 0 <= y < 1 for x, y in places.values())
    assert places == field().places
    assert places != field(seed=2).places


def test_latency_is_base_plus_distance_times_scale_in_both_directions() -> None:
    made = field()
    (x, y), (u, v) = made.places["n03"], made.places["n07"]
    assert made.latency("n03", "n07") == pytest.approx(0.005 + 0.1 * hypot(x - u, y - v))
    assert made.latency("n03", "n07") == made.latency("n07", "n03")


def test_a_link_is_like_the_given_one_in_all_but_latency() -> None:
    made = field()
    model = made.model("n03", "n07", LinkModel(latency=9.0, loss=0.25, jitter=0.5))
    assert model == LinkModel(latency=made.latency("n03", "n07"), loss=0.25, jitter=0.5)


@pytest.mark.parametrize(("count", "wanted"), [(1, 0), (2, 1), (3, 2), (50, 3)])
def test_each_node_knows_as_many_contacts_as_wanted_and_all_hang_together(count: int, wanted: int) -> None:
    contacts = field(count).contacts(3, SeededDice(1))
    assert {len(known) for known in contacts.values()} == {wanted}
    near: dict[str, set[str]] = {name: set() for name in contacts}
    for name, known in contacts.items():
        assert name not in known
        for other in known:
            near[name].add(other)
            near[other].add(name)
    reached = {"n00"}
    queue = deque(reached)
    while queue:
        for other in near[queue.popleft()] - reached:
            reached.add(other)
            queue.append(other)
    assert reached == contacts.keys()


def test_every_pair_can_talk_and_nobody_is_told_of_a_link() -> None:
    rows: list[tuple[object, ...]] = []
    world = build(parse(FIELD + "[monitor]\n" + CHANNEL, Scenario), 1, recorder=rows.append)
    world.run(20)
    assert not [row for row in rows if row[5] in ("up", "down")]
    talked = {(row[2], row[12]) for row in rows if row[5] == "received"}
    assert len(talked) == 12 * 11
    assert all(world.links(node) == () for node in world.nodes)


def test_what_is_sent_to_a_crashed_node_is_just_lost() -> None:
    text = FIELD + '[monitor]\n[[rule]]\nkind = "crash"\nnode = "n05"\nat = 10.0\n'
    result = run(parse(text, Scenario), 1)
    assert result.drops.keys() == {"node is down"}


def test_contacts_outlive_a_crash() -> None:
    world = build(parse(FIELD + "[monitor]\n", Scenario), 1)
    before = world.engine("n05").containers[CONTACTS]
    world.crash("n05")
    world.restart("n05")
    assert world.engine("n05").containers[CONTACTS] == before


def test_without_monitoring_the_tree_is_the_cheapest_of_all() -> None:
    scenario = parse(FIELD + CHANNEL, Scenario)
    world = build(scenario, 1)
    tree = world.engine("n01").containers[TREE]
    assert len(tree.nodes) == 12
    result = run(scenario, 1)
    assert result.delivered == result.expected > 0


def test_with_monitoring_the_nodes_find_the_tree_and_a_channel_runs_along_it() -> None:
    scenario = parse(FIELD.replace("duration", "monitor = true\nduration") + CHANNEL, Scenario)
    result = run(scenario, 1)
    assert result.delivered == result.expected > 400
    world = build(scenario, 1)
    assert world.engine("n01").containers.get(TREE) is None
    world.run(10)
    assert set(world.engine("n01").containers[NODES]) == set(world.nodes)


def test_settings_of_the_monitor_are_checked_by_key() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(FIELD + "[monitor]\nfactor = 0.5\n", Scenario)
    assert "factor" in caught.value.key


def test_only_a_field_can_be_monitored() -> None:
    with pytest.raises(ConfigError) as caught:
        build(parse('monitor = true\nduration = 1.0\n[network]\nkind = "line"\nnodes = 3\n', Scenario), 1)
    assert caught.value.key == "monitor"


def test_a_hundred_nodes_carry_a_channel_through_crashes_and_a_partition_and_agree_in_the_end() -> None:
    ledger = Ledger(CHECKS)
    world = build(load(ROOT / "scenarios" / "overlay.toml"), 1, ledger)
    world.run(180)
    ledger.finish(world)
    assert (ledger.counts.violations, ledger.counts.duplicates) == (0, 0)
    assert ledger.counts.delivered > 0.75 * ledger.counts.expected
    world.run(190)  # a new tree may be on its way at any one instant
    up = {name for name in world.nodes if world.engine(name) is not None}
    assert len(up) == 99
    assert {frozenset(world.engine(name).containers[NODES]) for name in up} == {frozenset(up)}
    trees = {world.engine(name).containers[TREE] for name in up}
    assert len(trees) == 1
    assert set(trees.pop().nodes) == up


def test_the_trace_of_a_monitored_field_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    path = tmp_path / "field.toml"
    path.write_text(FIELD + "[link]\nloss = 0.1\n[monitor]\n" + CHANNEL)
    program = (
        "import sys; from gossamer.simulator.scenario.run import load, run\n"
        "result = run(load(sys.argv[1]), 1); print(result.trace_hash, result.rows)"
    )

    def traced(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", program, str(path)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert traced("0") == traced("4242")
