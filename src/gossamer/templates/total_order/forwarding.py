"""Carries Raft messages and history to nodes that are not neighbours: each hop repeats them until the next
hop has taken them over.

A message to a neighbour is sent as it is: its sender repeats the question if no answer comes. Of messages of
one kind between the same two nodes only the newest is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from gossamer.consensus.messages import (
    AppendEntries,
    AppendEntriesReply,
    BootstrapReply,
    BootstrapRequest,
    FetchedParcel,
    FetchParcels,
    InstallSnapshot,
    NoSuchLog,
    Number,
    RaftMessage,
    RequestVote,
    RequestVoteReply,
    TimeoutNow,
)
from gossamer.core.context import Context
from gossamer.core.control import Message
from gossamer.core.names import last
from gossamer.templates.persistent.replay import Replay, Replayed

Carried = RaftMessage | Replay | Replayed

MAX_KEPT = 1024
"""Messages that wait to be taken over by the next hop."""


class Relay(Message, frozen=True):
    """Pass this message on."""

    number: Number
    message: (
        RequestVote
        | RequestVoteReply
        | AppendEntries
        | AppendEntriesReply
        | NoSuchLog
        | InstallSnapshot
        | TimeoutNow
        | FetchParcels
        | FetchedParcel
        | BootstrapRequest
        | BootstrapReply
        | Replay
        | Replayed
    )


class Relayed(Message, frozen=True):
    """I have taken over the message that you number so."""

    number: Number


class Post:
    """What one node has to pass on.

    way
        The next node on the way of a message, or None if there is no way.
    retry
        Seconds until a message is said again.
    """

    def __init__(self, way: Callable[[Context, Carried], str | None], retry: float) -> None:
        self._way = way
        self._retry = retry
        self._number = 0
        self._kept: dict[tuple[str, str, type[Message]], tuple[str, Relay]] = {}

    def send(self, ctx: Context, message: Carried) -> None:
        """Send a message on its way."""
        hop = self._way(ctx, message)
        if hop is None:
            return
        if hop == last(message.to):
            ctx.send(hop, message)
            return
        if not self._kept:
            ctx.wake("post", self._retry)
        self._number += 1
        relay = Relay(self._number, message)  # type: ignore[arg-type]  # Message is their common base
        self._kept[message.origin, message.to, type(message)] = (hop, relay)
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        ctx.send(hop, relay)

    def taken(self, relayed: Relayed, sender: str) -> None:
        """The next hop has taken messages over."""
        for key, (hop, relay) in tuple(self._kept.items()):
            if hop == sender and relay.number == relayed.number:
                del self._kept[key]

    def timer(self, ctx: Context) -> None:
        """Say again what was not taken over; the way may be another by now."""
        for key, (before, relay) in self._kept.items():
            hop = self._way(ctx, relay.message) or before
            self._kept[key] = (hop, relay)
            ctx.send(hop, relay)
        if self._kept:
            ctx.wake("post", self._retry)
