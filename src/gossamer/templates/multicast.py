"""Multicast: many sources, one tree."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gossamer.core.context import BELOW, SERVER, TREE, Context
from gossamer.core.control import Message, on
from gossamer.core.parcel import Parcel
from gossamer.core.seen import Seen
from gossamer.core.template import AT_MOST_ONCE, Membership, Settings, Template

Version = Annotated[int, Meta(ge=0, le=2**62)]


class Interest(Message, frozen=True):
    """Whether anybody on my side of the edge between us listens.

    The version is the teller's clock, so that it grows across restarts and an old one never wins.
    """

    version: Version
    wanted: bool


class InterestHeard(Message, frozen=True):
    """I know your interest up to this version."""

    version: Version


class MulticastSettings(Settings, frozen=True):
    """Settings of a multicast channel.

    retry
        Seconds between repetitions of an interest that was not acknowledged. A lost one delays the
        first events of a new subscriber by retry × 1 / (1 − loss)² on average.
    window
        Parcels per source that are remembered to recognise a second copy.
    """

    retry: Annotated[float, Meta(gt=0, le=3600)] = 0.5
    window: Annotated[int, Meta(ge=1, le=1_000_000)] = 4096


class Told(msgspec.Struct):
    """What a neighbour was last told about our side, and whether it has heard."""

    version: int
    wanted: bool
    heard: bool


class Multicast(Template[MulticastSettings]):
    """Many sources, one tree: parcels leave their origin along the tree in all directions.

    Promises: at most once; no order between sources, no repair of what is lost.
    Costs: one copy per tree edge with interest behind it; two control messages per edge and change of
        interest.
    Needs: a tree, handed over as a container.
    """

    name = "multicast"
    settings_type = MulticastSettings
    promises = frozenset({AT_MOST_ONCE})
    watches = (TREE, SERVER, BELOW)

    def __init__(self, settings: MulticastSettings) -> None:
        super().__init__(settings)
        self.seen = Seen(settings.window)
        self.told: dict[str, Told] = {}
        self.version = 0
        self.retrying = False
        self.interests: dict[str, Interest] = {}

    # parcels

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        self._spread(ctx, parcel, None)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if parcel.stamp.node == ctx.node or not self.seen.add(parcel.stamp):
            ctx.drop(parcel, "seen before")
        else:
            self._spread(ctx, parcel, sender)

    def _spread(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        near = ctx.neighbours
        ctx.send((each for each in near if each != sender and self._wants(each)), parcel)
        ctx.deliver(parcel, sender)

    # interest travels hop by hop: each node tells each neighbour about all that lies behind itself

    def matching(self, ctx: Context) -> bool:
        return bool(ctx.subscribers) or any(map(self._wants, self.interests))

    def _wants(self, neighbour: str) -> bool:
        interest = self.interests.get(neighbour)
        return interest is not None and interest.wanted

    @on(Interest)
    def hear(self, ctx: Context, interest: Interest, sender: str) -> None:
        if sender not in ctx.neighbours:
            return  # not acknowledged, so it comes again: by then the containers may know the sender
        ctx.send(sender, InterestHeard(interest.version))
        known = self.interests.get(sender)
        if known is None or known.version < interest.version:
            self.interests[sender] = interest
            self._tell(ctx)

    @on(InterestHeard)
    def heard(self, ctx: Context, heard: InterestHeard, sender: str) -> None:
        told = self.told.get(sender)
        if told is not None and told.version == heard.version:
            told.heard = True

    def on_open(self, ctx: Context) -> None:
        self._tell(ctx)

    def on_timer(self, ctx: Context, name: str) -> None:
        self.retrying = False
        self._tell(ctx, again=True)

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        if membership.change in ("up", "down"):
            self._forget(membership.who)
        self._tell(ctx)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        near = ctx.neighbours
        for stranger in {*self.told, *self.interests}.difference(near):
            self._forget(stranger)
        self._tell(ctx)

    def _forget(self, neighbour: str) -> None:
        self.interests.pop(neighbour, None)
        self.told.pop(neighbour, None)

    def _tell(self, ctx: Context, again: bool = False) -> None:
        """Tell each neighbour what it does not know yet; repeat what it has not acknowledged.

        A node below is told only once it has spoken of this channel: most never use it. A node with a
        server speaks first, so that the server knows.
        """
        waiting = False
        server, below = ctx.server, ctx.container(BELOW) or ()
        for neighbour in ctx.neighbours:
            if neighbour in below and neighbour not in self.interests:
                continue
            wanted = bool(ctx.subscribers) or any(
                self._wants(each) for each in self.interests if each != neighbour
            )
            told = self.told.get(neighbour)
            if told is None and not wanted and neighbour != server:
                continue
            if told is None or told.wanted != wanted:
                self.version = max(ctx.now, self.version + 1)
                told = self.told[neighbour] = Told(self.version, wanted, False)
                ctx.send(neighbour, Interest(told.version, wanted))
            elif again and not told.heard:
                ctx.send(neighbour, Interest(told.version, wanted))
            waiting = waiting or not told.heard
        if waiting and not self.retrying:
            # never pushed back while it waits, or a busy channel would starve the repetition
            self.retrying = True
            ctx.wake("retry", self.settings.retry)
