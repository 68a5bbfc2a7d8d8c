"""Who is in an inner ring: two decisions from what a peer can see itself (seed 004, 5.4.1.2 and 5.4.1.3).

Two peers of equal bandwidth are told apart by their names, for otherwise all of a group of equals would elect
themselves. The second listing's last condition compares a density with ``q-1``; a density cannot reach q − 1,
and what makes sense is q⁻¹: a peer may go if, without it, there is still one for every q around.
"""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.templates.multiring.messages import Figure

Rank = tuple[float, str]


def rank(figure: Figure) -> Rank:
    """What is compared: bandwidth, and for equals the name."""
    return (figure.bandwidth, figure.person.name)


class View:
    """What a peer has learnt of one ring: the figures of those on both sides, the nearest first.

    level
        The ring: those whose ``rings`` is greater by two or more are in the next inner one.
    round
        Whether the ring is so small that a side came round to this peer.
    """

    __slots__ = ("left", "level", "me", "right", "round")

    def __init__(
        self, level: int, me: Figure, left: Sequence[Figure], right: Sequence[Figure], round: bool = False
    ) -> None:
        self.level, self.me, self.round = level, me, round
        self.left, self.right = left, right

    def inner(self, figure: Figure) -> bool:
        """Whether a peer of this ring is in the next inner one too."""
        return figure.person.rings > self.level + 1

    def next_inner(self, rightward: bool, most: int) -> tuple[int, Figure] | None:
        """The next on one side that is in the inner ring, and how far away it is, if that is not too far."""
        for distance, figure in enumerate((self.right if rightward else self.left)[:most], 1):
            if self.inner(figure):
                return distance, figure
        return None

    def distances(self) -> tuple[int, int] | None:
        """How far the next of the inner ring are, left and right; None if one is out of sight."""
        left, right = self.next_inner(False, len(self.left)), self.next_inner(True, len(self.right))
        return (left[0], right[0]) if left and right else None


def joins(view: View, q: int) -> bool:
    """Whether a peer joins the inner ring (5.4.1.2); a ring of up to q needs none."""
    if view.round and len({each.person.name for each in (*view.left, *view.right)}) < q:
        return False
    near = [*view.left[:q], *view.right[:q]]
    outer_only = [rank(each) for each in near if not view.inner(each)]
    if outer_only and rank(view.me) < max(outer_only):
        return False
    left, right = view.next_inner(False, q), view.next_inner(True, q)
    if left is None or right is None or left[0] + right[0] > q:
        return True
    return view.me.bandwidth > left[1].weakest


def resigns(outer: View, inner: View, q: int) -> bool:
    """Whether a peer leaves the inner ring (5.4.1.3), seen from the ring around it and from that ring."""
    distances = outer.distances()
    if distances is None or sum(distances) >= 2 * q:
        return False
    tested = {each.person.name: each for each in (*inner.left[:q], *inner.right[:q], inner.me)}
    if rank(inner.me) > min(map(rank, tested.values())):
        return False
    around = sum(each.span for each in tested.values()) / 2
    return all(each.span for each in tested.values()) and (len(tested) - 1) / around >= 1 / q


def unbalanced(outer: View) -> bool | None:
    """To which side a peer of an inner ring should move (True is right); None if it stands well (5.4.2)."""
    distances = outer.distances()
    if distances is None or outer.round or abs(distances[0] - distances[1]) < 2:
        return None
    return distances[1] > distances[0]
