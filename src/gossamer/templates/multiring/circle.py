"""Places on a circle: what makes a ring a ring, whoever comes, goes or moves.

The seed's rings are only what links say. Here every peer also has a place on a circle, a number that it chose
when it came in between two others. So there is one right answer to who stands next to whom, each peer can see
by itself when its own answer is wrong, and two rings that meet have one way to become one. All rings of a
group have the same order: inner rings leave peers out.
"""

from __future__ import annotations

from gossamer.core.context import Dice

CIRCLE = 2**62
"""Places are numbers below this."""

Key = tuple[int, str]
"""A place and a name: of two peers that chose the same place, the lower name comes first."""


def between(a: Key, x: Key, b: Key) -> bool:
    """Whether who goes from a to the right meets x before b."""
    if a < b:
        return a < x < b
    return x > a or x < b


def apart(a: int, b: int) -> int:
    """How far two places are from each other, the shorter way round."""
    gap = (a - b) % CIRCLE
    return min(gap, CIRCLE - gap)


def middle(left: int, right: int, dice: Dice) -> int:
    """A place between two; by chance, so that two who come at once hardly choose the same."""
    gap = (right - left) % CIRCLE or CIRCLE
    return (left + gap // 4 + dice.randrange(gap // 2 or 1)) % CIRCLE
