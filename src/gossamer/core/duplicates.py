"""Recognises parcels and answers that have been seen, in bounded memory.

A number comes from outside and may be invented. A number far above those of its source therefore opens a
window of its own and leaves the window of the source in force: no number makes a source count as seen for
ever.
"""

from __future__ import annotations

from gossamer.core.receipt import Stamp

WINDOW = 4096
MAX_SOURCES = 10_000
WINDOWS = 4
"""Windows of one source; of more the one that took the fewest numbers is closed."""
CLOSED = 64
"""Closed windows of one source that are remembered, as first and last number."""
REACH = 16
"""A number belongs to a window up to ``window // REACH`` above its highest."""


class _Window:
    __slots__ = ("count", "high", "low", "recent")

    def __init__(self, number: int) -> None:
        self.low = self.high = number
        self.count = 1
        self.recent = {number}


class _Source:
    """What was taken of one source: windows, the one used last first, and what closed windows covered."""

    __slots__ = ("closed", "windows")

    def __init__(self) -> None:
        self.windows: list[_Window] = []
        self.closed: list[tuple[int, int]] = []

    def has(self, number: int, window: int) -> bool:
        for each in self.windows:
            if number in each.recent or each.low <= number <= each.high - window:
                return True
        return bool(self.closed) and any(low <= number <= high for low, high in self.closed)

    def add(self, number: int, window: int) -> bool:
        if self.has(number, window):
            return False
        reach = max(1, window // REACH)
        for each in self.windows:
            if each.high - window < number <= each.high + reach:
                self._take(each, number, window)
                return True
        self._open(number)
        return True

    def _take(self, each: _Window, number: int, window: int) -> None:
        if each is not self.windows[0]:
            self.windows.remove(each)
            self.windows.insert(0, each)
        each.recent.add(number)
        each.count += 1
        each.low, each.high = min(each.low, number), max(each.high, number)
        if len(each.recent) > 2 * window:
            each.recent = {kept for kept in each.recent if kept > each.high - window}

    def _open(self, number: int) -> None:
        if len(self.windows) == WINDOWS:
            least = min(reversed(self.windows), key=lambda each: each.count)
            self.windows.remove(least)
            self.closed = [*self.closed[1 - CLOSED :], (least.low, least.high)]
        self.windows.insert(0, _Window(number))


class Seen:
    """Remembers the last parcels of each source, or the last answers: one object for each kind.

    Promises
        At most once: a number that was taken is never taken again, while its source is remembered and skips
        more than ``window`` numbers at most ``WINDOWS + CLOSED - 1`` times in one life.
        A new number of a source that skips less is taken unless it is more than ``window`` behind the newest.
        Each number that a stranger invents makes at most ``1 + window // REACH`` numbers count as seen.

    Of more than ``sources`` sources the one longest silent is forgotten.
    """

    __slots__ = ("_recent", "sources", "window")

    def __init__(self, window: int = WINDOW, sources: int = MAX_SOURCES) -> None:
        self.window, self.sources = window, sources
        self._recent: dict[tuple[str, int], _Source] = {}

    def has(self, parcel: tuple[str, int, int]) -> bool:
        """Whether a parcel, by node, incarnation and sequence number, has been seen, or counts as seen."""
        source = self._recent.get(parcel[:2])
        return source is not None and source.has(parcel[2], self.window)

    def add(self, stamp: Stamp) -> bool:
        """Remember a parcel, or an answer by its number; False if it has been seen before."""
        key = (stamp.node, stamp.incarnation)
        source = self._recent.pop(key, None) or _Source()
        self._recent[key] = source
        if len(self._recent) > self.sources:
            del self._recent[next(iter(self._recent))]
        return source.add(stamp.sequence or stamp.first, self.window)
