"""What a ledger remembers of publications and of subscriptions: one object each, small, no judgement."""

from __future__ import annotations

import msgspec

from gossamer.core.event import Attributes, Criteria

SeatKey = tuple[str, int, int]
"""Node, life and number of a subscription."""


class Published(msgspec.Struct, gc=False):
    """What is remembered of a publication; ``order`` counts publications and subscriptions together."""

    at: int
    order: int
    length: int
    checksum: int
    attributes: Attributes | None


class Peers:
    """Subscriptions of one channel with equal criteria, counted together."""

    __slots__ = ("criteria", "matched", "members")

    def __init__(self, criteria: Criteria) -> None:
        self.criteria = criteria
        self.matched = 0
        self.members = 0


class Seat:
    """A subscription: who sits there, and what has come."""

    __slots__ = ("_base", "_bits", "criteria", "got", "group", "key", "order")

    def __init__(self, key: SeatKey, group: Peers, order: int) -> None:
        self.key = key
        self.criteria = group.criteria
        self.group = group
        self.order = order
        self.got = 0
        self._base = group.matched
        self._bits: dict[tuple[str, int], bytearray] = {}

    @property
    def missing(self) -> int:
        """How many events were published for it since it is there and have not come."""
        return self.group.matched - self._base - self.got

    def mark(self, source: tuple[str, int], number: int) -> bool:
        """Note that an event came; whether it came before."""
        bits = self._bits.get(source)
        if bits is None:
            bits = self._bits[source] = bytearray()
        index, bit = number >> 3, 1 << (number & 7)
        bits.extend(bytes(max(0, index + 1 - len(bits))))
        if bits[index] & bit:
            return True
        bits[index] |= bit
        return False
