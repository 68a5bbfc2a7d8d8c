"""The state folder of a node that does not run: look through it, repair it, read all that can be read.

``look`` and ``salvage`` change nothing. ``plan`` says what a repair would do, and ``carry_out`` does it:

- A log ends before its first damage; everything behind goes to ``damaged/`` inside its folder.
- A database that is damaged, missing or older than its folder goes to ``damaged/``. Values that can be read
  are taken over, except what a voter must not forget: its node is another voter then, and takes the order
  from the other voters. Where there are none, its log is the history.
- ``identity`` and ``bounds`` are written anew from the rest.

No byte is deleted. Nothing here needs more memory than the database and one segment.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gossamer.consensus.disk_store import VOTER_KEY, LeftOnDisk, left
from gossamer.core.errors import ConfigError, Damaged, StorageError
from gossamer.core.names import channel_id
from gossamer.overlay.registry.service import Registry
from gossamer.runtime.state import IDENTITY, KIND, LOGS
from gossamer.storage import database
from gossamer.storage.cipher import Cipher
from gossamer.storage.database import Database
from gossamer.storage.disk import Disk, read_file, storage_error
from gossamer.storage.known import Known
from gossamer.storage.lock import LOCK
from gossamer.storage.log import BOUNDS, Log
from gossamer.storage.repair import DAMAGED, Finding, Survey, copy_aside, cut, paths, readable, survey
from gossamer.storage.superblock import Bounds, Superblock, new_id, read_slots

Progress = Callable[[str, int, int], None]
"""Takes what is read, how many files are done, and how many there are."""

MAX_RESCUED = 64 * 1024 * 1024
"""Bytes of records behind damage that a repair takes into memory to append them again."""


class Place(msgspec.Struct, frozen=True):
    """What a command is about.

    state
        The state folder of a node; None for a log that belongs to no node.
    logs
        Folders of logs.
    """

    state: Path | None
    logs: tuple[Path, ...]


def place_of(folder: Path) -> Place:
    """What a folder is: that of a node, or of one log; raises ConfigError."""
    folder = folder.absolute()
    if not folder.is_dir():
        raise ConfigError("there is no such folder", file=str(folder))
    if any((folder / name).exists() for name in (IDENTITY, database.NAME, LOGS)):
        logs = sorted(each for each in (folder / LOGS).glob("*") if each.is_dir())
        return Place(folder, tuple(logs))
    if (folder / BOUNDS).exists() or paths(folder):
        above = folder.parent.parent
        inside = folder.parent.name == LOGS and (above / IDENTITY).exists()
        return Place(above if inside else None, (folder,))
    raise ConfigError("this is neither the state folder of a node nor the folder of a log", file=str(folder))


@contextmanager
def locked(place: Place) -> Iterator[int]:
    """Keep nodes from the folder meanwhile: the descriptor that does, or -1 where there never was a node.

    Raises StorageError if a node runs in it. Creates nothing.
    """
    folder = place.state or place.logs[0]
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield -1  # a node makes it before anything else
        return
    except OSError as error:
        raise storage_error(error, folder / LOCK, "opening") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StorageError(str(folder), "a running node uses this folder: stop the node first") from None
    try:
        yield lock
    finally:
        os.close(lock)


# looking


class Look(msgspec.Struct):
    """What was found in a folder.

    id
        Of the folder, as most of its files say.
    commits, values
        Number of the last commit of the database, and how many values it has.
    findings
        What is wrong with ``identity`` and with the database.
    lost_database
        Whether the database cannot be used as it is.
    """

    folder: str
    id: str = ""
    commits: int = 0
    values: int = 0
    findings: list[Finding] = []
    logs: list[Survey] = []
    lost_database: bool = False

    @property
    def whole(self) -> bool:
        """Whether nothing that was synced is missing."""
        return not self.findings and not any(each.damage for each in self.logs)


class Found(msgspec.Struct):
    """A folder as it is, with what a repair needs to know beyond ``look``."""

    place: Place
    look: Look
    cipher: Cipher | None
    values: dict[str, bytes]
    identity: Bounds | None
    ends: dict[str, tuple[int, int]]


def examine(place: Place, cipher: Cipher | None, progress: Progress | None = None) -> Found:
    """Read every byte of a folder; raises StorageError where the system or the key prevents it."""
    look = Look(str(place.state or place.logs[0]))
    found = Found(place, look, cipher, {}, None, {})
    if place.state is None:
        look.logs = [survey(each, progress=_named(progress, each)) for each in place.logs]
        look.id = look.logs[0].owner or ""
        return found
    _read_identity(place.state, found)
    with _copied_database(place.state) as folder:  # SQLite changes files even where it only reads
        copy = Path(folder) / database.NAME
        look.id = _id(place, found, database.folder_id(copy))
        if found.identity is not None and found.identity.id != look.id:
            _flaw(look, IDENTITY, f"it belongs to folder {found.identity.id}, and this is folder {look.id}")
        _read_database(place.state, copy, found)
    known = {*place.logs, *((place.state / LOGS / name) for name, (_, end) in found.ends.items() if end)}
    for each in sorted(known) if len(place.logs) != 1 else place.logs:
        synced = found.ends.get(each.name, (0, 0))
        look.logs.append(survey(each, synced, _named(progress, each), look.id))
    mark = max((each.mark for each in look.logs), default=0)
    if not look.lost_database and look.commits < mark:
        reason = f"it ends with commit {look.commits}, and a log was written after commit {mark}"
        _flaw(look, database.NAME, reason, lost=True)
    return found


def _read_identity(folder: Path, found: Found) -> None:
    path = folder / IDENTITY
    try:
        found.identity = read_slots(path, KIND, read_file(path))
    except FileNotFoundError:
        _flaw(found.look, IDENTITY, "it is missing")
    except Damaged as error:
        _flaw(found.look, IDENTITY, error.what)
    except OSError as error:
        raise storage_error(error, path, "reading") from error


def _copied_database(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder with a copy of the database: where temporary files go, or else in the folder of the node."""
    failures: list[OSError] = []
    for place in (None, folder):
        try:
            made = tempfile.TemporaryDirectory(prefix="gossamer-log-", dir=place)
        except OSError as error:
            failures.append(error)
            continue
        try:
            for each in database.files(folder / database.NAME):
                if not each.name.endswith("-shm"):
                    shutil.copyfile(each, Path(made.name) / each.name)
        except OSError as error:
            made.cleanup()
            failures.append(error)
        else:
            return made
    raise storage_error(failures[0], folder / database.NAME, "copying") from failures[0]


