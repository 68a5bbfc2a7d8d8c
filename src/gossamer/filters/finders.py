"""Finders: which of many constraints of one sort, on one attribute, does a value meet?

Each keeps something under the keys of its constraints and finds what a value meets without trying every key:
by hashing the value, its beginnings, its ends or its parts, or by descending a tree of ranges. What a finder
leaves out is certainly not met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

Under = TypeVar("Under")
Bound = tuple[Any, ...]
"""An end of a range as it sorts: (0, value, -1, 0 or 1 for right before, at or right behind the value)."""
LOWEST: Bound = (-1,)
HIGHEST: Bound = (1,)


class Finder(Generic[Under]):
    """What there is under each key. This one finds the key that is equal."""

    def __init__(self) -> None:
        self.under: dict[Any, Under] = {}

    def put(self, key: Any, under: Under) -> None:
        self.under[key] = under

    def remove(self, key: Any) -> None:
        del self.under[key]

    def find(self, value: Any) -> Iterable[Under]:
        """What is under the keys that a value meets; a little more does no harm."""
        there = self.under.get(value)
        return () if there is None else (there,)


class Present(Finder[Under]):
    """One key, met by every value."""

    def find(self, value: Any) -> Iterable[Under]:
        return self.under.values()


class Unlike(Finder[Under]):
    """Keys that the value is not."""

    def find(self, value: Any) -> Iterable[Under]:
        return (there for key, there in self.under.items() if key != value)


class Beginnings(Finder[Under]):
    """Keys with which the value begins: one look for each length that a key has."""

    def __init__(self) -> None:
        super().__init__()
        self._lengths: Counter[int] = Counter()

    def put(self, key: Any, under: Under) -> None:
        self._lengths[len(key)] += key not in self.under
        super().put(key, under)

    def remove(self, key: Any) -> None:
        super().remove(key)
        self._lengths[len(key)] -= 1
        if not self._lengths[len(key)]:
            del self._lengths[len(key)]

    def find(self, value: Any) -> Iterable[Under]:
        for length in self._lengths:
            if length <= len(value):
                yield from super().find(self._part(value, length))

    def _part(self, value: Any, length: int) -> Any:
        return value[:length]


class Ends(Beginnings[Under]):
    """Keys with which the value ends."""

    def _part(self, value: Any, length: int) -> Any:
        return value[len(value) - length :]


class Parts(Beginnings[Under]):
    """Keys that are somewhere in the value: each part of a length that keys have, or each key if few."""

    def find(self, value: Any) -> Iterable[Under]:
        if len(self.under) <= len(value) * len(self._lengths):
            return (there for key, there in self.under.items() if key in value)
        parts = {value[at : at + n] for n in self._lengths for at in range(len(value) - n + 1)}
        return (self.under[part] for part in parts if part in self.under)


class Ranges(Finder[Under]):
    """Keys are (lower, upper) bounds; finds the ranges that the value lies in.

    Sorted runs, each at least twice as long as the next: what is new joins the shortest ones when somebody
    looks. What was removed stays in its run until half of all is gone.
    """

    def __init__(self) -> None:
        super().__init__()
        self._fresh: list[tuple[Bound, Bound]] = []
        self._runs: list[_Run] = []
        self._gone = 0

    def put(self, key: Any, under: Under) -> None:
        if key not in self.under:
            self._fresh.append(key)
        super().put(key, under)

    def remove(self, key: Any) -> None:
        super().remove(key)
        self._gone += 1

    def find(self, value: Any) -> Iterable[Under]:
        if self._fresh or self._gone > len(self.under):
            self._settle()
        point: Bound = (0, value, 0)
        for run in self._runs:
            for key in run.around(point):
                if key in self.under:
                    yield self.under[key]

    def _settle(self) -> None:
        keys, self._fresh = self._fresh, []
        stale = self._gone > len(self.under)
        self._gone *= not stale
        while self._runs and (stale or len(self._runs[-1].keys) < 2 * len(keys)):
            keys += self._runs.pop().keys
        self._runs.append(_Run(sorted({key for key in keys if key in self.under})))


class _Run:
    """Ranges in order, as a balanced tree: the middle of a part is its root and knows its highest end."""

    def __init__(self, keys: list[tuple[Bound, Bound]]) -> None:
        self.keys = keys
        self._highest: list[Bound] = [upper for _, upper in keys]
        self._raise(0, len(keys))

    def _raise(self, begin: int, end: int) -> Bound:
        if begin >= end:
            return LOWEST
        middle = (begin + end) // 2
        highest = max(self._raise(begin, middle), self._raise(middle + 1, end), self._highest[middle])
        self._highest[middle] = highest
        return highest

    def around(self, point: Bound) -> Iterator[tuple[Bound, Bound]]:
        """The ranges that a point lies in."""
        parts = [(0, len(self.keys))]
        while parts:
            begin, end = parts.pop()
            middle = (begin + end) // 2
            if begin >= end or self._highest[middle] < point:
                continue
            parts.append((begin, middle))
            lower, upper = key = self.keys[middle]
            if lower <= point:
                if point <= upper:
                    yield key
                parts.append((middle + 1, end))
