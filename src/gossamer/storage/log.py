"""An append-only log in a folder: records with consecutive positions from 0, in segments.

Promises:

- ``append`` returns when its records would survive a power cut, and they are there wholly or not at all.
  Whoever waits at the same time shares one sync (group commit).
- Records keep their positions for ever; readers see acknowledged records only.
- Opening cuts off what was begun and never acknowledged, and says so (``cut``). Damage to anything else
  raises StorageError with file and position: when the log is opened for the chain of segments and the last
  one, and for sealed segments when they are first read, or by ``verify``.
- One writer: the folder is locked, also against another Log of the same process.

A failed write or sync acknowledges nothing. After a failed sync memory may show bytes that the disk does not
have, and syncing again would call them safe. So nothing more is written to that segment: the next ``append``
cuts it back to what was acknowledged, reads that again from the disk, checks it, and goes on in a new
segment. While the reason lasts, each ``append`` raises it again; the log can be read all the while.

One thing cannot be known: damage to the very last batch that looks exactly like a torn write.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gossamer.core.errors import Closed, StorageError, TooLarge
from gossamer.core.names import nanoseconds
from gossamer.storage.disk import Disk, read_file, storage_error
from gossamer.storage.group import Group
from gossamer.storage.segment import (
    BATCH_BYTES,
    END,
    MAX_RECORD,
    RECORD_BYTES,
    SUFFIX,
    Cut,
    Header,
    Segment,
    encode_batch,
    encode_header,
    examine,
    file_name,
)
from gossamer.storage.shelf import Shelf

log = logging.getLogger("gossamer")

SEGMENT_BYTES = 32 * 1024 * 1024
SEGMENT_SECONDS = 3600.0
MAX_APPEND = 1024 * 1024 * 1024

LOCK = "lock"


class Log:
    """The log in a folder, open for one writer and any number of readers among its threads.

    segment_bytes, segment_seconds
        A segment is sealed by the first append that finds it as large or as old as this.
    clock
        Nanoseconds since 1970, for the age of segments.
    cut
        What was cut off when the log was opened, or None.
    syncs
        How often data was synced.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_seconds: float = SEGMENT_SECONDS,
        disk: Disk | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.folder = Path(folder)
        self.cut: Cut | None = None
        self.syncs = 0
        self._segment_bytes = segment_bytes
        self._segment_age = nanoseconds(segment_seconds)
        self._disk = disk or Disk()
        self._clock = clock
        self._group = Group(self._commit)
        self._writer = threading.Lock()
        self._shelf = Shelf()
        self._file = -1
        self._suspect = False
        self.closed = False
        self._lock = self._take_lock()
        try:
            self._open()
        except OSError as error:
            self._release()
            raise storage_error(error, self.folder, "opening the log") from error
        except BaseException:
            self._release()
            raise

    # reading

    @property
    def begin(self) -> int:
        """Position of the oldest record that is there, if any is."""
        return self._shelf.begin

    @property
    def end(self) -> int:
        """The next free position."""
        return self._shelf.end

    @property
    def sealed(self) -> list[tuple[int, int]]:
        """First position and end of every segment that nothing is added to any more, oldest first."""
        return self._shelf.sealed

    def label(self, first: int) -> str:
        """What tells the segment that begins at a position from any other that began there; empty if gone."""
        return self._shelf.label(first)

    def read(self, position: int, limit: int) -> tuple[int, list[bytes]]:
        """Up to so many records from a position on, and where they begin: at ``begin`` if that is later.

        There are fewer at the end of the log, of a segment or of 8 MiB, but at least one if there is any.
        """
        self._check_open()
        return self._shelf.read(position, limit)

    def verify(self) -> int:
        """Check every byte of the log; how many records it has. Raises StorageError."""
        self._check_open()
        return self._shelf.verify()

    # writing

    def append(self, records: Iterable[bytes]) -> int:
        """Add records; once they are on disk, the position behind them."""
        adding = tuple(records)
        size = sum(map(len, adding))
        for record in adding:
            if len(record) > MAX_RECORD:
                raise TooLarge("record of a log", len(record), MAX_RECORD)
        if size > MAX_APPEND:
            raise TooLarge("records of one append", size, MAX_APPEND)
        return self._group.append(adding)

    def seal(self) -> None:
        """End the last segment, if it has any records, so that it can be archived and trimmed."""
        with self._writer:
            self._check_open()
            if self._last.first < self.end or self._suspect:
                self._guarded(self._next_segment)

    def trim(self, position: int) -> int:
        """Remove sealed segments that hold nothing from a position on; where the log begins then."""
        with self._writer:
            self._check_open()
            shelf = self._shelf
            while len(shelf.segments) > 1 and shelf.segments[1].first <= position:
                oldest = shelf.take_oldest()
                try:
                    # the one before first: a power cut must not leave a hole
                    self._disk.sync_folder(self.folder)
                    self._disk.remove(oldest.path)
                except OSError as error:
                    shelf.put_back(oldest)
                    raise storage_error(error, oldest.path, "trimming") from error
            return self.begin

    def close(self) -> None:
        """Let go of the folder; what is being appended is finished first."""
        with self._writer:
            if not self.closed:
                self.closed = True
                self._release()

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _last(self) -> Segment:
        return self._shelf.segments[-1]

    # inside: opening

    def _take_lock(self) -> int:
        path = self.folder / LOCK
        try:
            self._disk.make_folder(self.folder)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise storage_error(error, path, "opening the log") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 21, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise StorageError(
                str(path), f"process {holder} writes this log: stop it, or choose another folder"
            ) from None
        with suppress(OSError):  # a full disk can still be read
            os.pwrite(lock, b"%20d\n" % os.getpid(), 0)
        return lock

    def _open(self) -> None:
        for leftover in self.folder.glob(f".*{SUFFIX}.tmp"):
            leftover.unlink()
        self._shelf.find(self.folder)
        if self._shelf.segments:
            self._disk.sync_folder(self.folder)  # who made the last segment may have died before doing so
            self._reopen(None)
        else:
            self._create(0, 0)

    def _reopen(self, acknowledged: int | None) -> None:
        """Read the last segment from the disk and cut off what was never acknowledged; None: see what was."""
        segment, disk = self._last, self._disk
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._file = disk.open(segment.path)
        if acknowledged is not None:
            disk.truncate(self._file, segment.size)
        disk.sync(self._file)
        disk.forget(self._file)
        data = read_file(segment.path)
        content = examine(segment.path, segment.header, data, acknowledged)
        if content.size < len(data):
            disk.truncate(self._file, content.size)
            disk.sync(self._file)
        segment.offsets, segment.size = content.offsets, content.size
        end = self._shelf.end = segment.first + len(content.offsets)
        if content.torn:
            self.cut = Cut(str(segment.path), end, len(data) - content.size, content.torn)
            log.warning("%s: cut off %d bytes that were never acknowledged", segment.path, self.cut.bytes)

    # inside: writing

    def _commit(self, records: list[bytes]) -> int:
        """Write records as one batch and sync it once; where they begin."""
        with self._writer:
            self._check_open()
            first = self.end
            if records:
                self._guarded(lambda: self._write(records))
            return first

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something to the last segment; unless it ends well, the segment is not written to again."""
        path = self._last.path
        try:
            if self._suspect:
                self._reopen(self.end)
                self._next_segment()
            self._suspect = True
            action()
            self._suspect = False
        except OSError as error:
            self._give_back()
            raise storage_error(error, path, "writing") from error

    def _give_back(self) -> None:
        """Free the room that a failed write has taken; that it works is of no importance."""
        with suppress(OSError):
            self._disk.truncate(self._file, self._last.size)

    def _write(self, records: list[bytes]) -> None:
        segment = self._last
        old = self._clock() - segment.header.made >= self._segment_age
        if segment.first < self.end and (old or segment.size >= self._segment_bytes):
            self._next_segment()
            segment = self._last
        batch = encode_batch(segment.header, self.end, records)
        self._disk.write(self._file, batch, segment.size)
        self._disk.sync(self._file)
        self.syncs += 1
        starts = array("Q")
        offset = segment.size + BATCH_BYTES
        for record in records:
            starts.append(offset)
            offset += RECORD_BYTES + len(record)
        self._shelf.grow(starts, offset + len(END))

    def _next_segment(self) -> None:
        last = self._last
        if last.first < self.end:
            self._create(self.end, last.first)
        else:
            self._create(self.end, last.header.previous)  # takes the place of an empty one

    def _create(self, first: int, previous: int) -> None:
        """A new last segment: complete before it has its name, and its name on disk before it is used."""
        path = self.folder / file_name(first)
        temporary = path.with_name(f".{path.name}.tmp")
        header = Header(first, previous, self._clock(), int.from_bytes(os.urandom(4), "big"))
        file = self._disk.create(temporary)
        try:
            self._disk.write(file, encode_header(header), 0)
            self._disk.sync(file)
            self._disk.rename(temporary, path)
            self._disk.sync_folder(self.folder)
        except BaseException:
            os.close(file)
            raise
        segment = Segment(path, header)
        segment.offsets = array("Q")
        self._shelf.add(segment)
        if self._file >= 0:
            os.close(self._file)
        self._file = file

    # inside: the end

    def _check_open(self) -> None:
        if self.closed:
            raise Closed(f"log {self.folder}")

    def _release(self) -> None:
        for file in (self._file, self._lock):
            if file >= 0:
                os.close(file)
        self._file = self._lock = -1
