"""Quantiles of durations in bounded memory."""

from __future__ import annotations

from collections import Counter

from gossamer.core.names import NANOSECONDS

_BITS = 8
"""Leading bits that are kept: a quantile is at most 1/128 too low."""


class Quantiles:
    """Counts durations in buckets that grow with them; at most a few thousand buckets, whatever comes.

    Made of others, it begins with all that they have.
    """

    __slots__ = ("_buckets",)

    def __init__(self, *others: Quantiles) -> None:
        self._buckets: Counter[int] = Counter()
        for other in others:
            self._buckets.update(other._buckets)

    def add(self, nanoseconds: int) -> None:
        shift = nanoseconds.bit_length() - _BITS
        self._buckets[nanoseconds if shift <= 0 else nanoseconds >> shift << shift] += 1

    def seconds(self, share: float) -> float:
        """The duration that so large a share does not exceed; 0 if there are none."""
        wanted = share * self._buckets.total()
        passed = 0
        for bucket in sorted(self._buckets):
            passed += self._buckets[bucket]
            if passed >= wanted:
                return bucket / NANOSECONDS
        return 0.0
