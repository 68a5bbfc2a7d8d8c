"""Many runs of one thing, each with other settings, as tasks of Spark.

Promises: a configuration's seed comes from a hash of the master seed, of what is run and of its settings, so
that results depend neither on how many workers there are, nor on who ran what, nor on retries. Everything
is named by that hash: ``OUT/rows/KEY.parquet`` and ``OUT/traces/run=KEY/``. Both are written elsewhere and
renamed when complete, the row last; so a sweep that is begun again does what is missing, and a row stands for
a run that came to its end. One configuration that fails or takes its process down is reported, and costs no
other.

``OUT`` must be a folder that all workers share. One sweep at a time writes to it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import Progress

from gossamer.core.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Value = str | int | float | bool
Settings = dict[str, Value]
Run = Callable[[Settings, int, Path], Mapping[str, Value | None]]
"""Takes settings, a seed and an empty folder; returns one row. What it leaves in the folder is its trace."""

ROWS, TRACES, FAILED, WORKING = "rows", "traces", "failed", ".working"
TABLE = "sweep.parquet"
POLL = 0.1
"""Seconds between two looks at how far a sweep is."""


class Task(msgspec.Struct, frozen=True):
    """One configuration, ready to run."""

    key: str
    seed: int
    settings: Settings


class Failure(msgspec.Struct, frozen=True):
    """A configuration that has no row.

    reason
        The error in one line.
    replay
        The command that does just this run again, if the run knows one.
    """

    key: str
    seed: int
    settings: Settings
    reason: str
    replay: str


class Sweep(msgspec.Struct, frozen=True):
    """What came of a sweep.

    table
        One row per configuration in the order of the grid: ``configuration`` (the key), ``seed``, the
        settings (dots in their names become underscores) and what the run returned.
    ran
        Configurations that were run now, and not found done.
    """

    table: pa.Table
    failures: tuple[Failure, ...]
    ran: int


def grid(settings: Mapping[str, Iterable[Value]]) -> list[Settings]:
    """Every combination of the given values, the last setting changing fastest.

    Whole numbers among fractions become fractions, so that 0 and 0.0 are one configuration.
    """
    columns = []
    for values in settings.values():
        listed = list(values)
        if any(type(each) is float for each in listed) and all(type(each) in (int, float) for each in listed):
            listed = [float(each) for each in listed]
        columns.append(listed)
    return [dict(zip(settings, chosen, strict=True)) for chosen in product(*columns)]


def task(settings: Settings, run: Run, seed: int) -> Task:
    """The task of a configuration; ``run.identity``, if there is one, says what else decides its result."""
    identity = getattr(run, "identity", "") or getattr(run, "__qualname__", type(run).__qualname__)
    text = msgspec.json.encode([seed, identity, settings], order="sorted")
    digest = blake2b(text, digest_size=16).digest()
    return Task(digest.hex(), int.from_bytes(digest[:8], "big") >> 1, settings)


def run_sweep(
    spark: SparkSession,
    configurations: Iterable[Settings],
    run: Run,
    out: str | Path,
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Run every configuration that has no row in ``out`` yet.

    run
        See Run; sent to the workers, so it must be picklable. May have ``identity`` (a text; if it changes,
        so does every key) and ``replay(settings, seed)`` (a command).
    seed
        The master seed.
    workers
        How many are expected to run at a time; as many as there are cores if not given.
    progress
        Whether to draw a bar; if not said, on a terminal.
    """
    folder = Path(out).absolute()
    tasks = list({each.key: each for each in (task(one, run, seed) for one in configurations)}.values())
    with _alone(folder):
        shutil.rmtree(folder / WORKING, ignore_errors=True)
        shutil.rmtree(folder / FAILED, ignore_errors=True)
        for name in (ROWS, TRACES, FAILED, WORKING):
            (folder / name).mkdir(exist_ok=True)
        before = _names(folder / ROWS)
        missing = [each for each in tasks if each.key not in before]
        with _bar(folder, tasks, progress):
            _run_all(spark, missing, run, folder, workers or _cores(spark))
        rows, failures = _gather(tasks, run, folder)
    return Sweep(rows, failures, len(missing) - len(failures))


# on the workers


def carry_out(task: Task, run: Run, out: Path, scratch: Path) -> str:
    """Run one configuration and leave its row, or the reason why there is none; that reason.

    scratch
        A folder of this worker, empty before and after.
    """
    row = out / ROWS / f"{task.key}.parquet"
    if row.exists():
        return ""  # a retry of a task that had come this far
    begun = out / WORKING / f"{task.key}-{uuid4().hex}"
    begun.touch()
    try:
        result = run(dict(task.settings), task.seed, scratch)
        settings = {name.replace(".", "_"): value for name, value in task.settings.items()}
        table = pa.Table.from_pylist([{"configuration": task.key, **settings, "seed": task.seed, **result}])
        with begun.open("wb") as file:
            pq.write_table(table, file, compression="none")
        if any(scratch.iterdir()):
            _keep(scratch, out / TRACES / f"run={task.key}")
        begun.replace(row)
        return ""
    except Exception as error:
        reason = _words(error)
        begun.write_text(reason)
        begun.replace(out / FAILED / task.key)
        shutil.rmtree(scratch)
        scratch.mkdir()
        return reason


