"""The same sweep on a real cluster and in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gossamer.pipeline.simulations import Simulation
from gossamer.pipeline.sweep import FAILED, ROWS, TRACES, WORKING, carry_out, grid, task
from gossamer.simulator.scenario import load
from gossamer.traces.writer import read

from .cluster import cluster, environment

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


def test_two_workers_of_a_cluster_make_the_rows_and_traces_that_one_process_makes(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SCENARIO)
    command = [sys.executable, "-m", "gossamer.cli.main", "sweep", str(file), "--out", str(tmp_path / "far")]
    command += ["--set", "link.loss=0,0.5", "--seeds", "1..2", "--json", "--master"]
    with cluster(tmp_path / "cluster") as master:
        done = subprocess.run(
            [*command, master], env=environment(), capture_output=True, text=True, check=False
        )
        used = {path.parent.parent.name for path in tmp_path.glob("cluster/work*/app-*/*")}
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert used == {"work0", "work1"}
    near = tmp_path / "near"
    for name in (ROWS, TRACES, FAILED, WORKING, "scratch"):
        (near / name).mkdir(parents=True)
    simulation = Simulation(load(file))
    for configuration, row in zip(grid({"link.loss": [0, 0.5], "replicate": [1, 2]}), rows, strict=True):
        one = task(configuration, simulation, 0)
        assert carry_out(one, simulation, near, near / "scratch") == ""
        place = f"{ROWS}/{one.key}.parquet"
        assert (near / place).read_bytes() == (tmp_path / "far" / place).read_bytes()
        assert row["configuration"] == one.key
        trace = f"{TRACES}/run={one.key}"
        assert read(near / trace).equals(read(tmp_path / "far" / trace))
