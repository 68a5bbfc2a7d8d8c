"""How fast traces are written, and audited: the gap-free kernel beside DuckDB on the same files.

::

    python benchmarks/pipeline.py                      # 1 M, 10 M and 100 M rows
    python benchmarks/pipeline.py --rows 1 10          # millions

Half of the rows are deliveries, of four sources at each of eight nodes; the others are what was received.
Some violations are planted, and both have to find just those. The median of the repetitions counts;
both sides have two threads (or tasks), take turns, and read files that are in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.core import trace
from gossamer.traces.writer import FORM, SCHEMA, SEGMENT_ROWS, TraceWriter

NODES, SOURCES, PLANTED = 8, 4, 3
MILLION = 1_000_000
QUERY = """
select count(*) from (
  select first, lag(first + "count") over (
    partition by node, incarnation, channel, peer, source, source_incarnation order by position) as wanted
  from read_parquet(?) where kind = 'parcel' and action = 'delivered' and "count" > 0)
where first <> wanted
"""


def write_traces(folder: Path, rows: int) -> None:
    """Whole traces of eight nodes, with a few numbers left out."""
    each = rows // NODES
    for number in range(NODES):
        name = f"node-{number}"
        place = folder / "run=bench"
        place.mkdir(parents=True, exist_ok=True)
        segments = -(-each // SEGMENT_ROWS)
        for segment in range(segments):
            begin = segment * SEGMENT_ROWS
            table = _rows(name, begin, min(SEGMENT_ROWS, each - begin), number < PLANTED)
            pq.write_table(
                table, place / f"{name}-{segment + 1:06d}.parquet", row_group_size=SEGMENT_ROWS, **FORM
            )
        end = {"name": name, "segments": segments, "rows": each}
        (place / f"{name}.json").write_text(json.dumps(end))


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


def by_duckdb(folder: Path) -> int:
    import duckdb

    with duckdb.connect() as database:
        database.execute("set threads = 2")
        row = database.execute(QUERY, [str(folder / "run=bench" / "*.parquet")]).fetchone()
    assert row is not None
    return int(row[0])


def measure_audit(millions: list[int], repeat: int) -> None:
    from gossamer.pipeline.audit.kernels import by_kernels
    from gossamer.pipeline.reading import survey
    from gossamer.pipeline.session import session

    spark = session("local[2]")
    spark.range(2).mapInArrow(lambda batches: batches, "id long").count()  # workers are warm, as DuckDB is
    print(f"{'rows':>12} {'kernel s':>9} {'duckdb s':>9} {'ratio':>6} {'peak MiB':>9}")
    for million in millions:
        with tempfile.TemporaryDirectory(prefix="gossamer-bench-") as place:
            folder = Path(place)
            write_traces(folder, million * MILLION)
            kernel, duck = [], []
            with Peak() as peak:
                for _ in range(repeat):
                    begin = time.perf_counter()
                    found = (
                        by_kernels(spark, survey(place), ["gap-free"]).where("promise = 'gap-free'").count()
                    )
                    kernel.append(time.perf_counter() - begin)
                    begin = time.perf_counter()
                    known = by_duckdb(folder)
                    duck.append(time.perf_counter() - begin)
                    assert found == known == PLANTED * SOURCES, (found, known)
            one, other = statistics.median(kernel), statistics.median(duck)
            print(
                f"{million * MILLION:>12,} {one:>9.2f} {other:>9.2f} {one / other:>6.2f} {peak.mebibytes:>9}"
            )
    spark.stop()


def measure_writing() -> None:
    """Rows as nodes write them, one by one."""
    count = 500_000
    actions = (trace.SENT, trace.RECEIVED, trace.DELIVERED)
    rows = [
        (
            i + 1,
            1_763_000_000_000_000_000 + i * 1371 + i * 7919 % 977,
            "node-1",
            1_763_000_000_000,
            trace.PARCEL,
            actions[i % 3],
            "news",
            f"source-{i % 7}",
            1_763_000_000_001,
            i // 7 + 1,
            i // 7 * 3 + 1,
            3,
            f"peer-{i % 5}",
            90 + i * 31 % 17,
            "",
            0,
        )
        for i in range(count)
    ]
    costs = []
    for _ in range(5):
        with tempfile.TemporaryDirectory(prefix="gossamer-bench-") as place:
            writer = TraceWriter(place, "bench", "a")
            wall, cpu = time.perf_counter(), time.process_time()
            for row in rows:
                writer(row)
            writer.close()
            costs.append((time.perf_counter() - wall, time.process_time() - cpu))
            size = sum(path.stat().st_size for path in Path(place).rglob("*.parquet"))
    wall, cpu = (statistics.median(each) / count * 1e6 for each in zip(*costs, strict=True))
    print(f"writing a row: {wall:.2f} µs ({cpu:.2f} µs of processor), {size / count:.1f} bytes")


class Peak:
    """The most memory that this program and its children had at one time, looked at ten times a second."""

    def __enter__(self) -> Peak:
        self.mebibytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.1):
            pages = sum(self._pages(process) for process in self._family(os.getpid()))
            self.mebibytes = max(self.mebibytes, pages * os.sysconf("SC_PAGE_SIZE") >> 20)

    def _family(self, process: int) -> list[int]:
        found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=False)
        return [process, *(each for child in found.stdout.split() for each in self._family(int(child)))]

    @staticmethod
    def _pages(process: int) -> int:
        try:
            return int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except OSError:
            return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 10, 100], help="millions of rows")
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    measure_writing()
    measure_audit(chosen.rows, chosen.repeat)