def _keep(scratch: Path, place: Path) -> None:
    """Make what a run left its trace."""
    try:
        scratch.rename(place)
    except OSError:
        if not place.is_dir():
            raise
        shutil.rmtree(scratch)  # the same trace is there, of an attempt that ended before its row had a name
    scratch.mkdir()


def _words(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"


# on the driver


def _run_all(spark: SparkSession, tasks: list[Task], run: Run, out: Path, workers: int) -> None:
    """Run tasks until each has a row or a reason, whatever happens to the processes that run them."""
    left = tasks
    while left:
        try:
            _job(spark, left, run, out, workers)
            return
        except Exception as error:
            done = _names(out / ROWS) | _names(out / FAILED)
            left = [each for each in left if each.key not in done]
            begun = {path.name.partition("-")[0] for path in (out / WORKING).iterdir()}
            suspects = [each for each in left if each.key in begun]
            if not suspects:
                raise  # it is Spark that cannot, and no configuration is to blame
            for suspect in suspects:
                _alone_in_a_job(spark, suspect, run, out, error)
            left = [each for each in left if each.key not in begun]
            shutil.rmtree(out / WORKING)
            (out / WORKING).mkdir()


def _alone_in_a_job(spark: SparkSession, task: Task, run: Run, out: Path, error: Exception) -> None:
    try:
        _job(spark, [task], run, out, 1)
    except Exception:
        (out / FAILED / task.key).write_text("the process that ran it died")


def _job(spark: SparkSession, tasks: Sequence[Task], run: Run, out: Path, workers: int) -> None:
    bounds = shares(len(tasks), workers)
    count = len(bounds) - 1
    # neighbours in a grid take about the same time: deal them out
    dealt = [each for first in range(count) for each in tasks[first::count]]
    parts = [dealt[begin:end] for begin, end in pairwise(bounds)]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scratch = out / WORKING / f"scratch-{uuid4().hex}"
        scratch.mkdir()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                reasons = [carry_out(each, run, out, scratch) for each in parts[number]]
                yield pa.RecordBatch.from_pydict({"reason": reasons})

    spark.range(0, count, 1, count).mapInArrow(work, "reason string").collect()


def shares(tasks: int, workers: int) -> list[int]:
    """Where the tasks of Spark begin among those of a sweep, and where the last ends.

    Each costs some ten milliseconds, so the first have much to do; the last have one run each, so that nobody
    waits long for who is last. Every round hands out half of what is left, the same to each worker.
    """
    if workers == 1:
        return [0, tasks]
    bounds = [0]
    while bounds[-1] < tasks:
        size = -(-(tasks - bounds[-1]) // (2 * workers))
        begin = bounds[-1]
        bounds += [min(begin + size * number, tasks) for number in range(1, workers + 1)]
    return sorted(set(bounds))


def _cores(spark: SparkSession) -> int:
    try:
        return spark.sparkContext.defaultParallelism
    except Exception:  # Spark Connect does not tell
        return os.cpu_count() or 1


def _names(folder: Path) -> set[str]:
    return {name.removesuffix(".parquet") for name in os.listdir(folder)}


def _gather(tasks: list[Task], run: Run, out: Path) -> tuple[pa.Table, tuple[Failure, ...]]:
    replay = getattr(run, "replay", None)
    failures, tables = [], []
    for each in tasks:
        path = out / ROWS / f"{each.key}.parquet"
        if path.exists():
            with path.open("rb") as file:
                tables.append(pq.ParquetFile(file).read())
        else:
            reason = (out / FAILED / each.key).read_text()
            command = replay(each.settings, each.seed) if replay else ""
            failures.append(Failure(each.key, each.seed, each.settings, reason, command))
    table = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    if tables:
        temporary = out / f".{TABLE}.tmp"
        pq.write_table(table, temporary)
        temporary.replace(out / TABLE)
    return table, tuple(failures)


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Nobody else sweeps into the folder meanwhile."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StorageError(
                str(out), "another sweep writes here: wait for it, or choose another folder"
            ) from None
        yield


@contextmanager
def _bar(out: Path, tasks: list[Task], wanted: bool | None) -> Iterator[None]:
    """Show how many configurations are done for as long as the block lasts."""
    console = Console(stderr=True)
    disable = not (console.is_terminal if wanted is None else wanted)
    over = threading.Event()
    with Progress(console=console, transient=True, disable=disable) as progress:
        bar = progress.add_task("configurations", total=len(tasks))
        keys = {each.key for each in tasks}

        def look() -> None:
            while not over.wait(POLL):
                done = len(_names(out / ROWS) & keys) + len(_names(out / FAILED))
                progress.update(bar, completed=done)

        watcher = threading.Thread(target=look, name="sweep progress", daemon=True)
        if not disable:
            watcher.start()
        try:
            yield
        finally:
            over.set()
            if not disable:
                watcher.join()
