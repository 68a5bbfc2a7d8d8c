"""A seat of a council that stands for leadership: whom it asks, and when it has won."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.consensus.messages import Ask, Seat
from gossamer.core.context import Context
from gossamer.overlay.groups.rendezvous import ranking

if TYPE_CHECKING:
    from gossamer.consensus.node import Council


class Candidacy:
    """Begins with a new term, and ends with it or when it is won."""

    def __init__(self, council: Council) -> None:
        self._council = council
        self._votes: set[Seat] = set()

    def canvass(self, ctx: Context, invited: bool = False) -> None:
        """Ask for the votes that have not come."""
        council, record = self._council, self._council.record
        assert record is not None
        index = record.last
        for name in sorted(self._electors(ctx).difference(name for name, _ in self._votes)):
            council.write(ctx, Ask, name, index, record.term(index), invited)

    def _electors(self, ctx: Context) -> set[str]:
        """Nodes with seats; and, if these have voted and it is not enough, those that would know of later."""
        names = {name for name, _ in self._council.seats}
        if names.issubset(name for name, _ in self._votes):
            names.update(ranking(ctx.id, self._council.live(ctx), 2 * self._council.settings.seats))
        return names

    def vote(self, ctx: Context, seat: Seat) -> None:
        """Somebody is for this node."""
        self._votes.add(seat)
        seats = self._council.seats
        if 2 * len(self._votes.intersection(seats)) > len(seats):
            self._council.win(ctx)
        elif {name for name, _ in self._votes}.issuperset(self._electors(ctx)):
            self._council.go_on(ctx)
