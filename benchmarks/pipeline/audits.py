"""Auditing large traces: the gap-free kernel beside DuckDB on the same files.

Half of the rows are deliveries, of four sources at each of eight nodes; the others are what was received.
Some violations are planted, and both have to find just those. Files are in the page cache.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipeline.figures import Figure
from gossamer.core import trace
from gossamer.pipeline.audit.kernels import by_kernels
from gossamer.pipeline.reading import survey
from gossamer.pipeline.session import session
from gossamer.traces.writer import FORM, SCHEMA, SEGMENT_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NODES, SOURCES, PLANTED = 8, 4, 3
MILLION = 1_000_000
LARGE = 100
"""Millions of rows from which the kernel must not be slower than DuckDB."""
QUERY = """
select count(*) from (
  select first, lag(first + "count") over (
    partition by node, incarnation, channel, peer, source, source_incarnation order by position) as wanted
  from read_parquet(?) where kind = 'parcel' and action = 'delivered' and "count" > 0)
where first <> wanted
"""


def write_traces(folder: Path, rows: int) -> None:
    """Whole traces of eight nodes, with a few numbers left out."""
    (folder / "run=bench").mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_write_node, [folder / "run=bench"] * NODES, range(NODES), [rows // NODES] * NODES))


def _write_node(place: Path, number: int, rows: int) -> None:
    name = f"node-{number}"
    segments = -(-rows // SEGMENT_ROWS)
    for segment in range(segments):
        begin = segment * SEGMENT_ROWS
        table = _rows(name, begin, min(SEGMENT_ROWS, rows - begin), number < PLANTED)
        file = place / f"{name}-{segment + 1:06d}.parquet"
        pq.write_table(table, file, row_group_size=SEGMENT_ROWS, **FORM)
    (place / f"{name}.json").write_text(json.dumps({"name": name, "segments": segments, "rows": rows}))


def _rows(node: str, begin: int, count: int, planted: bool) -> pa.Table:
    index = np.arange(begin, begin + count)
    parcel = index // 2
    sequence = parcel // SOURCES + 1
    if planted:
        sequence = sequence + (parcel > 1000)
    delivered = index % 2
    first_row = (index == 0).astype(int)
    texts = {
        "node": _text([node], index * 0),
        "kind": _text([trace.PARCEL, trace.CHANNEL], first_row),
        "action": _text([trace.RECEIVED, trace.DELIVERED, trace.OPENED], delivered + 2 * first_row),
        "channel": _text(["news"], index * 0),
        "source": _text([f"source-{n}" for n in range(SOURCES)], parcel % SOURCES),
        "peer": _text(["hub", "1"], delivered),
        "detail": _text(["", "reliable at-most-once gap-free"], first_row),
    }
    numbers = {
        "position": index + 1,
        "at": 1_763_000_000_000_000_000 + index * 1371 + (index * 7919) % 977,
        "incarnation": np.full(count, 1_763_000_000_000),
        "source_incarnation": np.full(count, 1_763_000_000_001),
        "sequence": sequence,
        "first": sequence * 3 - 2,
        "count": np.full(count, 3),
        "bytes": 90 + index % 13,
        "value": np.zeros(count, np.int64),
    }
    columns = {**texts, **numbers}
    return pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], SCHEMA)


def _text(words: list[str], codes: Any) -> pa.Array:
    return pa.array(words).take(pa.array(codes.astype("int8")))


def by_duckdb(place: str) -> int:
    import duckdb

    with duckdb.connect() as database:
        database.execute("set threads = 2")
        row = database.execute(QUERY, [f"{place}/run=bench/*.parquet"]).fetchone()
    assert row is not None
    return int(row[0])


def measure(rounds: int, millions: list[int]) -> list[Figure]:
    """Seconds and memory of both at each size, and how the kernel's grow; the largest is measured once."""
    traces = {million: tempfile.TemporaryDirectory(prefix="gossamer-bench-") for million in sorted(millions)}
    for million, place in traces.items():  # while there is only one process: it is forked
        write_traces(Path(place.name), million * MILLION)
    spark = session("local[2]")
    spark.range(2).mapInArrow(lambda batches: batches, "id long").count()  # workers are warm, as DuckDB is
    figures: list[Figure] = []
    before: tuple[int, float] | None = None
    for million, kept in traces.items():
        with kept as place:
            took, peaks = _both(spark, place, 1 if million >= LARGE else rounds)
        name = f"{million} M rows"
        figures += [
            Figure("audit", f"gap-free, {name}, kernel", took["kernel"], "s"),
            Figure("audit", f"gap-free, {name}, DuckDB with two threads", took["duckdb"], "s"),
            Figure(
                "audit",
                f"gap-free, {name}, kernel to DuckDB",
                took["kernel"] / took["duckdb"],
                "×",
                most=1.0 if million >= LARGE else None,
            ),
            Figure("audit", f"gap-free, {name}, kernel with Spark, most memory", peaks["kernel"], "MiB"),
            Figure("audit", f"gap-free, {name}, DuckDB, most memory", peaks["duckdb"], "MiB"),
        ]
        if before is not None:
            growth = took["kernel"] / before[1] / (million / before[0]) * 10
            figures.append(
                Figure(
                    "audit",
                    f"gap-free, {before[0]} to {million} M rows, for ten times",
                    growth,
                    "×",
                    most=10.0,
                )
            )
        before = (million, took["kernel"])
    spark.stop()
    return figures


def _both(spark: SparkSession, place: str, rounds: int) -> tuple[dict[str, float], dict[str, int]]:
    """Median seconds and most memory of the kernel and of DuckDB, in turns; both find what was planted."""
    found: dict[str, list[float]] = {"kernel": [], "duckdb": []}
    peaks = {"kernel": 0, "duckdb": 0}

    def kernel() -> int:
        return by_kernels(spark, survey(place), ["gap-free"]).where("promise = 'gap-free'").count()

    for _ in range(rounds):
        for name, ask in (("kernel", kernel), ("duckdb", lambda: by_duckdb(place))):
            with Peak(children=name == "kernel") as peak:
                begun = time.perf_counter()
                wrong = ask()
                found[name].append(time.perf_counter() - begun)
            peaks[name] = max(peaks[name], peak.mebibytes)
            assert wrong == PLANTED * SOURCES, (name, wrong)
    return {name: statistics.median(each) for name, each in found.items()}, peaks


class Peak:
    """The most memory at one time of this program, or of all its children, looked at ten times a second.

    Files that are mapped do not count: that memory is the machine's to take back.
    """

    def __init__(self, children: bool) -> None:
        self.mebibytes = 0
        self._children = children
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.1):
            me = os.getpid()
            family = _below(me) if self._children else [me]
            self.mebibytes = max(self.mebibytes, sum(map(_kibibytes, family)) >> 10)


def _below(process: int) -> list[int]:
    """All processes that descend from one."""
    found: list[int] = []
    for each in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, each.read_text().split()):
                found += [child, *_below(child)]
    return found


def _kibibytes(process: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    return 0
