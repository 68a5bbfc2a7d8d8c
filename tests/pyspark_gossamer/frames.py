"""Logs of a channel without a node: frames as a source seals them."""

from __future__ import annotations

from pathlib import Path

from gossamer.core.event import Attributes, Envelope
from gossamer.core.names import channel_id
from gossamer.core.receipt import Notary
from gossamer.core.sealer import Sealer
from gossamer.core.wire import encode

CHANNEL = "orders"


class Source:
    """A source that numbers its events through."""

    def __init__(self, name: str = "b1", channel: str = CHANNEL) -> None:
        self._sealer = Sealer(channel, 5, Notary(b"secret"), 65536)
        self._name = name

    def parcel(self, *payloads: bytes, attributes: Attributes | None = None) -> list[bytes]:
        """The frames of one parcel, or of more if it is a large one."""
        for payload in payloads:
            envelope = Envelope(attributes or {})
            self._sealer.add(payload, envelope.attributes, envelope.qos)
        return [encode(parcel) for parcel in self._sealer.seal(self._name, 1000)]

    def parcels(self, count: int, events: int = 1) -> list[bytes]:
        """Parcels of so many events each, whose payloads are their numbers."""
        frames = []
        for _ in range(count):
            first = self._sealer.next_number
            frames += self.parcel(*(b"%d" % number for number in range(first, first + events)))
        return frames


def folder_of(state: Path, channel: str = CHANNEL) -> Path:
    """Where a node keeps the log of a channel."""
    return state / "logs" / f"{channel}-{channel_id(channel):016x}"
