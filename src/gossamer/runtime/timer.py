"""One timer of the event loop, for protocol logic that says when it wants to be called next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gossamer.core.names import NANOSECONDS


class Alarm:
    """Calls back at the instant it was last set to; instants are nanoseconds as ``now`` tells them."""

    def __init__(self, rings: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._rings = rings
        self._at: int | None = None
        self._handle: asyncio.TimerHandle | None = None

    def now(self) -> int:
        return int(self._loop.time() * NANOSECONDS)

    def set(self, at: int | None) -> None:
        if at == self._at:
            return
        self.cancel()
        self._at = at
        if at is not None:
            self._handle = self._loop.call_at(at / NANOSECONDS, self._ring)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._at = self._handle = None

    def _ring(self) -> None:
        self._at = self._handle = None
        self._rings()
