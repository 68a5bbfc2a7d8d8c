"""Small values of a node in SQLite: WAL, full sync, a checksum for each value and one for all of them.

::

    kept(key, value, checksum)     what services and templates store
    logs(name, begin, end)         bounds of the node's logs that were synced when they were written
    about(name, value)             version, folder id, number of the last commit, sum of all checksums

``commit`` returns when its values would survive a power cut. A failed commit changes nothing on disk. Opening
checks every page and every value, that no row is missing or too many (the sum), and that no commit is missing
that the folder's superblock knows of. Every flaw raises StorageError with the file and the command to run.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

from gossamer.core.errors import Damaged, DiskFull, StorageError
from gossamer.storage.cipher import Cipher

NAME = "state.db"
VERSION = 1
FREE_PAGES = 256
"""Unused pages that the file may hold before some of them are given back."""
_TOKEN = b"gossamer"

Pair = tuple[str, bytes | None]
Ends = Mapping[str, tuple[int, int]]

_SCHEMA = """
CREATE TABLE kept (key TEXT PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE logs (name TEXT PRIMARY KEY, begin INTEGER NOT NULL, end INTEGER NOT NULL,
    checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""


class Database:
    """The database of a folder, open for one process.

    first
        The number of the commit with which a new one begins.
    number
        Of the last commit.
    values
        What was there when it was opened, or committed since.
    logs
        Per folder of a log the positions between which records were synced: lower bounds.
    """

    def __init__(self, path: Path, id: str, cipher: Cipher | None, new: bool, first: int = 1) -> None:
        self.path = path
        self.id = id
        self.number = first if new else 0
        self.values: dict[str, bytes] = {}
        self.logs: dict[str, tuple[int, int]] = {}
        self._cipher = cipher
        self._sum = 0
        self._digests: dict[str, int] = {}
        self._log_digests: dict[str, int] = {}
        try:
            # the mode rw creates nothing: SQLite would call an absent database an empty one
            mode = "rwc" if new else "rw"
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                timeout=0.0,
            )
        except sqlite3.Error as error:
            raise _error(error, path, "opening") from error
        try:
            self._prepare(new)
            if new:
                self._create()
            else:
                self._load()
        except sqlite3.Error as error:
            self._db.close()
            raise _error(error, path, "opening") from error
        except BaseException:
            self._db.close()
            raise

    def commit(self, pairs: Iterable[Pair], logs: Ends) -> None:
        """Write values, forget those that are None, and note the bounds of logs; raises StorageError."""
        changes = dict(pairs)
        bounds = {name: each for name, each in logs.items() if self.logs.get(name) != each}
        if not changes and not bounds:
            return
        sealed = {key: self._sealed(key, value) for key, value in changes.items() if value is not None}
        # of what is on disk: a checksum of the text of an encrypted value would let it be guessed
        new = {key: (data, _digest(key, data)) for key, data in sealed.items()}
        noted = {name: _digest(f"{name}/{each}", b"") for name, each in bounds.items()}
        total = self._sum
        for key in changes:
            total ^= self._digests.get(key, 0) ^ (new[key][1] if key in new else 0)
        for name, digest in noted.items():
            total ^= self._log_digests.get(name, 0) ^ digest
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", [(key, *row) for key, row in new.items()]
            )
            db.executemany("DELETE FROM kept WHERE key = ?", [(key,) for key in changes if key not in new])
            db.executemany(
                "INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?)",
                [(name, *bounds[name], digest) for name, digest in noted.items()],
            )
            self._note(self.number + 1, total)
            db.execute("COMMIT")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise _error(error, self.path, "writing") from error
        self.number += 1
        self._sum = total
        for key in changes:
            self.values.pop(key, None)
            self._digests.pop(key, None)
            if key in new:
                self.values[key], self._digests[key] = changes[key], new[key][1]  # type: ignore[assignment]
        self.logs.update(bounds)
        self._log_digests.update(noted)
        if self.number % FREE_PAGES == 0:
            self._give_back()

    def close(self) -> None:
        """Move everything to the main file, as far as there is room, and let it go."""
        try:
            self._db.close()
        except sqlite3.Error as error:
            raise _error(error, self.path, "closing") from error

    # inside

    def _prepare(self, new: bool) -> None:
        for pragma in (
            "locking_mode = EXCLUSIVE",  # before the first use of the WAL: no shared memory is needed
            "cell_size_check = ON",
            *(["auto_vacuum = INCREMENTAL"] if new else []),  # it writes, and a full disk can still be read
            "journal_mode = WAL",
            "synchronous = FULL",
        ):
            self._db.execute(f"PRAGMA {pragma}")

    def _create(self) -> None:
        self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA}")
        token = self._cipher.seal(_TOKEN, b"") if self._cipher else b""
        self._db.executemany(
            "INSERT INTO about VALUES (?, ?)", [("version", VERSION), ("id", self.id), ("cipher", token)]
        )
        self._note(self.number, 0)
        self._db.execute("COMMIT")

    def _note(self, number: int, total: int) -> None:
        digest = _digest(f"{self.id}/{number}", total.to_bytes(8, "big", signed=True))
        self._db.executemany(
            "INSERT OR REPLACE INTO about VALUES (?, ?)",
            [("commit", number), ("sum", total), ("checksum", digest)],
        )

    def _load(self) -> None:
        path = str(self.path)
        flaws = [row[0] for row in self._db.execute("PRAGMA integrity_check(3)")]
        if flaws != ["ok"]:
            raise Damaged(path, "; ".join(flaws).replace("\n", " "), None, str(self.path.parent))
        about = dict(self._db.execute("SELECT name, value FROM about"))
        if about.get("version") != VERSION:
            raise StorageError(path, f"it has version {about.get('version')}; this program reads {VERSION}")
        if about.get("id") != self.id:
            reason = f"it belongs to folder {about.get('id')}, and this is folder {self.id}"
            raise Damaged(path, reason, None, str(self.path.parent))
        self._check_cipher(about.get("cipher"))
        for key, value, told in self._db.execute("SELECT key, value, checksum FROM kept"):
            if not isinstance(value, bytes) or told != _digest(key, value):
                raise Damaged(path, f"the checksum of {key!r} is wrong", None, str(self.path.parent))
            self.values[key] = self._opened(key, value)
            self._digests[key] = told
        for name, begin, end, told in self._db.execute("SELECT name, begin, end, checksum FROM logs"):
            if told != _digest(f"{name}/{(begin, end)}", b""):
                reason = f"the checksum of the bounds of log {name!r} is wrong"
                raise Damaged(path, reason, None, str(self.path.parent))
            self.logs[name] = (begin, end)
            self._log_digests[name] = told
        for digest in (*self._digests.values(), *self._log_digests.values()):
            self._sum ^= digest
        number = about.get("commit")
        content = self._sum.to_bytes(8, "big", signed=True)
        whole = about.get("sum") == self._sum and isinstance(number, int)
        if not whole or about.get("checksum") != _digest(f"{self.id}/{number}", content):
            raise Damaged(path, "rows are missing or too many", None, str(self.path.parent))
        self.number = int(number or 0)

    def _check_cipher(self, token: object) -> None:
        if not isinstance(token, bytes):
            raise Damaged(str(self.path), "it does not say how it is encrypted", None, str(self.path.parent))
        if token and self._cipher is None:
            raise StorageError(str(self.path), "it is encrypted: give the node its storage_key")
        if not token and self._cipher is not None:
            raise StorageError(str(self.path), "it is not encrypted, and the node has a storage_key")
        if self._cipher is not None:
            self._cipher.open(token, b"", str(self.path))

    def _sealed(self, key: str, value: bytes) -> bytes:
        return self._cipher.seal(value, key.encode()) if self._cipher else value

    def _opened(self, key: str, value: bytes) -> bytes:
        if not isinstance(value, bytes):
            raise Damaged(str(self.path), f"{key!r} has no bytes", None, str(self.path.parent))
        return self._cipher.open(value, key.encode(), str(self.path)) if self._cipher else value

    def _give_back(self) -> None:
        """Shrink the file by pages that nothing uses; that it works is of no importance."""
        try:
            free = self._db.execute("PRAGMA freelist_count").fetchone()[0]
            if free > FREE_PAGES:
                self._db.execute(f"PRAGMA incremental_vacuum({FREE_PAGES})").fetchall()
        except sqlite3.Error:
            return


