"""The data source: histories of persistent channels, batch or stream, and trace folders.

::

    spark.read.format("gossamer").load("STATE/logs/orders-5f…")            a history
    spark.read.format("gossamer").load("TRACES")                           traces
    spark.readStream.format("gossamer").load("STATE/logs/orders-5f…")      a history that grows
    events.writeStream.format("gossamer").option("address", …)             see sink

Options for reading:

kind
    ``log``, ``archive`` or ``traces``; found out by looking if not said.
archive
    The log's folder in an archive, for what was trimmed: ``PLACE/node=NODE/log=CHANNEL-ID``.
channel
    Its name, where neither the archive nor the folder's name says it.
start
    Where a stream without a checkpoint begins: ``earliest`` (if not said), ``latest`` or a position.
maxRows
    Events per micro-batch, at least one parcel; 0, if not said, takes all there are.
partitionRecords
    Parcels of the open segment per task.
missing
    ``fail``, if not said, or ``skip``: what to do about positions that nobody has any more.

The events of a parcel stay together, and in order within a task. A stream's offset is a position of the log,
which never changes its meaning, so that a query that is begun again from its checkpoint reads what the killed
one would have read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from gossamer.core.errors import ConfigError, StorageError
from gossamer.core.trace import COLUMNS
from gossamer.storage.archive import MANIFEST, SCHEMA
from pyspark_gossamer.history import PIECE_RECORDS, History, batches

LOG, ARCHIVE, TRACES = "log", "archive", "traces"
TRACE_SCHEMA = pa.schema(
    [("run", pa.string()), *((name, pa.string() if kind == "text" else pa.int64()) for name, kind in COLUMNS)]
)
TASK_BYTES = 4 * 1024 * 1024
"""Bytes of trace files that one task reads, about a million rows."""
BATCH_ROWS = 50_000


class DefaultSource(DataSource):
    """``format("gossamer")``."""

    @classmethod
    def name(cls) -> str:
        return "gossamer"

    def schema(self) -> StructType:
        traces = _kind(self.options) == TRACES
        return from_arrow_schema(TRACE_SCHEMA if traces else SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        if _kind(self.options) == TRACES:
            return TraceReader(_path(self.options), schema)
        return HistoryReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if _kind(self.options) == TRACES:
            raise ConfigError("traces are no stream: follow them with `gossamer watch`", key="kind")
        return HistoryStreamReader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from pyspark_gossamer.sink import Sink  # readers need no node

        return Sink(self.options, schema)


class _HistoryOptions:
    """What both readers of a history know."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        path = _path(options)
        archived = _kind(options) == ARCHIVE
        self.columns = schema.names
        self.places = ("", path) if archived else (path, options.get("archive", ""))
        self.channel = History(*self.places, channel=options.get("channel", "")).channel
        self.records = _number(options, "partitionRecords", PIECE_RECORDS, 1)
        self.skip = _choice(options, "missing", ("fail", "skip")) == "skip"

    def open(self) -> History:
        return History(*self.places, channel=self.channel)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in batches(self.channel, partition.value):
            yield batch.select(self.columns)


class HistoryReader(_HistoryOptions, DataSourceReader):
    """All there is now."""

    def partitions(self) -> Sequence[InputPartition]:
        history = self.open()
        pieces = history.pieces(history.begin, history.end, self.records, skip=self.skip)
        return [InputPartition(piece) for piece in pieces]


