"""Coming into a ring: links are made ready first and then used all at once (seed 004, 5.5.1).

A newcomer finds two neighbours, chooses a place between them, and asks both, and those behind them, to have a
link ready. Until all have answered nothing changes; then all are told to use the new links, and the old
link between the two becomes a backup link.
"""

from __future__ import annotations

from gossamer.core.context import Context
from gossamer.templates.multiring.circle import middle
from gossamer.templates.multiring.messages import Activate, Person, Prepare, Ready
from gossamer.templates.multiring.peer import Position, learn
from gossamer.templates.multiring.repair import Upkeep
from gossamer.templates.multiring.ring import Line, Ring

TRIES = 3
"""How often a place is chosen anew because others came in there."""


class Joining:
    """One peer on its way into one ring.

    level
        The ring; None if this peer is on its way nowhere.
    since
        When it began to want to.
    """

    def __init__(self, position: Position, upkeep: Upkeep) -> None:
        self.position = position
        self.upkeep = upkeep
        self.level: int | None = None
        self.since = 0
        self._person: Person | None = None
        self._left: Line = ()
        self._right: Line = ()
        self._waits: set[str] = set()
        self._tries = 0

    def between(self, ctx: Context, level: int, left: Person, right: Person) -> None:
        """Prepare to come in between two that are next to each other."""
        self.level, self._tries = level, 0
        self._prepare(ctx, left, right)

    def _prepare(self, ctx: Context, left: Person, right: Person) -> None:
        assert self.level is not None
        self._tries += 1
        if self.level == 0:
            self.position.become(ctx, middle(left.place, right.place, ctx.rng))
        self._left, self._right = (left,), (right,)
        self._ask(ctx, left, right)

    def _ask(self, ctx: Context, *people: Person) -> None:
        assert self.level is not None
        names = dict.fromkeys(each.name for each in people if each.name != ctx.node)
        learn(ctx, *people)
        self._waits = set(names)
        ctx.send(names, Prepare(self.level, self.position.me))

    # those who are asked

    def prepare(self, ctx: Context, prepare: Prepare, sender: str) -> None:
        """Have a link to a newcomer; nothing goes by it yet."""
        ring = self.position.ring(prepare.level)
        if ring is not None:
            learn(ctx, prepare.person)
            ctx.send(sender, Ready(prepare.level, self.position.me, ring.left, ring.right))

    def activate(self, ctx: Context, activate: Activate, sender: str) -> None:
        """Use the link: the newcomer stands here now."""
        if activate.person.name == sender:
            past = activate.waited if activate.level == 0 else None
            self.upkeep.take(ctx, activate.level, activate.person, past)

    # the newcomer

    def ready(self, ctx: Context, ready: Ready, sender: str) -> bool:
        """A link is ready; whether all are, and this peer is in."""
        if ready.level != self.level or sender not in self._waits:
            return False
        self._waits.discard(sender)
        left, right = self._left[0], self._right[0]
        if sender == left.name:
            next_one = ready.right[:1]
            if self.level == 0 and next_one and next_one[0].name != right.name and self._tries <= TRIES:
                self._prepare(ctx, ready.person, next_one[0])  # somebody else came in here
                return False
            self._left = (ready.person, *ready.left)
        if sender == right.name:
            self._right = (ready.person, *ready.right)
        if self._waits:
            return False
        behind = [line[1] for line in (self._left, self._right) if len(line) > 1]
        if behind and self._tries <= TRIES:  # the backup links, once
            self._tries = TRIES + 1
            self._ask(ctx, *behind)
            if self._waits:
                return False
        self.finish(ctx)
        return True

    def finish(self, ctx: Context) -> None:
        """Come in, with whoever is ready."""
        assert self.level is not None
        level, self.level = self.level, None
        position = self.position
        ring = Ring()
        del position.rings[level:]
        position.rings.append(ring)
        position.become(ctx)
        me = position.me.key
        people = {each.name: each for each in (*self._left, *self._right) if each.name != ctx.node}
        for person in people.values():
            ring.take(me, person)
        ctx.send(people, Activate(level, position.me, ctx.now - self.since))
        position.settle(ctx)
        self._waits = set()

    def give_up(self) -> None:
        """Those who were asked do not answer."""
        self.level, self._waits = None, set()
