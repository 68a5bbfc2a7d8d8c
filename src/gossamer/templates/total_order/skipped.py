"""Which parcels of a source the order has passed over: what its server tells a source that hears no order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from gossamer.core.receipt import SourceKey
from gossamer.templates.reliable.messages import MAX_SKIPPED, Ranges

MAX_RANGES = 4096
"""Ranges of one source that a node remembers; a source has no more parcels on their way."""
MAX_SILENT = 10_000
"""Sources that have been silent, of which the ranges are still remembered."""


class Skips:
    """The parcels of one source that have no place though a later one has its place.

    Only what lies between two places that this node has heard, with all of the order between them, is passed
    over for sure. A source that speaks of its newest parcel says thereby that none beyond it has a place.
    """

    def __init__(self) -> None:
        self.last = -1
        """Beyond this number every place was heard; negative if no such number is known."""
        self.ranges: dict[int, int] = {}
        """First numbers, and how many."""

    def tear(self) -> None:
        """A part of the order was not heard: numbers beyond the last may have their places in it."""
        self.last = -1

    def heard(self, base: int, high: int) -> None:
        """The source keeps nothing before a number, and has published nothing beyond another, so that none
        beyond has a place; negative if only others say so.
        """
        for first in [first for first, count in self.ranges.items() if first + count <= base]:
            del self.ranges[first]
        if self.last < 0:
            self.last = high

    def placed(self, number: int, fits: bool) -> None:
        """A parcel has its place; one that is too far ahead of its source proves nothing for those before."""
        if not fits:
            self.tear()
        elif self.last < 0:
            self.last = number
        elif number > self.last:
            if number > self.last + 1:
                self.add(self.last + 1, number - self.last - 1)
            self.last = number

    def add(self, first: int, count: int) -> None:
        """These were passed over; the oldest are forgotten where there are too many."""
        self.ranges[first] = max(count, self.ranges.get(first, 0))
        if len(self.ranges) > MAX_RANGES:
            del self.ranges[min(self.ranges)]

    def take(self, skipped: Ranges, confirmed: int) -> None:
        """The server has said what it passed over up to a number."""
        for first, count in skipped:
            if first + count <= confirmed:
                self.add(first, count)

    def upto(self, confirmed: int) -> tuple[int, Ranges]:
        """Up to which number a source may be told that its parcels are acknowledged, and the ranges that have
        to be said with it. A message carries the first of them: the source hears of no number beyond them
        before it has forgotten those.
        """
        due = sorted((first, count) for first, count in self.ranges.items() if first + count <= confirmed)
        if len(due) > MAX_SKIPPED:
            confirmed = due[MAX_SKIPPED][0] - 1
        return confirmed, tuple(due[:MAX_SKIPPED])


class AllSkips(dict[SourceKey, Skips]):
    """The same of all sources that a node may have to tell."""

    def of(self, key: SourceKey) -> Skips:
        """Those of one source."""
        skips = self.get(key)
        if skips is None:
            skips = self[key] = Skips()
        return skips

    def tear(self) -> None:
        """A part of the order was not heard."""
        for skips in self.values():
            skips.tear()

    def tidy(self, known: Iterable[SourceKey]) -> None:
        """Forget sources that are not known any more, unless they come back and have to be told."""
        known = set(known)
        silent = [key for key in self if key not in known]
        for key in silent:
            self[key].tear()
        kept = [key for key in silent if self[key].ranges][-MAX_SILENT:]
        for key in set(silent).difference(kept):
            del self[key]


def among(numbers: Iterable[int], skipped: Ranges, confirmed: int) -> Iterator[int]:
    """The numbers that lie in one of these ranges; one that goes on beyond what is confirmed says nothing."""
    spans = sorted((first, first + count) for first, count in skipped if first + count <= confirmed)
    starts, ends = [first for first, _ in spans], list(accumulate((end for _, end in spans), max))
    for number in numbers:
        at = bisect_right(starts, number) - 1
        if at >= 0 and number < ends[at]:
            yield number
