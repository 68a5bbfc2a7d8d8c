"""Parcels: runs of consecutive events of one source on one channel; what templates route.

The header says all that routing needs. The body keeps envelopes and payloads apart: first a list of
attributes (absent if no event has any), then, from ``split`` on, a list of payloads. Each list is made and
opened by one msgspec call, and only where somebody looks inside.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gossamer.core.body import Body
from gossamer.core.errors import GossamerError, ProtocolError
from gossamer.core.event import (
    MAX_ATTRIBUTES,
    MAX_PAYLOAD,
    NO_QOS,
    Attributes,
    Envelope,
    QoS,
    check_attributes,
)
from gossamer.core.names import MAX_NODE_NAME, nanoseconds
from gossamer.core.receipt import MAX_NUMBER, Number, Stamp

MAX_EVENTS = 65_536
MAX_BODY = 16 * 1024 * 1024
MAX_DEPENDS = 32
"""Parcels that one parcel may depend on: even with the longest names they fit a header, and with them a full
parcel still fits the largest datagram."""

_encode = msgspec.msgpack.Encoder().encode
_decode_payloads = msgspec.msgpack.Decoder(
    Annotated[list[Annotated[bytes, Meta(max_length=MAX_PAYLOAD)]], Meta(max_length=MAX_EVENTS)]
).decode
_decode_attributes = msgspec.msgpack.Decoder(
    Annotated[
        list[Annotated[dict[str, Any], Meta(max_length=MAX_ATTRIBUTES)] | None], Meta(max_length=MAX_EVENTS)
    ]
).decode


class Answer(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Which event a feedback parcel answers; the stamp is the one its source made."""

    stamp: Stamp
    number: Number


