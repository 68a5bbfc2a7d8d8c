"""Messages between the nodes of a Raft group; ``node`` says when they are sent."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.control import Instant, Life, Message
from gossamer.core.names import MAX_ADDRESS, MAX_NODE_NAME, last
from gossamer.core.wire import MAX_FRAME

MAX_VOTERS = 15
MAX_ENTRIES = 1024
"""Entries of one message."""
MAX_POSITIONS = 10_000
MAX_FETCHED = 16
"""Parcels that one message asks for."""

Name = Annotated[str, Meta(max_length=MAX_NODE_NAME)]
Address = Annotated[str, Meta(max_length=MAX_ADDRESS)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Voter = tuple[Name, Life]
"""A node and its life: whoever begins a new life has forgotten what it knew."""
Voters = Annotated[tuple[Voter, ...], Meta(max_length=MAX_VOTERS)]
History = tuple[Instant, Name]
"""When a Raft group was founded and by whom; of two histories the later holds."""
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
    seats: Voters = ()
    voids: Number = 0

    @property
    def key(self) -> tuple[str, int]:
        """Node and incarnation of the source."""
        return (last(self.source), self.incarnation)


class RaftMessage(Message, frozen=True):
    """From one node to another, through others where there is no direct way."""

    to: Name
    origin: Name
    life: Life
    history: History
    term: Number


class RequestVote(RaftMessage, frozen=True):
    """Let me lead in this term: my record goes so far; ``invited`` by the one who leads now."""

    index: Number
    index_term: Number
    invited: bool


class RequestVoteReply(RaftMessage, frozen=True):
    """You may, or not."""

    granted: bool


class AppendEntries(RaftMessage, frozen=True):
    """What comes after an entry that we share; what is decided, and what everybody has."""

    index: Number
    index_term: Number
    entries: Annotated[tuple[Entry, ...], Meta(max_length=MAX_ENTRIES)]
    commit_index: Number
    settled: Number


class AppendEntriesReply(RaftMessage, frozen=True):
    """I share your record up to an index, and have all parcels up to another; or, not agreed, I might
    share it from there on.
    """

    index: Number
    held: Number
    agreed: bool


class NoSuchLog(RaftMessage, frozen=True):
    """I have no record of that Raft group."""


class InstallSnapshot(RaftMessage, frozen=True):
    """The state up to an index, for one that is too far behind."""

    index: Number
    index_term: Number
    seats: Voters
    positions: Positions
    number: Number
    tip: Tip = ("", 0, 0)


class TimeoutNow(RaftMessage, frozen=True):
    """Your record is as good as mine and your place is better: lead."""


class FetchParcels(RaftMessage, frozen=True):
    """I have these entries and not their parcels."""

    indexes: Annotated[tuple[Number, ...], Meta(max_length=MAX_FETCHED)]


class FetchedParcel(RaftMessage, frozen=True):
    """The parcel of an entry; empty if it is not here."""

    index: Number
    parcel: Annotated[bytes, Meta(max_length=MAX_FRAME)]


class BootstrapRequest(RaftMessage, frozen=True):
    """I know of no Raft group and would found one."""


class BootstrapReply(RaftMessage, frozen=True):
    """Go ahead, or not: somebody else asked first, or is a better match. Who had seats in the latest that I
    know of, and since which index; and the best matches of the channel that I know of, to be asked too.
    """

    granted: bool
    latest: History
    index: Number
    seats: Voters
    best: Annotated[tuple[Name, ...], Meta(max_length=2 * MAX_VOTERS)]


RAFT_MESSAGES = (
    RequestVote,
    RequestVoteReply,
    AppendEntries,
    AppendEntriesReply,
    NoSuchLog,
    InstallSnapshot,
    TimeoutNow,
    FetchParcels,
    FetchedParcel,
    BootstrapRequest,
    BootstrapReply,
)
