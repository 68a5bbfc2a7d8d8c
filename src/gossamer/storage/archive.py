"""Sealed segments of logs as Parquet, in any place that pyarrow can write to.

``PLACE/node=NODE/log=CHANNEL-ID/FIRST-END.parquet``, one file per segment with one row per event, so that
Spark or ``pyarrow.dataset`` read one log, one node or all. A file has its name only once it is complete, and
``_manifest.json`` beside it says which segments are there. Archiving a segment again changes nothing; another
segment of the same positions is refused, for a history does not change.

A log may be trimmed up to ``archived``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from gossamer.core.errors import ProtocolError, StorageError
from gossamer.core.names import channel_id
from gossamer.core.parcel import Parcel
from gossamer.core.wire import decode

SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("channel", pa.string()),
        ("source", pa.string()),
        ("source_incarnation", pa.int64()),
        ("first", pa.int64()),
        ("sent", pa.int64()),
        ("attributes", pa.string()),
        ("payload", pa.binary()),
    ]
)
"""position: of the record in the log, shared by the events of a parcel; first: number of the event at its
source; sent: nanoseconds on the clock of the source; attributes: JSON, bytes in it as base64."""

MANIFEST = "_manifest.json"


class Sealed(Protocol):
    """The part of a log that archiving needs."""

    @property
    def sealed(self) -> list[tuple[int, int]]: ...
    def label(self, first: int) -> str: ...
    def read(self, position: int, limit: int) -> tuple[int, list[bytes]]: ...


class Part(msgspec.Struct, frozen=True):
    """A segment that is in the archive.

    label
        What tells it from another segment of the same positions.
    rows
        Events in the file.
    others
        Records that are no parcels, and have no rows.
    """

    file: str
    first: int
    end: int
    label: str
    rows: int
    others: int


class Manifest(msgspec.Struct, frozen=True):
    """What the archive has of one log, oldest first."""

    channel: str
    parts: tuple[Part, ...] = ()


class Archive:
    """A place for the logs of one node.

    place
        A path, or a URI such as ``s3://bucket/folder``.
    filesystem
        Where ``place`` is a path in, if a URI cannot say it.
    """

    def __init__(self, place: str | Path, node: str, filesystem: fs.FileSystem | None = None) -> None:
        self.place = str(place)
        self._node = node
        try:
            if filesystem is not None:
                self._fs, self._root = filesystem, self.place
            elif "://" in self.place:
                self._fs, self._root = fs.FileSystem.from_uri(self.place)
            else:
                self._fs, self._root = fs.LocalFileSystem(), str(Path(place).absolute())
        except (OSError, pa.ArrowException) as error:
            raise StorageError(self.place, f"no archive can be here: {error}") from error

    def put(self, channel: str, log: Sealed) -> list[str]:
        """Archive what a log has sealed and the archive does not have; paths of the new files."""
        try:
            return self._put(channel, log)
        except (OSError, pa.ArrowException) as error:
            raise StorageError(self.place, f"archiving {channel!r} failed: {error}") from error

    def manifest(self, channel: str) -> Manifest:
        """What the archive has of a channel's log."""
        path = f"{self._folder(channel)}/{MANIFEST}"
        try:
            if self._fs.get_file_info(path).type == fs.FileType.NotFound:
                return Manifest(channel)
            with self._fs.open_input_stream(path) as file:
                return msgspec.json.decode(file.read(), type=Manifest)
        except msgspec.MsgspecError as error:
            raise StorageError(path, f"damaged: {error}") from None
        except (OSError, pa.ArrowException) as error:
            raise StorageError(path, f"reading failed: {error}") from error

    def archived(self, channel: str) -> int:
        """The position up to which a channel's log is in the archive."""
        parts = self.manifest(channel).parts
        return parts[-1].end if parts else 0

    # inside

    def _put(self, channel: str, log: Sealed) -> list[str]:
        folder = self._folder(channel)
        parts = {part.first: part for part in self.manifest(channel).parts}
        reach = max((part.end for part in parts.values()), default=0)
        added: list[str] = []
        for first, end in log.sealed:
            known, label = parts.get(first), log.label(first)
            if known is not None and known.end == end and label in (known.label, ""):
                continue
            if known is not None or first < reach:
                raise StorageError(folder, "another history is archived here: choose another place", first)
            part, table = self._table(channel, log, first, end, label)
            if not added:
                self._fs.create_dir(folder, recursive=True)
            self._write(folder, part.file, table)
            parts[first], reach = part, end
            # at once, so that a failure further on costs no segment twice
            self._write(folder, MANIFEST, Manifest(channel, tuple(parts.values())))
            added.append(f"{folder}/{part.file}")
        return added

    def _folder(self, channel: str) -> str:
        readable = re.sub(r"[^A-Za-z0-9_.-]+", "_", channel)[:64].lstrip(".")
        return f"{self._root}/node={self._node}/log={readable}-{channel_id(channel):016x}"

    def _table(self, channel: str, log: Sealed, first: int, end: int, label: str) -> tuple[Part, pa.Table]:
        columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
        others, position = 0, first
        while position < end:
            start, records = log.read(position, end - position)
            if start != position:
                raise StorageError(self.place, f"{channel!r} was trimmed before it was archived", position)
            for record in records:
                others += not add_rows(channel, position, record, columns)
                position += 1
        table = pa.Table.from_pydict(columns, schema=SCHEMA)
        file = f"{first:020d}-{end:020d}.parquet"
        return Part(file, first, end, label, table.num_rows, others), table

    def _write(self, folder: str, name: str, what: pa.Table | Manifest) -> None:
        """A file that is complete before it has its name, and on disk if the disk is ours."""
        temporary = f"{folder}/.{name}.tmp"
        with self._fs.open_output_stream(temporary) as file:
            if isinstance(what, Manifest):
                file.write(msgspec.json.format(msgspec.json.encode(what)))
            else:
                pq.write_table(what, file, compression="zstd")
        local = isinstance(self._fs, fs.LocalFileSystem)
        if local:
            _sync(temporary)
        self._fs.move(temporary, f"{folder}/{name}")
        if local:
            _sync(folder)


def parcel_of(channel: str, position: int, record: bytes) -> Parcel | None:
    """The parcel that a record holds, or None if it holds something else; raises StorageError."""
    try:
        item = decode(record)
    except ProtocolError as error:
        raise StorageError(channel, f"a record is no frame: {error}", position) from None
    return item if isinstance(item, Parcel) else None


def add_rows(channel: str, position: int, record: bytes, columns: dict[str, list[Any]]) -> bool:
    """Add the events of a record to the columns of SCHEMA; whether it is a parcel."""
    parcel = parcel_of(channel, position, record)
    if parcel is None:
        return False
    try:
        payloads, attributes = parcel.payloads, parcel.attributes
    except ProtocolError as error:
        raise StorageError(channel, f"a record is no parcel: {error}", position) from None
    stamp, count = parcel.stamp, parcel.stamp.count
    columns["position"] += [position] * count
    columns["channel"] += [channel] * count
    columns["source"] += [stamp.source] * count
    columns["source_incarnation"] += [stamp.incarnation] * count
    columns["first"] += range(stamp.first, stamp.first + count)
    columns["sent"] += [parcel.header.sent] * count
    columns["attributes"] += [_text(each) for each in attributes or [None] * count]
    columns["payload"] += payloads
    return True


def _text(attributes: object) -> str:
    return msgspec.json.encode(attributes or {}, order="sorted").decode()


def _sync(path: str) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
