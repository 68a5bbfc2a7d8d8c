"""A keeper whose seat remembers in its next life: nothing counts here before it is on disk.

All of it is small and short-lived: once everybody has delivered an entry it is in the history, and only the
state that came of it is kept here, anew after every few hundred entries.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from gossamer.consensus.log import RaftLog
from gossamer.consensus.messages import Entry, History, Number, Positions, Tip, Voters
from gossamer.consensus.node import RaftNode
from gossamer.consensus.stores import MemoryStore
from gossamer.core.context import Context
from gossamer.core.errors import StorageError
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import SourceKey
from gossamer.core.wire import decode, encode

T = TypeVar("T", bound=msgspec.Struct)
STEP = 256
"""Entries after which the state is written anew."""


class HardState(msgspec.Struct, frozen=True, array_like=True):
    history: History
    term: Number
    voted: str


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    history: History
    base: Number
    base_term: Number
    seats: Voters
    positions: Positions
    number: Number
    tip: Tip = ("", 0, 0)


class DiskStore(MemoryStore):
    """Keeps on the disk of its node; ``open`` it before use."""

    durable = True
    _put: Callable[[str, bytes | None, int], None]

    def __init__(self, at_hand: Callable[[SourceKey, int], Parcel | None]) -> None:
        super().__init__(at_hand)
        self._base = 0
        self._last = 0
        """The last entry that was given to the disk."""
        self._safe = 0
        self._ticket = 0
        self._stored = 0
        """The tickets of the last value that was given to the disk, and of the last that is there."""
        self._oath = 0
        """The ticket of the last oath."""
        self._marks: deque[tuple[int, int, int]] = deque()
        """Tickets, each with the entries and parcels that are kept once its value is on disk."""

    @property
    def safe(self) -> int:
        return self._safe

    @property
    def sworn(self) -> bool:
        return self._oath <= self._stored

    def _store(self, key: str, value: bytes | None) -> None:
        self._ticket += 1
        self._put(key, value, self._ticket)

    def stored(self, ctx: Context, raft: RaftNode, ticket: int) -> None:
        """Values are on disk up to a ticket."""
        self._stored = max(self._stored, ticket)
        kept: int | None = None
        while self._marks and self._marks[0][0] <= self._stored:
            _, kept, self._safe = self._marks.popleft()
        if kept is not None and raft.record is not None:
            raft.kept(ctx, kept)

    def _mark(self, ctx: Context, raft: RaftNode) -> None:
        """All that was given to the disk counts when it is there."""
        assert raft.record is not None
        self._marks.append((self._ticket, raft.record.last, self.held))
        if self._ticket <= self._stored:
            self.stored(ctx, raft, self._stored)
        if not raft.leads:
            raft.answer(ctx)

    def open(self, ctx: Context, raft: RaftNode) -> None:
        """Take up what earlier lives left, if there is anything.

        A voter whose state was lost is another voter: it has another life, so that neither its votes nor its
        acknowledgements count for the one that it was.
        """
        self._put = ctx.store
        self.life = int.from_bytes(ctx.stored("life") or b"", "big")
        if not self.life:
            self.life = ctx.incarnation
            self._store("life", self.life.to_bytes(8, "big"))
        state, hard_state = self._read(ctx, "state", Snapshot), self._read(ctx, "oath", HardState)
        if state is None or hard_state is None or hard_state.history != state.history:
            return
        record = RaftLog(*msgspec.structs.astuple(state)[1:])
        while (entry := self._read(ctx, f"entry/{record.last + 1}", Entry)) is not None:
            record.append(entry)
        self._base, self._last = record.base, record.last
        for index in range(record.base + 1, record.last + 1):
            frame = ctx.stored(f"parcel/{index}")
            parcel = decode(frame) if frame else None
            if isinstance(parcel, Parcel):
                super().put(index, parcel)
        self.held = record.base
        raft.restore(ctx, hard_state.history, hard_state.term, hard_state.voted, record)
        self.gather(record, raft.commit_index)
        self._safe = self.held

    def _read(self, ctx: Context, key: str, kind: type[T]) -> T | None:
        data = ctx.stored(key)
        if data is None:
            return None
        try:
            return msgspec.msgpack.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise StorageError(f"{ctx.channel}/{key}", f"makes no sense: {error}") from None

    def _write(self, key: str, value: msgspec.Struct) -> None:
        self._store(key, msgspec.msgpack.encode(value))

    def hard_state(self, ctx: Context, raft: RaftNode, then: Callable[[Context], None]) -> None:
        self._swear(raft)
        super().hard_state(ctx, raft, then)

    def _swear(self, raft: RaftNode) -> None:
        self._write("oath", HardState(raft.history, raft.term, raft.voted))
        self._oath = self._ticket

    def entries(self, ctx: Context, raft: RaftNode) -> None:
        record = raft.record
        assert record is not None
        for index in range(max(self._last, record.base) + 1, record.last + 1):
            self._write(f"entry/{index}", record.entry(index))
        self._last = max(self._last, record.last)
        self._mark(ctx, raft)

    def gathered(self, ctx: Context, raft: RaftNode) -> None:
        self._mark(ctx, raft)

    def put(self, index: int, parcel: Parcel) -> None:
        super().put(index, parcel)
        self._store(f"parcel/{index}", encode(parcel))

    def cut(self, index: int) -> None:
        super().cut(index)
        for each in range(max(index, self._base) + 1, self._last + 1):
            self._store(f"entry/{each}", None)
        self._last = min(self._last, max(index, self._base))
        self._safe = min(self._safe, index)
        self._marks.clear()  # what was given to the disk before is no longer what counts

    def _forget(self, index: int) -> None:
        super()._forget(index)
        self._store(f"parcel/{index}", None)

    def renew(self, raft: RaftNode) -> None:
        assert raft.record is not None
        super().renew(raft)
        for each in range(self._base + 1, self._last + 1):
            self._store(f"entry/{each}", None)
        self._last = 0
        self._sum_up(raft, raft.record)
        self._swear(raft)

    def go_on(self, raft: RaftNode) -> None:
        assert raft.record is not None
        self._sum_up(raft, raft.record)
        self._swear(raft)

    def trim(self, index: int, raft: RaftNode) -> None:
        record = raft.record
        if record is not None and record.base - self._base >= STEP:
            super().trim(index, raft)
            self._sum_up(raft, record)

    def _sum_up(self, raft: RaftNode, record: RaftLog) -> None:
        self._write("state", Snapshot(raft.history, *record.state()))
        for each in range(self._base + 1, min(record.base, self._last) + 1):
            self._store(f"entry/{each}", None)
        self._base = record.base
        self._last = max(self._last, record.base)


class LeftOnDisk(msgspec.Struct, frozen=True):
    """What a voter left on disk, for repairs while its node does not run.

    seats
        The voters, as far as this one knew.
    number
        How many records its log must have: the order up to there is summed up.
    parcels
        Frames that follow, each with its position, up to the first that is missing.
    """

    seats: Voters
    number: int
    parcels: tuple[tuple[int, bytes], ...]


VOTER_KEY = re.compile(r"(?P<channel>.+?)/(?:life|state|oath|entry/\d+|parcel/\d+)", re.DOTALL)
"""Keys under which a voter of a channel keeps its state."""


def left(values: Mapping[str, bytes], channel: str) -> LeftOnDisk | None:
    """What the values of a node say of its voter on a channel; None if there is no such voter."""
    try:
        state = msgspec.msgpack.decode(values[f"{channel}/state"], type=Snapshot)
        record = RaftLog(*msgspec.structs.astuple(state)[1:])
        while (data := values.get(f"{channel}/entry/{record.last + 1}")) is not None:
            record.append(msgspec.msgpack.decode(data, type=Entry))
    except (KeyError, msgspec.MsgspecError):
        return None
    parcels: list[tuple[int, bytes]] = []
    for index in range(record.base + 1, record.last + 1):
        if record.entry(index).source and not record.void(index, record.last):
            frame = values.get(f"{channel}/parcel/{index}")
            if frame is None:
                break
            parcels.append((record.number + len(parcels), frame))
    return LeftOnDisk(record.seats, record.number, tuple(parcels))
