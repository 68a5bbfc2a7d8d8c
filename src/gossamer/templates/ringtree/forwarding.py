"""Where a parcel goes from a seat: two children, and three rules for when others have failed (seed 001, III).

1. Who misses the neighbour on the right also feeds that one's left child.
2. Who misses the neighbour on the left also feeds that one's right child.
3. Who gets a parcel from somebody other than the parent also passes it to the right.

So a member serves two; three if a neighbour is missing or its parent is; four if both neighbours are, or one
of them and the parent. An open slot is a missing neighbour.
"""

from __future__ import annotations

from collections.abc import Collection

from gossamer.templates.ringtree.layout import ring_of
from gossamer.templates.ringtree.messages import Seat

ALL_RULES = frozenset({1, 2, 3})


def onward(
    seat: Seat, missing: Collection[str], sender: str | None, rules: Collection[int] = ALL_RULES
) -> list[str]:
    """Whom a parcel goes to from a seat, each once; no sender means that it begins here."""
    targets = [seat.left_child, seat.right_child]
    if 1 in rules and (not seat.right or seat.right in missing):
        targets.append(seat.left_of_right)
    if 2 in rules and (not seat.left or seat.left in missing):
        targets.append(seat.right_of_left)
    if 3 in rules and sender is not None and not fed_by(seat, sender) and seat.right not in missing:
        targets.append(seat.right)
    return [each for each in dict.fromkeys(targets) if each and each != sender]


def fed_by(seat: Seat, sender: str) -> bool:
    """Whether a sender is the parent; that of ring 0 is whoever publishes."""
    if ring_of(seat.slot, seat.entries):
        return sender == seat.parent
    return sender not in (seat.left, seat.right)
