"""What waits to be sent on a connection: the most important first, and of those alike the first that came.

Control messages count as events without a wish, so that what is said about parcels of ordinary priority does
not overtake them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from gossamer.core.control import Control
from gossamer.core.event import DEFAULT_PRIORITY
from gossamer.core.wire import Item


class Outbox:
    """Items by priority."""

    __slots__ = ("_lanes", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        """What the frames of all items take."""
        self._lanes: dict[int, deque[tuple[Item, int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def __iter__(self) -> Iterator[Item]:
        for lane in self._lanes.values():
            for item, _ in lane:
                yield item

    def put(self, item: Item, size: int) -> None:
        """One more, whose frame takes so many bytes."""
        priority = DEFAULT_PRIORITY if isinstance(item, Control) else item.qos.priority
        self._lanes.setdefault(priority, deque()).append((item, size))
        self.bytes += size

    def take(self) -> Item:
        """What leaves next; there is something."""
        priority = max(self._lanes)
        lane = self._lanes[priority]
        item, size = lane.popleft()
        if not lane:
            del self._lanes[priority]
        self.bytes -= size
        return item

    def clear(self) -> list[Item]:
        """All of it, in the order in which it would have left."""
        items = []
        while self:
            items.append(self.take())
        return items
