"""Bootstrap: the rendezvous node asks which nodes know of a Raft group, and begins one if none does.

It asks the best matches of the channel, the best matches that these know of, and every node that an answer
names as a former voter. It begins no group as long as a voter of the latest known group or a better match may
live, or while it has not met the nodes that it should have met. A node grants one request at a time. So two
groups can begin only if no node that was asked knew of a node that should have been asked; then the later
history ends the other.
"""

from __future__ import annotations

from collections.abc import Callable

from gossamer.consensus.messages import BootstrapReply, BootstrapRequest, History, Voters
from gossamer.consensus.node import NONE, RaftNode
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


class Bootstrap:
    """Asks, and answers; ``known`` are the seats that were told latest: history, index, seats.

    lost
        Whether this node should have met others and has not.
    """

    def __init__(self, raft: RaftNode, lost: Callable[[Context], bool]) -> None:
        self.raft = raft
        self._lost = lost
        self.known: tuple[History, int, Voters] = (NONE, 0, ())
        self._ticking = False
        self._best: list[str] = []
        self._calm = 0
        self._rest = 0
        self._answers: dict[str, tuple[int, BootstrapReply]] = {}
        """Each with when it came."""
        self._asked: set[str] = set()
        """Nodes whose answers count."""
        self._granted: tuple[str, int] = ("", 0)

    def hear(self, history: History, index: int, seats: Voters) -> None:
        """Somebody says who has seats."""
        if seats:
            self.known = max(self.known, (history, index, seats))

    def needed(self, ctx: Context) -> bool:
        """Whether this node should see to it that there is a Raft group: it is the rendezvous, and there is
        none that it follows or leads.
        """
        raft = self.raft
        return not raft.content(ctx) and ranking(ctx.id, raft.live(ctx), 1) == [ctx.node]

    def _matches(self, ctx: Context) -> list[str]:
        """The best matches that this node knows of."""
        return ranking(ctx.id, self.raft.live(ctx), 2 * self.raft.settings.seats)

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
        raft, live = self.raft, self.raft.live(ctx)
        self._remember()
        self._answers = {name: each for name, each in self._answers.items() if ctx.now - each[0] <= GRANT}
        answers = [answer for _, answer in self._answers.values()]
        asked = {*self._best, *(name for name, _ in self.known[2] if name in live)}
        unanswered = asked.union(*(answer.best for answer in answers)).difference(self._answers, {ctx.node})
        self._asked = {*unanswered, *self._answers}
        for name in sorted(unanswered):
            raft.write(ctx, BootstrapRequest, name)
        raft.urge(ctx)
        if unanswered:
            return
        raft.lives[ctx.node] = raft.life(ctx)
        self._answers = {}
        if all(answer.granted for answer in answers) and all(raft.died(seat) for seat in self.known[2]):
            raft.found(ctx, self.known[0])
        else:
            self._rest = LATER

    def _remember(self) -> None:
        """The own record may know of later seats than the order has told."""
        record = self.raft.record
        if record is not None:
            self.hear(self.raft.history, record.seated, record.seats)

    def asked(self, ctx: Context, found: BootstrapRequest) -> None:
        """A node would found a Raft group."""
        self._remember()
        name, since = self._granted
        best = self._matches(ctx)
        granted = ranking(ctx.id, {found.origin, *best}, 1) == [found.origin]
        granted &= name in ("", found.origin) or ctx.now - since > GRANT
        if granted:
            self._granted = (found.origin, ctx.now)
        self.raft.write(ctx, BootstrapReply, found.origin, granted, *self.known, tuple(best))
        self.raft.urge(ctx)

    def answered(self, ctx: Context, founded: BootstrapReply) -> None:
        if founded.origin not in self._asked:
            return
        self.raft.lives[founded.origin] = founded.life
        self._answers[founded.origin] = (ctx.now, founded)
        self.hear(founded.latest, founded.index, founded.seats)