def _id(place: Place, found: Found, told: str | None) -> str:
    """The id that most files name; of two that as many name, that of ``identity``."""
    votes: Counter[str] = Counter()
    votes.update([found.identity.id] if found.identity is not None else [])
    votes.update([told] if told else [])
    for folder in place.logs:
        owner = survey_owner(folder)
        votes.update([owner] if owner else [])
    return votes.most_common(1)[0][0] if votes else new_id()


def survey_owner(folder: Path) -> str | None:
    """The folder id that most segments of a log name."""
    from gossamer.storage.segment import HEADER_BYTES, read_header

    votes: Counter[str] = Counter()
    for path in paths(folder):
        try:
            with path.open("rb") as file:
                votes.update([read_header(path, file.read(HEADER_BYTES)).owner])
        except (StorageError, OSError):
            continue
    return votes.most_common(1)[0][0] if votes else None


def _read_database(folder: Path, copy: Path, found: Found) -> None:
    look, path = found.look, folder / database.NAME
    known = found.identity.end if found.identity is not None and found.identity.id == look.id else 0
    if not copy.exists():
        if known or found.identity is None or found.identity.id != look.id:
            _flaw(look, database.NAME, "it is missing", lost=True)
        return
    try:
        opened = Database(copy, look.id, found.cipher, new=False)
        opened.close()
    except Damaged as error:
        _flaw(look, database.NAME, error.what, lost=True)
        if database.folder_id(copy) in (None, look.id):  # values of another folder are none of this node
            found.values = database.rows(copy, found.cipher)
        return
    except StorageError as error:
        raise StorageError(str(path), error.reason) from None
    look.commits, look.values, found.values, found.ends = (
        opened.number,
        len(opened.values),
        opened.values,
        dict(opened.logs),
    )
    if opened.number < known:
        reason = f"it ends with commit {opened.number}, and commit {known} was synced"
        _flaw(look, database.NAME, reason, lost=True)


def _flaw(look: Look, file: str, reason: str, lost: bool = False) -> None:
    look.findings.append(Finding(file, 0, reason))
    look.lost_database = look.lost_database or lost


