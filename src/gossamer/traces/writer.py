"""Writes traces as Parquet segments.

``FOLDER/run=RUN/NAME-000001.parquet`` and so on, one writer per NAME. A segment is written under a hidden
temporary name, synced and renamed when it is complete: a crash loses at most the rows in memory and never
leaves a file that cannot be read. A clean end adds ``NAME.json``, which says how many segments and rows
there are, so that a missing one is noticed. Until then ``.NAME.begun`` tells that somebody is or was writing.
Pages carry checksums, so that a damaged one is noticed too.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.core.errors import ConfigError
from gossamer.core.trace import COLUMNS, Row

SEGMENT_ROWS = 50_000

SCHEMA = pa.schema([(name, pa.string() if kind == "text" else pa.int64()) for name, kind in COLUMNS])

_TEXT = [name for name, kind in COLUMNS if kind == "text"]
FORM: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": _TEXT,
    "column_encoding": {name: "DELTA_BINARY_PACKED" for name, _ in COLUMNS if name not in _TEXT},
    "write_page_checksum": True,
}
"""Texts repeat and numbers grow: written so, a row takes a few bytes and little time."""


class TraceWriter:
    """Takes rows (call it like a function), keeps at most one segment of them in memory.

    carry_out
        Writes a segment that is complete, now or later, in the order in which it is given them; at once if
        none is given. A node hands segments to a thread.
    """

    def __init__(
        self,
        folder: str | Path,
        run: str,
        name: str,
        segment_rows: int = SEGMENT_ROWS,
        carry_out: Callable[[Callable[[], None]], object] = lambda write: write(),
    ) -> None:
        self._carry_out = carry_out
        self.folder = Path(folder) / f"run={run}"
        self.name = name
        self.rows = 0
        self.segments = 0
        self._limit = segment_rows * len(SCHEMA)
        self._open: list[Any] = []  # values of one row after another: a list of rows costs more to take apart
        self._begun = self.folder / f".{name}.begun"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._begun.touch()
        except OSError as error:
            raise ConfigError(
                f"traces cannot be written to {folder}: {error.strerror}", key="trace"
            ) from None

    def __call__(self, row: Row) -> None:
        self._open += row
        if len(self._open) >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Complete the open segment, if it has any rows."""
        if not self._open:
            return
        values, self._open = self._open, []
        self.segments += 1
        self.rows += len(values) // len(SCHEMA)
        name = f"{self.name}-{self.segments:06d}.parquet"
        self._carry_out(partial(_write, self.folder / name, values))

    def close(self) -> None:
        """Complete the last segment and say that the trace is whole."""
        self.flush()
        self._carry_out(self._end)

    def _end(self) -> None:
        with _renamed(self.folder / f"{self.name}.json") as temporary:
            end = {"name": self.name, "segments": self.segments, "rows": self.rows}
            temporary.write_text(json.dumps(end) + "\n")
        self._begun.unlink(missing_ok=True)


def _write(path: Path, values: list[Any]) -> None:
    columns = [values[index :: len(SCHEMA)] for index in range(len(SCHEMA))]
    arrays = [_array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=SCHEMA)
    with _renamed(path) as temporary:
        pq.write_table(table, temporary, row_group_size=SEGMENT_ROWS, **FORM)


def _array(column: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        return pa.array(column, kind)
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(array("q", column))])


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
