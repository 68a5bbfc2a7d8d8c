"""How a Raft group is set up, and how a seat keeps what it must not forget."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gossamer.consensus.log import RaftLog
from gossamer.consensus.messages import MAX_FETCHED, Entry
from gossamer.core.context import Context
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import SourceKey

if TYPE_CHECKING:
    from gossamer.consensus.node import RaftNode

UNLIMITED = 2**63 - 1


class RaftSettings(msgspec.Struct, frozen=True):
    """How many seats; seconds.

    retry
        Until a message that was not answered is written again.
    heartbeat
        Between signs of life of the one who leads.
    patience
        Without a sign of life of a leader that is thought to live, until somebody else stands.
    """

    seats: int = 5
    retry: float = 0.2
    heartbeat: float = 0.5
    patience: float = 4.0


class MemoryStore:
    """Keeps what a seat must not forget: entries, and the parcels that they are about. Here in memory.

    A place is told only when a majority of the seats has its parcel, so that what was told can be delivered
    even if the source and the leader are gone. Both are kept until everybody has delivered them.

    at_hand
        Looks for a parcel of a source among those that have arrived.
    held
        The index up to which the parcels of all entries are here.
    """

    durable = False
    """Whether a later life remembers."""

    def __init__(self, at_hand: Callable[[SourceKey, int], Parcel | None]) -> None:
        self.held = 0
        self.life = 0
        """The life in which this voter began to remember; 0 if it does not remember earlier lives."""
        self.numbered = 0
        """How many parcels had a place in a history that was lost and that its log has."""
        self.logged = UNLIMITED
        """Entries beyond are needed here, whoever has delivered them."""
        self._at_hand = at_hand
        self._parcels: dict[int, Parcel] = {}
        self._indexes: dict[tuple[SourceKey, int], int] = {}

    def hard_state(self, ctx: Context, raft: RaftNode, then: Callable[[Context], None]) -> None:
        """Term and vote have changed; go on when they are kept."""
        then(ctx)

    def entries(self, ctx: Context, raft: RaftNode) -> None:
        """Entries were appended, or cut and appended; ``raft.kept`` is called when they are kept."""
        assert raft.record is not None
        raft.kept(ctx, raft.record.last)
        raft.answer(ctx)

    def gathered(self, ctx: Context, raft: RaftNode) -> None:
        """Parcels of entries were taken; ``raft.kept`` is called when they are kept."""
        raft.kept(ctx, raft.written)
        raft.answer(ctx)

    @property
    def safe(self) -> int:
        """The index up to which the parcels of all entries are kept."""
        return self.held

    @property
    def sworn(self) -> bool:
        """Whether the last oath is kept."""
        return True

    def gather(self, record: RaftLog, commit_index: int) -> bool:
        """Take the parcels of entries that have arrived; whether more is held than before."""
        index = before = max(min(self.held, record.last), record.base)
        while index < record.last:
            entry = record.entry(index + 1)
            if entry.source and not record.void(index + 1, commit_index) and not self._take(index + 1, entry):
                break
            index += 1
        self.held = index
        return index > before

    def _take(self, index: int, entry: Entry) -> bool:
        key = entry.key
        known = self._parcels.get(index)
        if known is not None and known.stamp.key == key and known.stamp.sequence == entry.sequence:
            return True
        parcel = self._at_hand(key, entry.sequence)
        if parcel is not None:
            self.put(index, parcel)
        return parcel is not None

    def put(self, index: int, parcel: Parcel) -> None:
        """The parcel of an entry is here."""
        self._parcels[index] = parcel
        self._indexes[parcel.stamp.key, parcel.stamp.sequence] = index

    def get(self, index: int) -> Parcel | None:
        return self._parcels.get(index)

    def find(self, key: SourceKey, number: int) -> Parcel | None:
        """A parcel of a source, if it is kept."""
        index = self._indexes.get((key, number))
        return None if index is None else self._parcels.get(index)

    def lacking(self, record: RaftLog, commit_index: int) -> list[int]:
        """The first entries whose parcels are not here."""
        start = max(self.held, record.base) + 1
        return [
            index
            for index, entry in enumerate(record.entries(start, 4 * MAX_FETCHED), start)
            if entry.source and index not in self._parcels and not record.void(index, commit_index)
        ][:MAX_FETCHED]

    def cut(self, index: int) -> None:
        """Entries after an index are void."""
        self.held = min(self.held, index)
        for each in [each for each in self._parcels if each > index]:
            self._forget(each)

    def renew(self, raft: RaftNode) -> None:
        """The Raft group has another record."""
        self.cut(0)

    def go_on(self, raft: RaftNode) -> None:
        """The record goes on in another history."""

    def trim(self, index: int, raft: RaftNode) -> None:
        """Everybody has delivered everything up to an index."""
        for each in [each for each in self._parcels if each <= index]:
            self._forget(each)

    def _forget(self, index: int) -> None:
        stamp = self._parcels.pop(index).stamp
        if self._indexes.get((stamp.key, stamp.sequence)) == index:
            del self._indexes[stamp.key, stamp.sequence]
