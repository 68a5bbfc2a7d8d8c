"""What a row of a trace costs whoever writes it."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.pipeline.figures import Figure
from gossamer.core import trace
from gossamer.simulator.scenario.run import load, run
from gossamer.traces.writer import TraceWriter

COUNT = 500_000
SCENARIO = Path(__file__).parents[2] / "scenarios" / "multicast.toml"


def measure(rounds: int) -> list[Figure]:
    """Rows as nodes write them, one by one; bytes also of rows that a real run leaves."""
    rows = _rows()
    costs = []
    for _ in range(max(rounds, 3)):
        with tempfile.TemporaryDirectory(prefix="gossamer-bench-") as place:
            writer = TraceWriter(place, "bench", "a")
            wall, cpu = time.perf_counter(), time.process_time()
            for row in rows:
                writer(row)
            writer.close()
            costs.append((time.perf_counter() - wall, time.process_time() - cpu))
            size = _size(place)
    wall, cpu = (statistics.median(each) / COUNT * 1e6 for each in zip(*costs, strict=True))
    with tempfile.TemporaryDirectory(prefix="gossamer-bench-") as place:
        result = run(load(SCENARIO), 1, Path(place))
        real = _size(place) / result.rows
    return [
        Figure("writing", "a row, processor time", cpu, "µs", most=2.0),
        Figure("writing", "a row, with waiting for the disk", wall, "µs"),
        Figure("writing", "a row, where times and sizes are random", size / COUNT, "bytes", most=20.0),
        Figure("writing", f"a row of {SCENARIO.name}", real, "bytes", most=20.0),
    ]


def _rows() -> list[tuple[Any, ...]]:
    """What a node writes that has seven sources and five neighbours."""
    dice = random.Random(1)
    actions = (trace.SENT, trace.RECEIVED, trace.DELIVERED)
    at = 1_763_000_000_000_000_000
    rows = []
    for i in range(COUNT):
        at += dice.randrange(500, 200_000)
        number = i // 7 + 1
        here = (i + 1, at, "node-1", 1_763_000_000_000, trace.PARCEL, actions[i % 3], "news")
        parcel = (f"source-{dice.randrange(7)}", 1_763_000_000_001, number, number * 3, dice.randrange(1, 9))
        rows.append((*here, *parcel, f"peer-{dice.randrange(5)}", dice.randrange(60, 1500), "", 0))
    return rows


def _size(place: str) -> int:
    return sum(path.stat().st_size for path in Path(place).rglob("*.parquet"))
