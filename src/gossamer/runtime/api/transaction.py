"""Transactions: events that appear together or not at all.

They travel in one parcel, which is delivered as a whole or not at all; a reader that wants some of them by
its criteria gets those together. A subscriber that gives up events when its queue is full may give up some.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from gossamer.core.event import NO_ENVELOPE, Envelope

if TYPE_CHECKING:
    from gossamer.runtime.api.publisher import Outlet


class Transaction:
    """Collects events; they leave when its block ends, unless that raises."""

    def __init__(self, channel: Outlet) -> None:
        self._channel = channel
        self._events: list[tuple[Any, Envelope]] = []
        self.numbers = range(0)
        """Of the events, once they have left."""

    def publish(self, payload: Any = b"", envelope: Envelope = NO_ENVELOPE) -> None:
        """One more event."""
        self._events.append((payload, envelope))

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        events, self._events = self._events, []
        if kind is None and events:
            self.numbers = await self._channel.publish_together(events)
