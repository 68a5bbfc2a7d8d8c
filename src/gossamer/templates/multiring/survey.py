"""Looking around: figures of those nearby, by a query that goes from neighbour to neighbour and one response.

What is learnt decides who is in inner rings and where they should stand (seed 004, 5.4).
"""

from __future__ import annotations

from gossamer.core.context import Context
from gossamer.templates.multiring.election import View
from gossamer.templates.multiring.messages import MAX_RINGS, Figure, Person, Query, Response
from gossamer.templates.multiring.peer import Position, learn
from gossamer.templates.multiring.settings import MultiringSettings


class Surveying:
    """One peer's views of its rings.

    views
        What was last seen of each ring, by level.
    """

    __slots__ = ("_halves", "_q", "position", "views")

    def __init__(self, settings: MultiringSettings, position: Position) -> None:
        self.position = position
        self.views: dict[int, View] = {}
        self._q = settings.q
        self._halves: dict[int, dict[bool, Response]] = {}

    def look(self, ctx: Context) -> None:
        """Ask around in every ring; those of an inner ring look twice as far, to the next of their kind."""
        rings = self.position.rings
        for level in [each for each in self.views if each >= len(rings)]:
            del self.views[level]
        self._halves.clear()
        for level, ring in enumerate(rings[:MAX_RINGS]):
            limit = self._q if level == len(rings) - 1 else 2 * self._q
            for rightward in (False, True):
                line = ring.side(rightward)
                if line:
                    ctx.send(line[0].name, Query(level, rightward, self.position.me, limit, ()))

    def figure(self, level: int) -> Figure:
        """What this peer says about itself in a ring."""
        position = self.position
        outer, inner = self.views.get(level - 1), self.views.get(level + 1)
        distances = outer.distances() if outer is not None else None
        weakest = position.bandwidth
        if inner is not None and level + 1 < len(position.rings):
            tested = (*inner.left[: self._q], *inner.right[: self._q])
            weakest = min([weakest, *(each.bandwidth for each in tested)])
        return Figure(position.me, position.bandwidth, sum(distances) if distances else 0, weakest)

    def query(self, ctx: Context, query: Query, sender: str) -> None:
        """Add this peer's figures, and pass it on or send it back."""
        ring = self.position.ring(query.level)
        origin = query.origin
        if ring is None or origin.name == ctx.node:
            return
        figures = (*query.figures, self.figure(query.level))
        line = ring.side(query.rightward)
        came_round = not line or line[0].name == origin.name
        learn(ctx, origin)
        if came_round or len(figures) >= query.limit:
            ctx.send(origin.name, Response(query.level, query.rightward, figures, came_round))
        else:
            onward = Query(query.level, query.rightward, origin, query.limit, figures)
            ctx.send(line[0].name, onward)

    def response(self, ctx: Context, response: Response) -> View | None:
        """One side is known; the view, if the other is known too."""
        level = response.level
        if self.position.ring(level) is None:
            return None
        halves = self._halves.setdefault(level, {})
        halves[response.rightward] = response
        if len(halves) < 2:
            return None
        left, right = halves[False], halves[True]
        view = View(level, self.figure(level), left.figures, right.figures, left.round or right.round)
        self.views[level] = view
        return view

    def inner_sides(self, view: View) -> tuple[Person | None, Person | None]:
        """The next of the inner ring on both sides, as far as they were seen."""
        left, right = (view.next_inner(side, 2 * self._q) for side in (False, True))
        return (left[1].person if left else None), (right[1].person if right else None)
