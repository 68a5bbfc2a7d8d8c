"""Scenarios: files, what is wrong with them, and what comes of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gossamer.core.config import parse
from gossamer.core.errors import ConfigError
from gossamer.simulator.scenario.run import Scenario, build, load, run
from gossamer.traces.writer import read

SCENARIOS = Path(__file__).parents[3] / "scenarios" / "small"

SMALL = """
name = "small"
duration = 5.0
[network]
kind = "line"
nodes = 3
[[channel]]
name = "c"
template = "multicast"
[[publish]]
channel = "c"
nodes = ["n1"]
rate = 20.0
start = 1.0
end = 4.0
[[subscribe]]
channel = "c"
nodes = ["n2", "n3"]
feedback = 0.5
"""


def small(more: str = "") -> Scenario:
    return parse(SMALL + more, Scenario)


# the shipped ones


def test_without_faults_multicast_delivers_all_that_is_expected():
    result = run(load(SCENARIOS / "multicast-clean.toml"), 1)
    assert result.expected > 10_000
    assert (result.delivered, result.duplicates, result.violations) == (result.expected, 0, 0)
    assert result.feedback == result.answered > 100
    assert result.drops == {}


@pytest.mark.parametrize("seed", [1, 2])
def test_under_every_fault_multicast_delivers_at_most_once(seed):
    result = run(load(SCENARIOS / "multicast.toml"), seed)
    assert result.passed, f"{result.examples[0]}; replay: {result.replay}"
    assert result.duplicates == 0
    assert result.delivered > 0.5 * result.expected
    assert {
        "lost on the way",
        "lost by rule",
        "partition",
        "node is down",
        "seen before",
    } <= result.drops.keys()


def test_a_loop_delivers_everything_at_once_without_a_network():
    result = run(load(SCENARIOS / "loop.toml"), 1)
    assert result.delivered == result.expected > 450
    assert (result.data_messages, result.control_messages, result.latency_p99) == (0, 0, 0)


# results


def test_a_result_tells_what_came_of_a_run():
    result = run(small(), 3)
    assert (result.scenario, result.seed, result.virtual_seconds) == ("small", 3, 5.0)
    assert (result.published, result.expected, result.delivered) == (60, 120, 120)
    assert result.latency_p50 == pytest.approx(0.02, rel=0.01)
    assert 0.02 < result.latency_p99 < 0.5, "the first parcels waited until their source was in the group"
    assert result.control_messages > 0 < result.control_bytes
    assert result.data_bytes > 120 * 100
    assert result.rows > 500


def test_equal_seeds_give_equal_results_and_others_do_not():
    assert run(small(), 1) == run(small(), 1)
    assert run(small(), 1).trace_hash != run(small(), 2).trace_hash


def test_a_result_tells_how_to_replay_it(tmp_path):
    path = tmp_path / "my scenario.toml"
    path.write_text(SMALL)
    assert run(load(path), 9).replay == f"gossamer simulate '{path}' --seed 9"


def test_progress_is_reported_in_virtual_seconds_up_to_the_end():
    reports: list[float] = []
    run(small(), 1, progress=reports.append)
    assert reports == sorted(reports)
    assert len(reports) == 100
    assert reports[-1] == 5.0


def test_reporting_and_writing_do_not_change_the_run(tmp_path):
    assert run(small(), 1, tmp_path, lambda _: None).trace_hash == run(small(), 1).trace_hash


# traces


def test_the_trace_is_written_whole(tmp_path):
    result = run(small(), 1, tmp_path)
    table = read(tmp_path)
    assert table.num_rows == result.rows
    assert (tmp_path / "run=small-1").is_dir()
    end = json.loads((tmp_path / "run=small-1" / "world.json").read_text())
    assert (end["rows"], end["segments"]) == (result.rows, 1)


def test_a_second_run_leaves_nothing_of_the_first(tmp_path):
    folder = tmp_path / "run=small-1"
    folder.mkdir()
    (folder / "world-000099.parquet").write_bytes(b"stale")
    (folder / ".world-000001.parquet.tmp").write_bytes(b"stale")
    (folder / "other.txt").write_text("not ours")
    result = run(small(), 1, tmp_path)
    assert read(tmp_path).num_rows == result.rows
    assert sorted(each.name for each in folder.iterdir()) == [
        "other.txt",
        "world-000001.parquet",
        "world.json",
    ]


def test_runs_with_other_seeds_stand_side_by_side(tmp_path):
    rows = [run(small(), seed, tmp_path).rows for seed in (1, 2)]
    assert read(tmp_path).num_rows == sum(rows)


def test_a_scenario_that_cannot_be_built_touches_no_file(tmp_path):
    with pytest.raises(ConfigError):
        run(small('[[rule]]\nkind = "crash"\nnode = "x"\nat = 1'), 1, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# files


def test_a_scenario_is_named_after_its_file_unless_it_says_otherwise(tmp_path):
    path = tmp_path / "storm.toml"
    path.write_text(SMALL.replace('name = "small"', "", 1))
    assert load(path).name == "storm"
    path.write_text(SMALL)
    assert load(path).name == "small"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        load(tmp_path / "nowhere.toml")


def test_agents_are_picked_at_random_but_by_the_seed():
    picking = small('[[subscribe]]\nchannel = "c"\npick = 1')
    chosen = [
        tuple(node for node in world.nodes if node == "n1" and world.engine(node).has_subscribers("c"))
        for world in (build(picking, seed) for seed in range(10))
    ]
    assert len(set(chosen)) == 2
    assert run(picking, 4) == run(picking, 4)


def test_a_random_network_is_the_runs_own_unless_it_has_a_seed():
    def edges(seed: int, network_seed: str) -> set[tuple[str, tuple[str, ...]]]:
        text = f'duration = 1.0\n[network]\nkind = "random"\nnodes = 12\n{network_seed}'
        world = build(parse(text, Scenario), seed)
        return {(node, world.links(node)) for node in world.nodes}

    assert edges(1, "") != edges(2, "")
    assert edges(1, "seed = 5") == edges(2, "seed = 5")


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ('[[channel]]\nname = "d"\ntemplate = "multicats"', "channel[1].template"),
        (
            '[[channel]]\nname = "d"\ntemplate = "multicast"\nsettings = {retry = 0}',
            "channel[1].settings.retry",
        ),
        ('[[channel]]\nname = "d"\ntemplate = "multicast"\nsettings = {x = 1}', "channel[1].settings.x"),
        ('[[channel]]\nname = "c"\ntemplate = "multicast"', "channel[1].name"),
        ('[[channel]]\nname = "a b"\ntemplate = "multicast"', "channel[1].name"),
        ('[[publish]]\nchannel = "d"\nrate = 1', "publish[1].channel"),
        ('[[publish]]\nchannel = "c"\nrate = 1\nnodes = ["n4"]', "publish[1].nodes"),
        ('[[publish]]\nchannel = "c"\nrate = 1\npick = 4', "publish[1].pick"),
        ('[[publish]]\nchannel = "c"\nrate = 1\nstart = 2\nend = 1', "publish[1].end"),
        ('[[publish]]\nchannel = "c"\nrate = 1\nattributes = {"" = 1}', "publish[1].attributes"),
        ('[[subscribe]]\nchannel = "d"', "subscribe[1].channel"),
        ('[[subscribe]]\nchannel = "c"\nnodes = ["n4"]', "subscribe[1].nodes"),
        ('[[subscribe]]\nchannel = "c"\ncriteria = [["x", "~", 1]]', "subscribe[1].criteria"),
        ('[[subscribe]]\nchannel = "c"\njoin = 2\nleave = 1', "subscribe[1].leave"),
        ('[[rule]]\nkind = "crash"\nnode = "n4"\nat = 1', "rule[0].node"),
        ('[[rule]]\nkind = "loss"\n[[rule]]\nkind = "partition"\nparts = [["n9"]]', "rule[1].parts"),
    ],
)
def test_what_cannot_be_is_refused_with_file_and_key(tmp_path, more, key):
    path = tmp_path / "wrong.toml"
    path.write_text(SMALL + more)
    with pytest.raises(ConfigError) as caught:
        run(load(path), 1)
    assert (caught.value.key, caught.value.file) == (key, str(path))


@pytest.mark.parametrize(
    "more",
    [
        "[typo]",
        "[link]\nlatency = -1",
        "[link]\nloss = 2",
        "[node]\ninbox = 0",
        '[[publish]]\nchannel = "c"\nrate = 0',
        '[[publish]]\nchannel = "c"\nrate = 1\npriority = 10',
        '[[subscribe]]\nchannel = "c"\nfeedback = 1.5',
        '[[rule]]\nkind = "flood"',
    ],
)
def test_a_value_out_of_its_limits_is_refused_before_anything_is_built(more):
    with pytest.raises(ConfigError):
        small(more)


# reliable at half of everything lost


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_one_lossy_link_near_a_leaf_the_source_resends_nothing(seed):
    result = run(load(SCENARIOS / "leaf.toml"), seed)
    orders = result.channels["orders"]
    assert orders.figures["repaired_by_source"] == 0
    assert orders.figures["repaired_on_the_way"] > 200
    assert (orders.stayed.seats, orders.stayed.delivered) == (14, orders.stayed.expected)
    assert (result.delivered, result.violations) == (result.expected, 0)


@pytest.mark.parametrize("seed", [1, 2])
def test_at_half_loss_reliable_delivers_all_and_says_less_than_it_carries(seed):
    result = run(load(SCENARIOS / "reliable.toml"), seed)
    orders = result.channels["orders"]
    assert (result.delivered, result.violations, result.missed) == (result.expected, 0, 0)
    assert orders.stayed.delivered == orders.stayed.expected == result.expected
    assert orders.traffic.control_bytes < 0.1 * orders.traffic.data_bytes
    assert orders.figures["repaired_on_the_way"] > orders.figures["repaired_by_source"] > 0
