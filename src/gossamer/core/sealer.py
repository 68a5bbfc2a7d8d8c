"""The open parcel of a channel: collects events until somebody seals it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gossamer.core.errors import BadEnvelope, TooLarge
from gossamer.core.event import MAX_PAYLOAD, NO_ENVELOPE, NO_QOS, Attributes, Envelope, QoS
from gossamer.core.names import channel_id
from gossamer.core.parcel import MAX_EVENTS, Answer, Header, Parcel, make_body
from gossamer.core.receipt import Notary, Stamp

PARCEL_BYTES = 60 * 1024
"""Default size at which a parcel is sealed; fits the largest datagram, and stays in the cache."""
PARCEL_EVENTS = 4096
"""Events at which a parcel is sealed, however small they are: more of them save nothing, and come later."""
EVENT_OVERHEAD = 5
"""Bytes that msgpack adds to a payload at most."""
HEADER_ALLOWANCE = 400
"""Bytes set aside for prelude and header when a parcel must fit a datagram."""


class _Open:
    """Events alike in their quality of service."""

    __slots__ = ("attributes", "first", "payloads", "qos")

    def __init__(self, first: int, qos: QoS) -> None:
        self.first = first
        self.qos = qos
        self.payloads: list[bytes] = []
        self.attributes: list[Attributes | None] = []


class Sealer:
    """Numbers events and makes parcels of them, for one channel of one incarnation of a node."""

    __slots__ = (
        "_answers",
        "_channel",
        "_closed",
        "_incarnation",
        "_next",
        "_notary",
        "_open",
        "_sequence",
        "_size",
        "admit",
        "limit",
        "retain",
    )

    def __init__(self, channel: str, incarnation: int, notary: Notary, limit: int = PARCEL_BYTES) -> None:
        self.limit = limit
        self.admit: Callable[[Attributes], None] | None = None
        """Raises if an event may not be published; with it, events of one parcel have the same attributes."""
        self.retain: Callable[[Parcel], None] | None = None
        """Takes parcels whose last event is to be retained."""
        self._channel = channel_id(channel)
        self._incarnation = incarnation
        self._notary = notary
        self._next = 1
        self._sequence = 0
        self._answers = 0
        self._size = 0
        self._open: _Open | None = None
        self._closed: list[_Open] = []

    @property
    def waiting(self) -> bool:
        """Whether any event has not been sealed."""
        return self._open is not None or bool(self._closed)

    @property
    def full(self) -> bool:
        """Whether a parcel is complete and should be sealed now."""
        return bool(self._closed)

    @property
    def next_number(self) -> int:
        return self._next

    def add(self, payload: bytes, attributes: Attributes | None = None, qos: QoS = NO_QOS) -> int:
        """Accept an event; its number."""
        if len(payload) > MAX_PAYLOAD:
            raise TooLarge("payload", len(payload), MAX_PAYLOAD)
        if self.admit is not None:
            self.admit(attributes or {})
        size = len(payload) + EVENT_OVERHEAD + (_size(attributes) if attributes else 1)
        group = self._open
        if group is not None and (
            group.qos != qos
            or (self.admit is not None and (group.attributes or [None])[-1] != (attributes or None))
            or self._size + size > self.limit
        ):
            self._close(group)
            group = None
        number = self._next
        if group is None:
            group = self._open = _Open(number, qos)
            self._size = HEADER_ALLOWANCE
        if attributes and not group.attributes:
            group.attributes.extend([None] * len(group.payloads))
            group.attributes.append(attributes)
        elif group.attributes:
            group.attributes.append(attributes or None)
        group.payloads.append(payload)
        self._next = number + 1
        self._size += size
        if self._size >= self.limit or len(group.payloads) >= PARCEL_EVENTS:
            self._close(group)
        return number

    def add_run(self, payloads: Sequence[bytes], qos: QoS) -> tuple[int, int]:
        """Accept events without attributes, as many of the first as one parcel takes; how many, and bytes.

        One step for all of them: it looks at no event by itself. None are taken where each has to be looked
        at, or the first does not fit; if not all are, the parcel is complete.
        """
        group = self._open
        if self.admit is not None or (group is not None and (group.attributes or group.qos != qos)):
            return 0, 0
        room = self.limit - (self._size if group is not None else HEADER_ALLOWANCE)
        count = min(len(payloads), PARCEL_EVENTS - (len(group.payloads) if group is not None else 0))
        some, size = payloads, 0
        while count > 0:
            some = payloads[:count]
            size = sum(map(len, some)) + (EVENT_OVERHEAD + 1) * count
            if size < room:
                break
            count = min(count - 1, count * room // size)
        if count <= 0:
            return 0, 0
        if group is None:
            group = self._open = _Open(self._next, qos)
            self._size = HEADER_ALLOWANCE
        group.payloads += some
        self._next += count
        self._size += size
        if count < len(payloads) or len(group.payloads) >= PARCEL_EVENTS:
            self._close(group)
        return count, size

    def add_together(self, events: Sequence[tuple[bytes, Attributes, QoS]]) -> range:
        """Accept events into one parcel of their own; their numbers."""
        if any(qos != events[0][2] for _, _, qos in events):
            raise BadEnvelope("transaction", f"{len(events)} events", "events alike in QoS")
        size = HEADER_ALLOWANCE + sum(
            len(payload) + EVENT_OVERHEAD + (_size(attributes) if attributes else 1)
            for payload, attributes, _ in events
        )
        if len(events) > MAX_EVENTS:
            raise TooLarge("number of events in a transaction", len(events), MAX_EVENTS)
        if size > self.limit and len(events) > 1:
            raise TooLarge("transaction, in bytes with what it takes to send it,", size, self.limit)
        if self._open is not None:
            self._close(self._open)
        group = _Open(self._next, events[0][2])
        group.payloads = [payload for payload, _, _ in events]
        if any(attributes for _, attributes, _ in events):
            group.attributes = [attributes or None for _, attributes, _ in events]
        self._next += len(events)
        self._close(group)
        return range(group.first, self._next)

    def _close(self, group: _Open) -> None:
        self._closed.append(group)
        self._open = None

    def seal(self, address: str, now: int, blanks: int = 0, complete: bool = False) -> list[Parcel]:
        """All events accepted so far, as parcels in order, behind so many without events.

        With ``complete`` the open parcel stays open, and may still grow.
        """
        if self._open is not None and not complete:
            self._close(self._open)
        groups, self._closed = self._closed, []
        if groups:
            groups[:0] = [_Open(groups[0].first, NO_QOS)] * blanks
        return [self._parcel(group, address, now) for group in groups]

    def _parcel(self, group: _Open, address: str, now: int) -> Parcel:
        self._sequence += 1
        body, split = make_body(group.payloads, group.attributes)
        stamp = self._stamp(address, self._sequence, group.first, len(group.payloads))
        qos = None if group.qos == NO_QOS else group.qos
        parcel = Parcel(Header(self._channel, stamp, now, split, qos), body)
        if group.qos.retain and self.retain is not None:
            self.retain(parcel)
        return parcel

    def _stamp(self, address: str, sequence: int, first: int, count: int) -> Stamp:
        proof = self._notary.prove(self._channel, self._incarnation, sequence, first, count)
        return Stamp(address, self._incarnation, sequence, first, count, proof)

    def stamp(self, address: str, number: int) -> Stamp:
        """A stamp for one event accepted here, before its parcel is sealed."""
        return self._stamp(address, 0, number, 1)

    def answer(
        self, answers: Answer, address: str, now: int, payload: bytes, envelope: Envelope = NO_ENVELOPE
    ) -> Parcel:
        """A feedback parcel."""
        if len(payload) > MAX_PAYLOAD:
            raise TooLarge("payload", len(payload), MAX_PAYLOAD)
        self._answers += 1
        body, split = make_body([payload], [envelope.attributes] if envelope.attributes else [])
        stamp = self._stamp(address, 0, self._answers, 1)
        qos = None if envelope.qos == NO_QOS else envelope.qos
        return Parcel(Header(self._channel, stamp, now, split, qos, answers), body)


def _size(attributes: Attributes) -> int:
    """An upper bound of the encoded size of attributes."""
    total = 3
    for name, value in attributes.items():
        total += 4 * len(name) + 5 + (4 * len(value) + 5 if isinstance(value, str | bytes) else 9)
    return total
