"""What the leader of a Raft group knows of the other seats, and what it writes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.consensus.membership import next_voters
from gossamer.consensus.messages import (
    MAX_ENTRIES,
    AppendEntries,
    AppendEntriesReply,
    Entry,
    TimeoutNow,
    Voter,
    Voters,
)
from gossamer.core.context import Context
from gossamer.core.names import nanoseconds
from gossamer.overlay.groups.rendezvous import ranking

if TYPE_CHECKING:
    from gossamer.consensus.log import RaftLog
    from gossamer.consensus.node import RaftNode


class Leader:
    """Begins with an election and ends with a later term.

    waiting
        Seats that have not answered: at most one message with entries is on its way to each, and what is
        written meanwhile goes with the next.
    former
        Who led before, and is silent.
    """

    def __init__(self, raft: RaftNode, former: str) -> None:
        self.waiting: set[str] = set()
        self._raft = raft
        self._since = raft.time
        self._heard: dict[str, int] = {former: raft.time - nanoseconds(raft.settings.patience)}
        self._match: dict[Voter, int] = {}
        self._held: dict[Voter, int] = {}
        self._without: dict[int, set[str]] = {}
        """Entries whose parcels are not here, each with the seats that do not have them either."""
        self._next: dict[str, int] = {}
        self._before: Voters = ()
        """The seats before the last change that was proposed here."""

    @property
    def _record(self) -> RaftLog:
        assert self._raft.record is not None
        return self._raft.record

    def spread(self, ctx: Context, again: bool = False) -> None:
        """Write what is new to all seats; again also to those that have not answered."""
        for name, _ in self._record.seats:
            if name != ctx.node and (again or name not in self.waiting):
                self._copy(ctx, name)

    def _copy(self, ctx: Context, name: str) -> None:
        raft, record = self._raft, self._record
        after = self._next.setdefault(name, record.last + 1) - 1
        term = record.term(after)
        if term is None:
            raft.welcome_in(ctx, name)
            return
        entries = record.entries(after + 1, MAX_ENTRIES)
        self.waiting.add(name)
        raft.write(ctx, AppendEntries, name, after, term, entries, raft.commit_index, raft.settled)

    def copied(self, ctx: Context, copied: AppendEntriesReply) -> None:
        """A seat says what it has."""
        name, record = copied.origin, self._record
        if copied.index > record.last:
            return
        self.waiting.discard(name)
        self._heard[name] = self._raft.time
        self._raft.lives[name] = copied.life
        if not copied.agreed:
            if copied.index + 1 < self._next.get(name, record.last + 2):  # else this is a second answer
                self._next[name] = copied.index + 1
                self._copy(ctx, name)
        elif copied.term == self._raft.term:
            seat = (name, copied.life)
            news = copied.index > self._match.get(seat, 0)
            self._match[seat] = max(self._match.get(seat, 0), copied.index)
            self._held[seat] = max(self._held.get(seat, 0), min(copied.held, copied.index))
            self._next[name] = max(self._next.get(name, 0), copied.index + 1)
            if news and self._next[name] <= record.last:
                self._copy(ctx, name)

    def commit_index(self, ctx: Context) -> int:
        """The index up to which a majority of the seats has kept every entry; a leader whose disk is slower
        than those of the others is not needed for that.
        """
        return self._majority(ctx, self._match, self._raft.written)

    def told(self, ctx: Context) -> int:
        """The index up to which a majority has kept every parcel too, and this node has it."""
        store = self._raft.store
        return min(store.held, self._majority(ctx, self._held, store.safe))

    def _majority(self, ctx: Context, known: dict[Voter, int], own: int) -> int:
        mine, seats = self._raft.seat(ctx), self._record.seats
        have = sorted(own if seat == mine else known.get(seat, 0) for seat in seats)
        return have[(len(have) - 1) // 2]

    def without(self, ctx: Context, index: int, name: str) -> None:
        """A seat does not have the parcel of an entry that this node lacks, and whose source has gone. If
        nobody has it, it was never told, and never will be.
        """
        lacking = self._without.setdefault(index, {ctx.node})
        lacking.add(name)
        if lacking.issuperset(each for each, _ in self._record.seats):
            del self._without[index]
            self._raft.propose(ctx, Entry(self._raft.term, voids=index))

    def steer(self, ctx: Context) -> None:
        """Give seats to those that should have them, one change at a time; leave the lead to the best."""
        raft, record = self._raft, self._record
        changing = record.seated > raft.commit_index and self._before not in ((), record.seats)
        if changing and self._enough(ctx, self._before) and not self._enough(ctx, record.seats):
            raft.propose(ctx, Entry(raft.term, seats=self._before))  # or it may never be decided
            return
        if 2 * sum(raft.died(seat) for seat in record.seats) >= len(record.seats):
            raft.stand(ctx, invited=True)  # too many have forgotten: with the others, a later history begins
            return
        if record.seated > raft.commit_index or record.term(raft.commit_index) != raft.term:
            return
        wanted = raft.settings.seats
        live = {name for name in raft.live(ctx) if not self._silent(name)}
        if raft.store.durable:  # whoever is down comes back with its record
            live.update(name for name, _ in record.seats)
        best = ranking(ctx.id, live, 2 * wanted)
        seats = next_voters(raft.seat(ctx), record.seats, best, live, raft.lives, wanted)
        if seats != record.seats:
            raft.lives = {name: life for name, life in raft.lives.items() if name in dict(seats)}
            self._before = record.seats
            self._heard.update((name, raft.time) for name, _ in seats if name not in dict(record.seats))
            raft.propose(ctx, Entry(raft.term, seats=seats))
            return
        for name in best if len(seats) < wanted else best[:1]:
            if name not in dict(seats):
                self._copy(ctx, name)  # answers which life it is
        if best and best[0] != ctx.node:
            seat = (best[0], dict(seats).get(best[0], -1))
            if self._match.get(seat) == self._held.get(seat) == record.last:
                raft.write(ctx, TimeoutNow, best[0])

    def _enough(self, ctx: Context, seats: Voters) -> bool:
        """Whether a majority seems to live."""
        raft, live = self._raft, {ctx.node, *self._raft.live(ctx)}
        gone = [each for each in seats if raft.died(each) or each[0] not in live or self._silent(each[0])]
        return 2 * len(gone) < len(seats)

    def _silent(self, name: str) -> bool:
        """Whether a seat has not answered for too long; whoever has none is thought to live."""
        raft = self._raft
        if name == raft.leader or name not in dict(self._record.seats) or raft.store.durable:
            return False
        silence = raft.time - self._heard.get(name, self._since)
        return silence >= nanoseconds(raft.settings.patience)
