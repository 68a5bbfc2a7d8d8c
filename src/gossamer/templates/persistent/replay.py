"""History on its way: what nodes ask of those that keep a log, and what they get."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.control import Message
from gossamer.core.effect import History
from gossamer.core.errors import ProtocolError
from gossamer.core.names import MAX_ADDRESS
from gossamer.core.parcel import Parcel
from gossamer.core.wire import MAX_FRAME, decode

MAX_REPLAYED = 64
"""Parcels of one answer."""
REPLAY_BYTES = 40 * 1024
"""Bytes of one answer, unless a single parcel is larger."""

Address = Annotated[str, Meta(min_length=1, max_length=MAX_ADDRESS)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Replay(Message, frozen=True):
    """Send me parcels from a number on, but none sent before an instant."""

    to: Address
    origin: Address
    wish: Number
    first: Number
    since: Number


class Replayed(Message, frozen=True):
    """Parcels from a number on; where to go on, and what comes next in the log."""

    to: Address
    origin: Address
    wish: Number
    asked: Number
    first: Number
    frames: Annotated[tuple[Annotated[bytes, Meta(max_length=MAX_FRAME)], ...], Meta(max_length=MAX_REPLAYED)]
    following: Number
    end: Number


class Wish(msgspec.Struct):
    """What a subscription, or the log of this node, still wants of the history.

    next
        The number that comes next for it.
    since
        Nanoseconds; what was sent before is passed over.
    done
        Whether it has caught up, and follows what is delivered here.
    call
        Of the application that wants it.
    whom
        The node that was asked for it last.
    """

    next: int
    since: int = 0
    done: bool = False
    call: int = 0
    whom: str = ""


LOST = b""
"""A record in the place of one that was lost: a repaired log keeps its positions."""


def answer_of(replay: Replay, history: History, address: str) -> Replayed:
    """What a node that keeps the history answers, from the records that it read."""
    frames: list[bytes] = []
    first = following = history.position
    size = 0
    for frame in history.records:
        if frames and size + len(frame) > REPLAY_BYTES:
            break
        following += 1
        if not frames and replay.since and _sent(frame) < replay.since:
            first = following
            continue
        frames.append(frame)
        size += len(frame)
    return Replayed(
        replay.origin, address, replay.wish, replay.first, first, tuple(frames), following, history.end
    )


def parcels_of(replayed: Replayed) -> list[tuple[int, Parcel]]:
    """Parcels of an answer with their places, without those that were lost; raises ProtocolError."""
    parcels: list[tuple[int, Parcel]] = []
    for place, frame in enumerate(replayed.frames, replayed.first):
        if frame == LOST:
            continue
        parcel = decode(frame)
        if not isinstance(parcel, Parcel):
            raise ProtocolError("message.frames", type(parcel).__name__, "parcels")
        parcel.place = place
        parcels.append((place, parcel))
    return parcels


def _sent(frame: bytes) -> int:
    parcel = decode(frame) if frame != LOST else None
    return parcel.header.sent if isinstance(parcel, Parcel) else 0
