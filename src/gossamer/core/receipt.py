"""Receipts: what makes feedback reach exactly the source of an event, and nobody able to make one up.

Two keyed hashes. A source puts a *proof* into each stamp it sends; feedback carries the stamp back and
the source checks its own proof. The node of the subscriber *seals* the receipt it hands to the
application, handback included, and checks the seal when the application answers.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.errors import BadEnvelope, ForgedReceipt
from gossamer.core.event import MAX_ATTRIBUTE_BYTES, Value, travels
from gossamer.core.names import MAX_ADDRESS, last

PROOF_BYTES = 8
MAX_NUMBER = 2**63 - 1

Address = Annotated[str, Meta(min_length=1, max_length=MAX_ADDRESS)]
Proof = Annotated[bytes, Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]
Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]


SourceKey = tuple[str, int]
"""Node and incarnation of a source."""


class Stamp(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Who sent which run of events, proved by the sender.

    source
        The address of the node it came from.
    incarnation
        Grows with each restart of that node, so that numbers never mean two things.
    sequence
        Number of the parcel, from 1, per source, incarnation and channel; 0 marks feedback.
    first, count
        Numbers of the events: first, first + 1, … first + count - 1; the very first is 1.
    """

    source: Address
    incarnation: Number
    sequence: Number
    first: Number
    count: Number
    proof: Proof

    @property
    def node(self) -> str:
        """The node itself: the same wherever it is attached."""
        return last(self.source)

    @property
    def key(self) -> tuple[str, int]:
        """The source in one life."""
        return (last(self.source), self.incarnation)


class Receipt(msgspec.Struct, frozen=True):
    """What is held about one event: who sent it, its number, and the subscription's handback.

    Give it to ``channel.feedback``. Changing any field makes it worthless.
    """

    channel: str
    stamp: Stamp
    number: int
    handback: Value | None
    seal: bytes

    @property
    def source(self) -> str:
        """The node that sent the event."""
        return self.stamp.node


class Notary:
    """Makes and checks proofs and seals with one node's secret, which never leaves the node."""

    __slots__ = ("_proof_key", "_seal_key")

    def __init__(self, secret: bytes) -> None:
        self._proof_key = blake2b(secret, digest_size=16, person=b"proof").digest()
        self._seal_key = blake2b(secret, digest_size=16, person=b"seal").digest()

    def prove(self, channel: int, incarnation: int, sequence: int, first: int, count: int) -> bytes:
        claim = b"%d %d %d %d %d" % (channel, incarnation, sequence, first, count)
        return blake2b(claim, key=self._proof_key, digest_size=PROOF_BYTES).digest()

    def verify(self, channel: int, stamp: Stamp, number: int) -> bool:
        """Whether this node made the stamp, and the number is one of its events."""
        proof = self.prove(channel, stamp.incarnation, stamp.sequence, stamp.first, stamp.count)
        return compare_digest(proof, stamp.proof) and stamp.first <= number < stamp.first + stamp.count

    def receipt(self, channel: str, stamp: Stamp, number: int, handback: Value | None = None) -> Receipt:
        return Receipt(channel, stamp, number, handback, self._seal(channel, stamp, number, handback))

    def check(self, receipt: Receipt, channel: str) -> None:
        """Raise unless this node made the receipt just as it is, for this channel."""
        if not isinstance(receipt, Receipt):
            raise ForgedReceipt(f"{type(receipt).__name__} is not a receipt")
        if receipt.channel != channel:
            raise ForgedReceipt(f"it belongs to channel {receipt.channel!r}, not {channel!r}")
        try:
            seal = self._seal(receipt.channel, receipt.stamp, receipt.number, receipt.handback)
            genuine = compare_digest(seal, receipt.seal)
        except (TypeError, ValueError, OverflowError):
            genuine = False
        if not genuine:
            raise ForgedReceipt(f"number {receipt.number} of {receipt.channel!r} was made up or altered")

    def _seal(self, channel: str, stamp: Stamp, number: int, handback: Value | None) -> bytes:
        claim = msgspec.msgpack.encode((channel, stamp, number, handback))
        return blake2b(claim, key=self._seal_key, digest_size=16).digest()


def check_handback(handback: object) -> None:
    """Raise unless the handback can be sealed into receipts."""
    if handback is None or isinstance(handback, bool | float):
        return
    if isinstance(handback, int):
        sealable = -MAX_NUMBER <= handback <= MAX_NUMBER
    else:
        sealable = isinstance(handback, str | bytes) and len(handback) <= MAX_ATTRIBUTE_BYTES
    if not sealable or not travels(handback):
        rule = f"bool, float, int of 64 bits, or str or bytes of at most {MAX_ATTRIBUTE_BYTES}"
        raise BadEnvelope("handback", handback, rule)
