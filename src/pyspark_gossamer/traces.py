"""Reads trace folders, as Arrow batches. Nothing of gossamer is imported to plan that, only to read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

TASK_BYTES = 4 * 1024 * 1024
"""Bytes of trace files that one task reads, about a million rows."""
BATCH_ROWS = 10_000


def columns() -> pa.Schema:
    """Those of a trace, after the name of its run; none is ever null, so Spark need not look."""
    import pyarrow as pa

    from gossamer.core.trace import COLUMNS

    kinds = (("run", "text"), *COLUMNS)
    return pa.schema(
        [
            pa.field(name, pa.string() if kind == "text" else pa.int64(), nullable=False)
            for name, kind in kinds
        ]
    )


class TraceReader(DataSourceReader):
    """Complete segments of traces."""

    def __init__(self, path: str, schema: StructType) -> None:
        self.path = path
        self.schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        found = sorted(Path(self.path).rglob("*.parquet"))
        files = [(str(file), file.stat().st_size) for file in found if not file.name.startswith(".")]
        return [InputPartition(share) for share in shares(files, os.cpu_count() or 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import parquet as pq
        from pyspark.sql.pandas.types import to_arrow_schema

        from gossamer.core.errors import StorageError

        schema = to_arrow_schema(self.schema)
        wanted = [name for name in schema.names if name != "run"]
        texts = [name for name in wanted if schema.field(name).type == pa.string()]
        run = pa.array([], pa.string())
        for file in partition.value or ():  # Spark makes None of nothing
            name = Path(file).parent.name.removeprefix("run=")
            if not len(run) or run[0].as_py() != name:
                run = pa.array([name] * BATCH_ROWS)
            try:
                with pq.ParquetFile(file, read_dictionary=texts) as opened:
                    for batch in opened.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False):
                        if any(column.null_count for column in batch.columns):
                            raise StorageError(file, "a segment of a trace has rows without a value")
                        read = {**dict(zip(wanted, batch.columns, strict=True)), "run": run[: len(batch)]}
                        arrays = [_plain(read[name]) for name in schema.names]
                        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            except (OSError, pa.ArrowException) as error:
                raise StorageError(file, f"a segment of a trace cannot be read: {error}") from error


def shares(files: Sequence[tuple[str, int]], cores: int) -> list[list[str]]:
    """Files for tasks of about TASK_BYTES each, as many for one core as for another."""
    total = sum(size for _, size in files)
    tasks = min(cores * max(-(-total // (cores * TASK_BYTES)), 1), len(files))
    dealt: list[list[str]] = [[] for _ in range(tasks)]
    before = 0
    for file, size in files:
        dealt[min(before * tasks // max(total, 1), tasks - 1)].append(file)
        before += size
    return [share for share in dealt if share]


def _plain(column: pa.Array) -> pa.Array:
    """Texts repeat: taking them from a dictionary costs less than decoding each."""
    return column.dictionary.take(column.indices) if hasattr(column, "dictionary") else column
