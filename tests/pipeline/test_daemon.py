"""The daemon forks workers that have imported everything, and only if no thread runs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading, time
from gossamer.pipeline import daemon
print(daemon.prepare(), *(name in sys.modules for name in sys.argv[1:]))
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(daemon.prepare())
"""
NEEDED = ("pyspark.worker", "pyarrow.parquet", "pandas", "gossamer.pipeline.audit.kernels")


def test_everything_is_imported_and_no_thread_was_started_by_it_and_with_one_nothing_is_forked_by_us() -> (
    None
):
    command = [sys.executable, "-c", PROGRAM, *NEEDED]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [f"True{' True' * len(NEEDED)}", "False"]
