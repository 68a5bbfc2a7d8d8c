"""The list of one group, which is its structure (seed 001, III.B).

Whoever fails leaves an open slot. The first newcomer takes the open slot that is nearest to the root; without
one it becomes the last of the list, a leaf. Who failed and returns always becomes a leaf. If no newcomer
comes a leaf may be moved into the open slot (``mend``), those that returned last of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice

import msgspec

from gossamer.templates.ringtree.layout import aware_of, begin, beside, children, parent
from gossamer.templates.ringtree.messages import MAX_ENTRIES, Seat

MAX_GONE = 10_000
"""Nodes that are remembered to have failed."""
MAX_SLOTS = 200_000
"""Slots of one group; a node that claims one beyond gets another."""
LOOKED_AT = 64
"""Slots at the end of the list where one is looked for that may be moved."""


class Holder(msgspec.Struct, gc=False):
    """Who holds a slot, and whether it had failed before."""

    name: str
    returned: bool = False


class Roll:
    """Slots, who holds them, and whose surroundings changed since somebody last asked."""

    def __init__(self, entries: int = 1) -> None:
        self.entries = entries
        self.slots: list[Holder | None] = []
        self.where: dict[str, int] = {}
        self._nearest: list[tuple[int, int]] = []
        """A heap of ranges that have the open slots, and some that are not open any more. A node may claim
        any slot, so that those before it are not listed one by one."""
        self._gone: dict[str, None] = {}
        self._touched: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self.where)

    def at(self, slot: int) -> str:
        """Who holds a slot; empty if it is open or there is none."""
        holder = self.slots[slot] if slot < len(self.slots) else None
        return holder.name if holder else ""

    @property
    def first(self) -> tuple[str, ...]:
        """Who takes events from publishers: ring 0, or if nobody is left there the next one."""
        for ring in range(len(self.slots)):
            ends = begin(ring, self.entries), min(begin(ring + 1, self.entries), len(self.slots))
            held = tuple(islice(filter(None, map(self.at, range(*ends))), MAX_ENTRIES))
            if held:
                return held
        return ()

    @property
    def open(self) -> tuple[int, ...]:
        """Slots that a newcomer may take, the nearest to the root first."""
        if len(self.slots) == len(self.where):
            return ()
        return tuple(slot for slot, holder in enumerate(self.slots) if holder is None)

    def _is_open(self, slot: int) -> bool:
        return slot < len(self.slots) and self.slots[slot] is None

    # who comes and goes

    def join(self, name: str) -> int:
        """Give a node a slot, unless it has one."""
        if name in self.where:
            return self.where[name]
        returned = name in self._gone
        self._gone.pop(name, None)
        opened = len(self.slots) > len(self.where) and not returned
        slot = self._nearest_open() if opened else len(self.slots)
        self._put(slot, Holder(name, returned))
        return slot

    def claim(self, name: str, slot: int) -> bool:
        """Give a node the slot that it says it has, if that is free and the node had not failed."""
        if name in self.where or name in self._gone or self.at(slot) or slot >= MAX_SLOTS:
            return False
        if slot > len(self.slots):
            heappush(self._nearest, (len(self.slots), slot))
            self.slots.extend([None] * (slot - len(self.slots)))
        self._put(slot, Holder(name))
        return True

    def remove(self, name: str, failed: bool = True) -> None:
        """A node has gone: its slot is open; who failed is known again when it returns."""
        slot = self.where.pop(name, None)
        if slot is None:
            return
        if failed:
            self._gone[name] = None
            if len(self._gone) > MAX_GONE:
                del self._gone[next(iter(self._gone))]
        self._leave(slot)

    def _leave(self, slot: int) -> None:
        """A slot is open from now on."""
        self._touch(slot)
        self.slots[slot] = None
        heappush(self._nearest, (slot, slot + 1))
        while self.slots and self.slots[-1] is None:  # open slots at the end are no slots
            self.slots.pop()
        if not self.slots:
            self._nearest.clear()

    def mend(self, slot: int) -> None:
        """Give an open slot to the last of the list; to who returned only if nobody else is behind it."""
        last = self._movable(slot) if self._is_open(slot) else None
        if last is not None:
            before = self.where[last.name]
            self._put(slot, last)  # before its old slot is open: open slots at the end are cut off
            self._leave(before)

    def _movable(self, slot: int) -> Holder | None:
        """Who may be moved to a slot: somebody at the end of the list."""
        ending = self.slots[max(slot + 1, len(self.slots) - LOOKED_AT) :]
        held = [holder for holder in reversed(ending) if holder]
        return next((holder for holder in held if not holder.returned), held[0] if held else None)

    def resize(self, entries: int) -> None:
        """Another number of entry points: everybody has another place."""
        if entries != self.entries:
            self.entries = entries
            self._touched = dict.fromkeys(self.where.values())

    def _put(self, slot: int, holder: Holder) -> None:
        if slot == len(self.slots):
            self.slots.append(holder)
        else:
            self.slots[slot] = holder
        self.where[holder.name] = slot
        self._touch(slot)

    def _nearest_open(self) -> int:
        while True:
            slot, end = heappop(self._nearest)
            if slot + 1 < min(end, len(self.slots)):
                heappush(self._nearest, (slot + 1, end))
            if self._is_open(slot):
                return slot

    # who has to know

    def _touch(self, slot: int) -> None:
        self._touched.update(dict.fromkeys(aware_of(slot, self.entries)))

    def changed(self) -> Iterator[str]:
        """Those whose place or surroundings changed, once each; then nobody, until something changes."""
        touched, self._touched = self._touched, {}
        for slot in touched:
            name = self.at(slot)
            if name:
                yield name

    def lonely(self, name: str) -> bool:
        """Whether a member has no neighbour in its ring."""
        slot = self.where[name]
        near = {beside(slot, self.entries, step) for step in (-1, 1)} - {slot}
        return not any(map(self.at, near))

    def seat(self, name: str, epoch: int, counter: int, group: bytes) -> Seat:
        """What a member has to know."""
        slot, m = self.where[name], self.entries
        left, right = beside(slot, m, -1), beside(slot, m, 1)
        above = parent(slot, m)
        near = (
            "" if above is None else self.at(above),
            *map(self.at, children(slot, m)),
            *((self.at(left), self.at(right)) if left != slot else ("", "")),
            *((self.at(children(left, m)[1]), self.at(children(right, m)[0])) if left != slot else ("", "")),
        )
        return Seat(epoch, counter, group, m, slot, *near)
