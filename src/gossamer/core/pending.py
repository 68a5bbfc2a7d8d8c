"""What came for channels that do not run here yet, kept within bounds until the directory has answered."""

from __future__ import annotations

from gossamer.core.wire import Item
from gossamer.core.wire import size as size_of

MAX_HELD = 64
"""Frames of one unknown channel that wait for the directory's answer; also how many such channels."""
MAX_HELD_BYTES = 4 * 1024 * 1024
"""Bytes of all frames that wait so."""


class Hold:
    """Keeps frames per unknown channel; the channel that has waited longest makes room for a new one."""

    __slots__ = ("_bytes", "_items")

    def __init__(self) -> None:
        self._items: dict[int, list[tuple[str, Item]]] = {}
        self._bytes = 0

    def keep(self, channel: int, sender: str, item: Item) -> list[Item]:
        """Hold an item; the items given up for it, which is itself if there is no room."""
        size = size_of(item)
        waiting = self._items.get(channel, [])
        if len(waiting) >= MAX_HELD or size > MAX_HELD_BYTES:
            return [item]
        given_up: list[Item] = []
        while self._bytes + size > MAX_HELD_BYTES or (not waiting and len(self._items) >= MAX_HELD):
            oldest = next(iter(self._items))
            if oldest == channel:
                return [*given_up, item]
            given_up.extend(each for _, each in self.release(oldest))
        self._items.setdefault(channel, waiting).append((sender, item))
        self._bytes += size
        return given_up

    def release(self, channel: int) -> list[tuple[str, Item]]:
        """All that was held for a channel, in order, each with its sender; it is forgotten here."""
        items = self._items.pop(channel, [])
        self._bytes -= sum(size_of(item) for _, item in items)
        return items
