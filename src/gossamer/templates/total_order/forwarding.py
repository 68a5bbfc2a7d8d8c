"""Carries letters and history to nodes that are not next to this one: each hop says them again until they are
taken over.

Only where a letter has to pass through others; to a neighbour it goes just so, and whoever wrote it asks
again if it gets no answer. Of letters of one kind between the same two nodes only the newest is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from gossamer.consensus.messages import (
    Ask,
    Copied,
    Copy,
    Fetch,
    Fetched,
    Found,
    Founded,
    Lead,
    Letter,
    Number,
    Stranger,
    Vote,
    Welcome,
)
from gossamer.core.context import Context
from gossamer.core.control import Message
from gossamer.core.names import last
from gossamer.templates.persistent.replay import Replay, Replayed

Carried = Letter | Replay | Replayed

MAX_KEPT = 1024
"""Letters that wait to be taken over by the next hop."""


class Relay(Message, frozen=True):
    """Pass this letter on."""

    number: Number
    letter: (
        Ask
        | Vote
        | Copy
        | Copied
        | Stranger
        | Welcome
        | Lead
        | Fetch
        | Fetched
        | Found
        | Founded
        | Replay
        | Replayed
    )


class Relayed(Message, frozen=True):
    """I have taken over the letter that you number so."""

    number: Number


class Post:
    """What one node has to pass on.

    way
        The next node on the way of a letter, or None if there is no way.
    retry
        Seconds until a letter is said again.
    """

    def __init__(self, way: Callable[[Context, Carried], str | None], retry: float) -> None:
        self._way = way
        self._retry = retry
        self._number = 0
        self._kept: dict[tuple[str, str, type[Message]], tuple[str, Relay]] = {}

    def send(self, ctx: Context, letter: Carried) -> None:
        """Send a letter on its way."""
        hop = self._way(ctx, letter)
        if hop is None:
            return
        if hop == last(letter.to):
            ctx.send(hop, letter)
            return
        if not self._kept:
            ctx.wake("post", self._retry)
        self._number += 1
        relay = Relay(self._number, letter)  # type: ignore[arg-type]  # Letter is their common base
        self._kept[letter.origin, letter.to, type(letter)] = (hop, relay)
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        ctx.send(hop, relay)

    def taken(self, relayed: Relayed, sender: str) -> None:
        """The next hop has taken letters over."""
        for key, (hop, relay) in tuple(self._kept.items()):
            if hop == sender and relay.number == relayed.number:
                del self._kept[key]

    def timer(self, ctx: Context) -> None:
        """Say again what was not taken over; the way may be another by now."""
        for key, (before, relay) in self._kept.items():
            hop = self._way(ctx, relay.letter) or before
            self._kept[key] = (hop, relay)
            ctx.send(hop, relay)
        if self._kept:
            ctx.wake("post", self._retry)
