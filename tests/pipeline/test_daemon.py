"""The daemon forks workers that have imported everything, and only if no thread runs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from gossamer.pipeline import daemon
{before}
may_fork = daemon.prepare()
print(may_fork, *(name in sys.modules for name in sys.argv[1:]))
"""
NEEDED = ("pyspark.worker", "pyarrow.parquet", "pandas", "gossamer.pipeline.audit.kernels")


def prepared(*modules: str, before: str = "") -> str:
    command = [sys.executable, "-c", PROGRAM.format(before=before), *modules]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_everything_is_imported_and_no_thread_was_started_by_it() -> None:
    assert prepared(*NEEDED) == f"True{' True' * len(NEEDED)}"


def test_with_a_thread_nothing_is_forked_by_us() -> None:
    thread = "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    assert prepared(before=thread) == "False"
