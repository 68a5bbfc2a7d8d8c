"""Runs kernels: over the segments of one writer or of a whole run, as Spark tasks without a shuffle.

Every segment is read once for all kernels. What is found besides violations travels in the same rows, under a
word that no promise has: how many events were published, the instant of the last row, what channels promise,
rows that are missing, files that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from gossamer.pipeline.audit.catalogue import AUDITS, LOCAL
from gossamer.pipeline.audit.promise import Kernel
from gossamer.pipeline.audit.segment import COLUMNS, Known, Segment
from gossamer.pipeline.audit.whole import ROW, Whole
from gossamer.pipeline.reading import Survey, Writer, opened
from gossamer.pipeline.schema import TEXTS, VIOLATION, VIOLATIONS, Found

BESIDES = "#"
"""What begins with it is no promise."""
EVENTS, ENDED, OPENED, GAP, DAMAGED = "#events", "#ended", "#opened", "#gap", "#damaged"
MAX_TASKS = 256
TASK_ROWS = 20_000
"""A task with fewer takes no longer than Spark needs to hand it out."""
WHOLE = tuple({*COLUMNS, *ROW})
"""What all audits read, queries too."""
_TEXTS = [name for name in TEXTS if name in WHOLE]
_Tables = Iterator[pa.Table]


class Check:
    """All kernels over one writer: give it segments in order, then end it."""

    def __init__(self, run: str, promises: Sequence[str]) -> None:
        self.run = run
        self.known = Known()
        self._kernels: list[tuple[str, Kernel]] = []
        for promise in promises:
            make = AUDITS[promise].kernel
            if make is not None:
                self._kernels.append((promise, make()))

    def take(self, segment: Segment) -> pa.Table:
        """Violations in the next segment."""
        if not segment.rows:
            return VIOLATION.empty_table()
        self.known.take(segment)
        return _found(self.run, ((name, each.take(self.known, segment)) for name, each in self._kernels))

    def end(self) -> pa.Table:
        """Violations that only the end shows, and what is known besides."""
        known = self.known
        besides: list[tuple[str, list[Found]]] = [
            (EVENTS, [("", "", 0, "", "", 0, known.events, 0, "")]),
            (ENDED, [("", "", 0, "", "", 0, 0, known.last, "")]),
            (OPENED, [(channel, "", 0, "", "", 0, 0, 0, said) for channel, said in sorted(known.opened)]),
            (
                GAP,
                [
                    ("", node, life, "", "", 0, came, 0, f"row {wanted}")
                    for (node, life), wanted, came in known.gaps
                ],
            ),
        ]
        ends = [(name, kernel.end(known)) for name, kernel in self._kernels]
        return _found(self.run, [*ends, *besides])


def check(run: str, tables: Iterable[pa.Table], promises: Sequence[str]) -> pa.Table:
    """What kernels find in the segments of one writer."""
    work = Check(run, promises)
    return pa.concat_tables([*(work.take(Segment(table)) for table in tables), work.end()])


def check_whole(run: str, segments: Iterable[Segment]) -> pa.Table:
    """What kernels that need rows of several nodes find in all segments of a run."""
    whole = Whole()
    for segment in segments:
        whole.take(segment)
    return _found(run, ((name, each.whole(whole)) for name, each in AUDITS.items() if each.whole))


def by_kernels(
    spark: SparkSession, traces: Survey, promises: Sequence[str], columns: Sequence[str] = COLUMNS
) -> DataFrame:
    """What kernels find in all writers; each writer is one task's, so that no row has to move.

    columns
        Those that must be readable: more than kernels need, if queries read the same files later.
    """

    def looked(writers: Sequence[Writer]) -> _Tables:
        return _written(writers[0], promises, lambda segment: None, columns)

    return _spread(spark, [(writer,) for writer in traces.writers], looked)


def by_runs(spark: SparkSession, traces: Survey) -> DataFrame:
    """What all kernels find; each run is one task's, and looked at as a whole if no row of it is missing."""
    torn = {fault.run for fault in traces.faults}

    def looked(writers: Sequence[Writer]) -> _Tables:
        segments: list[Segment] = []
        said = set[str]()
        for writer in writers:
            for found in _written(writer, LOCAL, segments.append, WHOLE):
                said.update(found.column("promise").to_pylist())
                yield found
        if writers[0].run not in torn and not said & {GAP, DAMAGED}:
            yield check_whole(writers[0].run, segments)

    runs: dict[str, tuple[Writer, ...]] = {}
    for writer in traces.writers:
        runs[writer.run] = (*runs.get(writer.run, ()), writer)
    return _spread(spark, list(runs.values()), looked)


def _spread(
    spark: SparkSession, works: list[tuple[Writer, ...]], looked: Callable[[Sequence[Writer]], _Tables]
) -> DataFrame:
    """Looks at writers in tasks that take about as long."""
    tasks = min(MAX_TASKS, len(works), 1 + sum(map(_rows, works)) // TASK_ROWS)
    shares: list[list[tuple[Writer, ...]]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    for load, work in sorted(((_rows(work), work) for work in works), key=lambda each: -each[0]):
        least = loads.index(min(loads))
        shares[least].append(work)
        loads[least] += load + 1

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column(0).to_pylist():
                for work in shares[share]:
                    for found in looked(work):
                        yield from found.to_batches()

    return spark.range(0, tasks, 1, tasks).mapInArrow(task, VIOLATIONS)


def _rows(writers: Iterable[Writer]) -> int:
    return sum(segment.rows for writer in writers for segment in writer.segments)


def _written(
    writer: Writer, promises: Sequence[str], told: Callable[[Segment], None], names: Sequence[str]
) -> _Tables:
    work = Check(writer.run, promises)
    for segment in writer.segments:
        try:
            rows = read(segment.path, names)
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0][:200]
            damaged = ("", writer.name, 0, segment.path, "", 0, 0, 0, reason)
            yield _found(writer.run, [(DAMAGED, [damaged])])
        else:
            told(rows)
            yield work.take(rows)
    yield work.end()


def _found(run: str, found: Iterable[tuple[str, Iterable[Found]]]) -> pa.Table:
    rows = [(run, promise, *each) for promise, all_of_it in found for each in all_of_it]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(VIOLATION)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, VIOLATION, strict=True)], VIOLATION)


def read(path: str, names: Sequence[str] = COLUMNS) -> Segment:
    """A segment from its file; columns of one value, and many are, are known without reading them."""
    system, local = opened(path)
    with pq.ParquetFile(
        local, filesystem=system, read_dictionary=_TEXTS, page_checksum_verification=True, memory_map=True
    ) as file:
        alike = _alike(file.metadata, names)
        table = file.read(columns=[name for name in names if name not in alike], use_threads=False)
        return Segment(table, alike)


def _alike(file: pq.FileMetaData, names: Sequence[str]) -> dict[str, Any]:
    """Columns of one value."""
    alike = {}
    if file.num_row_groups == 1:
        group = file.row_group(0)
        for index in range(group.num_columns):
            column = group.column(index)
            said = column.statistics
            if (
                column.path_in_schema in names
                and said is not None
                and said.has_min_max
                and said.min == said.max
            ):
                alike[column.path_in_schema] = said.min
    return {name: value for name, value in alike.items() if name != "position"}
