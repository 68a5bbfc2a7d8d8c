"""Records per second into a log, beside plain writes of the same bytes that nobody syncs.

Every form of the log has its records on disk when it has been counted; ``plain write`` has not. Interleaved
repetitions, medians. On a shared disk a sync may take ten times as long as a moment before, and then rates of
different forms say little about each other; *records per sync* is what group commit gains on any disk.

    python benchmarks/log.py [--seconds S] [--repeat R] [--folder F] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gossamer.storage.log import Log

SIZES = (100, 1000, 60_000)
WRITERS = 16
BATCH = 100

Form = Callable[[Path, int, float], tuple[int, int]]
"""Folder, size of a record and seconds; how many records were written, and how often they were synced."""


def plain_write(folder: Path, size: int, seconds: float) -> tuple[int, int]:
    record, count = bytes(size), 0
    end = time.perf_counter() + seconds
    with (folder / "plain").open("wb", buffering=0) as file:
        while time.perf_counter() < end:
            file.write(record)
            count += 1
    return count, 0


def write_and_sync(folder: Path, size: int, seconds: float) -> tuple[int, int]:
    record, count = bytes(size), 0
    end = time.perf_counter() + seconds
    with (folder / "synced").open("wb", buffering=0) as file:
        while time.perf_counter() < end:
            file.write(record)
            os.fsync(file.fileno())
            count += 1
    return count, count


def one_by_one(folder: Path, size: int, seconds: float) -> tuple[int, int]:
    return append(folder, [bytes(size)], seconds, 1)


def group_commit(folder: Path, size: int, seconds: float) -> tuple[int, int]:
    return append(folder, [bytes(size)], seconds, WRITERS)


def batches(folder: Path, size: int, seconds: float) -> tuple[int, int]:
    return append(folder, [bytes(size)] * BATCH, seconds, 1)


def append(folder: Path, records: list[bytes], seconds: float, writers: int) -> tuple[int, int]:
    with Log(folder / "log") as log:
        end = time.perf_counter() + seconds

        def write() -> None:
            while time.perf_counter() < end:
                log.append(records)

        threads = [threading.Thread(target=write) for _ in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return log.end, log.syncs


FORMS: dict[str, Form] = {
    "plain write": plain_write,
    "write and sync": write_and_sync,
    "log, one by one": one_by_one,
    f"log, {WRITERS} writers": group_commit,
    f"log, {BATCH} at once": batches,
}


def measure(form: Form, folder: Path | None, size: int, seconds: float) -> tuple[float, float]:
    """Records per second, and per sync."""
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        started = time.perf_counter()
        count, syncs = form(place, size, seconds)
        return count / (time.perf_counter() - started), count / syncs if syncs else 0.0
    finally:
        shutil.rmtree(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for size in SIZES:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in FORMS}
        for number in range(options.repeat):
            for name, form in FORMS.items():
                print(f"\r{size} bytes, round {number + 1}, {name:<20}", end="", file=sys.stderr)
                found[name].append(measure(form, options.folder, size, options.seconds))
        for name, results in found.items():
            rate, shared = (statistics.median(column) for column in zip(*results, strict=True))
            row = {"size": size, "form": name, "records": round(rate), "bytes": round(rate * size)}
            rows.append({**row, "per_sync": round(shared, 1)})
    print(file=sys.stderr)
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'bytes':>6}  {'form':<18} {'records/s':>10}  {'MB/s':>7}  {'per sync':>8}")
    for row in rows:
        rate = f"{row['records']:>10,}  {row['bytes'] / 1e6:>7.1f}"
        print(f"{row['size']:>6}  {row['form']:<18} {rate}  {row['per_sync'] or '-':>8}")


if __name__ == "__main__":
    main()
