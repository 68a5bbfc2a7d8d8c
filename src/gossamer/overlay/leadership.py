"""What the leader of a council knows of the other seats, and what it writes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.core.context import Context
from gossamer.overlay.councilwords import MAX_ENTRIES, Copied, Copy, Entry, Lead, Seat
from gossamer.overlay.rendezvous import ranking
from gossamer.overlay.seating import reseat

if TYPE_CHECKING:
    from gossamer.overlay.council import Council
    from gossamer.overlay.record import Record


class Leadership:
    """Begins with an election and ends with a later term.

    waiting
        Seats that have not answered a letter with entries: at most one such letter is on its way to each, and
        what is written meanwhile goes with the next.
    """

    def __init__(self, council: Council) -> None:
        self.waiting: set[str] = set()
        self._council = council
        self._match: dict[Seat, int] = {}
        self._next: dict[str, int] = {}

    @property
    def _record(self) -> Record:
        assert self._council.record is not None
        return self._council.record

    def spread(self, ctx: Context, again: bool = False) -> None:
        """Write what is new to all seats; again also to those that have not answered."""
        for name, _ in self._record.seats:
            if name != ctx.node and (again or name not in self.waiting):
                self._copy(ctx, name)

    def _copy(self, ctx: Context, name: str) -> None:
        council, record = self._council, self._record
        after = self._next.setdefault(name, record.last + 1) - 1
        term = record.term(after)
        if term is None:
            council.welcome_in(ctx, name)
            return
        entries = record.entries(after + 1, MAX_ENTRIES)
        if entries:
            self.waiting.add(name)
        council.write(ctx, Copy, name, after, term, entries, council.decided, council.settled)

    def copied(self, ctx: Context, copied: Copied) -> None:
        """A seat says what it has."""
        name, record = copied.origin, self._record
        if copied.index > record.last:
            return
        self.waiting.discard(name)
        self._council.lives[name] = copied.life
        if not copied.agreed:
            self._next[name] = min(self._next.get(name, copied.index + 1), copied.index + 1)
            self._copy(ctx, name)
        elif copied.term == self._council.term:
            seat = (name, copied.life)
            self._match[seat] = max(self._match.get(seat, 0), copied.index)
            self._next[name] = max(self._next.get(name, 0), copied.index + 1)
            if self._next[name] <= record.last:
                self._copy(ctx, name)

    def majority(self, ctx: Context) -> int:
        """The index up to which a majority of the seats has everything."""
        mine, seats = self._council.seat(ctx), self._record.seats
        have = sorted(self._council.written if seat == mine else self._match.get(seat, 0) for seat in seats)
        return have[(len(have) - 1) // 2]

    def steer(self, ctx: Context) -> None:
        """Give seats to those that should have them, one change at a time; leave the lead to the best."""
        council, record = self._council, self._record
        if record.seated > council.decided or record.term(council.decided) != council.term:
            return
        live, wanted = council.live(ctx), council.settings.seats
        best = ranking(ctx.id, live, wanted)
        seats = reseat(council.seat(ctx), record.seats, best, live, council.lives, wanted)
        if isinstance(seats, str):
            self._copy(ctx, seats)  # answers which life it is
        elif seats != record.seats:
            council.lives = {name: life for name, life in council.lives.items() if name in dict(seats)}
            council.propose(ctx, Entry(council.term, seats=seats))
        elif best and best[0] != ctx.node:
            seat = (best[0], dict(seats).get(best[0], -1))
            if self._match.get(seat) == record.last:
                council.write(ctx, Lead, best[0])
