"""Carries out what templates ask of storage: one log per channel, in a thread of its own.

Promises: nothing here touches the disk on the event loop. Requests are carried out in the order in which they
were made, and reports come back on the loop in that order. Appends to one channel that wait together share
one sync. What waits is bounded: an append that finds no room is reported with an error and not carried out.

With a state folder the log of a channel is in ``FOLDER/logs/NAME-ID``. Without one it is in memory, behaves
the same, and survives nothing.

A log with damage is neither read nor written: every request to it is reported with the error, until the
template asks for ``Repair``. Sealed segments are checked while nothing else is to be done; damage to them is
reported by a History report with the ticket 0.

Sealed segments may go to an archive too, after what was appended has been reported. A segment that could not
be archived stays in the log; it is tried again with the next one, and when the node starts anew.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from gossamer.core.effect import Append, Appended, History, Read, Repair, Report, Retain, Trim
from gossamer.core.errors import Damaged, Full, GossamerError, StorageError, TooLarge
from gossamer.runtime.state import LOGS, State
from gossamer.storage.cipher import Cipher
from gossamer.storage.disk import Disk
from gossamer.storage.memory import AnyLog, MemoryLog

log = logging.getLogger("gossamer")

Request = Append | Read | Trim | Retain | Repair
_Done = tuple[int, Report]

MAX_BYTES = 64 * 1024 * 1024
"""Bytes that may wait for the disk; a single append may be larger if nothing else waits."""
SEGMENTS = 4
"""Into how many segments the time is cut for which a log is kept: that much later whole ones are trimmed."""
MAX_REQUESTS = 65_536
"""Requests that may wait for the disk."""


class Storage:
    """The logs of one node.

    folder
        Where the node keeps its state; empty keeps logs in memory.
    name
        The name of a channel, for people who look into the folder.
    report
        Takes a channel and a report, on the event loop.
    open_log
        Opens the log of a folder.
    state
        The node's small values, which know how far its logs reach.
    damage
        Per channel, what is wrong with its log.
    archive
        Archives what the log of a channel has sealed, if that is wanted.
    waiting
        Bytes that wait for the disk.
    failed
        How often archiving failed.
    """

    def __init__(
        self,
        folder: str | Path,
        name: Callable[[int], str],
        report: Callable[[int, Report], None],
        *,
        max_bytes: int = MAX_BYTES,
        max_requests: int = MAX_REQUESTS,
        open_log: Callable[[Path], AnyLog] | None = None,
        state: State | None = None,
        cipher: Cipher | None = None,
        archive: Callable[[str, Any], object] | None = None,
    ) -> None:
        self.waiting = 0
        self.failed = 0
        self.damage: dict[int, Damaged] = {}
        self._ends: dict[str, tuple[int, int]] = {}
        self._state = state
        self._cipher = cipher
        self._folder = Path(folder) / LOGS if folder else None
        self._name = name
        self._report = report
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._open_log = open_log or self._on_disk
        self._archive = archive
        self._archived: dict[int, int] = {}
        """Per channel, where the last sealed segment ended when the archive was last asked to take it."""
        self._safe: dict[int, int] = {}
        """Per channel, the position up to which the archive has taken everything."""
        self._loop = asyncio.get_running_loop()
        self._logs: dict[int, AnyLog] = {}
        self._folders: dict[int, Path] = {}
        self._names: dict[int, str] = {}
        self._said: dict[int, str] = {}
        """Per channel the last error that was logged: while it lasts it is not logged again."""
        self._queue: deque[tuple[Request, str]] = deque()
        self._work = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._closing = False

    # on the event loop

    def request(self, request: Request) -> None:
        """Carry something out and report it later; nothing any more once the node is closing."""
        if self._closing:
            return
        refusal = ""
        size = _size(request)
        if len(self._queue) >= self._max_requests:
            refusal = str(Full("the queue for the disk", self._max_requests))
        elif size and self.waiting and self.waiting + size > self._max_bytes:
            refusal = str(Full("the queue for the disk", self._max_bytes))
        if refusal and isinstance(request, Append):
            request = Append(request.channel, request.ticket, ())
        else:
            self.waiting += size
        self._place(request.channel)
        with self._work:
            self._queue.append((request, refusal))
            self._work.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gossamer storage", daemon=True)
            self._thread.start()

    async def close(self, seconds: float) -> None:
        """Finish what waits, report it and close the logs, within so many seconds."""
        self._closing = True
        if self._thread is None:
            return
        with self._work:
            self._work.notify()
        _, slow = await asyncio.wait({self._ended}, timeout=seconds)
        if slow:
            log.error("the disk took more than %g s: %d bytes were not acknowledged", seconds, self.waiting)
        else:
            self._thread.join()

    @property
    def ends(self) -> dict[str, tuple[int, int]]:
        """Bounds of the logs that are or were open, by folder; from any thread."""
        for channel, each in tuple(self._logs.items()):
            if channel in self._folders and hasattr(each, "bounds"):
                self._ends[self._folders[channel].name] = each.bounds
        return dict(self._ends)

    def _place(self, channel: int) -> None:
        """Name the folder of a channel while its name is known."""
        if self._folder is not None and channel not in self._folders:
            name = self._names[channel] = self._name(channel)
            readable = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:64].lstrip(".")
            self._folders[channel] = self._folder / f"{readable or 'channel'}-{channel:016x}"

    def _hand_over(self, done: list[_Done], size: int) -> None:
        self.waiting -= size
        for channel, report in done:
            self._report(channel, report)

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    # in the thread

    def _run(self) -> None:
        while True:
            with self._work:
                while not self._queue and not self._closing and not self._unchecked():
                    self._work.wait()
                requests = list(self._queue)
                self._queue.clear()
            if not requests and self._closing:
                break
            if not requests:
                self._check()
                continue
            done = self._carry_out(requests)
            self._tell(self._hand_over, done, sum(_size(request) for request, _ in requests))
            self._put_away()
        for channel in tuple(self._logs):
            self._close(channel)
        self._tell(self._end)

    def _tell(self, *call: object) -> None:
        with suppress(RuntimeError):  # the loop has ended without waiting for the disk
            self._loop.call_soon_threadsafe(*call)  # type: ignore[arg-type]

    def _carry_out(self, requests: list[tuple[Request, str]]) -> list[_Done]:
        """Do what is asked for, appends to one channel together where nothing stands between them."""
        done: dict[int, _Done] = {}
        together: dict[int, list[tuple[int, Append]]] = {}
        for number, (request, refusal) in enumerate(requests):
            channel = request.channel
            if isinstance(request, Append) and not refusal:
                together.setdefault(channel, []).append((number, request))
                continue
            done.update(self._append(together.pop(channel, [])))
            if isinstance(request, Append):
                done[number] = channel, Appended(request.ticket, self._end_of(channel), refusal)
            elif isinstance(request, Read):
                done[number] = channel, self._read(request, refusal)
            elif isinstance(request, Repair):
                done[number] = channel, self._repair(request)
            else:
                self._trim(request)
        for appends in together.values():
            done.update(self._append(appends))
        return [done[number] for number in sorted(done)]

    def _append(self, appends: list[tuple[int, Append]]) -> dict[int, _Done]:
        if not appends:
            return {}
        channel = appends[0][1].channel
        error = ""
        position = 0
        cause: StorageError | None = None
        try:
            opened = self._log(channel)
            if any(at >= 0 and at != end for at, end in _ends(appends, opened.end)):
                if len(appends) > 1:
                    return {number: one for each in appends for number, one in self._append([each]).items()}
                number, append = appends[0]
                refusal = f"the log ends at {opened.end}, and these records belong at {append.at}"
                return {number: (channel, Appended(append.ticket, opened.end, refusal))}
            records = [record for _, append in appends for record in append.records]
            position = opened.append(records) - len(records)
            self._said.pop(channel, None)
        except TooLarge as failure:
            if len(appends) > 1:  # the others are not to blame
                return {number: one for each in appends for number, one in self._append([each]).items()}
            error, position = str(failure), self._end_of(channel)
        except Exception as failure:
            error, position = _words(failure), self._end_of(channel)
            cause = failure if isinstance(failure, StorageError) else None
            self._failed(channel, "nothing was appended to a log", failure)
        done: dict[int, _Done] = {}
        for number, append in appends:
            position += 0 if error else len(append.records)
            done[number] = channel, Appended(append.ticket, position, error, cause)
        return done

    def _read(self, read: Read, refusal: str) -> History:
        try:
            opened = self._log(read.channel)
            position, records = opened.read(read.position, 0 if refusal else read.limit)
            return History(read.ticket, position, tuple(records), opened.begin, opened.end, refusal)
        except Exception as failure:
            opened_already = self._logs.get(read.channel)
            begin, end = (opened_already.begin, opened_already.end) if opened_already else (0, 0)
            self._failed(read.channel, "a log cannot be read", failure)
            damaged = self._in_log(read.channel, failure)
            position = (failure.position or 0) if isinstance(failure, Damaged) else read.position
            final = isinstance(failure, Damaged) and not damaged
            return History(read.ticket, position, (), begin, end, _words(failure), damaged, final)

    def _trim(self, trim: Trim | Retain) -> None:
        try:
            opened = self._log(trim.channel)
            if isinstance(trim, Trim):
                opened.trim(self._archived_before(trim.channel, trim.position))
            elif hasattr(opened, "expired"):  # a log in memory has no segments
                opened.seal_older(trim.seconds / SEGMENTS)  # type: ignore[attr-defined]
                self._put_away()
                expired = opened.expired(trim.seconds, trim.bytes)
                opened.trim(self._archived_before(trim.channel, expired))
        except Exception as failure:
            self._failed(trim.channel, "a log was not trimmed", failure)

    def _archived_before(self, channel: int, position: int) -> int:
        """Up to where a log may be trimmed: what is not archived yet stays."""
        return position if self._archive is None else min(position, self._safe.get(channel, 0))

    # in the thread: damage

    def _failed(self, channel: int, what: str, failure: Exception) -> None:
        said = f"{what}: {_words(failure)}"
        if channel not in self.damage and self._said.get(channel) != said:
            log.error("%s", said)
        self._said[channel] = said
        if isinstance(failure, Damaged) and self.damage.get(channel) is not failure:
            self.damage[channel] = failure
            self._close(channel)

    def _in_log(self, channel: int, failure: Exception) -> bool:
        """Whether an error is damage to the log of a channel, and not to something beside it."""
        folder = self._folders.get(channel)
        return isinstance(failure, Damaged) and folder is not None and failure.file.startswith(str(folder))

    def _close(self, channel: int) -> None:
        opened = self._logs.get(channel)
        if opened is not None:
            self.ends  # noqa: B018  (they outlive the log)
            del self._logs[channel]
            with suppress(GossamerError):
                opened.close()

    def _unchecked(self) -> bool:
        return any(getattr(each, "unchecked", False) for each in self._logs.values())

    def _check(self) -> None:
        """Check a sealed segment of one of the logs, and tell its template if it is damaged."""
        for channel, each in tuple(self._logs.items()):
            if not getattr(each, "unchecked", False):
                continue
            try:
                each.check_next()  # type: ignore[attr-defined]
            except Exception as failure:
                report = History(0, 0, (), each.begin, each.end, _words(failure))
                if isinstance(failure, Damaged):
                    report = History(
                        0, failure.position or 0, (), each.begin, each.end, _words(failure), True
                    )
                self._failed(channel, "a log is damaged", failure)
                self._tell(self._hand_over, [(channel, report)], 0)
            return

    def _repair(self, repair: Repair) -> History:
        channel, folder = repair.channel, self._folders.get(repair.channel)
        try:
            if folder is not None:
                self._set_aside(channel, folder, repair.position)
            elif repair.position >= 0:
                opened = MemoryLog()
                opened.begin = repair.position
                self._logs[channel] = opened
        except Exception as failure:
            log.error("a log was not repaired: %s", _words(failure))
            return History(repair.ticket, 0, (), 0, 0, _words(failure))
        return self._read(Read(channel, repair.ticket, 0, 0), "")

    def _set_aside(self, channel: int, folder: Path, position: int) -> None:
        from gossamer.storage.lock import take_lock
        from gossamer.storage.repair import cut, restart, survey

        state = self._state
        self._close(channel)
        lock = take_lock(folder, Disk())
        try:
            owner = state.id if state is not None else ""
            known = state.logs.get(folder.name, (0, 0)) if state is not None else (0, 0)
            if position >= 0:
                aside, begin = restart(folder, owner, position), position
            else:
                found = survey(folder, known)
                aside, begin = cut(folder, found, owner), found.end
            self._ends[folder.name] = (position if position >= 0 else min(known[0], begin), begin)
            if state is not None:
                state.lower(folder.name, self._ends[folder.name])
        finally:
            os.close(lock)
        self.damage.pop(channel, None)
        log.error("%s: set aside from position %d on: %s", folder, begin, ", ".join(aside) or "nothing")

    def _put_away(self) -> None:
        """Archive segments that have been sealed since the last time."""
        if self._archive is None:
            return
        for channel, each in self._logs.items():
            sealed: list[tuple[int, int]] = getattr(each, "sealed", [])  # a log in memory has none
            if not sealed or sealed[-1][1] == self._archived.get(channel):
                continue
            self._archived[channel] = sealed[-1][1]
            try:
                self._archive(self._names[channel], each)
                self._safe[channel] = sealed[-1][1]
            except Exception as failure:
                self.failed += 1
                log.error("segments stay in the log only, and are tried again: %s", _words(failure))

    def _log(self, channel: int) -> AnyLog:
        if channel in self.damage:
            raise self.damage[channel]
        if channel not in self._logs:
            folder = self._folders.get(channel)
            self._logs[channel] = MemoryLog() if folder is None else self._open_log(folder)
        return self._logs[channel]

    def _on_disk(self, folder: Path) -> AnyLog:
        from gossamer.storage.known import Known

        state = self._state
        if state is None or not state.lasting:
            return _on_disk(folder)
        synced = state.logs.get(folder.name, (0, 0))
        known = Known(state.id, synced, lambda: state.number, str(folder.parent.parent))
        return _on_disk(folder, known=known, cipher=self._cipher)

    def _end_of(self, channel: int) -> int:
        """The next free position, if the log could be opened."""
        opened = self._logs.get(channel)
        return opened.end if opened else 0


def _ends(appends: list[tuple[int, Append]], end: int) -> Iterator[tuple[int, int]]:
    """For each append where its records belong, and where the log will end before it."""
    for _, append in appends:
        yield append.at, end
        end += len(append.records)


def _size(request: Request) -> int:
    return sum(map(len, request.records)) if isinstance(request, Append) else 0


def _words(failure: Exception) -> str:
    """What is told of a failure; nothing may end the thread, or reports would never come."""
    return str(failure) if isinstance(failure, GossamerError) else repr(failure)


def _on_disk(folder: Path, **how: Any) -> AnyLog:
    from gossamer.storage.log import Log  # not on every system; only a node that keeps state needs it

    return Log(folder, **how)
