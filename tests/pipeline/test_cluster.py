"""A real cluster on loopback, a standalone master and two workers, does what one process does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest
from typer.testing import CliRunner

from gossamer.cli.main import app
from gossamer.pipeline.audit.auditing import Outcome, audit
from gossamer.pipeline.reading import survey
from gossamer.pipeline.session import session
from gossamer.pipeline.simulations import Simulation
from gossamer.pipeline.sweep import FAILED, ROWS, TRACES, WORKING, carry_out, grid, task
from gossamer.simulator.scenario.run import load
from gossamer.traces.writer import read
from tests.pipeline.cluster import Cluster
from tests.pipeline.stories import STORIES
from tests.pipeline.test_auditing import written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("audits")

SCENARIO = """
name = "small"
duration = 2.0

[network]
kind = "tree"
nodes = 3

[[channel]]
name = "news"
template = "multicast"

[[publish]]
channel = "news"
rate = 20.0

[[subscribe]]
channel = "news"
"""


class Far(NamedTuple):
    """What came of an audit and a sweep on a cluster, as exit code and text, and of the same audit here."""

    folder: Path
    here: Outcome
    audit: tuple[int, str]
    sweep: tuple[int, str]
    workers: set[str]


@pytest.fixture(scope="module")
def far(spark: SparkSession, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Far:
    folder = tmp_path_factory.mktemp("far")
    for name in ("gap", "twice", "answers"):
        written(folder / "traces", STORIES[name])
    scenario = folder / "small.toml"
    scenario.write_text(SCENARIO)
    change = ["--set", "link.loss=0,0.5", "--seeds", "1..2"]
    here = audit(spark, survey(str(folder / "traces")))
    spark.stop()  # one Java has one session, on a cluster or not
    cluster.until_it_answers()
    there = session(cluster.url, quick=True, settings={"spark.executor.extraJavaOptions": cluster.flags})
    audited, swept = (
        CliRunner().invoke(app, [*command, "--json", "--master", cluster.url], catch_exceptions=False)
        for command in (
            ["audit", str(folder / "traces")],
            ["sweep", str(scenario), "--out", str(folder / "out"), *change],
        )
    )
    assert there.sparkContext.master == cluster.url
    there.stop()
    workers = {path.parent.parent.name for path in cluster.folder.glob("work*/app-*/*")}
    return Far(folder, here, (audited.exit_code, audited.stdout), (swept.exit_code, swept.stdout), workers)


def test_a_cluster_finds_what_one_process_finds(far: Far) -> None:
    code, said = far.audit
    told = json.loads(said)
    assert told.pop("result") == "violated"
    assert told == json.loads(msgspec.json.encode(far.here))
    assert code == far.here.code == 1


def test_two_workers_of_a_cluster_make_the_rows_and_traces_that_one_process_makes(far: Far) -> None:
    code, said = far.sweep
    assert code == 0, said
    assert far.workers == {"work0", "work1"}
    near = far.folder / "near"
    for name in (ROWS, TRACES, FAILED, WORKING, "scratch"):
        (near / name).mkdir(parents=True)
    simulation = Simulation(load(far.folder / "small.toml"))
    configurations = grid({"link.loss": [0, 0.5], "replicate": [1, 2]})
    for configuration, row in zip(configurations, json.loads(said)["rows"], strict=True):
        one = task(configuration, simulation, 0)
        assert carry_out(one, simulation, near, near / "scratch") == ""
        place = f"{ROWS}/{one.key}.parquet"
        assert (near / place).read_bytes() == (far.folder / "out" / place).read_bytes()
        assert row["configuration"] == one.key
        trace = f"{TRACES}/run={one.key}"
        assert read(near / trace).equals(read(far.folder / "out" / trace))
