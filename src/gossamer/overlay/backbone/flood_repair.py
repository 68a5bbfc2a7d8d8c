"""What a node passed to whom and does not know to have arrived; offers that find out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

Version = tuple[int, int]
"""Incarnation and counter of an origin."""

Versions = tuple[tuple[str, int, int], ...]
"""Origins, each with a version."""

AT_ONCE = 256
"""Entries in one message."""
OFFER_BYTES = 80
"""What offering a message costs, answer included, if it is offered alone."""
BLIND = 4
"""Messages that are sent again with an offer if the one before was not answered."""
TRIES = 20
"""Offers without an answer after which a neighbour is given up."""


class _Neighbour:
    __slots__ = ("offered", "passed", "round", "tries")

    def __init__(self) -> None:
        self.passed: dict[str, Version] = {}
        self.offered: dict[str, Version] = {}
        self.round = 0
        self.tries = 0


class Passing:
    """Per neighbour the newest version of each origin that was passed and not confirmed."""

    def __init__(self) -> None:
        self._neighbours: dict[str, _Neighbour] = {}

    @property
    def waiting(self) -> bool:
        """Whether anything is unconfirmed."""
        return any(each.passed for each in self._neighbours.values())

    def passed(self, to: Iterable[str], origin: str, version: Version) -> None:
        """A message has just been sent."""
        for name in to:
            neighbour = self._neighbours.get(name)
            if neighbour is None:
                neighbour = self._neighbours[name] = _Neighbour()
            neighbour.passed[origin] = version

    def offers(self, live: Collection[str]) -> Iterator[tuple[str, int, Versions, list[str]]]:
        """To whom to offer what under which number, and what to send again without waiting to be asked.

        Whoever is dead or never answers is given up.
        """
        for name, neighbour in tuple(self._neighbours.items()):
            neighbour.tries += 1
            if name not in live or neighbour.tries > TRIES or not neighbour.passed:
                del self._neighbours[name]
                continue
            neighbour.round += 1
            neighbour.offered = dict(list(neighbour.passed.items())[:AT_ONCE])
            versions = tuple((origin, *each) for origin, each in neighbour.offered.items())
            yield (
                name,
                neighbour.round,
                versions,
                list(neighbour.offered)[:BLIND] if neighbour.tries > 1 else [],
            )

    def answered(self, name: str, number: int, wanted: Collection[str]) -> list[str]:
        """What is to be sent again; all else that was offered has arrived."""
        neighbour = self._neighbours.get(name)
        if neighbour is None or neighbour.round != number:
            return []
        neighbour.tries = 0
        again = []
        offered, neighbour.offered = neighbour.offered, {}
        for origin, version in offered.items():
            if origin in wanted:
                again.append(origin)
            elif neighbour.passed.get(origin) == version:
                del neighbour.passed[origin]
        return again
