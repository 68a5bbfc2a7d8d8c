"""Leaving a ring: CLOSE, serve on, CLOSEACK from all around (seed 004, 5.5.2.1)."""

from __future__ import annotations

from gossamer.core.context import Context
from gossamer.templates.multiring.messages import Close, CloseAck
from gossamer.templates.multiring.peer import Position, learn
from gossamer.templates.multiring.repair import Upkeep

MAX_WAITING = 64
"""Leaving peers that wait for this one's acknowledgement."""
TRIES = 4
"""How often CLOSE is said before this peer goes without an answer."""


class Leaving:
    """One peer's leaving, and its part in that of others.

    level
        The outermost ring that this peer is leaving; None if it stays.
    """

    def __init__(self, position: Position, upkeep: Upkeep) -> None:
        self.position = position
        self.upkeep = upkeep
        self.level: int | None = None
        self._said: dict[tuple[str, int], Close] = {}
        self._tries = 0
        self._waiting: dict[tuple[str, int], set[str]] = {}

    # the one that leaves

    def leave(self, ctx: Context, level: int) -> None:
        """Leave a ring and all within it; parcels are passed on until all around do without this peer."""
        if self.level is not None and self.level <= level:
            return
        self.level, self._tries, self._said = level, 0, {}
        for number in range(len(self.position.rings) - 1, level - 1, -1):
            ring = self.position.rings[number]
            for person in (*ring.left[:2], *ring.right[:2]):
                self._said[person.name, number] = Close(number, ring.left, ring.right)
        self.say(ctx)

    def say(self, ctx: Context) -> None:
        """Say CLOSE to all who have not acknowledged it; gone if there are none, or it was said too often."""
        self._tries += 1
        if not self._said or self._tries > TRIES:
            self._go(ctx)
            return
        for (name, _), close in self._said.items():
            ctx.send(name, close)

    def acknowledged(self, ctx: Context, ack: CloseAck, sender: str) -> None:
        """Somebody around does without this peer."""
        said = self._said.pop((sender, ack.level), None)
        if self.level is not None and said is not None and not self._said:
            self._go(ctx)

    def _go(self, ctx: Context) -> None:
        assert self.level is not None
        level, self.level, self._said = self.level, None, {}
        del self.position.rings[level:]
        self.position.become(ctx)
        self.position.settle(ctx)

    # those around

    def close(self, ctx: Context, close: Close, sender: str) -> None:
        """Do without a peer: who stood behind it moves up, and has to answer before this is acknowledged."""
        position = self.position
        ring = position.ring(close.level)
        if ring is not None and (close.left or close.right):
            learn(ctx, *close.left, *close.right)
            ring.follow(ctx.node, sender, close.left, close.right)
        self.upkeep.forget(ctx, sender, close.level)
        links = position.spreading.links
        silent = {name for name, link in links.items() if not link.proven}
        if silent:
            self._waiting[sender, close.level] = silent
            while len(self._waiting) > MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]
        else:
            ctx.send(sender, CloseAck(close.level))

    def heard(self, ctx: Context, sender: str) -> None:
        """A peer that moved up has answered: whoever waits for that may go."""
        for (name, level), silent in list(self._waiting.items()):
            silent.discard(sender)
            if not silent:
                del self._waiting[name, level]
                ctx.send(name, CloseAck(level))
