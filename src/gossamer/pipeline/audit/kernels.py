"""Runs kernels: over the segments of one writer, and over all writers as Spark tasks without a shuffle.

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

from gossamer.pipeline.audit.catalogue import AUDITS
from gossamer.pipeline.audit.promise import Found, Kernel
from gossamer.pipeline.audit.segment import COLUMNS, Known, Segment
from gossamer.pipeline.reading import Survey, Writer, opened
from gossamer.pipeline.schema import TEXTS, VIOLATION, VIOLATIONS

BESIDES = "#"
"""What begins with it is no promise."""
EVENTS, ENDED, OPENED, GAP, DAMAGED = "#events", "#ended", "#opened", "#gap", "#damaged"
MAX_TASKS = 256
_TEXTS = [name for name in TEXTS if name in COLUMNS]


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
        return self._found((name, kernel.take(self.known, segment)) for name, kernel in self._kernels)

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
        return self._found([*ends, *besides])

    def _found(self, found: Iterable[tuple[str, list[Found]]]) -> pa.Table:
        rows = [(self.run, promise, *each) for promise, all_of_it in found for each in all_of_it]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(VIOLATION)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, VIOLATION, strict=True)], VIOLATION)


def check(run: str, tables: Iterable[pa.Table], promises: Sequence[str]) -> pa.Table:
    """What kernels find in the segments of one writer."""
    work = Check(run, promises)
    return pa.concat_tables([*(work.take(Segment(table)) for table in tables), work.end()])


def by_kernels(spark: SparkSession, traces: Survey, promises: Sequence[str]) -> DataFrame:
    """What kernels find in all writers; each writer is one task's, so that no row has to move."""
    tasks = min(MAX_TASKS, len(traces.writers))
    shares: list[list[Writer]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    for writer in sorted(traces.writers, key=lambda each: -sum(s.rows for s in each.segments)):
        least = loads.index(min(loads))
        shares[least].append(writer)
        loads[least] += sum(segment.rows for segment in writer.segments) + 1
    return spark.range(0, tasks, 1, tasks).mapInArrow(_task(shares, tuple(promises)), VIOLATIONS)


def _task(
    shares: list[list[Writer]], promises: tuple[str, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column(0).to_pylist():
                for writer in shares[share]:
                    for found in _written(writer, promises):
                        yield from found.to_batches()

    return work


def _written(writer: Writer, promises: tuple[str, ...]) -> Iterator[pa.Table]:
    work = Check(writer.run, promises)
    for segment in writer.segments:
        try:
            rows = read(segment.path)
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0][:200]
            yield work._found([(DAMAGED, [("", writer.name, 0, segment.path, "", 0, 0, 0, reason)])])
        else:
            yield work.take(rows)
    yield work.end()


def read(path: str) -> Segment:
    """A segment from its file; columns of one value, and many are, are known without reading them."""
    system, local = opened(path)
    with pq.ParquetFile(
        local, filesystem=system, read_dictionary=_TEXTS, page_checksum_verification=True, memory_map=True
    ) as file:
        alike = _alike(file.metadata)
        table = file.read(columns=[name for name in COLUMNS if name not in alike], use_threads=False)
        return Segment(table, alike)


def _alike(file: pq.FileMetaData) -> dict[str, Any]:
    """Columns of one value."""
    alike = {}
    if file.num_row_groups == 1:
        group = file.row_group(0)
        for index in range(group.num_columns):
            column = group.column(index)
            said = column.statistics
            if (
                column.path_in_schema in COLUMNS
                and said is not None
                and said.has_min_max
                and said.min == said.max
            ):
                alike[column.path_in_schema] = said.min
    return {name: value for name, value in alike.items() if name != "position"}
