"""What the seats of a council say to each other; ``council`` says when."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.control import Instant, Life, Message
from gossamer.core.names import MAX_ADDRESS, MAX_NODE_NAME, last
from gossamer.core.wire import MAX_FRAME

MAX_SEATS = 15
MAX_ENTRIES = 1024
"""Entries of one letter."""
MAX_POSITIONS = 10_000
MAX_FETCHED = 16
"""Parcels that one letter asks for."""

Name = Annotated[str, Meta(max_length=MAX_NODE_NAME)]
Address = Annotated[str, Meta(max_length=MAX_ADDRESS)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seat = tuple[Name, Life]
"""A node and its life: whoever begins a new life has forgotten what it knew."""
Seats = Annotated[tuple[Seat, ...], Meta(max_length=MAX_SEATS)]
History = tuple[Instant, Name]
"""When a council was founded and by whom; of two histories the later holds."""
Positions = Annotated[tuple[tuple[Name, Life, Number], ...], Meta(max_length=MAX_POSITIONS)]


Tip = tuple[Name, Number, Number]
"""Node, incarnation and sequence of the last parcel that has a place; no node if it is not known."""


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One decision: a parcel of a source comes next, or these have seats from now on, or an earlier entry is
    void because nobody has its parcel, or nothing.
    """

    term: Number
    source: Address = ""
    incarnation: Life = 0
    sequence: Number = 0
    seats: Seats = ()
    voids: Number = 0

    @property
    def key(self) -> tuple[str, int]:
        """Node and incarnation of the source."""
        return (last(self.source), self.incarnation)


class Letter(Message, frozen=True):
    """From one node to another, through others where there is no direct way."""

    to: Name
    origin: Name
    life: Life
    history: History
    term: Number


class Ask(Letter, frozen=True):
    """Let me lead in this term: my record goes so far; ``invited`` by the one who leads now."""

    index: Number
    index_term: Number
    invited: bool


class Vote(Letter, frozen=True):
    """You may, or not."""

    granted: bool


class Copy(Letter, frozen=True):
    """What comes after an entry that we share; what is decided, and what everybody has."""

    index: Number
    index_term: Number
    entries: Annotated[tuple[Entry, ...], Meta(max_length=MAX_ENTRIES)]
    decided: Number
    settled: Number


class Copied(Letter, frozen=True):
    """I share your record up to an index, and have all parcels up to another; or, not agreed, I might
    share it from there on.
    """

    index: Number
    held: Number
    agreed: bool


class Stranger(Letter, frozen=True):
    """I have no record of that council."""


class Welcome(Letter, frozen=True):
    """The state up to an index, for one that is too far behind."""

    index: Number
    index_term: Number
    seats: Seats
    positions: Positions
    number: Number
    tip: Tip = ("", 0, 0)


class Lead(Letter, frozen=True):
    """Your record is as good as mine and your place is better: lead."""


class Fetch(Letter, frozen=True):
    """I have these entries and not their parcels."""

    indexes: Annotated[tuple[Number, ...], Meta(max_length=MAX_FETCHED)]


class Fetched(Letter, frozen=True):
    """The parcel of an entry; empty if it is not here."""

    index: Number
    parcel: Annotated[bytes, Meta(max_length=MAX_FRAME)]


class Found(Letter, frozen=True):
    """I know of no council and would found one."""


class Founded(Letter, frozen=True):
    """Go ahead, or not: somebody else asked first, or is a better match. Who had seats in the latest that I
    know of, and since which index; and the best matches of the channel that I know of, to be asked too.
    """

    granted: bool
    latest: History
    index: Number
    seats: Seats
    best: Annotated[tuple[Name, ...], Meta(max_length=2 * MAX_SEATS)]


LETTERS = (Ask, Vote, Copy, Copied, Stranger, Welcome, Lead, Fetch, Fetched, Found, Founded)
