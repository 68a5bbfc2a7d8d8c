"""Readers of histories: all there is, or what comes; see ``source`` for their options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from gossamer.core.errors import ConfigError, StorageError
from pyspark_gossamer.history import PIECE_RECORDS, History, batches
from pyspark_gossamer.source import ARCHIVE, kind, path


class _HistoryOptions:
    """What both readers of a history know."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        place = path(options)
        archived = kind(options) == ARCHIVE
        self.columns = schema.names
        self.places = ("", place) if archived else (place, options.get("archive", ""))
        self.channel = History(*self.places, channel=options.get("channel", "")).channel
        self.records = number(options, "partitionRecords", PIECE_RECORDS, 1)
        self.skip = choice(options, "missing", ("fail", "skip")) == "skip"

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
        self._max_rows = number(options, "maxRows", 0, 0)
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


def choice(options: Mapping[str, str], key: str, known: tuple[str, ...]) -> str:
    """One of some words; the first, if nobody said."""
    value = options.get(key, known[0])
    if value not in known:
        raise ConfigError(f"{value!r} is not one of {', '.join(known)}", key=key)
    return value


def number(options: Mapping[str, str], key: str, otherwise: int, least: int) -> int:
    """A whole number that is not too small."""
    text = options.get(key, str(otherwise))
    if not text.isdecimal() or int(text) < least:
        raise ConfigError(f"{text!r} is not a whole number from {least} on", key=key)
    return int(text)
