"""Recognises parcels and answers that have been seen, in bounded memory."""

from __future__ import annotations

from gossamer.core.receipt import Stamp

WINDOW = 4096
MAX_SOURCES = 10_000


class Seen:
    """Remembers the last parcels of each source, or the last answers: one object for each kind.

    A parcel more than ``window`` behind the newest of its source counts as seen: whoever may not deliver
    twice must rather miss it. Of more than ``sources`` sources the one longest silent is forgotten.
    """

    __slots__ = ("_recent", "sources", "window")

    def __init__(self, window: int = WINDOW, sources: int = MAX_SOURCES) -> None:
        self.window, self.sources = window, sources
        self._recent: dict[tuple[str, int], tuple[int, set[int]]] = {}

    def has(self, parcel: tuple[str, int, int]) -> bool:
        """Whether a parcel, by node, incarnation and sequence number, has been seen, or counts as seen."""
        highest, recent = self._recent.get(parcel[:2], (0, ()))
        return parcel[2] in recent or parcel[2] <= highest - self.window

    def add(self, stamp: Stamp) -> bool:
        """Remember a parcel, or an answer by its number; False if it has been seen before."""
        key, sequence = (stamp.node, stamp.incarnation), stamp.sequence or stamp.first
        highest, recent = self._recent.pop(key, (0, set()))
        new = sequence > highest - self.window and sequence not in recent
        if new:
            recent.add(sequence)
            highest = max(highest, sequence)
            if len(recent) > 2 * self.window:
                recent = {each for each in recent if each > highest - self.window}
        self._recent[key] = (highest, recent)
        if len(self._recent) > self.sources:
            del self._recent[next(iter(self._recent))]
        return new
