"""Reading traces with ``format("gossamer")``, beside the same rows as tuples and beside native Parquet."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.pipeline.figures import Figure, medians
from gossamer.pipeline.session import session
from gossamer.traces.writer import FORM, SCHEMA, TraceWriter
from pyspark_gossamer.source import DefaultSource
from pyspark_gossamer.traces import TraceReader

ROWS = 2_000_000
WARM = 3
"""Rounds that do not count: Java compiles meanwhile."""


class TupleReader(TraceReader):
    """The same rows, one tuple each."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class TupleSource(DefaultSource):
    """``format("gossamer-tuples")``."""

    @classmethod
    def name(cls) -> str:
        return "gossamer-tuples"

    def reader(self, schema: StructType) -> DataSourceReader:
        return TupleReader(self.options["path"], schema)


def measure(rounds: int) -> list[Figure]:
    """Rows per second of the three, every column of them: a source of Python cannot leave any out."""
    spark = session("local[2]")
    spark.dataSource.register(TupleSource)
    with tempfile.TemporaryDirectory(prefix="gossamer-bench-") as place:
        _traces(Path(place))

        def consume(format: str) -> Callable[[], Any]:
            rows = spark.read.format(format).load(place)
            return lambda: rows.write.format("noop").mode("overwrite").save()

        actions = {name: consume(name) for name in ("gossamer", "gossamer-tuples", "parquet")}
        for _ in range(WARM):
            for action in actions.values():
                action()
        took = medians(rounds, **actions)
    spark.stop()
    rates = [
        Figure("source", f"{said}, {ROWS / 1e6:g} M rows of 17 columns", ROWS / took[name] / 1e6, "M rows/s")
        for name, said in (
            ("gossamer", "Arrow"),
            ("gossamer-tuples", "tuples"),
            ("parquet", "native Parquet"),
        )
    ]
    return [
        *rates,
        Figure("source", "Arrow to tuples", took["gossamer-tuples"] / took["gossamer"], "×", least=3.5),
        Figure("source", "Arrow to native Parquet", took["parquet"] / took["gossamer"], "×", least=0.7),
    ]


def _traces(folder: Path) -> None:
    """Rows like those of a run, in as many segments as a writer would make."""
    begun = TraceWriter(folder, "bench", "world").folder
    size = 50_000
    names = np.array([f"n{number:03d}" for number in range(50)])
    dice = np.random.default_rng(1)
    for number in range(ROWS // size):
        first = number * size
        columns: dict[str, Any] = {}
        for field in SCHEMA:
            if field.type == pa.string():
                columns[field.name] = names[dice.integers(50, size=size)]
            else:
                columns[field.name] = np.arange(first, first + size)
        table = pa.Table.from_pydict(columns, schema=SCHEMA)
        pq.write_table(table, begun / f"world-{number + 1:06d}.parquet", **FORM)
