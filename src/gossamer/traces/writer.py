"""Writes traces as Parquet segments.

``FOLDER/run=RUN/NAME-000001.parquet`` and so on, one writer per NAME. A segment is written under a hidden
temporary name, synced and renamed when it is complete: a crash loses at most the rows in memory and never
leaves a file that cannot be read. A clean end adds ``NAME.json``, which says how many segments and rows
there are, so that a missing one is noticed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.core.errors import ConfigError
from gossamer.core.trace import COLUMNS, Row

SEGMENT_ROWS = 50_000

SCHEMA = pa.schema([(name, pa.string() if kind == "text" else pa.int64()) for name, kind in COLUMNS])


class TraceWriter:
    """Takes rows (call it like a function), keeps at most one segment of them in memory."""

    def __init__(self, folder: str | Path, run: str, name: str, segment_rows: int = SEGMENT_ROWS) -> None:
        self.folder = Path(folder) / f"run={run}"
        self.name = name
        self.rows = 0
        self.segments = 0
        self._limit = segment_rows
        self._open: list[Row] = []
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"traces cannot be written to {folder}: {error.strerror}", key="trace"
            ) from None

    def __call__(self, row: Row) -> None:
        self._open.append(row)
        if len(self._open) >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Complete the open segment, if it has any rows."""
        if not self._open:
            return
        rows, self._open = self._open, []
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        self.segments += 1
        self.rows += len(rows)
        name = f"{self.name}-{self.segments:06d}.parquet"
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        with _renamed(self.folder / name) as temporary:
            pq.write_table(table, temporary, compression="zstd", row_group_size=SEGMENT_ROWS)

    def close(self) -> None:
        """Complete the last segment and say that the trace is whole."""
        self.flush()
        with _renamed(self.folder / f"{self.name}.json") as temporary:
            end = {"name": self.name, "segments": self.segments, "rows": self.rows}
            temporary.write_text(json.dumps(end) + "\n")


class _renamed:  # noqa: N801
    """A temporary path that becomes the real one when the block ends well, and vanishes when it does not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.tmp")

    def __enter__(self) -> Path:
        return self._temporary

    def __exit__(self, kind: object, error: object, where: object) -> None:
        if kind is not None:
            self._temporary.unlink(missing_ok=True)
            return
        with self._temporary.open("rb") as file:
            os.fsync(file.fileno())
        self._temporary.replace(self._path)


def read(folder: str | Path) -> pa.Table:
    """All rows of all complete segments below a folder, in order of run, writer and segment."""
    files = sorted(Path(folder).rglob("*.parquet"))
    tables = [pq.read_table(file, schema=SCHEMA, partitioning=None) for file in files if file.name[0] != "."]
    return pa.concat_tables(tables) if tables else SCHEMA.empty_table()
