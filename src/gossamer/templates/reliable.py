"""Reliable: multicast with a window per source at every node of the tree (seed 000, 4.1.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeVar

from msgspec import Meta

from gossamer.core.context import BELOW, Context
from gossamer.core.control import Message, on
from gossamer.core.names import MAX_ADDRESS, MAX_NODE_NAME, last, nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.core.template import AT_MOST_ONCE, GAP_FREE, Membership
from gossamer.overlay.stream import Key, Stream, ranges
from gossamer.templates.multicast import Multicast, MulticastSettings, on_backbone

MAX_ASKED = 64
"""Holes that one request lists."""
MAX_STREAMS = 10_000

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME)]
Address = Annotated[str, Meta(min_length=1, max_length=MAX_ADDRESS)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Missing(Message, frozen=True):
    """One hop towards the source: these parcels have not come, as (first, how many)."""

    source: Name
    incarnation: Number
    numbers: Annotated[tuple[tuple[Number, Number], ...], Meta(max_length=MAX_ASKED)]


class Have(Message, frozen=True):
    """One hop away from the source: where its parcels begin for you, and the greatest number there is."""

    source: Address
    incarnation: Number
    first: Number
    high: Number


class Acks(Message, frozen=True):
    """One hop towards sources: I and all behind me have everything up to these numbers.

    The tree's version says who "all" are: an answer about another tree does not count.
    """

    epoch: Number
    counter: Number
    positions: Annotated[tuple[tuple[Name, Number, Number], ...], Meta(max_length=MAX_STREAMS)]


class Dropped(Message, frozen=True):
    """You did not keep up and are no longer served."""

    source: Name
    incarnation: Number


class ReliableSettings(MulticastSettings, frozen=True):
    """Settings of a reliable channel, on top of those of multicast.

    send_window
        Parcels of one source that may be on their way; publishing waits for the slowest member beyond it.
    repair
        Seconds between requests for the same missing parcel; a little over a round trip of one hop.
    ack
        Seconds between acknowledgements; each covers all sources behind one neighbour.
    laggard
        Seconds after which a member that does not advance is dropped, and told.
    """

    send_window: Annotated[int, Meta(ge=2, le=65536)] = 256
    repair: Annotated[float, Meta(gt=0, le=60)] = 0.2
    ack: Annotated[float, Meta(gt=0, le=60)] = 0.25
    laggard: Annotated[float, Meta(gt=0, le=86400)] = 60.0


S = TypeVar("S", bound=ReliableSettings)


class Reliable(Multicast[S]):
    """Multicast with repair: every member that keeps up gets every event of every source, in its order.

    Promises: at most once, gap-free and in order per source, from the moment of joining on, for every member
        that keeps up; one that does not is dropped and learns it.
    Costs: a window of parcels per source at every node of the tree; an acknowledgement per edge, merged over
        all sources and all members behind it; one request and one copy per parcel lost on an edge.
    Needs: what multicast needs.
    """

    name = "reliable"
    settings_type = ReliableSettings
    promises = frozenset({AT_MOST_ONCE, GAP_FREE})

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self.streams: dict[Key, Stream] = {}
        self.repaired = 0
        """Parcels sent again by this node."""
        self._ticking = False

    # parcels

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        if not self.publishing:
            self.publishing = True
            self._settle(ctx)
        stream = self._stream(ctx, parcel, 1)
        stream.add(parcel)
        if self.ready(ctx):
            ctx.send(self.hops(ctx, None), parcel)
        self.advance(ctx, stream, None)
        self._tick(ctx)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        stream = self._stream(ctx, parcel, 0)
        number = parcel.stamp.sequence
        asked = stream.wanted.pop(number, set())
        if parcel.stamp.node == ctx.node or not (stream.add(parcel) or asked):
            ctx.drop(parcel, "seen before")
            return
        old = bool(stream.next) and number < stream.next
        ctx.send(sorted(asked) if old else self.hops(ctx, sender), parcel)
        self.advance(ctx, stream, sender)
        self._tick(ctx)

    def on_expired(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        """An expired parcel still closes the gap it would leave."""
        self.on_parcel(ctx, parcel, sender)

    def advance(self, ctx: Context, stream: Stream, sender: str | None) -> None:
        """Deliver what is next in order."""
        for parcel in stream.ready():
            deadline = parcel.deadline
            if deadline is not None and ctx.now > deadline:
                ctx.drop(parcel, "expired")
            else:
                self.in_order(ctx, parcel, sender)
        stream.release()

    def in_order(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        """A parcel whose turn it is, source by source."""
        ctx.deliver(parcel, sender)

    def obstacle(self, ctx: Context) -> str | None:
        stream = self.streams.get((ctx.node, ctx.incarnation))
        if stream is None or len(stream.held) < self.settings.send_window:
            return None
        return f"the slowest member of {ctx.channel!r}"

    # streams

    def _stream(self, ctx: Context, parcel: Parcel, first: int) -> Stream:
        stamp = parcel.stamp
        key = (stamp.node, stamp.incarnation)
        stream = self.streams.get(key)
        if stream is None:
            stream = self.streams[key] = Stream(stamp.source, first)
            self._place(ctx, stream)
        return stream

    def upstream(self, ctx: Context, stream: Stream) -> str | None:
        """The neighbour towards a source; None if it begins here, or nobody knows."""
        path = stream.address.split("/")
        if path[-1] == ctx.node:
            return None
        if ctx.node in path:
            return path[path.index(ctx.node) + 1]
        if not on_backbone(ctx):
            below = next((node for node in path if node in (ctx.container(BELOW) or ())), None)
            return below or ctx.server
        return self.group.tree.tree.next_hop(ctx.node, path[0]) if self.group.tree else None

    def _place(self, ctx: Context, stream: Stream) -> None:
        """Find who is behind us now, and tell those that are new where the stream begins for them."""
        for neighbour in stream.neighbours(self.hops(ctx, self.upstream(ctx, stream)), ctx.now):
            self._tell(ctx, stream, neighbour)

    def _tell(self, ctx: Context, stream: Stream, neighbour: str) -> None:
        if stream.next:
            source = stream.address
            first = stream.behind.get(neighbour)
            start = stream.next if first is None else first + 1
            ctx.send(neighbour, Have(source, self._key(stream)[1], start, stream.high))

    def _key(self, stream: Stream) -> Key:
        return next(key for key, each in self.streams.items() if each is stream)

    def regrouped(self, ctx: Context) -> None:
        super().regrouped(ctx)
        for stream in self.streams.values():
            if on_backbone(ctx):
                stream.unsure()
            self._place(ctx, stream)
        own = self.streams.get((ctx.node, ctx.incarnation))
        if own is not None and self.ready(ctx):
            ctx.send(self.hops(ctx, None), *())if False else None
        self._tick(ctx)
