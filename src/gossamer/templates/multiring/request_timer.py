"""How long an announced parcel is waited for before it is asked for.

Word of a parcel is often ahead of the parcel, since it is short and comes by another way. How far ahead
depends on the lines of this peer and of those before it, so it is learnt from those that came by themselves:
what they took on average and four times how much that varies, as timers of transport protocols are set. It
begins with the least: at full speed whole groups came to a stop while everybody waited.
"""

from __future__ import annotations


class Patience:
    """What one peer has learnt.

    least, most
        Nanoseconds between which it stays.
    """

    __slots__ = ("_mean", "_spread", "least", "most")

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, max(least, most)
        self._mean = self._spread = 0

    @property
    def now(self) -> int:
        """Nanoseconds to wait."""
        return min(max(self.least, self._mean + 4 * self._spread), self.most)

    def came(self, after: int) -> None:
        """A parcel came by itself, so long after the first word of it."""
        after = min(after, self.most)
        self._spread += (abs(after - self._mean) - self._spread) // 4
        self._mean += (after - self._mean) // 8
