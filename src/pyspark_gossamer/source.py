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

Spark starts processes to look for sources, to make one, and whenever it plans to read or to write. So neither
this module nor what it makes imports gossamer before something is read, written or refused; only the columns
of traces are asked of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from pyspark_gossamer.traces import TraceReader

if TYPE_CHECKING:
    from gossamer.core.errors import ConfigError

LOG, ARCHIVE, TRACES = "log", "archive", "traces"
MANIFEST = "_manifest.json"
"""What an archive has, as ``gossamer.storage.archive`` says."""
HISTORY = (
    StructType()
    .add("position", "long")
    .add("channel", "string")
    .add("source", "string")
    .add("source_incarnation", "long")
    .add("first", "long")
    .add("sent", "long")
    .add("attributes", "string")
    .add("payload", "binary")
)
"""Columns of a history, as ``gossamer.storage.archive`` says."""


class DefaultSource(DataSource):
    """``format("gossamer")``."""

    @classmethod
    def name(cls) -> str:
        return "gossamer"

    def schema(self) -> StructType:
        if kind(self.options) != TRACES:
            return HISTORY
        from pyspark.sql.pandas.types import from_arrow_schema

        from pyspark_gossamer.traces import columns

        return from_arrow_schema(columns())

    def reader(self, schema: StructType) -> DataSourceReader:
        if kind(self.options) == TRACES:
            return TraceReader(path(self.options), schema)
        from pyspark_gossamer.following import HistoryReader

        return HistoryReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if kind(self.options) == TRACES:
            raise refused("traces are no stream: follow them with `gossamer watch`", key="kind")
        from pyspark_gossamer.following import HistoryStreamReader

        return HistoryStreamReader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from pyspark_gossamer.sink import Sink  # readers need no node

        return Sink(self.options, schema)


def path(options: Mapping[str, str]) -> str:
    """What to read; raises ConfigError if nobody said."""
    given = options.get("path", "")
    if not given:
        raise refused("say what to read: load(FOLDER)", key="path")
    return given.removeprefix("file:")


def kind(options: Mapping[str, str]) -> str:
    """What is there: as said, or found out by looking."""
    place = Path(path(options))
    if not options.get("kind") and (place.name.startswith("run=") or any(place.glob("run=*"))):
        return TRACES
    if options.get("kind"):
        return choice(options, "kind", (LOG, ARCHIVE, TRACES))
    if "://" in path(options) or (place / MANIFEST).exists():
        return ARCHIVE
    if not place.is_dir():
        from gossamer.core.errors import StorageError

        raise StorageError(str(place), "there is no such folder")
    return LOG if any(place.glob("*.log")) else TRACES


def choice(options: Mapping[str, str], key: str, known: tuple[str, ...]) -> str:
    """One of some words; the first, if nobody said."""
    value = options.get(key, known[0])
    if value not in known:
        raise refused(f"{value!r} is not one of {', '.join(known)}", key=key)
    return value


def number(options: Mapping[str, str], key: str, otherwise: int, least: int) -> int:
    """A whole number that is not too small."""
    text = options.get(key, str(otherwise))
    if not text.isdecimal() or int(text) < least:
        raise refused(f"{text!r} is not a whole number from {least} on", key=key)
    return int(text)


def refused(message: str, key: str) -> ConfigError:
    """The error about an option."""
    from gossamer.core.errors import ConfigError

    return ConfigError(message, key=key)