class HistoryStreamReader(_HistoryOptions, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What comes, batch by batch."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._start = options.get("start", "earliest")
        self._max_rows = _number(options, "maxRows", 0, 0)
        if self._start not in ("earliest", "latest") and not self._start.isdecimal():
            raise ConfigError(f"{self._start!r} is not earliest, latest or a position", key="start")
        self._target: int | None = None
        self._history: History | None = None

    @property
    def history(self) -> History:
        if self._history is None:
            self._history = self.open()
        return self._history

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        if self._start == "earliest":
            return {"position": self.history.begin}
        return {"position": self.history.look() if self._start == "latest" else int(self._start)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._max_rows) if self._max_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self.history.look()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        position = start["position"]
        end = self.history.look() if self._target is None else self._target
        if end < position:
            if self._target is not None:
                return start
            raise StorageError(
                self.channel, f"it ends at {end}: this is not the log that the checkpoint is about", position
            )
        if isinstance(limit, ReadMaxRows):
            end = self.history.limit(position, end, limit.max_rows)
        return {"position": end}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"position": self.history.look()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if self.history.end < end["position"]:
            self.history.look()
        pieces = self.history.pieces(start["position"], end["position"], self.records, skip=self.skip)
        return [InputPartition(piece) for piece in pieces]

    def commit(self, end: dict[str, int]) -> None:
        """The log is its node's to trim."""

    def stop(self) -> None:
        """Nothing is held open."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_history": None}


class TraceReader(DataSourceReader):
    """Complete segments of traces."""

    def __init__(self, path: str, schema: StructType) -> None:
        self.path = path
        self.columns = schema.names

    def partitions(self) -> Sequence[InputPartition]:
        found = sorted(Path(self.path).rglob("*.parquet"))
        files = [(str(file), file.stat().st_size) for file in found if not file.name.startswith(".")]
        return [InputPartition(share) for share in shares(files, os.cpu_count() or 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted = [name for name in self.columns if name != "run"]
        texts = [name for name in wanted if TRACE_SCHEMA.field(name).type == pa.string()]
        for file in partition.value:
            run = pa.array([Path(file).parent.name.removeprefix("run=")] * BATCH_ROWS)
            try:
                with pq.ParquetFile(file, read_dictionary=texts) as opened:
                    for batch in opened.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False):
                        columns = {**dict(zip(wanted, batch.columns, strict=True)), "run": run[: len(batch)]}
                        arrays = [_plain(columns[name]) for name in self.columns]
                        yield pa.RecordBatch.from_arrays(arrays, self.columns)
            except (OSError, pa.ArrowException) as error:
                raise StorageError(file, f"a segment of a trace cannot be read: {error}") from error


def shares(files: Sequence[tuple[str, int]], cores: int) -> list[list[str]]:
    """Files for tasks of about TASK_BYTES each, as many for one core as for another."""
    total = sum(size for _, size in files)
    tasks = min(cores * -(-total // (cores * TASK_BYTES)), len(files))
    shares: list[list[str]] = [[] for _ in range(tasks)]
    before = 0
    for file, size in files:
        shares[min(before * tasks // max(total, 1), tasks - 1)].append(file)
        before += size
    return [share for share in shares if share]


def _plain(column: pa.Array) -> pa.Array:
    """Texts repeat: taking them from a dictionary costs less than decoding each."""
    return column.dictionary.take(column.indices) if pa.types.is_dictionary(column.type) else column


# options


def _path(options: Mapping[str, str]) -> str:
    path = options.get("path", "")
    if not path:
        raise ConfigError("say what to read: load(FOLDER)", key="path")
    return path.removeprefix("file:")


def _kind(options: Mapping[str, str]) -> str:
    path = _path(options)
    kind = options.get("kind", "")
    if kind:
        return _choice(options, "kind", (LOG, ARCHIVE, TRACES))
    if "://" in path or (Path(path) / MANIFEST).exists():
        return ARCHIVE
    if not Path(path).is_dir():
        raise StorageError(path, "there is no such folder")
    return LOG if any(Path(path).glob("*.log")) else TRACES


def _choice(options: Mapping[str, str], key: str, known: tuple[str, ...]) -> str:
    value = options.get(key, known[0])
    if value not in known:
        raise ConfigError(f"{value!r} is not one of {', '.join(known)}", key=key)
    return value


def _number(options: Mapping[str, str], key: str, otherwise: int, least: int) -> int:
    text = options.get(key, str(otherwise))
    if not text.isdecimal() or int(text) < least:
        raise ConfigError(f"{text!r} is not a whole number from {least} on", key=key)
    return int(text)
