"""What members, publishers and registration services say to each other."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gossamer.core.control import Instant, Life, Message
from gossamer.core.names import MAX_NODE_NAME

MAX_FILTERS = 64
"""Filters of one node; who has more wants everything."""
MAX_FILTER = 4096
"""Bytes of one filter; who has a longer one wants everything."""
MAX_ENTRIES = 64
"""Entry points of a group: enough for 2^64 publishers."""
MAX_REGION = 64

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(max_length=MAX_NODE_NAME)]
"""A node; empty is nobody."""
Region = Annotated[str, Meta(max_length=MAX_REGION)]
Filters = Annotated[tuple[Annotated[bytes, Meta(max_length=MAX_FILTER)], ...], Meta(max_length=MAX_FILTERS)]
"""Identities of filters, any of which may be met; without any nothing is meant."""
Group = Annotated[bytes, Meta(max_length=16)]
Names = Annotated[tuple[Name, ...], Meta(max_length=MAX_ENTRIES)]


class Register(Message, frozen=True):
    """I want events that meet one of these filters, and publish such as meet one of those; neither: I leave.

    life, number
        Of the node, and of what it says: a higher number holds.
    epoch, entries, slot
        The seat that it has: who gave it, in what ring 0, and where. Zero entries: it has none.
    """

    life: Life
    number: Number
    wanted: Filters
    offered: Filters
    epoch: Instant = 0
    entries: Annotated[int, Meta(ge=0, le=MAX_ENTRIES)] = 0
    slot: Number = 0


class Registered(Message, frozen=True):
    """I know it, and shall tell you of so many groups that may want what you publish.

    epoch
        Since when this node has been serving.
    settled
        Whether it knows its groups; else ask again.
    """

    number: Number
    epoch: Instant
    groups: Number
    settled: bool


class Elsewhere(Message, frozen=True):
    """Your region is served by another node."""

    server: Name


class Seat(Message, frozen=True):
    """Your place, and who is around it. The higher (epoch, counter) holds.

    entries, slot
        How many are in ring 0, and the place in the list.
    parent
        Who feeds it; nobody in ring 0, or if that slot is open.
    left_child, right_child
        Whom it feeds.
    left, right
        Its neighbours in the ring, the right one clockwise.
    right_of_left, left_of_right
        The children of the neighbours that it feeds in their place.
    """

    epoch: Instant
    counter: Number
    group: Group
    entries: Annotated[int, Meta(ge=1, le=MAX_ENTRIES)]
    slot: Number
    parent: Name = ""
    left_child: Name = ""
    right_child: Name = ""
    left: Name = ""
    right: Name = ""
    right_of_left: Name = ""
    left_of_right: Name = ""


class SeatHeard(Message, frozen=True):
    """I have that seat."""

    epoch: Instant
    counter: Number


class Unseated(Message, frozen=True):
    """You were said to have failed, and your seat is open: ask again if you live."""

    epoch: Instant
    counter: Number


class Missing(Message, frozen=True):
    """I have not heard for too long from who is beside me, on the seat of this epoch and counter."""

    epoch: Instant
    counter: Number
    node: Name


class Entries(Message, frozen=True):
    """Who takes events that meet these filters; nobody: the group is no more."""

    epoch: Instant
    counter: Number
    group: Group
    wanted: Filters
    entries: Names


class EntriesHeard(Message, frozen=True):
    """I know these entries."""

    epoch: Instant
    counter: Number
    group: Group


class Beat(Message, frozen=True):
    """I live; do you? The newest service that I know of began in this epoch."""

    epoch: Instant


class BeatHeard(Message, frozen=True):
    """I do, and the newest service that I know of began in that epoch."""

    epoch: Instant


class Wants(Message, frozen=True):
    """In my region a group wants events that meet these filters; without filters it is no more."""

    region: Region
    epoch: Instant
    counter: Number
    group: Group
    wanted: Filters


class WantsHeard(Message, frozen=True):
    """I know what your region wants."""

    epoch: Instant
    counter: Number
    group: Group