class Header(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a forwarder reads.

    sent
        Nanoseconds when the parcel was sealed: on the clock of the source, and at every node that it comes to
        on that node's own, as far as links can tell their clocks apart.
    split
        Bytes of the body that hold envelopes; 0 if no event has attributes.
    """

    channel: Number
    stamp: Stamp
    sent: Number
    split: Annotated[int, Meta(ge=0, le=MAX_BODY)]
    qos: QoS | None = None
    answers: Answer | None = None


Depend = tuple[Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME)], Number, Number]
"""A parcel by node, incarnation and sequence number."""


class DependentHeader(Header, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A header with one field more, so that parcels without dependencies pay nothing for them.

    depends
        Parcels of the same channel that are to be delivered before this one.
    """

    depends: Annotated[tuple[Depend, ...], Meta(max_length=MAX_DEPENDS)] = ()


class PickedHeader(DependentHeader, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A header with yet one field more, of a parcel that holds only some of the events of its stamp.

    picks
        A bit for each event of the stamp, the first event highest: whether it is here.
    """

    picks: Annotated[bytes, Meta(min_length=1, max_length=MAX_EVENTS // 8)] = b"\x00"

    @property
    def indexes(self) -> tuple[int, ...]:
        """Which events of the stamp are here."""
        bits = f"{int.from_bytes(self.picks, 'big'):0{8 * len(self.picks)}b}"
        return tuple(compress(range(len(bits)), map(int, bits)))


Bound = tuple[Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME)], Number, Number]
"""For whom a parcel is that goes to one node alone: the node that asked, which of its requests it answers,
and its place among the answers."""


class RelayedHeader(DependentHeader, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A header that is made anew at every hop, where neighbours number what they hand each other.

    relay
        The number of the relay, which the receiver chose, and that of the parcel in it.
    bound
        Whom it is for, if it does not go where its attributes lead.
    """

    relay: tuple[Number, Number] = (0, 0)
    bound: Bound | None = None


class Parcel:
    """A header, and a body that stays closed until somebody asks for events."""

    __slots__ = ("_attributes", "_body", "_frame", "_front", "_payloads", "header", "place")

    def __init__(self, header: Header, body: bytes | Body, frame: bytes | None = None) -> None:
        self.header = header
        self._body = body if isinstance(body, Body) else Body(body)
        self._frame = frame
        self._front: bytes | None = None
        self.place: int | None = None
        """Its number in the one order of its channel, where there is one."""
        self._payloads: list[bytes] | None = None
        self._attributes: list[Attributes | None] | None = None

    @property
    def body(self) -> bytes:
        """The body in one piece, which may have to be made."""
        return self._body.whole

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return self._body.size

    @property
    def stamp(self) -> Stamp:
        return self.header.stamp

    @property
    def qos(self) -> QoS:
        return self.header.qos or NO_QOS

    @property
    def deadline(self) -> int | None:
        """The instant after which nobody wants it, on the clock of the node that asks."""
        qos = self.header.qos
        if qos is None or qos.expiry is None:
            return None
        return self.header.sent + nanoseconds(qos.expiry)

    @property
    def earliest(self) -> int | None:
        """The instant before which no subscriber gets it, on the clock of the node that asks."""
        qos = self.header.qos
        if qos is None or qos.earliest is None:
            return None
        return self.header.sent + nanoseconds(qos.earliest)

    @property
    def depends(self) -> tuple[Depend, ...]:
        """Parcels that are to be delivered before this one; only some templates have any."""
        return self.header.depends if isinstance(self.header, DependentHeader) else ()

    def depending_on(self, depends: tuple[Depend, ...]) -> Parcel:
        """The same parcel with dependencies, before it is sent."""
        header = self.header
        fields = (header.channel, header.stamp, header.sent, header.split, header.qos, header.answers)
        return Parcel(DependentHeader(*fields, depends), self._body)

    @property
    def picks(self) -> tuple[int, ...] | None:
        """Indexes of the events that are here, if some were left out on the way; else None."""
        return self.header.indexes if isinstance(self.header, PickedHeader) else None

    def picked(self, picks: Sequence[int]) -> Parcel:
        """The same parcel with only some of its events, by their indexes in ascending order.

        Their numbers and the source's proof stay what they were. Bytes are copied; no payload is looked at.
        """
        header, count = self.header, self.stamp.count
        bits = bytearray(b"0") * (-count % 8 + count)
        for pick in picks:
            bits[pick] = 49  # "1"
        present = int(bits, 2).to_bytes(len(bits) // 8, "big")
        attributes = [self.attributes[pick] for pick in picks] if self.attributes else []
        body, split = make_body([self.payloads[pick] for pick in picks], attributes)
        fields = (
            header.channel,
            header.stamp,
            header.sent,
            split,
            header.qos,
            header.answers,
            self.depends,
        )
        return Parcel(PickedHeader(*fields, present), body)

    def sent_at(self, sent: int) -> Parcel:
        """The same parcel with its send time as another clock would have shown it; the body stays closed."""
        header = msgspec.structs.replace(self.header, sent=min(max(0, sent), MAX_NUMBER))
        return Parcel(header, self._body)

    @property
    def relay(self) -> tuple[int, int]:
        """The number of the relay that it came by and its own in there; only some templates have any."""
        return self.header.relay if isinstance(self.header, RelayedHeader) else (0, 0)

    @property
    def bound(self) -> Bound | None:
        """For whom it is, if it does not go where its attributes lead."""
        return self.header.bound if isinstance(self.header, RelayedHeader) else None

    def relayed(self, relay: tuple[int, int], bound: Bound | None = None) -> Parcel:
        """The same parcel for the next hop."""
        header = self.header
        fields = (header.channel, header.stamp, header.sent, header.split, header.qos, header.answers)
        return self._with(RelayedHeader(*fields, self.depends, relay, bound))

    def placed(self, place: int) -> Parcel:
        """The same parcel at a place in an order that is not everybody's."""
        other = self._with(self.header)
        other.place = place
        return other

    def qos_rules(self, qos: QoS) -> Parcel:
        """The same parcel as one of its readers sees it, with another quality of service."""
        if qos == self.qos:
            return self
        return self._with(msgspec.structs.replace(self.header, qos=qos))

    def _with(self, header: Header) -> Parcel:
        other = Parcel(header, self._body)
        other.place, other._payloads, other._attributes = self.place, self._payloads, self._attributes
        return other

    @property
    def payloads(self) -> list[bytes]:
        if self._payloads is None:
            self._open()
        return self._payloads  # type: ignore[return-value]

    @property
    def attributes(self) -> list[Attributes | None]:
        """Per event its attributes; an empty list if no event has any."""
        if self._attributes is None:
            self._open()
        return self._attributes  # type: ignore[return-value]

    def close(self) -> None:
        """Let go of what was inside, or whoever keeps the parcel keeps it twice; it may be opened again."""
        self._payloads = self._attributes = None

    def _open(self) -> None:
        """Decode and check the body; raises ProtocolError where it does not fit its header."""
        split, count = self.header.split, self.header.stamp.count
        view = self._body.view
        attributes: list[Attributes | None] = []
        try:
            if split:
                attributes = _decode_attributes(bytes(view[:split]))  # texts are not read from what is lent
                for each in attributes:
                    if each:
                        check_attributes(each)
            payloads = _decode_payloads(view[split:])
        except (msgspec.MsgspecError, GossamerError, RecursionError, UnicodeDecodeError) as error:
            raise ProtocolError("body", str(error), "lists of attributes and payloads") from None
        picks = self.picks
        expected = count if picks is None else len(picks)
        if len(payloads) != expected or (split and len(attributes) != expected):
            raise ProtocolError("body", f"{len(payloads)} events", f"{expected}, as its header says")
        if picks is not None:
            payloads = _placed(payloads, picks, count, b"")
            attributes = _placed(attributes, picks, count, None) if split else []
        self._attributes, self._payloads = attributes, payloads

    def __repr__(self) -> str:
        stamp = self.stamp
        return f"<parcel {stamp.sequence} of {stamp.source}: events {stamp.first}+{stamp.count}>"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event of a parcel that has been opened."""

    parcel: Parcel
    index: int
    payload: bytes

    @property
    def number(self) -> int:
        """Consecutive per source and channel, from 1."""
        return self.parcel.header.stamp.first + self.index

    @property
    def source(self) -> str:
        """The node that published it."""
        return self.parcel.header.stamp.node

    @property
    def sent(self) -> int:
        """Nanoseconds when it left, as the clock of this node would have shown it."""
        return self.parcel.header.sent

    @property
    def attributes(self) -> Attributes:
        """The attributes of its envelope."""
        attributes = self.parcel.attributes
        return (attributes[self.index] or {}) if attributes else {}

    @property
    def envelope(self) -> Envelope:
        """Attributes and quality of service."""
        return Envelope(self.attributes, self.parcel.qos)


def _placed(found: list[Any], picks: Sequence[int], count: int, absent: Any) -> list[Any]:
    """What is there at its index, and something else where nothing is."""
    whole = [absent] * count
    for pick, each in zip(picks, found, strict=True):
        whole[pick] = each
    return whole


LARGE = 4096
"""Payloads of so many bytes on average are not copied into a body: it consists of them."""
_byte, _word, _double = (struct.Struct(f">B{kind}").pack for kind in "BHI")


def make_body(payloads: Sequence[bytes], attributes: Sequence[Attributes | None]) -> tuple[Body, int]:
    """The body and its split; attributes may be empty if no event has any."""
    front = _encode(attributes) if attributes else b""
    if payloads and sum(map(len, payloads)) >= LARGE * len(payloads):
        return Body(front + _list_head(len(payloads)), *_framed(payloads)), len(front)
    return Body(front + _encode(payloads) if front else _encode(payloads)), len(front)


def _framed(payloads: Sequence[bytes]) -> Iterator[bytes]:
    """Each payload behind what msgpack says about it."""
    for payload in payloads:
        size = len(payload)
        if size >= 2**16:
            yield _double(0xC6, size)
        else:
            yield _word(0xC5, size) if size >= 2**8 else _byte(0xC4, size)
        yield payload


def _list_head(count: int) -> bytes:
    """What msgpack says about a list."""
    if count >= 2**16:
        return _double(0xDD, count)
    return _word(0xDC, count) if count >= 2**4 else bytes([0x90 + count])
