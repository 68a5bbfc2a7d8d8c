"""Where streams come from: what ``reliable`` knows of sources, and who is on the way to them."""

from __future__ import annotations

from typing import Annotated, TypeVar

from msgspec import Meta

from gossamer.core.context import BELOW, Context
from gossamer.core.names import nanoseconds
from gossamer.core.receipt import SourceKey, Stamp
from gossamer.overlay.groups.tree import Rooted
from gossamer.templates.multicast import Multicast, MulticastSettings, on_backbone
from gossamer.templates.reliable.messages import Ranges
from gossamer.templates.reliable.window import Stream
from gossamer.templates.reliable.windows import Streams


class ReliableSettings(MulticastSettings, frozen=True):
    """Settings of a reliable channel, on top of those of multicast.

    send_window
        Parcels of one source that may be on their way, and 64 MiB of them at most; publishing waits for the
        slowest member beyond it.
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


class Sourced(Multicast[S]):
    """Multicast that knows for every source the way back to it; not a template by itself."""

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self.streams = Streams()
        self._laggard = nanoseconds(settings.laggard)
        self._time = 0
        """Nanoseconds of watching; neither a pause nor a wrong clock makes others look slow."""

    def hops(self, ctx: Context, sender: str | None) -> list[str]:
        """Below the backbone also the server, though it may believe for a while that nobody listens."""
        near = super().hops(ctx, sender)
        if on_backbone(ctx):
            return near
        server = ctx.server
        if server is None or server == sender or server in near or server not in self.interests.said:
            return near
        return sorted([*near, server])

    def begins(self, ctx: Context, stream: Stream) -> bool:
        """Whether this node is the source, in this life."""
        return stream.node == ctx.node and stream.life == ctx.incarnation

    def upstream(self, ctx: Context, stream: Stream) -> str | None:
        """The neighbour towards a source, or towards the node that stands in for it.

        None if the stream begins here, or if its source hung below this node and has left: this node answers
        for it then.
        """
        if self.begins(ctx, stream):
            return None
        path, here = stream.path, ctx.node
        if len(path) > 1 and here in path[:-1]:
            child = path[path.index(here) + 1]
            return child if child in (ctx.container(BELOW) or ()) else None
        if not on_backbone(ctx):
            return ctx.server
        tree = self.group.tree
        if tree is None or here not in tree:
            return None
        gone = stream.over or stream.entry not in tree
        return tree.tree.next_hop(here, self.stand_in(tree) if gone else stream.entry)

    def former(self, ctx: Context, stream: Stream, node: str) -> bool:
        """Whether a node below asks for what it published in an earlier life: it has only what is left here,
        for towards the source there is only that node itself.
        """
        return node == stream.node != stream.entry and self.upstream(ctx, stream) == node

    def first(self, ctx: Context, stream: Stream, node: str) -> int:
        """The oldest number that a neighbour can still get: what is left here, if nobody waits for it."""
        alone = node in stream.expelled or self.former(ctx, stream, node)
        return stream.low if alone else stream.base

    def oldest(self, ctx: Context, stream: Stream, node: str) -> int:
        """The oldest number that a neighbour which goes on from before can get, here or further on."""
        first = self.first(ctx, stream, node)
        return first if first != stream.base else min(first, stream.oldest)

    def whereabouts(self, stamp: Stamp) -> str:
        stream = self.streams.get(stamp.key)
        return stamp.source if stream is None else stream.address

    def skipped(self, key: SourceKey, confirmed: int) -> tuple[int, Ranges]:
        """Up to which number a source below hears that its events are acknowledged, and which of them never
        will be.
        """
        return confirmed, ()

    def heard_skipped(self, ctx: Context, key: SourceKey, skipped: Ranges, confirmed: int) -> None:
        """The server has said which events up to a number never will be acknowledged."""

    def stand_in(self, tree: Rooted) -> str:
        """Who takes the place of a source that has gone."""
        return tree.root

    def _ends(self, ctx: Context, stream: Stream) -> bool:
        """Whether nobody further on can have what is not here."""
        return self.upstream(ctx, stream) is None and not self.begins(ctx, stream) and self.group.current(ctx)

    def _stands_in(self, ctx: Context) -> bool:
        """Whether this node takes the place of sources that have gone."""
        return self.group.tree is not None and self.stand_in(self.group.tree) == ctx.node

    def lost(self, ctx: Context) -> bool:
        """Whether this node has just begun and met nobody of the backbone: who is behind it, it cannot know.
        As long as others would wait for it, it acknowledges nothing.
        """
        return self._time < self._laggard and on_backbone(ctx) and self.group.lost(ctx)
