"""Ctrl-C ends a command that uses Spark: at once, without a word, and nothing goes on behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.system.programs import PATIENCE

SCENARIO = """
name = "small"
duration = 5.0
network = { kind = "line", nodes = 3 }
channel = [{ name = "news", template = "multicast" }]
publish = [{ channel = "news", rate = 10.0 }]
subscribe = [{ channel = "news" }]
"""


def test_a_sweep_that_is_interrupted_says_nothing_and_leaves_no_process(tmp_path: Path) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text(SCENARIO)
    out = tmp_path / "out"
    command = ["-m", "gossamer.cli.main", "sweep", str(scenario), "--out", str(out), "--seeds", "1..100000"]
    sweep = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + PATIENCE
        while not any(out.glob("rows/*.parquet")):
            assert sweep.poll() is None, sweep.communicate()
            assert time.monotonic() < end, "it never ran anything"
            time.sleep(0.05)
        os.killpg(sweep.pid, signal.SIGINT)
        said = sweep.communicate(timeout=PATIENCE)  # Java and its workers have these pipes, too
    except BaseException:
        os.killpg(sweep.pid, signal.SIGKILL)
        raise
    assert said == ("", "")
    assert sweep.returncode == 128 + signal.SIGINT
