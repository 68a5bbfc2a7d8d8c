"""Parcels that came lately: for whoever asks after an announcement, and for links that are new."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from gossamer.core.parcel import Parcel
from gossamer.templates.multiring.messages import Id


def id_of(parcel: Parcel) -> Id:
    """What a parcel is announced by."""
    stamp = parcel.stamp
    return (stamp.node, stamp.incarnation, stamp.sequence)


class Kept:
    """A parcel, who it came from (None if it began here), and when."""

    __slots__ = ("at", "parcel", "via")

    def __init__(self, parcel: Parcel, via: str | None, at: int) -> None:
        self.parcel, self.via, self.at = parcel, via, at


class Store:
    """The last parcels, within a number and bytes; the oldest are forgotten."""

    __slots__ = ("_bytes", "_forgets", "_kept", "_most", "_most_bytes", "_order")

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: dict[Id, Kept] = {}
        self._order: deque[Id] = deque()
        self._bytes = 0
        self._forgets = False

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, parcel: Id) -> Kept | None:
        """A parcel, if it is still here."""
        return self._kept.get(parcel)

    def add(self, parcel: Parcel, via: str | None, now: int) -> Id:
        """Keep a parcel that was not here; its id."""
        key = id_of(parcel)
        if key not in self._kept:
            self._order.append(key)
            self._bytes += parcel.size
        self._kept[key] = Kept(parcel, via, now)
        while len(self._kept) > self._most or (self._bytes > self._most_bytes and len(self._kept) > 1):
            self._forgets = True
            oldest = self._kept.pop(self._order.popleft())
            self._bytes -= oldest.parcel.size
        return key

    def span(self, now: int) -> int | None:
        """How far back it reaches, in nanoseconds; None if nothing had to be forgotten yet."""
        return now - self._kept[self._order[0]].at if self._forgets else None

    def since(self, instant: int) -> Iterator[Id]:
        """What came from an instant on, the newest first."""
        for key in reversed(self._order):
            if self._kept[key].at < instant:
                return
            yield key
