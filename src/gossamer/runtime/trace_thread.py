"""Writes the segments of a node's trace in a thread of its own, in order.

Promises: the event loop waits for the disk only while MAX_WAITING segments wait already. A segment that could
not be written is logged; the trace is then known to be incomplete, for its last file counts the segments.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

log = logging.getLogger("gossamer")

MAX_WAITING = 8
"""Segments of 50 000 rows that may wait for the disk."""


class TraceThread:
    """Carries out writes one after the other; the thread begins with the first."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "gossamer trace")
        self._waiting: deque[Future[None]] = deque()

    def __call__(self, write: Callable[[], None]) -> None:
        """Write something, after all that was given before."""
        while self._waiting and (self._waiting[0].done() or len(self._waiting) >= MAX_WAITING):
            self._check(self._waiting.popleft())
        self._waiting.append(self._pool.submit(write))

    def _check(self, written: Future[None]) -> None:
        try:
            written.result()
        except Exception as error:
            log.error("a part of the trace was not written: %s", error)

    async def close(self) -> None:
        """Finish what was given."""
        await asyncio.to_thread(self._pool.shutdown)
        while self._waiting:
            self._check(self._waiting.popleft())
