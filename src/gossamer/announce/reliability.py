"""How an announcement is cut into fragments and what of them is sent: exchangeable, and never with feedback.

A reliability module answers with rounds, each a list of fragments; a sender spaces the rounds in time.
``Repetition`` sends all fragments in every round. ``Erasure`` sends other fragments in every round, first
those of the announcement itself, then parity, so that any k of the n fragments of a block rebuild it; blocks
are interleaved, so that a burst of loss is shared by all of them. A module of your own has a ``rounds``
method, and cuts so that ``Assembler`` can put together again what it made.
"""

from __future__ import annotations

from hashlib import blake2b
from math import ceil
from struct import Struct
from typing import NamedTuple, Protocol

import msgspec

from gossamer.announce import delivery_odds as odds
from gossamer.announce import erasure
from gossamer.announce.header import ERASURE, HEADER_BYTES, MOST_SEQUENCE, WHOLE, Option
from gossamer.core.errors import TooLarge

MOST_BYTES = 4 * 1024 * 1024
"""Of one announcement."""
DIGEST_BYTES = 8
MOST_ROUNDS = 256
WHOLE_FORMAT = Struct(f"!I{DIGEST_BYTES}s")
ERASURE_FORMAT = Struct("!HBB")
"""Blocks, fragments that rebuild a block less one, fragments of a block less one."""

_WHOLE_ROOM = 2 + WHOLE_FORMAT.size
_ERASURE_ROOM = 2 + ERASURE_FORMAT.size


class Fragment(NamedTuple):
    """One packet without the part of its header that all packets of an announcement share."""

    sequence: int
    last: bool
    options: tuple[Option, ...]
    body: bytes


class Reliability(Protocol):
    """What makes rounds of fragments out of an announcement."""

    def rounds(self, payload: bytes, mtu: int, extra: int) -> list[list[Fragment]]:
        """Enough rounds for whoever hears all, and ``extra`` ones for who begins to hear so much later.

        No packet is longer than ``mtu`` bytes, its header included.
        """


class Repetition(msgspec.Struct, frozen=True):
    """Everything again and again: (1 − loss^times)^fragments ≥ target.

    loss
        Probability that a packet is lost on its way to a listener.
    target
        Probability with which an announcement is to arrive.
    """

    loss: float = 0.3
    target: float = 0.9999

    def times(self, fragments: int = 1) -> int:
        return odds.enough(1, self.loss, self.target ** (1 / fragments))

    def rounds(self, payload: bytes, mtu: int, extra: int) -> list[list[Fragment]]:
        cut = fragments(payload, mtu)
        return [cut] * _bounded(self.times(len(cut)) + extra)


class Erasure(msgspec.Struct, frozen=True):
    """Any k of n fragments rebuild a block; an announcement of one packet is repeated.

    loss, target
        As for repetition; every block is to arrive with probability target^(1 / blocks).
    block
        Most fragments that a block is cut into. With more of them parity is better shared, and coding takes
        longer.
    """

    loss: float = 0.3
    target: float = 0.9999
    block: int = 32

    def rounds(self, payload: bytes, mtu: int, extra: int) -> list[list[Fragment]]:
        if len(payload) <= mtu - HEADER_BYTES:
            return Repetition(self.loss, self.target).rounds(payload, mtu, extra)
        check(payload)
        shape = erasure.shaped(len(payload), mtu - HEADER_BYTES - _WHOLE_ROOM - _ERASURE_ROOM, self.block)
        sent = odds.enough(shape.needed, self.loss, self.target ** (1 / shape.blocks))
        rounds = _bounded(ceil(sent / shape.needed) + extra)
        made = min(rounds * shape.needed, erasure.MOST)
        coded = erasure.encoded(payload, shape, made)
        about = ERASURE_FORMAT.pack(shape.blocks, shape.needed - 1, made - 1)
        options = ((WHOLE, whole(payload)), (ERASURE, about))
        final = made * shape.blocks - 1
        cut = [
            Fragment(
                sequence, sequence == final, options, coded[sequence % shape.blocks][sequence // shape.blocks]
            )
            for sequence in range(final + 1)
        ]
        step = shape.needed * shape.blocks
        return [[cut[i % len(cut)] for i in range(r * step, (r + 1) * step)] for r in range(rounds)]


def check(payload: bytes) -> None:
    """Raises TooLarge if nobody would take it."""
    if len(payload) > MOST_BYTES:
        raise TooLarge("length of announcement", len(payload), MOST_BYTES)


def whole(payload: bytes) -> bytes:
    """What every packet of a cut announcement says about the whole."""
    return WHOLE_FORMAT.pack(len(payload), blake2b(payload, digest_size=DIGEST_BYTES).digest())


def fragments(payload: bytes, mtu: int) -> list[Fragment]:
    """The announcement in order, cut where a packet is full."""
    check(payload)
    if len(payload) <= mtu - HEADER_BYTES:
        return [Fragment(0, True, (), payload)]
    room = mtu - HEADER_BYTES - _WHOLE_ROOM
    if room < 1:
        raise TooLarge("header of a packet", mtu - room + 1, mtu)
    options = ((WHOLE, whole(payload)),)
    count = ceil(len(payload) / room)
    if count > MOST_SEQUENCE + 1:
        raise TooLarge("number of fragments", count, MOST_SEQUENCE + 1)
    return [Fragment(i, i == count - 1, options, payload[i * room : (i + 1) * room]) for i in range(count)]


def _bounded(rounds: int) -> int:
    if rounds > MOST_ROUNDS:
        raise TooLarge("number of rounds", rounds, MOST_ROUNDS)
    return rounds
