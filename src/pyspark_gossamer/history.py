"""The history of a persistent channel as Arrow batches: what its log has, and its archive before that.

Knows nothing of Spark. Positions are those of records in the log, one parcel each; a row is an event. A
record is understood by ``gossamer.storage.archive`` alone, so log and archive never disagree about one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from gossamer.core.errors import ConfigError, StorageError
from gossamer.core.names import channel_id
from gossamer.storage.archive import MANIFEST, SCHEMA, Manifest, add_rows, parcel_of
from gossamer.storage.follow import Follower, Piece, records

BATCH_ROWS = 10_000
BATCH_BYTES = 8 * 1024 * 1024
"""A batch ends with the record that reaches either."""
PIECE_RECORDS = 20_000
"""Records of the open segment that one piece has, if nothing else is said."""


class Archived(msgspec.Struct, frozen=True):
    """Positions of one file of an archive."""

    file: str
    first: int
    end: int


AnyPiece = Piece | Archived


class History:
    """What there is of a channel.

    log
        The folder of its log, or empty.
    archive
        The folder of its log in an archive, ``PLACE/node=NODE/log=CHANNEL-ID``; a path or a URI, or empty.
    channel
        Its name; if not given, the archive or the name of the folder says it.
    end
        The next free position, as of the last ``look``.
    """

    def __init__(self, log: str = "", archive: str = "", channel: str = "") -> None:
        if not log and not archive:
            raise ConfigError("a history needs the folder of a log or of an archive", key="path")
        self._archive = archive
        self._parts = _manifest(archive).parts if archive else ()
        self._follower = Follower(log) if log else None
        self.channel = channel or (_manifest(archive).channel if archive else _name(Path(log)))

    @property
    def begin(self) -> int:
        """The oldest position that is there."""
        begins = [self._parts[0].first] if self._parts else []
        if self._follower is not None and (self._follower.end > self._follower.begin or not begins):
            begins.append(self._follower.begin)
        return min(begins, default=0)

    @property
    def end(self) -> int:
        """The next free position, as of the last look."""
        archived = self._parts[-1].end if self._parts else 0
        return max(archived, self._follower.end if self._follower is not None else 0)

    def look(self) -> int:
        """See what has come; the next free position."""
        if self._follower is not None:
            self._follower.look()
        if self._archive:
            self._parts = _manifest(self._archive).parts
        return self.end

    def pieces(self, start: int, end: int, records: int = 0, *, skip: bool = False) -> list[AnyPiece]:
        """What is there from one position up to another; raises StorageError if a part of it is missing.

        records
            Of the open segment that one piece has; 0 for PIECE_RECORDS.
        skip
            Leave out what is missing instead.
        """
        log_begin = self._follower.begin if self._follower is not None else self.end
        pieces: list[AnyPiece] = [
            Archived(f"{self._archive}/{part.file}", max(start, part.first), min(end, part.end))
            for part in self._parts
            if part.end > start and part.first < min(end, log_begin)
        ]
        if self._follower is not None:
            pieces += self._follower.pieces(start, end, records or PIECE_RECORDS)
        if not skip:
            _check_whole(self.channel, pieces, start, end)
        return pieces

    def limit(self, start: int, end: int, rows: int) -> int:
        """Up to which position there are at most so many events, but at least one record if there is any."""
        for piece in self.pieces(start, end, skip=True):
            for position, count in _counts(self.channel, piece):
                rows -= count
                if rows < 0 and position > start:
                    return position
        return end


def batches(channel: str, piece: AnyPiece) -> Iterator[pa.RecordBatch]:
    """The events of a piece, in order."""
    return _archived(piece) if isinstance(piece, Archived) else _logged(channel, piece)


def _logged(channel: str, piece: Piece) -> Iterator[pa.RecordBatch]:
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    size = 0
    for position, record in records(piece):
        add_rows(channel, position, record, columns)
        size += len(record)
        if len(columns["position"]) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
            columns, size = {name: [] for name in SCHEMA.names}, 0
    if columns["position"]:
        yield pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def _archived(piece: Archived) -> Iterator[pa.RecordBatch]:
    filesystem, path = _place(piece.file)
    try:
        with filesystem.open_input_file(path) as file:
            for batch in pq.ParquetFile(file).iter_batches(BATCH_ROWS):
                positions = batch.column("position")
                inside = pc.and_(pc.greater_equal(positions, piece.first), pc.less(positions, piece.end))
                kept = batch.filter(inside)
                if kept.num_rows:
                    yield kept.select(SCHEMA.names)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(piece.file, f"reading failed: {error}", piece.first) from error


def _counts(channel: str, piece: AnyPiece) -> Iterator[tuple[int, int]]:
    """Position and number of events of each record that has any."""
    if isinstance(piece, Archived):
        positions = (each for batch in _archived(piece) for each in batch.column("position").to_pylist())
        for position, same in groupby(positions):
            yield position, len(list(same))
    else:
        for position, record in records(piece):
            parcel = parcel_of(channel, position, record)
            yield position, parcel.stamp.count if parcel is not None else 0


def _check_whole(channel: str, pieces: list[AnyPiece], start: int, end: int) -> None:
    position = start
    for piece in pieces:
        if piece.first > position:
            break
        position = piece.end
    if position < end:
        raise StorageError(
            channel,
            "it was trimmed, and no archive has it: name the archive, or skip what is missing",
            position,
        )


def _manifest(archive: str) -> Manifest:
    filesystem, path = _place(f"{archive}/{MANIFEST}")
    try:
        with filesystem.open_input_stream(path) as file:
            return msgspec.json.decode(file.read(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise StorageError(path, f"damaged: {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise StorageError(path, f"there is no archive of a log here: {error}") from error


def _place(uri: str) -> tuple[fs.FileSystem, str]:
    if "://" in uri:
        return fs.FileSystem.from_uri(uri)  # type: ignore[no-any-return]
    return fs.LocalFileSystem(), uri


def _name(folder: Path) -> str:
    """What the folder of a log says about its channel: the name if it is whole there, else # and the id."""
    found = re.fullmatch(r"(.*)-([0-9a-f]{16})", folder.name)
    if not found:
        return folder.name
    return found[1] if f"{channel_id(found[1]):016x}" == found[2] else f"#{found[2]}"
