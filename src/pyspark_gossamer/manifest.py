"""What a sink knows about its batches, in a folder that survives it.

::

    query.json             the query that the folder belongs to
    committed.json         the last batch that is published to its end
    00000000000000000017   the batch that is being published: its events, in the order in which they go out
    progress.json          how many of them have been seen to arrive

Promises: a batch that was committed is never published again. A batch whose publishing was cut short is
published again from what was written down then, and not from what Spark computes a second time, so that a
number always means the same event.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa

from gossamer.core.errors import StorageError

T = TypeVar("T")

QUERY, COMMITTED, PROGRESS, LOCK = "query.json", "committed.json", "progress.json", "lock"
_TEMPORARY = ".tmp"


class Committed(msgspec.Struct, frozen=True):
    """The last batch, and how many events there have been in all."""

    batch: int = -1
    events: int = 0


class Progress(msgspec.Struct, frozen=True):
    """How far the open batch is.

    position
        Where the history of the channel ended before the batch was begun, if somebody could look.
    """

    batch: int
    confirmed: int
    position: int


class SinkManifest:
    """The folder, held by one process at a time: use it with ``with``.

    patience
        Seconds to wait for whoever else holds it.
    """

    def __init__(self, folder: str | Path, query: str, patience: float = 30.0) -> None:
        self.folder = Path(folder)
        self._query = query
        self._patience = patience
        self._lock = -1

    def __enter__(self) -> SinkManifest:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(str(self.folder), f"no manifest can be here: {error.strerror}") from error
        try:
            self._take_lock()
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        os.close(self._lock)

    def _take_lock(self) -> None:
        """A driver that was killed may have left a process that is about to finish its batch: wait for it."""
        end = time.monotonic() + self._patience
        while True:
            try:
                return fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise StorageError(
                        str(self.folder), f"another process has published from here for {self._patience:g} s"
                    ) from None
            time.sleep(0.05)

    def _open(self) -> None:
        for leftover in self.folder.glob(f"*{_TEMPORARY}"):
            leftover.unlink()
        owner = self._read(QUERY, str, "")
        if not owner:
            self._write(QUERY, msgspec.json.encode(self._query))
        elif owner != self._query:
            raise StorageError(
                str(self.folder),
                f"it belongs to query {owner}, and this is {self._query}: with a new checkpoint, "
                "choose a new folder",
            )
        self.committed = self._read(COMMITTED, Committed, Committed())

    # one batch

    def prepared(self, batch: int) -> pa.Table | None:
        """What an earlier attempt at a batch has written down."""
        try:
            with self._path(batch).open("rb") as file:
                return pa.ipc.open_file(pa.BufferReader(file.read())).read_all()
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException) as error:
            raise StorageError(str(self._path(batch)), f"reading failed: {error}") from error

    def prepare(self, batch: int, events: pa.Table, position: int) -> None:
        """Write a batch down before the first of its events goes out."""
        self.advance(Progress(batch, 0, position))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, events.schema) as writer:
            writer.write_table(events)
        self._write(self._path(batch).name, sink.getvalue().to_pybytes())

    def progress(self, batch: int) -> Progress:
        """How far an earlier attempt has come."""
        known = self._read(PROGRESS, Progress, Progress(batch, 0, 0))
        return known if known.batch == batch else Progress(batch, 0, 0)

    def advance(self, progress: Progress) -> None:
        """Events have been seen to arrive. Need not survive a power cut: it costs a repetition at most."""
        self._write(PROGRESS, msgspec.json.encode(progress), sync=False)

    def commit(self, batch: int, events: int) -> None:
        """Everything has arrived."""
        self.committed = Committed(batch, self.committed.events + events)
        self._write(COMMITTED, msgspec.json.encode(self.committed))
        for path in self._batches():
            path.unlink()

    # inside

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch:020d}"

    def _batches(self) -> Iterable[Path]:
        return [path for path in self.folder.iterdir() if path.name.isdecimal()]

    def _read(self, name: str, shape: type[T], otherwise: T) -> T:
        path = self.folder / name
        try:
            return msgspec.json.decode(path.read_bytes(), type=shape)
        except FileNotFoundError:
            return otherwise
        except (OSError, msgspec.MsgspecError) as error:
            raise StorageError(str(path), f"damaged: {error}") from None

    def _write(self, name: str, data: bytes, sync: bool = True) -> None:
        path = self.folder / name
        temporary = path.with_name(f"{name}{_TEMPORARY}")
        try:
            with temporary.open("wb") as file:
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(path)
            if sync:
                folder = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
                os.fsync(folder)
                os.close(folder)
        except OSError as error:
            raise StorageError(str(path), f"writing failed: {error.strerror}") from error
