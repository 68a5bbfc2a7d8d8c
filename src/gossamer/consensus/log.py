"""The record of a Raft group: entries from some index on, and what came of all before them. Pure state."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gossamer.consensus.messages import MAX_POSITIONS, Entry, Positions, Tip, Voters
from gossamer.core.receipt import SourceKey


class RaftLog:
    """Entries base + 1 … last.

    base, base_term
        The last index that is summed up and gone, and its term.
    number
        How many parcels had a place up to there.
    tip
        The last of these parcels: a log must have it as its record ``number`` - 1.
    """

    __slots__ = (
        "_entries",
        "_positions",
        "_seated",
        "_seats",
        "_voids",
        "base",
        "base_term",
        "number",
        "tip",
    )

    def __init__(
        self,
        base: int,
        base_term: int,
        seats: Voters,
        positions: Positions = (),
        number: int = 0,
        tip: Tip = ("", 0, 0),
    ) -> None:
        self.base = base
        self.base_term = base_term
        self.number = number
        self.tip = tip
        self._seats = seats
        self._positions: dict[SourceKey, int] = {(name, life): number for name, life, number in positions}
        self._entries: list[Entry] = []
        self._seated: list[int] = []
        """Indexes of entries that change the seats."""
        self._voids: dict[int, int] = {}
        """Entries that are void, each with the index of the entry that says so."""

    @property
    def last(self) -> int:
        """The greatest index."""
        return self.base + len(self._entries)

    def term(self, index: int) -> int | None:
        """The term of an entry; None if it is not here."""
        if index == self.base:
            return self.base_term
        return self._entries[index - self.base - 1].term if self.base < index <= self.last else None

    def entry(self, index: int) -> Entry:
        return self._entries[index - self.base - 1]

    def entries(self, first: int, count: int) -> tuple[Entry, ...]:
        """Up to so many entries, from an index on that is not summed up."""
        start = first - self.base - 1
        assert start >= 0
        return tuple(self._entries[start : start + count])

    @property
    def seats(self) -> Voters:
        """Who has a seat: what the latest entry about it says, decided or not."""
        return self.entry(self._seated[-1]).seats if self._seated else self._seats

    @property
    def seated(self) -> int:
        """The index of that entry; the base if it is gone."""
        return self._seated[-1] if self._seated else self.base

    def append(self, entry: Entry) -> None:
        self._entries.append(entry)
        if entry.seats:
            self._seated.append(self.last)
        if entry.voids:
            self._voids[entry.voids] = self.last

    def void(self, index: int, commit_index: int) -> bool:
        """Whether an entry is void, as far as is decided."""
        return self._voids.get(index, commit_index + 1) <= commit_index

    def valid(self, first: int, count: int, commit_index: int) -> tuple[Entry, ...]:
        """The same entries; those that are void say nothing."""
        return tuple(
            Entry(entry.term) if self.void(index, commit_index) else entry
            for index, entry in enumerate(self.entries(first, count), first)
        )

    def cut(self, index: int) -> None:
        """Entries after an index are void."""
        del self._entries[max(0, index - self.base) :]
        while self._seated and self._seated[-1] > index:
            self._seated.pop()
        self._voids = {each: by for each, by in self._voids.items() if by <= index}

    def compact(self, index: int) -> None:
        """Sum up entries up to an index."""
        index = min(index, self.last)
        if index <= self.base:
            return
        gone = self._entries[: index - self.base]
        self.base_term = gone[-1].term
        for place, entry in enumerate(gone, self.base + 1):
            if entry.source and place not in self._voids:
                self.number += 1
                self.tip = (*entry.key, entry.sequence)
            if entry.seats:
                self._seats = entry.seats
        _count(self._positions, gone)
        del self._entries[: len(gone)]
        self._seated = [each for each in self._seated if each > index]
        self._voids = {each: by for each, by in self._voids.items() if each > index}
        self.base = index

    def positions(self) -> dict[SourceKey, int]:
        """Per source the last parcel that has a place, decided or not."""
        positions = dict(self._positions)
        _count(positions, self._entries)
        return positions

    def state(self) -> tuple[int, int, Voters, Positions, int, Tip]:
        """All that came of the entries up to the base; a record may begin with it."""
        positions = tuple((name, life, number) for (name, life), number in self._positions.items())
        return self.base, self.base_term, self._seats, positions, self.number, self.tip

    def covers(self, index: int, term: int) -> bool:
        """Whether this record has an entry, or has it summed up."""
        return index < self.base or self.term(index) == term

    def moved(self, base: int, term: int, seats: Voters) -> RaftLog:
        """The same parcels in the same order, as entries of one term behind another base."""
        _, _, _, positions, number, tip = self.state()
        record, shift = RaftLog(base, 0, seats, positions, number, tip), base - self.base
        for entry in self._entries:
            voids = entry.voids and entry.voids + shift
            record.append(msgspec.structs.replace(entry, term=term, seats=(), voids=voids))
        return record

    def contradicts(self, after: int, entries: Iterable[Entry], commit_index: int) -> bool:
        """Whether entries are others than those that are decided here."""
        return any(
            self.base < index <= commit_index and self.term(index) != entry.term
            for index, entry in enumerate(entries, after + 1)
        )

    def merge(self, after: int, entries: Iterable[Entry]) -> int:
        """Take entries that are not here, instead of those that contradict them; up to where it stood."""
        stood = self.last
        for index, entry in enumerate(entries, after + 1):
            if index <= self.base or self.term(index) == entry.term:
                continue
            if index <= self.last:
                self.cut(index - 1)
                stood = index - 1
            self.append(entry)
        return stood


def _count(positions: dict[SourceKey, int], entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.source:
            key = entry.key
            positions.pop(key, None)
            positions[key] = entry.sequence
    while len(positions) > MAX_POSITIONS:  # the sources that have been silent longest
        del positions[next(iter(positions))]
