"""A real cluster on loopback, a standalone master and two workers, finds what one process finds."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyspark
import pytest

from gossamer.pipeline import java
from gossamer.pipeline.audit.auditing import audit
from gossamer.pipeline.reading import survey

from .stories import STORIES
from .test_auditing import written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = "127.0.0.1"
PATIENCE = 300


def free_port() -> int:
    with socket.create_server((HERE, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def until(process: subprocess.Popen[str], words: str) -> None:
    """Read what a process says until it says something; it says why if it ends before."""
    said = []
    assert process.stderr is not None
    for line in process.stderr:
        said.append(line)
        if words in line:
            return
    raise AssertionError(f"it ended: {''.join(said[-5:])}")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    found = java.find(os.environ)
    assert found is not None
    home = Path(pyspark.__file__).parent
    scratch = tmp_path_factory.mktemp("cluster")
    environ = {
        **os.environ,
        "JAVA_HOME": str(java.wrapped(found, java.cache(os.environ))),
        "SPARK_LOCAL_IP": HERE,
        "SPARK_WORKER_DIR": str(scratch),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    port = free_port()
    url = f"spark://{HERE}:{port}"

    def started(name: str, *arguments: str) -> subprocess.Popen[str]:
        command = [
            str(home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{name}",
            "--host",
            HERE,
            *arguments,
        ]
        return subprocess.Popen(
            command, env=environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )

    processes = [started("master.Master", "--port", str(port), "--webui-port", "0")]
    try:
        until(processes[0], "New state: ALIVE")
        for _ in range(2):
            processes.append(
                started("worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0", url)
            )
        for worker in processes[1:]:
            until(worker, "Successfully registered with master")
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            with process:
                process.wait(PATIENCE)


def test_a_cluster_finds_what_one_process_finds(spark: SparkSession, master: str, tmp_path: Path) -> None:
    for name in ("gap", "twice", "answers"):
        written(tmp_path, STORIES[name])
    alone = audit(spark, survey(str(tmp_path)))
    command = [
        sys.executable,
        "-m",
        "gossamer.cli.main",
        "audit",
        str(tmp_path),
        "--json",
        "--master",
        master,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout, done.stderr
    assert json.loads(done.stdout) == {**msgspec.to_builtins(alone), "result": "violated"}
    assert done.returncode == alone.code == 1