def rows(path: Path, cipher: Cipher | None) -> dict[str, bytes]:
    """Values of a damaged database that can be read and whose checksums are right, as far as they go."""
    values: dict[str, bytes] = {}
    try:
        db = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=0.0
        )
    except sqlite3.Error:
        return values
    try:
        for key, value, told in db.execute("SELECT key, value, checksum FROM kept"):
            if isinstance(value, bytes) and told == _digest(key, value):
                values[key] = cipher.open(value, str(key).encode(), str(path)) if cipher else value
    except (sqlite3.Error, StorageError, TypeError, UnicodeError):
        pass  # what was read so far is what there is
    finally:
        db.close()
    return values


def folder_id(path: Path) -> str | None:
    """The id of the folder that a database belongs to, if it can be read."""
    try:
        db = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=0.0
        )
    except sqlite3.Error:
        return None
    try:
        found = db.execute("SELECT value FROM about WHERE name = 'id'").fetchone()
    except sqlite3.Error:
        return None
    finally:
        db.close()
    return found[0] if found and isinstance(found[0], str) else None


def files(path: Path) -> list[Path]:
    """A database and what SQLite keeps beside it, as far as they are there."""
    names = (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))
    return [each for each in names if each.exists()]


def _digest(key: str, value: bytes) -> int:
    """A checksum over key and value, in the range of an integer of SQLite."""
    name = key.encode()
    content = len(name).to_bytes(4, "big") + name + value
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big", signed=True)


def _error(error: sqlite3.Error, path: Path, doing: str) -> StorageError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(str(path), f"{doing} failed: no room")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageError(str(path), f"{doing} failed: another process uses it")
    if code == sqlite3.SQLITE_READONLY and os.access(path, os.W_OK):
        return Damaged(str(path), "its header calls it read-only", None, str(path.parent))
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
        return Damaged(str(path), str(error), None, str(path.parent))
    return StorageError(str(path), f"{doing} failed: {error}")


def remove(path: Path) -> None:
    """Remove a database and its WAL, if they are there."""
    for each in files(path):
        os.unlink(each)
