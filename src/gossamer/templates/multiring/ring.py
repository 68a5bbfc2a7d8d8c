"""One ring as one of its peers sees it: two neighbours, and those behind them for when they fail."""

from __future__ import annotations

from collections.abc import Iterable

from gossamer.templates.multiring.circle import Key, between
from gossamer.templates.multiring.messages import REACH, Person

Line = tuple[Person, ...]


class Ring:
    """Peers to the left and to the right, the nearest first: neighbour, backup link, and one more.

    In a small ring the same peer stands on both sides.
    """

    __slots__ = ("left", "right")

    def __init__(self, left: Line = (), right: Line = ()) -> None:
        self.left = left
        self.right = right

    @property
    def neighbours(self) -> tuple[Person, ...]:
        """Who parcels go to: two, one if there is only one, or nobody."""
        left, right = self.left[:1], self.right[:1]
        return left if left and right and left[0].name == right[0].name else left + right

    def side(self, rightward: bool) -> Line:
        """One side."""
        return self.right if rightward else self.left

    def known(self, name: str) -> Person | None:
        """A peer that stands near, by its name."""
        for person in self.right + self.left:
            if person.name == name:
                return person
        return None

    def sides(self, name: str) -> tuple[bool, ...]:
        """On which sides a peer is the neighbour: True is right."""
        return tuple(
            rightward
            for rightward in (True, False)
            if (line := self.side(rightward)) and line[0].name == name
        )

    def take(self, me: Key, person: Person) -> None:
        """Put a peer that lives where it belongs, if that is near enough."""
        self.right = _with(self.right, person, lambda other: between(me, person.key, other.key))
        self.left = _with(self.left, person, lambda other: between(other.key, person.key, me))

    def follow(self, me: str, name: str, left: Line, right: Line) -> None:
        """A neighbour says who stands next to it: those behind it are now as it says."""
        if self.right and self.right[0].name == name:
            self.right = (self.right[0], *_until(me, right))[:REACH]
        if self.left and self.left[0].name == name:
            self.left = (self.left[0], *_until(me, left))[:REACH]

    def drop(self, name: str) -> None:
        """A peer is gone: who stood behind it is next."""
        self.left = tuple(each for each in self.left if each.name != name)
        self.right = tuple(each for each in self.right if each.name != name)
        self.close()

    def close(self) -> None:
        """A side on which nobody is known any more begins with the farthest on the other: it is a ring."""
        if not self.right:
            self.right = self.left[-1:]
        elif not self.left:
            self.left = self.right[-1:]


def _with(line: Line, person: Person, nearer: object) -> Line:
    others = [each for each in line if each.name != person.name]
    place = len(others)
    for index, other in enumerate(others):
        if nearer(other):  # type: ignore[operator]
            place = index
            break
    others.insert(place, person)
    return tuple(others[:REACH])


def _until(me: str, line: Iterable[Person]) -> Iterable[Person]:
    """A neighbour's side as far as it does not come round to this peer."""
    for person in line:
        if person.name == me:
            return
        yield person
