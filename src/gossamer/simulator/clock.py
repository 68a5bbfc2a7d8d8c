"""Virtual time: a clock that only moves when something happens, and the heap of what will happen.

Promises: things happen in order of (instant, priority, serial), so two at one instant never change places,
whatever their handlers are. The serial counts per clock; nothing here looks at a real clock. One entry
costs one tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

FAULT, NETWORK, TIMER, APPLICATION = 0, 1, 2, 3
"""Priorities at one instant: first faults begin and end, then items arrive, then wakes, then applications."""

Handler = Callable[[Any, Any], None]
Entry = tuple[int, int, int, Handler, Any, Any]

_COMPACT_FROM = 1024
"""Cancelled entries below which the heap is not worth rebuilding."""


class Clock:
    """Virtual nanoseconds since the beginning of the world, and the heap.

    now
        The instant of what happens at the moment.
    happened
        How many entries have been carried out.
    """

    __slots__ = ("_cancelled", "_heap", "_serial", "happened", "now")

    def __init__(self) -> None:
        self.now = 0
        self.happened = 0
        self._serial = 0
        self._heap: list[Entry] = []
        self._cancelled: set[int] = set()

    def __len__(self) -> int:
        """How many entries wait, cancelled ones aside."""
        return len(self._heap) - len(self._cancelled)

    def schedule(
        self, at: int, priority: int, handler: Handler, first: Any = None, second: Any = None
    ) -> int:
        """Call ``handler(first, second)`` at an instant, now if it has passed; a handle to cancel it by."""
        serial = self._serial = self._serial + 1
        heappush(self._heap, (at if at > self.now else self.now, priority, serial, handler, first, second))
        return serial

    def appoint(self, at: int, handler: Handler, first: Any = None, second: Any = None) -> None:
        """A fault: as if scheduled, but at once if it is time, so that what is done next finds it there."""
        if at <= self.now:
            handler(first, second)
        else:
            self.schedule(at, FAULT, handler, first, second)

    def cancel(self, handle: int) -> None:
        """Take back an entry that has not happened yet."""
        cancelled = self._cancelled
        cancelled.add(handle)
        if len(cancelled) >= _COMPACT_FROM and 2 * len(cancelled) > len(self._heap):
            self._heap[:] = [entry for entry in self._heap if entry[2] not in cancelled]
            heapify(self._heap)
            cancelled.clear()

    def run(self, until: int) -> None:
        """Carry out all that is due up to and at an instant; then it is that instant."""
        heap, cancelled = self._heap, self._cancelled
        while heap and heap[0][0] <= until:
            at, _, serial, handler, first, second = heappop(heap)
            if cancelled and serial in cancelled:
                cancelled.remove(serial)
                continue
            self.now = at
            self.happened += 1
            handler(first, second)
        if until > self.now:
            self.now = until
