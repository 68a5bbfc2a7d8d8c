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
    """Subscriptions of one channel with equal criteria, counted together.

    node
        Where they all are, if events never leave their node.
    """

    __slots__ = ("criteria", "matched", "members", "node")

    def __init__(self, criteria: Criteria, node: str | None = None) -> None:
        self.criteria = criteria
        self.node = node
        self.matched = 0
        self.members = 0


class Seat:
    """A subscription: who sits there, since when, and what has come."""

    __slots__ = ("_base", "_bits", "at", "criteria", "got", "group", "history", "key", "order", "told")

    def __init__(self, key: SeatKey, group: Peers, order: int, at: int) -> None:
        self.key = key
        self.at = at
        self.criteria = group.criteria
        self.group = group
        self.order = order
        self.got = 0
        self.history = False
        """Whether it wants everything that was ever published."""
        self.told = False
        """Whether it was told of a gap."""
        self._base = group.matched
        self._bits: dict[tuple[str, int], bytearray] = {}

    @property
    def missing(self) -> int:
        """How many events were published for it since it is there and have not come."""
        return self.group.matched - self._base - self.got

    def has(self, source: tuple[str, int], number: int) -> bool:
        """Whether an event came."""
        bits = self._bits.get(source, b"")
        return number >> 3 < len(bits) and bool(bits[number >> 3] & 1 << (number & 7))

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

    def marked(self, source: tuple[str, int]) -> tuple[int, int]:
        """How many events of a source came, and the greatest number among them; 0 if none did."""
        bits = int.from_bytes(self._bits.get(source, b""), "little")
        return bits.bit_count(), max(0, bits.bit_length() - 1)


class Counts(msgspec.Struct):
    """What a ledger counts.

    published
        Events accepted.
    expected
        Pairs of an event and a subscription that was there when it was published, whose node has not
        crashed and which has not ended since, and whose criteria match. What had been delivered before a
        subscription ended stays counted.
    delivered
        Different pairs of an event and a subscription.
    earlier
        Of these, those of events older than the subscription, which were not expected: on their way when it
        began, or kept for others.
    duplicates
        Deliveries of a pair beyond the first.
    answered, feedback, feedback_duplicates
        Answers given, answers that reached their target, and repetitions of those.
    missed
        Times that a subscription was told of a gap.
    lost
        Events of which their source was told that they are lost.
    violations
        Promises broken.
    """

    published: int = 0
    expected: int = 0
    delivered: int = 0
    earlier: int = 0
    duplicates: int = 0
    answered: int = 0
    feedback: int = 0
    feedback_duplicates: int = 0
    missed: int = 0
    lost: int = 0
    violations: int = 0


class Stayed(msgspec.Struct, frozen=True):
    """How those fared that were there from before the first event of a channel until the end.

    seats
        Subscriptions without criteria that never ended, whose node never crashed, and that were never told
        of a gap.
    expected
        Pairs of such a subscription and an event. Of a life of a source that a crash ended only events up to
        the last one that the subscription got: what the source took with it nobody can have.
    delivered
        Of these, those that came.
    """

    seats: int = 0
    expected: int = 0
    delivered: int = 0
