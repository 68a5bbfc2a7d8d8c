"""What nodes along a stream say to each other; ``reliable`` says when."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gossamer.core.control import Counter, Instant, Life, Message
from gossamer.core.names import MAX_ADDRESS, MAX_NODE_NAME

MAX_ASKED = 64
"""Holes that one request lists."""
MAX_SKIPPED = 64
"""Ranges of numbers without a place that one acknowledgement carries."""
MAX_STREAMS = 10_000
"""Sources at once; also how many positions one acknowledgement carries."""

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME + 1)]
Address = Annotated[str, Meta(min_length=1, max_length=MAX_ADDRESS)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Moves = Annotated[int, Meta(ge=0, le=2**31)]


Ranges = tuple[tuple[Number, Number], ...]
"""Numbers as (first, how many)."""
Position = tuple[Name, Life, Number, Number, Number]
"""Source and its incarnation; what all behind have, what the sender has, and what is acknowledged."""


class Missing(Message, frozen=True):
    """One hop towards the source: these parcels have not come, as (first, how many)."""

    source: Address
    incarnation: Life
    numbers: Annotated[tuple[tuple[Number, Number], ...], Meta(max_length=MAX_ASKED)]


class Have(Message, frozen=True):
    """One hop away from the source: the oldest parcel that it keeps, and the newest there is; whether it
    lives anew, so that there will never be another; and how often it has changed its server, so that of two
    addresses the later holds. A node that goes on from before can get what it lacks from ``floor`` on.
    """

    source: Address
    incarnation: Life
    base: Number
    high: Number
    dead: bool = False
    moves: Moves = 0
    floor: Number = 0


class Acks(Message, frozen=True):
    """One hop towards sources: this node and all behind it have everything up to a number, the node itself up
    to another, and events up to a third are acknowledged, as the template means it.

    The tree's version says who "all" are: an answer about another tree does not count. Since each says what
    it has itself, only the node next to a laggard takes it for one.

    ``skipped``: of the first source, the events up to the third number that never will be acknowledged.
    """

    epoch: Instant
    counter: Counter
    positions: Annotated[tuple[Position, ...], Meta(max_length=MAX_STREAMS)]
    skipped: Annotated[Ranges, Meta(max_length=MAX_SKIPPED)] = ()


class Gone(Message, frozen=True):
    """The source has gone; ``final`` if nobody has what you ask for, else ask who stands in for it."""

    source: Address
    incarnation: Life
    final: bool
