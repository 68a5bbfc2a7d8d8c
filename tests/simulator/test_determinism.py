"""The same seed leaves the same trace, whatever the hashes of strings are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from gossamer.simulator.scenario.run import load, run
result = run(load(sys.argv[1]), int(sys.argv[2]))
print(result.trace_hash, result.rows, result.delivered, sorted(result.drops.items()))
"""


def traced(seed: int, hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "scenarios" / "small" / "multicast.toml"), str(seed)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_trace_does_not_depend_on_the_hash_seed_and_depends_on_the_seed() -> None:
    first = traced(1, "0")
    assert first == traced(1, "12345")
    assert first != traced(2, "0")