def _named(progress: Progress | None, folder: Path) -> Progress | None:
    return (
        None if progress is None else lambda name, done, total: progress(f"{folder.name} {name}", done, total)
    )


# repairing


class LogRepair(msgspec.Struct, frozen=True):
    """What a repair does to one log.

    lost
        Positions: from the first record that is lost to behind the last that is known; equal if none is.
    refill
        Whether other voters have what is lost.
    renew
        The channel whose voter begins anew, because the log lacks what the voter has summed up.
    rescued
        Records that follow the end of the log: of the batch that is damaged, or from the database.
    """

    folder: str
    end: int
    lost: tuple[int, int]
    refill: bool = False
    renew: str = ""
    rescued: tuple[bytes, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """What a repair does.

    files
        Files beside the logs that are written anew.
    taken, dropped
        Values of a lost database that are taken over, and that are not.
    uncertain
        Logs behind whose end the database may have had acknowledged events that cannot be read.
    """

    files: tuple[str, ...]
    logs: tuple[LogRepair, ...]
    taken: int = 0
    dropped: int = 0
    uncertain: tuple[str, ...] = ()

    @property
    def needed(self) -> bool:
        """Whether there is anything to repair."""
        return bool(self.files or self.logs)


def plan(found: Found) -> Plan:
    """What a repair of a folder would do."""
    look = found.look
    voters = _voters(found.values)
    logs = [
        each
        for each in (_log_plan(survey, voters.get(_channel(survey)), found) for survey in look.logs)
        if each is not None
    ]
    files = dict.fromkeys(each.file for each in look.findings)
    taken = len(_taken_over(found.values)) if look.lost_database else 0
    dropped = len(found.values) - taken if look.lost_database else 0
    unknown = [each.folder for each in look.logs if look.lost_database and _channel(each) not in voters]
    return Plan(tuple(files), tuple(logs), taken, dropped, tuple(unknown))


def _voters(values: Mapping[str, bytes]) -> dict[int, tuple[str, LeftOnDisk]]:
    """Voters of the node, by the id of their channel."""
    names = {match["channel"] for key in values if _is_voters(key) and (match := VOTER_KEY.fullmatch(key))}
    found = {name: left(values, name) for name in names}
    return {channel_id(name): (name, each) for name, each in found.items() if each is not None}


def _is_voters(key: str) -> bool:
    services = (f"{Registry.name}/", "subscription ")
    return not key.startswith(services) and VOTER_KEY.fullmatch(key) is not None


def _channel(found: Survey) -> int:
    """The channel of a log, as the name of its folder says."""
    digits = found.folder.rpartition("-")[2]
    try:
        return int(digits, 16)
    except ValueError:
        return -1


def _log_plan(log: Survey, voter: tuple[str, LeftOnDisk] | None, found: Found) -> LogRepair | None:
    """What becomes of one log; None if it stays as it is."""
    name, state = voter if voter is not None else ("", None)
    alone, lost = state is not None and len(state.seats) == 1, found.look.lost_database
    rescued = _following(log, found.cipher) if log.damage else []
    end = log.end + len(rescued)
    short = state is not None and state.number > end
    behind = [] if state is None or short or not alone else [each for at, each in state.parcels if at >= end]
    if lost:
        rescued += behind
    if not log.damage and not rescued:
        return None
    has = end + len(behind)  # a database that stays gives them to the log when its node starts
    known = max([log.known, log.seen, *(at + 1 for at, _ in (state.parcels if state is not None else ()))])
    return LogRepair(
        log.folder,
        log.end,
        (has, max(has, known)),
        refill=state is not None and not alone,
        renew=name if alone and short and not lost else "",
        rescued=tuple(rescued),
    )


def _following(log: Survey, cipher: Cipher | None) -> list[bytes]:
    """Records without a hole behind the last whole batch: those before the damaged one in its batch.

    What would take more memory than that stays in the folder ``damaged``, where ``salvage`` reads it.
    """
    records: list[bytes] = []
    size = 0
    for position, record in readable(Path(log.folder), None, cipher, log.end, log.owner or ""):
        size += len(record)
        if position != log.end + len(records) or size > MAX_RESCUED:
            break
        records.append(record)
    return records


def _taken_over(values: Mapping[str, bytes]) -> dict[str, bytes]:
    return {key: value for key, value in values.items() if not _is_voters(key)}


def carry_out(found: Found, planned: Plan, lock: int) -> list[str]:
    """Repair a folder that is locked; the files in ``damaged/``."""
    place, look = found.place, found.look
    disk = Disk()
    aside: list[str] = []
    ends: dict[str, tuple[int, int]] = {}
    try:
        _check_key(found)
        if place.state is not None and (look.findings or any(each.renew for each in planned.logs)):
            aside += _keep_copies(place.state, disk)
        surveys = {each.folder: each for each in look.logs}
        for each in planned.logs:
            folder, known = Path(each.folder), surveys[each.folder]
            disk.make_folder(folder)
            if known.damage:
                aside += cut(folder, known, known.owner or look.id)
            ends[folder.name] = (min(known.begin, each.end), each.end)
        commits = _write_database(found, planned, ends) if place.state is not None else 0
        for each in planned.logs:
            _append(found, each, commits, lock if place.state is None else -1)
    except OSError as error:
        raise storage_error(error, Path(look.folder), "repairing") from error
    return aside


def _check_key(found: Found) -> None:
    """Raise unless the key is the one that the records were encrypted with."""
    for each in found.look.logs:
        if each.encrypted and found.look.lost_database:
            next(readable(Path(each.folder), None, found.cipher), None)


def _keep_copies(folder: Path, disk: Disk) -> list[str]:
    """Copy database and identity to ``damaged/`` before anything is changed."""
    place, copies = folder / DAMAGED, []
    disk.make_folder(place)
    for path in (*database.files(folder / database.NAME), folder / IDENTITY):
        if not path.exists():
            continue
        copies.append(copy_aside(path, place, disk))
    return copies


def _write_database(found: Found, planned: Plan, ends: dict[str, tuple[int, int]]) -> int:
    """Make database, identity and logs agree; the number of the last commit."""
    state, look = found.place.state, found.look
    assert state is not None
    path = state / database.NAME
    number = look.commits
    if look.lost_database:
        known = found.identity.end if found.identity is not None else 0
        first = max(known, look.commits, *(each.mark for each in look.logs), 0) + 1
        for each in look.logs:
            ends.setdefault(Path(each.folder).name, (each.begin, each.end))
        number = _new_database(path, look.id, found.cipher, first, _taken_over(found.values), ends)
    elif ends and path.exists():
        opened = Database(path, look.id, found.cipher, new=False)
        renewed = {each.renew for each in planned.logs if each.renew}
        gone = [
            key
            for key in opened.values
            if (match := VOTER_KEY.fullmatch(key)) and match["channel"] in renewed
        ]
        opened.commit([(key, None) for key in gone if _is_voters(key)], ends)
        number = opened.number
        opened.close()
    identity = found.identity
    if identity is None or identity.id != look.id or look.lost_database or number > identity.end:
        Superblock.create(state / IDENTITY, KIND, look.id, 0, number).close()
    return number


def _new_database(
    path: Path,
    id: str,
    cipher: Cipher | None,
    first: int,
    values: Mapping[str, bytes],
    ends: Mapping[str, tuple[int, int]],
) -> int:
    """A new database in place of another; the number of its last commit."""
    disk, new = Disk(), path.with_name(f"{path.name}.new")
    database.remove(new)
    opened = Database(new, id, cipher, new=True, first=first)
    opened.commit(values.items(), ends)
    opened.close()
    # the old write-ahead log first: SQLite would take it for that of the new file
    for each in database.files(path)[::-1]:
        disk.remove(each)
    disk.rename(new, path)
    disk.sync_folder(path.parent)
    return opened.number


def _append(found: Found, repair: LogRepair, commits: int, lock: int) -> None:
    """Append what follows the end of a log."""
    if repair.rescued:
        known = Known(found.look.id, (0, 0), lambda: commits)
        with Log(repair.folder, known=known, cipher=found.cipher, check_bytes=0, lock=lock) as log:
            log.append(repair.rescued)


# reading


def unlogged(found: Found, log: Survey) -> list[tuple[int, bytes]]:
    """Position and frame of what only the database has, behind the end of a log."""
    voter = _voters(found.values).get(_channel(log))
    return [each for each in voter[1].parcels if each[0] >= log.seen] if voter is not None else []
