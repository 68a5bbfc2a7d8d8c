"""Group commit: threads that append at the same time share one write and one sync.

One of them leads: it writes for all who wait, wakes them, and leaves what came meanwhile to the first of the
others. So nobody waits for more than the write under way and the next one, and nobody writes alone while
others wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from gossamer.core.errors import StorageError

GROUP_BYTES = 8 * 1024 * 1024
"""Bytes of waiting records that share one write; a single append may be larger."""


class _Entry:
    """One append on its way.

    leads
        Whether its thread is to write for all who wait.
    """

    __slots__ = ("error", "leads", "position", "records", "size", "woken")

    def __init__(self, records: Sequence[bytes]) -> None:
        self.records = records
        self.size = sum(map(len, records))
        self.position = -1
        self.error: Exception | None = None
        self.leads = False
        self.woken = threading.Event()


class Group:
    """Where appends wait.

    write
        Makes records durable, and returns the position of the first; one call at a time.
    """

    def __init__(self, write: Callable[[list[bytes]], int]) -> None:
        self.waiting: deque[_Entry] = deque()
        self._write = write
        self._mutex = threading.Lock()
        self._busy = False

    def append(self, records: Sequence[bytes]) -> int:
        """Have records written, together with others; the position behind them. Raises as writing does."""
        entry = _Entry(records)
        with self._mutex:
            self.waiting.append(entry)
            entry.leads, self._busy = not self._busy, True
        if not entry.leads:
            self._wait(entry)
        if entry.leads:
            self._lead()
        if entry.error is not None:
            raise entry.error
        return entry.position

    def _wait(self, entry: _Entry) -> None:
        try:
            entry.woken.wait()
        except BaseException:  # nobody is left to hear of it, or to lead
            with self._mutex:
                if entry in self.waiting:
                    self.waiting.remove(entry)
                if entry.leads:
                    self._pass_on()
            raise

    def _lead(self) -> None:
        """Write what waits; the entry of this thread is the first of it."""
        with self._mutex:
            group = [self.waiting.popleft()]
            size = group[0].size
            while self.waiting and size + self.waiting[0].size <= GROUP_BYTES:
                group.append(self.waiting.popleft())
                size += group[-1].size
        error: Exception | None = StorageError("log", "whoever wrote for the group was interrupted")
        position = 0
        try:
            position = self._write([record for each in group for record in each.records])
            error = None
        except Exception as failure:
            error = failure
        finally:
            for each in group:
                position += len(each.records)
                each.position, each.error = position, error
                each.woken.set()
            with self._mutex:
                self._pass_on()

    def _pass_on(self) -> None:
        if self.waiting:
            self.waiting[0].leads = True
            self.waiting[0].woken.set()
        else:
            self._busy = False
