"""Readers of histories: all there is, or what comes; see ``source`` for their options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyspark_gossamer.source import ARCHIVE, choice, kind, number, path, refused

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_gossamer.history import History


class _HistoryOptions:
    """What both readers of a history know."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        place = path(options)
        archived = kind(options) == ARCHIVE
        self.columns = schema.names
        self.places = ("", place) if archived else (place, options.get("archive", ""))
        self.channel = options.get("channel", "")
        self.records = number(options, "partitionRecords", 0, 1) if "partitionRecords" in options else 0
        self.skip = choice(options, "missing", ("fail", "skip")) == "skip"

    def open(self) -> History:
        from pyspark_gossamer.history import History

        return History(*self.places, channel=self.channel)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark_gossamer.history import batches

        if partition.value is None:  # what Spark makes of nothing
            return
        channel, piece = partition.value
        for batch in batches(channel, piece):
            yield batch.select(self.columns)


class HistoryReader(_HistoryOptions, DataSourceReader):
    """All there is now."""

    def partitions(self) -> Sequence[InputPartition]:
        history = self.open()
        pieces = history.pieces(history.begin, history.end, self.records, skip=self.skip)
        return [InputPartition((history.channel, piece)) for piece in pieces]


class HistoryStreamReader(_HistoryOptions, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What comes, batch by batch."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._start = options.get("start", "earliest")
        self._max_rows = number(options, "maxRows", 0, 0)
        if self._start not in ("earliest", "latest") and not self._start.isdecimal():
            raise refused(f"{self._start!r} is not earliest, latest or a position", key="start")
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
            from gossamer.core.errors import StorageError

            reason = f"it ends at {end}: this is not the log that the checkpoint is about"
            raise StorageError(self.history.channel, reason, position)
        if isinstance(limit, ReadMaxRows):
            end = self.history.limit(position, end, limit.max_rows)
        return {"position": end}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"position": self.history.look()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if self.history.end < end["position"]:
            self.history.look()
        pieces = self.history.pieces(start["position"], end["position"], self.records, skip=self.skip)
        return [InputPartition((self.history.channel, piece)) for piece in pieces]

    def commit(self, end: dict[str, int]) -> None:
        """The log is its node's to trim."""

    def stop(self) -> None:
        """Nothing is held open."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_history": None}
