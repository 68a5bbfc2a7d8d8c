"""Writes a node's small values in a thread of its own, many at once (group commit).

Promises: nothing here touches the disk on the event loop. Values are written in the order in which they
were given; all that were given while a commit was under way share the next one. ``then`` is called on the
loop when its values would survive a power cut, and not before: a commit that fails is tried again until it
works or the node closes.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from gossamer.core.errors import StorageError
from gossamer.runtime.state import Pair, State

log = logging.getLogger("gossamer")

AGAIN = 0.2
"""Seconds until a commit that failed is tried again."""

Then = Callable[[], None]


class Writer:
    """The thread that writes the values of one node.

    ends
        Bounds of the node's logs, from any thread.
    stalled
        Takes the error of a commit, and None when one works again; on the event loop.
    """

    def __init__(
        self,
        state: State,
        ends: Callable[[], Mapping[str, tuple[int, int]]],
        stalled: Callable[[StorageError | None], None],
    ) -> None:
        self._state = state
        self._ends = ends
        self._stalled = stalled
        self._loop = asyncio.get_running_loop()
        self._work = threading.Condition()
        self._queue: list[tuple[tuple[Pair, ...], Then | None]] = []
        self._thread: threading.Thread | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._closing = False
        self._error: StorageError | None = None

    # on the event loop

    def write(self, pairs: Iterable[Pair], then: Then | None = None) -> None:
        """Keep values, and call back when they are on disk."""
        changes = tuple(pairs)
        self._state.remember(changes)
        if not self._state.lasting:
            if then is not None:
                then()
            return
        with self._work:
            self._queue.append((changes, then))
            self._work.notify()
        if self._thread is None and not self._closing:
            self._thread = threading.Thread(target=self._run, name="gossamer state", daemon=True)
            self._thread.start()

    async def close(self, seconds: float) -> bool:
        """Write what waits and how far the logs reach, within so many seconds; whether nothing writes now."""
        if self._thread is None and self._state.lasting:
            self.write(())
        self._closing = True
        with self._work:
            self._work.notify()
        if self._thread is None:
            return True
        _, slow = await asyncio.wait({self._ended}, timeout=seconds)
        if slow:
            log.error("the disk took more than %g s: the last small values were not written", seconds)
        else:
            self._thread.join()
        return not slow

    def _written(self, thens: list[Then], recovered: bool) -> None:
        if recovered:
            self._stalled(None)
        for then in thens:
            then()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    # in the thread

    def _run(self) -> None:
        while True:
            with self._work:
                while not self._queue and not self._closing:
                    self._work.wait()
                group, self._queue = self._queue, []
                last = self._closing and not group
            done = self._commit(group)
            if last or not done:
                break
        self._tell(self._end)

    def _commit(self, group: list[tuple[tuple[Pair, ...], Then | None]]) -> bool:
        """Write until it works; False if the node closes before."""
        pairs = [pair for changes, _ in group for pair in changes]
        while True:
            try:
                self._state.write(pairs, self._ends())
            except StorageError as error:
                self._fail(error)
            except Exception as error:  # nothing may end the thread, or effects would wait for ever
                self._fail(StorageError("state", f"writing failed: {error!r}"))
            else:
                recovered, self._error = self._error is not None, None
                if recovered:
                    log.warning("small values can be written again")
                self._tell(self._written, [then for _, then in group if then is not None], recovered)
                return True
            with self._work:
                if self._closing:
                    return False
                self._work.wait(AGAIN)
            pairs = []  # the state remembers what it could not write

    def _fail(self, error: StorageError) -> None:
        if self._error is None or str(self._error) != str(error):
            self._error = error
            log.error("small values are not written, and what depends on them waits: %s", error)
        self._tell(self._stalled, error)

    def _tell(self, *call: object) -> None:
        with suppress(RuntimeError):  # the loop has ended without waiting for the disk
            self._loop.call_soon_threadsafe(*call)  # type: ignore[arg-type]
