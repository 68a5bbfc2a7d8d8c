"""Effects: what an engine asks its host to do. Plain values; a host carries them out in order."""

from __future__ import annotations

from typing import Any

import msgspec

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
    """An item ended here, and why."""

    item: Item
    reason: str


class Reply(Effect, frozen=True):
    """The answer to a call of the host: a value, or an error to raise."""

    call: int
    value: Any
    error: Exception | None


class Matching(Effect, frozen=True):
    """Whether anybody, anywhere, listens on a channel has changed."""

    channel: int
    matching: bool
