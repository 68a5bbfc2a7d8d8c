"""Causal: reliable, and nothing is delivered before what it depends on.

A parcel depends on the earlier ones of its source, and on all that had been delivered at that node, on the
same channel, when it was sealed. Only the direct dependencies travel: what was delivered there since the
last parcel, less what another of these depends on itself. If x delivers 5 of b, and then 7 of a that names
5 of b, the next parcel of x names 7 of a and no more. The parcel of an event that somebody publishes in
answer to a delivery is sealed after it, so it always names it.

A parcel whose dependencies have not been delivered here waits in the window of its source. It is passed on
all the same, but not acknowledged, so the window bounds what waits and the source feels it.

Passed is what was delivered, has expired, or stands before the beginning of its stream here. A dependency
that cannot be had is given up: after ``patience`` if its source has left the tree, after ``laggard``
without any movement of its stream in other cases. Should it come later it is not delivered any more, and
subscribers are told of the gap.

A chain of dependencies is kept as far as its links were delivered here: of what a member missed (before it
joined, in a gap that it was told of, of a source that it had to give up) it does not know what that
depended on.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, TypeVar

from msgspec import Meta

from gossamer.core.context import Context
from gossamer.core.names import nanoseconds
from gossamer.core.parcel import MAX_DEPENDS, Parcel
from gossamer.core.template import AT_MOST_ONCE, CAUSAL, GAP_FREE
from gossamer.overlay.stream import Key, Stream
from gossamer.overlay.streamwords import MAX_STREAMS
from gossamer.templates.multicast import on_backbone
from gossamer.templates.reliable import Reliable, ReliableSettings


class CausalSettings(ReliableSettings, frozen=True):
    """Settings of a causal channel, on top of those of reliable.

    patience
        Seconds that a parcel waits for one of a source that has left the tree; a few times what a change of
        the tree takes to reach everybody.
    """

    patience: Annotated[float, Meta(gt=0, le=86400)] = 10.0


S = TypeVar("S", bound=CausalSettings)


class Wait:
    """What the next parcel of a source waits for, and since when its stream stands still."""

    __slots__ = ("key", "number", "position", "since")

    def __init__(self, key: Key, number: int, since: int) -> None:
        self.key = key
        self.number = number
        self.position = -1
        self.since = since


class Causal(Reliable[S]):
    """Reliable in causal order: every member gets an event after all that its publisher had got before.

    Promises: what reliable promises; and nothing before what it depends on, on the same channel. What cannot
        be had any more is given up after a while, and never delivered later.
    Costs: what reliable costs; in each parcel, for every source heard since the last one that is not implied
        by another, its name and two numbers. A lost parcel delays those that depend on it.
    Needs: what reliable needs.
    """

    name = "causal"
    settings_type = CausalSettings
    promises = frozenset({AT_MOST_ONCE, GAP_FREE, CAUSAL})

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self.fresh: dict[Key, int] = {}
        """Parcels delivered here since the last one of this node, without those that another implies."""
        self.given_up: dict[Key, int] = {}
        """Per source the number up to which nothing is delivered any more, since others went ahead."""
        self._waits: dict[Key, Wait] = {}

    # parcels from here

    def blanks(self, ctx: Context) -> int:
        """What does not fit one header leaves ahead, in parcels without events."""
        return max(0, len(self.fresh) - 1) // MAX_DEPENDS

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        named = tuple((*key, number) for key, number in islice(self.fresh.items(), MAX_DEPENDS))
        for node, incarnation, _ in named:
            del self.fresh[node, incarnation]
        super().on_publish(ctx, parcel.depending_on(named) if named else parcel)

    # parcels whose turn it is

    def turn(self, ctx: Context, parcel: Parcel) -> bool:
        """Whether all that a parcel depends on has passed; an own parcel names only what has."""
        if not parcel.depends or parcel.stamp.node == ctx.node:
            return True
        source = parcel.stamp.key
        for node, incarnation, number in parcel.depends:
            if not self._passed(ctx, (node, incarnation), number):
                wait = self._waits.get(source)
                if wait is None or (wait.key, wait.number) != ((node, incarnation), number):
                    self._waits[source] = Wait((node, incarnation), number, self._time)
                return False
        self._waits.pop(source, None)
        return True

    def _passed(self, ctx: Context, key: Key, number: int) -> bool:
        return number < self._position(key) or key[0] == ctx.node or number <= self.given_up.get(key, 0)

    def _position(self, key: Key) -> int:
        """The number that comes next of a source; 0 if that is not known."""
        stream = self.streams.get(key)
        return stream.next if stream else self._ended.get(key, 0)

    def advance(self, ctx: Context, stream: Stream, sender: str | None) -> None:
        super().advance(ctx, stream, sender)
        self._resume(ctx)

    def _resume(self, ctx: Context) -> None:
        """Go on with sources whose next parcel waits no longer, and with those that waited for them."""
        while free := [
            each for each, wait in self._waits.items() if self._passed(ctx, wait.key, wait.number)
        ]:
            for source in free:
                del self._waits[source]
                stream = self.streams.get(source)
                if stream is not None:
                    super().advance(ctx, stream, self.upstream(ctx, stream))

    def in_order(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        stamp = parcel.stamp
        source = stamp.key
        if stamp.sequence <= self.given_up.get(source, 0):
            ctx.drop(parcel, "given up before it came")
            ctx.gap(stamp.node)
            return
        if ctx.subscribers and stamp.node != ctx.node:
            self._note(source, parcel)
        if stamp.count:
            super().in_order(ctx, parcel, sender)

    def _note(self, source: Key, parcel: Parcel) -> None:
        """Whoever depends on a parcel depends on what it depends on: that need not be named any more."""
        for node, incarnation, number in parcel.depends:
            if self.fresh.get((node, incarnation), number + 1) <= number:
                del self.fresh[node, incarnation]
        self.fresh[source] = parcel.stamp.sequence

    # what does not come

    def on_timer(self, ctx: Context, name: str) -> None:
        super().on_timer(ctx, name)
        if name == "beat":
            for wait in self._waits.values():
                if self._in_vain(ctx, wait):
                    self._do_without(wait)
            self._resume(ctx)

    def _in_vain(self, ctx: Context, wait: Wait) -> bool:
        """Whether a stream that others wait for has stood still for too long."""
        stream, position = self.streams.get(wait.key), self._position(wait.key)
        if position != wait.position:
            wait.position, wait.since = position, self._time
        patience = self.settings.laggard
        if stream is None or self._gone(ctx, stream):
            patience = min(patience, self.settings.patience)
        return self._time - wait.since >= nanoseconds(patience)

    def _gone(self, ctx: Context, stream: Stream) -> bool:
        """Whether a source is not in the tree."""
        tree = self.group.tree
        return on_backbone(ctx) and tree is not None and stream.address.split("/")[0] not in tree

    def _do_without(self, wait: Wait) -> None:
        self.given_up[wait.key] = max(wait.number, self.given_up.pop(wait.key, 0))
        if len(self.given_up) > MAX_STREAMS:
            del self.given_up[next(iter(self.given_up))]
