"""A seat of a Raft group that stands for leadership: whom it asks, and when it has won."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.consensus.messages import RequestVote, Voter
from gossamer.core.context import Context
from gossamer.overlay.groups.rendezvous import ranking

if TYPE_CHECKING:
    from gossamer.consensus.node import RaftNode


class Candidate:
    """Begins with a new term, and ends with it or when it is won."""

    def __init__(self, raft: RaftNode) -> None:
        self._raft = raft
        self._votes: set[Voter] = set()

    def canvass(self, ctx: Context, invited: bool = False) -> None:
        """Ask for the votes that have not come."""
        raft, record = self._raft, self._raft.record
        assert record is not None
        index = record.last
        for name in sorted(self._electors(ctx).difference(name for name, _ in self._votes)):
            raft.write(ctx, RequestVote, name, index, record.term(index), invited)

    def _electors(self, ctx: Context) -> set[str]:
        """Nodes with seats; and, if these have voted and it is not enough, those that would know of later."""
        names = {name for name, _ in self._raft.seats}
        if names.issubset(name for name, _ in self._votes):
            names.update(ranking(ctx.id, self._raft.live(ctx), 2 * self._raft.settings.seats))
        return names

    def vote(self, ctx: Context, seat: Voter) -> None:
        """Somebody is for this node."""
        self._votes.add(seat)
        seats = self._raft.seats
        if 2 * len(self._votes.intersection(seats)) > len(seats):
            self._raft.win(ctx)
        elif {name for name, _ in self._votes}.issuperset(self._electors(ctx)):
            self._raft.go_on(ctx)
