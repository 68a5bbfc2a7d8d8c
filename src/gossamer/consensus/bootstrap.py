"""How a council begins: the rendezvous node asks those that should know of one, and founds it if none does.

Those are the best matches of the channel, also those that only the ones who were asked know of, and whoever
is said to have had a seat. It founds none as long as one of the seats that are known latest may live, or a
better match does, or it should have met others and has not; and nobody grants it to two at once. So two
councils can begin only where nodes that should have been asked were known to nobody who was; then the later
history ends the other.
"""

from __future__ import annotations

from collections.abc import Callable

from gossamer.consensus.messages import Found, Founded, History, Seats
from gossamer.consensus.node import NONE, Council
from gossamer.core.context import Context
from gossamer.core.names import nanoseconds
from gossamer.overlay.groups.rendezvous import ranking

TICK = 0.5
"""Seconds between questions."""
CALM = 4
"""Ticks for which the backbone must not have changed."""
LATER = 10
"""Ticks until somebody who was refused asks again."""
GRANT = nanoseconds(30.0)
"""How long nobody else is granted it, and an answer counts."""


class Founding:
    """Asks, and answers; ``known`` are the seats that were told latest: history, index, seats.

    lost
        Whether this node should have met others and has not.
    """

    def __init__(self, council: Council, lost: Callable[[Context], bool]) -> None:
        self.council = council
        self._lost = lost
        self.known: tuple[History, int, Seats] = (NONE, 0, ())
        self._ticking = False
        self._best: list[str] = []
        self._calm = 0
        self._rest = 0
        self._answers: dict[str, tuple[int, Founded]] = {}
        """Each with when it came."""
        self._asked: set[str] = set()
        """Nodes whose answers count."""
        self._granted: tuple[str, int] = ("", 0)

    def hear(self, history: History, index: int, seats: Seats) -> None:
        """Somebody says who has seats."""
        if seats:
            self.known = max(self.known, (history, index, seats))

    def needed(self, ctx: Context) -> bool:
        """Whether this node should see to it that there is a council: it is the rendezvous, and there is
        none that it follows or leads.
        """
        council = self.council
        return not council.content(ctx) and ranking(ctx.id, council.live(ctx), 1) == [ctx.node]

    def _matches(self, ctx: Context) -> list[str]:
        """The best matches that this node knows of."""
        return ranking(ctx.id, self.council.live(ctx), 2 * self.council.settings.seats)

    def start(self, ctx: Context) -> None:
        if not self._ticking and self.needed(ctx):
            self._ticking = True
            ctx.wake("found", TICK)

    def timer(self, ctx: Context) -> None:
        self._ticking = False
        if not self.needed(ctx):
            self._answers, self._calm = {}, 0
            return
        best = self._matches(ctx)
        self._calm = self._calm + 1 if best == self._best and not self._lost(ctx) else 0
        self._best = best
        self._rest = max(0, self._rest - 1)
        if self._calm >= CALM and not self._rest:
            self._ask(ctx)
        self.start(ctx)

    def _ask(self, ctx: Context) -> None:
        council, live = self.council, self.council.live(ctx)
        self._remember()
        self._answers = {name: each for name, each in self._answers.items() if ctx.now - each[0] <= GRANT}
        answers = [answer for _, answer in self._answers.values()]
        asked = {*self._best, *(name for name, _ in self.known[2] if name in live)}
        unanswered = asked.union(*(answer.best for answer in answers)).difference(self._answers, {ctx.node})
        self._asked = {*unanswered, *self._answers}
        for name in sorted(unanswered):
            council.write(ctx, Found, name)
        council.urge(ctx)
        if unanswered:
            return
        council.lives[ctx.node] = council.life(ctx)
        self._answers = {}
        if all(answer.granted for answer in answers) and all(council.died(seat) for seat in self.known[2]):
            council.found(ctx, self.known[0])
        else:
            self._rest = LATER

    def _remember(self) -> None:
        """The own record may know of later seats than the order has told."""
        record = self.council.record
        if record is not None:
            self.hear(self.council.history, record.seated, record.seats)

    def asked(self, ctx: Context, found: Found) -> None:
        """A node would found a council."""
        self._remember()
        name, since = self._granted
        best = self._matches(ctx)
        granted = ranking(ctx.id, {found.origin, *best}, 1) == [found.origin]
        granted &= name in ("", found.origin) or ctx.now - since > GRANT
        if granted:
            self._granted = (found.origin, ctx.now)
        self.council.write(ctx, Founded, found.origin, granted, *self.known, tuple(best))
        self.council.urge(ctx)

    def answered(self, ctx: Context, founded: Founded) -> None:
        if founded.origin not in self._asked:
            return
        self.council.lives[founded.origin] = founded.life
        self._answers[founded.origin] = (ctx.now, founded)
        self.hear(founded.latest, founded.index, founded.seats)
