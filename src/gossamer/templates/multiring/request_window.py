"""How many announced parcels are asked for at a time.

Who asks for all that it lacks fills its own line: answers wait behind each other, signs of life behind them,
and the neighbours look dead. So no more are under way than have come in time lately: one more for each that
comes, half as many after one that does not, as transport protocols do.
"""

from __future__ import annotations

LEAST = 3
FIRST = 8
MOST = 4096


class Appetite:
    """What one peer has asked for, and how much that may be.

    under_way
        Parcels that were asked for and may still come.
    """

    __slots__ = ("_most", "under_way")

    def __init__(self) -> None:
        self._most = FIRST
        self.under_way = 0

    @property
    def room(self) -> int:
        """How many more may be asked for."""
        return self._most - self.under_way

    @property
    def hungry(self) -> bool:
        """Whether it is worth while to ask for more."""
        return self.under_way <= self._most // 2

    def came(self) -> None:
        """One that was asked for came in time."""
        self.under_way -= 1
        self._most = min(self._most + 1, MOST)

    def late(self, number: int) -> None:
        """Some that were asked for have not come in time."""
        if number:
            self.under_way -= number
            self._most = max(LEAST, self._most // 2)
