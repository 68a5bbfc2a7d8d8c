"""An append-only log in a folder: records with consecutive positions from 0, in segments.

Promises:

- ``append`` returns when its records would survive a power cut, and they are there wholly or not at all.
  Whoever waits at the same time shares one sync (group commit).
- Records keep their positions for ever; readers see acknowledged records only.
- Opening cuts off a batch that is not complete, and says so (``cut``), unless records are known to have been
  synced there: ``bounds`` beside the segments and the node's database know up to where. Everything else that
  does not fit is damage, and raises StorageError with file and position: when the log is opened for the chain
  of segments, the last one and as many sealed ones as ``check_bytes`` allows; for others by ``check_next``,
  by ``verify`` or when they are first read. An open that raises has changed nothing.
- All segments carry the id of the node's folder, and batches the number of the last commit of its database:
  a log of another folder, or a database that is older than the log, is refused.
- One writer: the folder is locked, also against another Log of the same process.

A failed write or sync acknowledges nothing. After a failed sync memory may show bytes that the disk does not
have, and syncing again would call them safe. So nothing more is written to that segment: the next ``append``
cuts it back to what was acknowledged, reads that again from the disk, checks it, and goes on in a new
segment. While the reason lasts, each ``append`` raises it again; the log can be read all the while.

One thing cannot be known: damage after a power cut to the very last batch that looks exactly like a torn
write.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gossamer.core.errors import Closed, Damaged, TooLarge
from gossamer.core.names import nanoseconds
from gossamer.storage.cipher import Cipher
from gossamer.storage.disk import Disk, read_file, storage_error
from gossamer.storage.group import Group
from gossamer.storage.known import Known
from gossamer.storage.lock import take_lock
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
from gossamer.storage.superblock import NOBODY, Superblock

log = logging.getLogger("gossamer")

SEGMENT_BYTES = 32 * 1024 * 1024
SEGMENT_SECONDS = 3600.0
MAX_APPEND = 1024 * 1024 * 1024

BOUNDS = "bounds"
KIND = "log"
CHECK_BYTES = 256 * 1024 * 1024
"""Bytes of sealed segments that are checked when a log is opened, the newest first."""


class Log:
    """The log in a folder, open for one writer and any number of readers among its threads.

    segment_bytes, segment_seconds
        A segment is sealed by the first append that finds it as large or as old as this.
    clock
        Nanoseconds since 1970, for the age of segments.
    known
        What the node knows of the log.
    cipher
        Encrypts records, if that is wanted.
    check_bytes
        Bytes of sealed segments that are checked now.
    lock
        A descriptor that holds the lock of the folder already.
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
        known: Known | None = None,
        cipher: Cipher | None = None,
        check_bytes: int = CHECK_BYTES,
        lock: int = -1,
    ) -> None:
        self.folder = Path(folder)
        self._known = known or Known()
        self._cipher = cipher
        self._bounds: Superblock | None = None
        self._unchecked: list[int] = []
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
        self._lock = os.dup(lock) if lock >= 0 else take_lock(self.folder, self._disk)
        try:
            self._open(check_bytes)
        except OSError as error:
            self._release()
            raise storage_error(error, self.folder, "opening the log") from error
        except Damaged as error:
            self._release()
            raise self._known.named(error, self.folder) from None
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
    def bounds(self) -> tuple[int, int]:
        """Positions between which all records were synced and none were trimmed, as the folder says."""
        return (self._bounds.bounds.begin, self.end) if self._bounds is not None else (0, 0)

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
        first, records = self._shelf.read(position, limit)
        if self._cipher is not None:
            records = self._cipher.open_records(records, first, str(self.folder))
        return first, records

    def verify(self) -> int:
        """Check every byte of the log; how many records it has. Raises StorageError."""
        self._check_open()
        return self._shelf.verify()

    @property
    def unchecked(self) -> bool:
        """Whether there are sealed segments that were not checked when the log was opened."""
        return bool(self._unchecked)

    def check_next(self) -> bool:
        """Check one sealed segment that nobody has checked; whether more are left. Raises StorageError."""
        while self._unchecked:
            if self._shelf.check(self._unchecked.pop()):
                break
        return bool(self._unchecked)

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

    def seal_older(self, seconds: float) -> None:
        """End the last segment, if it was begun so long ago and has any records; 0 sets no limit."""
        if seconds and self._clock() - self._last.header.made >= nanoseconds(seconds):
            self.seal()

    def trim(self, position: int) -> int:
        """Remove sealed segments that hold nothing from a position on; where the log begins then."""
        with self._writer:
            self._check_open()
            shelf = self._shelf
            firsts = [each.first for each in shelf.segments[1:] if each.first <= position]
            if firsts and self._bounds is not None:
                self._bounds.advance(firsts[-1])
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

    def expired(self, seconds: float, size: int) -> int:
        """The position before which whole segments are older than so many seconds, or beyond so many bytes.

        0 sets no limit; the last segment always stays.
        """
        return self._shelf.expired(self._clock() - nanoseconds(seconds) if seconds else 0, size)

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

    def _open(self, check_bytes: int) -> None:
        for leftover in self.folder.glob(f".*{SUFFIX}.tmp"):
            leftover.unlink()
        self._shelf.find(self.folder)
        bounds = self._bounds = Superblock.open(self.folder / BOUNDS, KIND)
        known = self._known = self._known.within(bounds)
        known.check_segments(self._shelf.segments, bounds, self.folder, self._cipher is not None)
        if self._shelf.segments:
            self._disk.sync_folder(self.folder)  # its writer may have died before it did so
            self._unchecked = self._shelf.check_newest(check_bytes)
            self._reopen(None)
        else:
            begin = known.synced[0]
            if bounds is None:
                self._bounds = Superblock.create(
                    self.folder / BOUNDS, KIND, known.owner or NOBODY, begin, begin
                )
            self._shelf.end = begin
            self._create(begin, begin)

    def _reopen(self, acknowledged: int | None) -> None:
        """Read the last segment from the disk and cut off what is no part of the log; None: see what is."""
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
        self._known.check_end(segment, content)
        if content.size < len(data):
            disk.truncate(self._file, content.size)
            disk.sync(self._file)
        segment.offsets, segment.size = content.offsets, content.size
        end = self._shelf.end = segment.first + len(content.offsets)
        if content.torn:
            self.cut = Cut(str(segment.path), end, len(data) - content.size, content.torn)
            log.warning(
                "%s: cut off %d bytes behind position %d: a batch that was not complete",
                segment.path,
                self.cut.bytes,
                end,
            )

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
        if self._cipher is not None:
            records = self._cipher.seal_records(records, self.end)
        batch = encode_batch(segment.header, self.end, records, self._known.commit())
        self._disk.write(self._file, batch, segment.size)
        self._disk.sync(self._file)
        self.syncs += 1
        starts = array("Q")
        offset = segment.size + BATCH_BYTES
        for record in records:
            starts.append(offset)
            offset += RECORD_BYTES + len(record)
        self._shelf.grow(starts, offset + len(END))
        self._reach()

    def _reach(self) -> None:
        """Note up to where records are synced."""
        assert self._bounds is not None
        self._bounds.reach(self._bounds.bounds.begin, self.end)

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
        salt = int.from_bytes(os.urandom(4), "big")
        header = Header(first, previous, self._clock(), salt, self._known.owner, self._cipher is not None)
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
        if self._bounds is not None:
            self._bounds.close()
