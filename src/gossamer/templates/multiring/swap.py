"""Changing places with a neighbour, so that inner rings are in balance (seed 004, 5.4.2.1, ten steps).

With a, b, c, d, e, f next to each other, c moves behind d:

1. c tells d. 2. d agrees, and says who stands behind it. Then c takes a place between d and e and tells all
around, by which 3. the link from b to c becomes a backup link, 4. that from d to e too, 5. c has none to a,
6. d has none to f, 7. the backup link from c to e becomes a regular one, 8. that from b to d too, 9. c gets
one to f, 10. d one to a.

What b and e get while they have but one regular link is in their stores, and each new regular link begins
with word of it: that is how they buffer. Only c's place changes: d stands before c because c stands behind
d.
"""

from __future__ import annotations

from gossamer.core.context import Context
from gossamer.core.names import NANOSECONDS
from gossamer.templates.multiring.circle import middle
from gossamer.templates.multiring.messages import GREETING, Person, Swap, SwapAck
from gossamer.templates.multiring.peer import Position, learn
from gossamer.templates.multiring.ring import Ring

LOCK = 2 * NANOSECONDS
"""How long a peer that agreed to a swap agrees to no other."""


class Swapping:
    """One peer's part in swaps.

    swaps
        How often this peer has moved.
    """

    __slots__ = ("_asked", "_until", "position", "swaps")

    def __init__(self, position: Position) -> None:
        self.position = position
        self.swaps = 0
        self._asked: tuple[str, bool] | None = None
        self._until = 0

    def begin(self, ctx: Context, rightward: bool) -> None:
        """Step 1: ask the neighbour on one side."""
        line = self.position.rings[0].side(rightward)
        if ctx.now < self._until or len(line) < 2 or line[0].rings > 1:
            return
        self._until = ctx.now + LOCK
        self._asked = (line[0].name, rightward)
        ctx.send(line[0].name, Swap(rightward, self.position.me))

    def asked(self, ctx: Context, swap: Swap, sender: str) -> None:
        """Step 2: agree, unless another swap is under way or the two are not neighbours."""
        ring = self.position.ring(0)
        agrees = (
            ring is not None
            and ctx.now >= self._until
            and (not swap.rightward) in ring.sides(sender)
            and len(self.position.rings) == 1
        )
        if agrees and ring is not None:
            self._until = ctx.now + LOCK
            ctx.send(sender, SwapAck(self.position.me, ring.side(swap.rightward)))
        else:
            ctx.send(sender, SwapAck(self.position.me, ()))

    def agreed(self, ctx: Context, ack: SwapAck, sender: str) -> bool:
        """Steps 3 to 10: take the place behind the neighbour; whether this peer has moved."""
        asked, self._asked = self._asked, None
        ring = self.position.ring(0)
        if asked is None or asked[0] != sender or not ack.beyond or ring is None:
            self._until = 0
            return False
        behind = ack.beyond[0]
        rightward = asked[1]
        if behind.name == ctx.node or rightward not in ring.sides(sender):
            self._until = 0
            return False
        self._move(ctx, ring, ack.person, behind, ack.beyond, rightward)
        return True

    def _move(
        self,
        ctx: Context,
        ring: Ring,
        neighbour: Person,
        behind: Person,
        beyond: tuple[Person, ...],
        rightward: bool,
    ) -> None:
        position = self.position
        self.swaps += 1
        around = {each.name: each for each in (*ring.left, *ring.right, neighbour, *beyond)}
        around.pop(ctx.node, None)
        learn(ctx, *around.values())
        edges = (neighbour.place, behind.place) if rightward else (behind.place, neighbour.place)
        position.become(ctx, middle(*edges, ctx.rng))
        moved = Ring()
        for person in around.values():
            moved.take(position.me.key, person)
        position.rings[0] = moved
        ctx.send(around, position.beat(0, GREETING))
        for level in range(1, len(position.rings)):
            names = [each.name for each in position.rings[level].neighbours]
            ctx.send(names, position.beat(level, GREETING))
        position.settle(ctx)
