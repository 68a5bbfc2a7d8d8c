"""A real cluster on loopback, a standalone master and two workers, finds what one process finds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gossamer.pipeline.audit.auditing import audit
from gossamer.pipeline.reading import survey

from .cluster import cluster, environment
from .stories import STORIES
from .test_auditing import written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 300


def test_a_cluster_finds_what_one_process_finds(spark: SparkSession, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    for name in ("gap", "twice", "answers"):
        written(traces, STORIES[name])
    alone = audit(spark, survey(str(traces)))
    with cluster(tmp_path / "cluster") as master:
        command = [
            sys.executable,
            "-m",
            "gossamer.cli.main",
            "audit",
            str(traces),
            "--json",
            "--master",
            master,
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment()
        )
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("result") == "violated"
    assert told == json.loads(msgspec.json.encode(alone))
    assert done.returncode == alone.code == 1
