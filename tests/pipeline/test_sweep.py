"""Sweeps: the same rows whoever runs them, and nothing lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gossamer.core.errors import StorageError
from gossamer.pipeline import sweep
from gossamer.pipeline.simulations import Simulation
from gossamer.pipeline.sweep import FAILED, ROWS, TRACES, WORKING, carry_out, grid, run_sweep, task
from gossamer.simulator.scenario.run import Scenario, load, run
from gossamer.traces.digest import TraceHash
from gossamer.traces.writer import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIO = """
name = "small"
duration = 3.0

[network]
kind = "tree"
nodes = 4

[[channel]]
name = "news"
template = "multicast"

[[publish]]
channel = "news"
rate = 20.0
end = 2.0

[[subscribe]]
channel = "news"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return load(path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for name in (ROWS, TRACES, FAILED, WORKING, "scratch"):
        (tmp_path / "out" / name).mkdir(parents=True)
    return tmp_path / "out"


def double(settings: dict[str, Any], seed: int, folder: Path) -> dict[str, Any]:
    (folder / "what").write_text(f"{seed}")
    return {"double": settings["n"] * 2}


def failing(settings: dict[str, Any], seed: int, folder: Path) -> dict[str, Any]:
    (folder / "half").write_text("a trace that has no end")
    raise ValueError("this one cannot be")


# without Spark


def test_a_grid_is_every_combination_and_the_last_setting_changes_fastest() -> None:
    assert grid({"a": [1, 2], "b": ["x", "y"]}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]
    assert grid({}) == [{}]


def test_nought_and_nought_point_nought_are_one_configuration() -> None:
    assert [type(each["loss"]) for each in grid({"loss": [0, 0.5]})] == [float, float]
    assert [each["on"] for each in grid({"on": [False, True]})] == [False, True]


def test_the_seed_depends_on_master_seed_settings_and_what_is_run_and_on_nothing_else() -> None:
    one = task({"a": 1, "b": 2}, double, 0)
    assert one == task({"b": 2, "a": 1}, double, 0)
    others = [
        task({"a": 1, "b": 3}, double, 0),
        task({"a": 1, "b": 2}, double, 1),
        task({"a": 1, "b": 2}, failing, 0),
    ]
    assert len({each.key for each in [one, *others]} | {each.seed for each in [one, *others]}) == 8
    assert 0 <= one.seed < 2**63


def test_a_changed_scenario_is_another_run_and_a_moved_one_is_not(scenario: Scenario, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere.toml"
    moved.write_text(SCENARIO)
    changed = tmp_path / "changed.toml"
    changed.write_text(SCENARIO.replace("20.0", "21.0"))
    keys = [task({}, Simulation(load(each)), 0).key for each in (scenario.file, moved, changed)]
    assert keys[0] == keys[1] != keys[2]


def test_a_configuration_leaves_its_row_and_trace_and_nothing_else(out: Path) -> None:
    one = task({"link.n": 1, "n": 4}, double, 0)
    assert carry_out(one, double, out, out / "scratch") == ""
    row = sweep.pq.ParquetFile(out / ROWS / f"{one.key}.parquet").read().to_pylist()
    assert row == [{"configuration": one.key, "link_n": 1, "n": 4, "seed": one.seed, "double": 8}]
    assert (out / TRACES / f"run={one.key}" / "what").read_text() == f"{one.seed}"
    assert [*(out / WORKING).iterdir(), *(out / "scratch").iterdir(), *(out / FAILED).iterdir()] == []


def test_a_configuration_that_fails_leaves_a_reason_and_no_trace(out: Path) -> None:
    one = task({"n": 1}, failing, 0)
    assert carry_out(one, failing, out, out / "scratch").startswith("ValueError: this one cannot be (")
    assert "ValueError" in (out / FAILED / one.key).read_text()
    left = [*(out / WORKING).iterdir(), *(out / "scratch").iterdir(), *(out / ROWS).iterdir()]
    assert [*left, *(out / TRACES).iterdir()] == []


def test_a_retry_of_what_was_done_does_nothing(out: Path) -> None:
    one = task({"n": 1}, double, 0)
    carry_out(one, double, out, out / "scratch")
    assert carry_out(one, failing, out, out / "scratch") == ""
    assert not (out / FAILED / one.key).exists()


def test_an_attempt_that_ended_between_trace_and_row_is_made_good(out: Path) -> None:
    one = task({"n": 1}, double, 0)
    carry_out(one, double, out, out / "scratch")
    row = out / ROWS / f"{one.key}.parquet"
    first = row.read_bytes()
    row.unlink()
    assert carry_out(one, double, out, out / "scratch") == ""
    assert row.read_bytes() == first
    assert [path.name for path in (out / TRACES).iterdir()] == [f"run={one.key}"]


def test_a_simulation_in_a_sweep_is_the_run_that_its_replay_command_makes(
    scenario: Scenario, out: Path, tmp_path: Path
) -> None:
    simulation = Simulation(scenario)
    settings = {"link.loss": 0.25, "replicate": 3}
    one = task(settings, simulation, 0)
    assert carry_out(one, simulation, out, out / "scratch") == ""
    (row,) = sweep.pq.ParquetFile(out / ROWS / f"{one.key}.parquet").read().to_pylist()
    again = run(simulation.vary(settings), one.seed)
    assert row["trace_hash"] == again.trace_hash
    assert 0 < row["delivered"] < row["expected"]
    digest = TraceHash()
    for each in read(out / TRACES / f"run={one.key}").to_pylist():
        digest(tuple(each.values()))
    assert digest.hexdigest() == again.trace_hash
    command = simulation.replay(settings, one.seed)
    assert command == f"gossamer simulate {scenario.file} --seed {one.seed} --set link.loss=0.25"


@pytest.mark.parametrize(
    ("tasks", "workers", "sizes"),
    [
        (24, 2, [6, 6, 3, 3, 2, 2, 1, 1]),
        (24, 1, [24]),
        (1, 8, [1]),
        (5, 3, [1, 1, 1, 1, 1]),
        (9, 2, [3, 3, 1, 1, 1]),
    ],
)
def test_who_works_is_given_much_at_first_and_single_runs_at_last(
    tasks: int, workers: int, sizes: list[int]
) -> None:
    bounds = sweep.shares(tasks, workers)
    assert [end - begin for begin, end in pairwise(bounds)] == sizes
    assert (bounds[0], bounds[-1]) == (0, tasks)


# with Spark


def test_the_same_rows_come_of_any_number_of_workers(
    spark: SparkSession, scenario: Scenario, tmp_path: Path
) -> None:
    configurations = grid({"link.loss": [0, 0.5], "replicate": range(3)})
    simulation = Simulation(scenario)
    tables = [
        run_sweep(spark, configurations, simulation, tmp_path / f"{count}", workers=count).table
        for count in (1, 4)
    ]
    assert tables[0].num_rows == 6
    assert tables[0].equals(tables[1])
    loaded = spark.read.parquet(str(tmp_path / "4" / "sweep.parquet"))
    assert loaded.filter("link_loss = 0").agg({"violations": "sum"}).first()[0] == 0  # type: ignore[index]


def test_a_sweep_goes_on_where_it_stopped_and_tries_failures_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    asked.mkdir()

    def counted(settings: dict[str, Any], seed: int, folder: Path) -> dict[str, Any]:
        name = f"{settings['n']}-{len(list(asked.iterdir()))}"
        (asked / name).touch()
        if settings["n"] == 2 and not (asked / "mended").exists():
            raise ValueError("not yet")
        return {"double": settings["n"] * 2}

    first = run_sweep(spark, grid({"n": [1, 2]}), counted, tmp_path / "out", workers=1)
    assert [each.settings for each in first.failures] == [{"n": 2}]
    assert first.ran == 1
    (asked / "mended").touch()
    second = run_sweep(spark, grid({"n": [1, 2, 3]}), counted, tmp_path / "out", workers=1)
    assert (second.ran, second.failures) == (2, ())
    assert second.table["double"].to_pylist() == [2, 4, 6]
    begun = [path.name.partition("-")[0] for path in asked.iterdir()]
    assert sorted(begun) == ["1", "2", "2", "3", "mended"]


def test_a_configuration_that_kills_its_process_costs_no_other(
    spark: SparkSession, tmp_path: Path, quiet: None
) -> None:
    def deadly(settings: dict[str, Any], seed: int, folder: Path) -> dict[str, Any]:
        if settings["n"] == 3:
            os._exit(1)
        return {"double": settings["n"] * 2}

    done = run_sweep(spark, grid({"n": range(8)}), deadly, tmp_path, workers=2)
    assert [(each.settings, each.reason) for each in done.failures] == [
        ({"n": 3}, "the process that ran it died")
    ]
    assert done.table["n"].to_pylist() == [0, 1, 2, 4, 5, 6, 7]


@pytest.fixture
def quiet(spark: SparkSession) -> Iterator[None]:
    """Spark has much to say about a worker that died."""
    spark.sparkContext.setLogLevel("OFF")
    yield
    spark.sparkContext.setLogLevel("WARN")


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        sweep._alone(tmp_path),
        pytest.raises(StorageError, match="another sweep writes here"),
        sweep._alone(tmp_path),
    ):
        pass
