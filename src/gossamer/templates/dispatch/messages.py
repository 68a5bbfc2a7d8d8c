"""What dispatchers tell each other about filters, and what applications tell the dispatcher of their node."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gossamer.core.control import Counter, Life, Message
from gossamer.filters.identity import MAX_IDENTITY

MAX_TOLD = 256
"""Filters in one message."""
TOLD_BYTES = 30_000
"""Bytes of filters in one message, unless a single one is larger."""

Filter = tuple[bool, Annotated[bytes, Meta(max_length=MAX_IDENTITY)]]
"""Whether it is an advertisement, and its identity."""
Filters = Annotated[tuple[Filter, ...], Meta(max_length=MAX_TOLD)]


class Tell(Message, frozen=True):
    """Filters on my side: what is new and what is gone since an earlier message.

    life, version
        Of the teller, and of this message.
    base
        The version that this one goes on from; 0 is from nothing.
    knows
        Life and version of the other's newest message that the teller has, or zeros.
    """

    life: Life
    version: Counter
    base: Counter
    knows: tuple[Life, Counter]
    added: Filters
    dropped: Filters


class Told(Message, frozen=True):
    """An answer to your message of this life and version: the newest of that life that I have."""

    life: Life
    version: Counter
    has: Counter
