"""Small values of a node that survive it: what services and templates store by key.

In a folder they are in ``state.db`` (see ``gossamer.storage.database``). ``identity`` beside it names the
folder and the last commit, so that a database that was removed, replaced or set back is told from a new
folder. ``keep`` returns when its values would survive a power cut. Values that could not be written are
written with the next ``keep``.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from gossamer.core.errors import Damaged, StorageError
from gossamer.storage.cipher import Cipher
from gossamer.storage.database import NAME, Database, Ends, Pair, remove
from gossamer.storage.disk import Disk, storage_error
from gossamer.storage.superblock import Superblock, new_id

__all__ = ["IDENTITY", "LOGS", "Pair", "State", "closed", "opened"]

IDENTITY = "identity"
KIND = "folder"
LOGS = "logs"
"""Folder of the logs, beside the database."""


class State:
    """The values of one node: in a folder, or with an empty name in memory, where they survive nothing.

    values
        What is kept, by key, written or not.
    id
        Of the folder; empty in memory.
    """

    def __init__(self, folder: str | Path, cipher: Cipher | None = None) -> None:
        self.values: dict[str, bytes] = {}
        self.id = ""
        self.commits = 0
        """How many commits this life has synced."""
        self._unwritten: dict[str, bytes | None] = {}
        self._lowered: dict[str, tuple[int, int]] = {}
        self._mutex = threading.Lock()
        self._database: Database | None = None
        self._identity: Superblock | None = None
        self._lock: int | None = None
        self._folder = Path(folder) if folder else None
        if self._folder is not None:
            try:
                self._open(self._folder, cipher)
            except OSError as error:
                self.close()
                raise storage_error(error, self._folder, "opening") from error
            except StorageError:
                self.close()
                raise

    @property
    def lasting(self) -> bool:
        """Whether they survive this process."""
        return self._folder is not None

    @property
    def number(self) -> int:
        """The number of the last commit that is on disk."""
        return self._database.number if self._database is not None else 0

    @property
    def logs(self) -> Mapping[str, tuple[int, int]]:
        """Bounds of the node's logs, as they were last written or lowered."""
        known = self._database.logs if self._database is not None else {}
        with self._mutex:
            return {**known, **self._lowered}

    def remember(self, pairs: Iterable[Pair]) -> None:
        """Change values in memory; ``write`` is to follow."""
        for key, value in pairs:
            self.values.pop(key, None)
            if value is not None:
                self.values[key] = value

    def write(self, pairs: Iterable[Pair], logs: Ends | None = None) -> None:
        """Write values to the disk, from any one thread; raises StorageError, and then the next call does."""
        if self._database is None:
            return
        assert self._identity is not None
        self._unwritten.update(pairs)
        with self._mutex:
            lowered = dict(self._lowered)
        known = self._database.logs
        # a bound that was read before a log was opened again says less than what is known
        bounds = {name: each for name, each in (logs or {}).items() if each[1] >= known.get(name, (0, 0))[1]}
        self._database.commit(self._unwritten.items(), {**bounds, **lowered})
        self._unwritten = {}
        with self._mutex:
            for name, each in lowered.items():
                if self._lowered.get(name) == each:
                    del self._lowered[name]
        self.commits += 1
        self._identity.reach(0, self._database.number)

    def lower(self, log: str, bounds: tuple[int, int]) -> None:
        """A log was repaired, and reaches no further any more; on disk with the next ``write``."""
        with self._mutex:
            self._lowered[log] = bounds

    def keep(self, pairs: Iterable[Pair]) -> None:
        """Keep values, or forget those that are None; raises StorageError."""
        changes = tuple(pairs)
        self.remember(changes)
        self.write(changes)

    def close(self) -> None:
        """Let the folder go; there is nothing left to write."""
        if self._database is not None:
            self._database.close()
            self._database = None
        if self._identity is not None:
            self._identity.close()
            self._identity = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # inside

    def _open(self, folder: Path, cipher: Cipher | None) -> None:
        Disk().make_folder(folder)
        self._lock = _locked(folder / "lock")
        path = folder / NAME
        self._identity = identity = Superblock.open(folder / IDENTITY, KIND) or self._begin(folder)
        self.id, known = identity.bounds.id, identity.bounds.end
        if known and not path.exists():
            reason = f"it is missing, and this folder is not new: it had {known} commits"
            raise Damaged(str(path), reason, None, str(folder))
        if not known:
            remove(path)  # nothing was kept before the first commit was noted
        self._database = Database(path, self.id, cipher, new=not known)
        if self._database.number < known:
            reason = f"it ends with commit {self._database.number}, and commit {known} was synced"
            raise Damaged(str(path), reason, None, str(folder))
        identity.reach(0, self._database.number)
        if not known:
            identity.settle()
        self.values = dict(self._database.values)

    def _begin(self, folder: Path) -> Superblock:
        """A new folder gets its id; one that has anything in it is not new."""
        path = folder / IDENTITY
        for other in (folder / NAME, folder / LOGS):
            if other.exists():
                reason = f"it is missing, and {other.name} is here"
                raise Damaged(str(path), reason, None, str(folder))
        return Superblock.create(path, KIND, new_id())


async def opened(folder: str | Path, cipher: Cipher | None = None) -> State:
    """Open a folder in a thread: reading all of it, and the first syncs, take as long as the disk does."""
    if not folder:
        return State("")
    opening = asyncio.get_running_loop().run_in_executor(None, State, folder, cipher)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_let_go)
        raise


def _let_go(opening: asyncio.Future[State]) -> None:
    """The node that wanted a folder is gone."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def closed(state: State) -> None:
    """Let a folder go in a thread: what is still in its write-ahead log may be copied then."""
    if state.lasting:
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, state.close))


def _locked(path: Path) -> int | None:
    """Hold a lock that ends with the process; None where the system has none of this kind."""
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StorageError(
            str(path), "another node uses this folder: give each node one of its own"
        ) from None
    return descriptor
