"""Effects: what an engine asks its host to do. Plain values; a host carries them out in order."""

from __future__ import annotations

from typing import Any

import msgspec

from gossamer.core.errors import ProtocolError, StorageError
from gossamer.core.parcel import Parcel
from gossamer.core.wire import Item


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Base of all effects."""


class Send(Effect, frozen=True):
    """Send an item to neighbours."""

    to: tuple[str, ...]
    item: Item


class Deliver(Effect, frozen=True):
    """Hand a parcel's events to a local subscription; ``picks`` are indexes, None means all."""

    channel: int
    subscription: int
    parcel: Parcel
    picks: tuple[int, ...] | None
    sender: str | None


class DeliverFeedback(Effect, frozen=True):
    """Hand an answer to whoever listens for feedback on this channel here."""

    channel: int
    parcel: Parcel


class Wake(Effect, frozen=True):
    """Call back at an instant; a later wake of the same name replaces it, ``at`` None cancels it."""

    channel: int
    name: str
    at: int | None


class Drop(Effect, frozen=True):
    """An item ended here, and why.

    peer
        The neighbour to which the host could not send it; empty if the template gave it up.
    """

    item: Item
    reason: str
    peer: str = ""


SENSELESS = "makes no sense"
"""How the reason of a drop ends where a value was read that cannot be."""


def senseless(error: ProtocolError) -> str:
    """Why something that could be read ended here."""
    return f"{error.field} {SENSELESS}"


class Reply(Effect, frozen=True):
    """The answer to a call of the host: a value, or an error to raise. With ``more`` others will follow."""

    call: int
    value: Any
    error: Exception | None
    more: bool = False


class SubscribersChanged(Effect, frozen=True):
    """Whether anybody, anywhere, listens on a channel has changed."""

    channel: int
    has_subscribers: bool


class Room(Effect, frozen=True):
    """What publishers on a channel have to wait for has changed; None means nothing."""

    channel: int
    obstacle: str | None


class Acknowledged(Effect, frozen=True):
    """Events published here are acknowledged up to a number, in the sense of the template's docstring."""

    channel: int
    number: int


class Lost(Effect, frozen=True):
    """Events published here, from one number to another, were given up by the nodes responsible: they will
    never be acknowledged. It comes before an acknowledgement of later ones.
    """

    channel: int
    first: int
    last: int


class Missed(Effect, frozen=True):
    """Subscribers on a channel here did not keep up with a source: events of it are missing.

    to
        The subscriptions that lack them; None for all on the channel.
    """

    channel: int
    source: str
    to: tuple[int, ...] | None = None


class Note(Effect, frozen=True):
    """A row of the trace: a parcel's place in an order or a log. The engine writes it, no host sees it."""

    channel: int
    action: str
    place: int
    source: tuple[str, int]
    sequence: int
    order: str


class Store(Effect, frozen=True):
    """Keep a small value on this node's disk; None forgets it. The node gets all of them back on restart.

    Effects of the same channel that follow it are carried out when the value is on disk.

    ticket
        Unless it is 0, a Stored report follows when the value is on disk; tickets of a channel grow.
    """

    key: str
    value: bytes | None
    channel: int = 0
    ticket: int = 0


class Append(Effect, frozen=True):
    """Append records to a channel's log on this node; an Appended report follows when they are on disk.

    at
        Where the log must end for that: an append that waited while the log was repaired is refused.
        Anywhere if it is negative.
    """

    channel: int
    ticket: int
    records: tuple[bytes, ...]
    at: int = -1


class Read(Effect, frozen=True):
    """Read a channel's log from a position on; a History report follows."""

    channel: int
    ticket: int
    position: int
    limit: int


class Trim(Effect, frozen=True):
    """Records of a channel's log before a position are no longer needed."""

    channel: int
    position: int


class Retain(Effect, frozen=True):
    """Trim whole segments of a channel's log that are older than so many seconds, or beyond so many bytes."""

    channel: int
    seconds: float
    bytes: int


class Repair(Effect, frozen=True):
    """Set damaged parts of a channel's log aside, and all that follows them; a History report follows.

    position
        Where the log begins anew, without anything of what it had; negative keeps what is whole.
    """

    channel: int
    ticket: int
    position: int = -1


class Appended(msgspec.Struct, frozen=True):
    """Records are on disk; ``position`` is the log's next free one. An error means that they are not.

    failure
        The error, if the disk is the reason.
    """

    ticket: int
    position: int
    error: str = ""
    failure: StorageError | None = None


class History(msgspec.Struct, frozen=True):
    """Records of the log from a position on, and where the log begins and ends now.

    damaged
        Whether the error is damage to the log: records from ``position`` on, which were synced, are missing.
    final
        Whether the error stays until the node is stopped and repaired: something beside the log is damaged.
    """

    ticket: int
    position: int
    records: tuple[bytes, ...]
    begin: int
    end: int
    error: str = ""
    damaged: bool = False
    final: bool = False


class Stored(msgspec.Struct, frozen=True):
    """Small values of the channel are on disk, up to the one with this ticket."""

    ticket: int


class Stalled(msgspec.Struct, frozen=True):
    """Small values of the channel cannot be written, and effects behind them wait; None when they can."""

    failure: StorageError | None


Report = Appended | History | Stored | Stalled
"""What storage tells a template."""
