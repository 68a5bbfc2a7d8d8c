"""Multicast: many sources, one tree over the nodes that take part."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from gossamer.core.context import BELOW, NODES, SERVER, TREE, Context
from gossamer.core.control import on
from gossamer.core.duplicates import Seen
from gossamer.core.names import Role
from gossamer.core.parcel import Parcel
from gossamer.core.template import AT_MOST_ONCE, Membership, Settings, Template
from gossamer.overlay.groups.group import Group, GroupTimes
from gossamer.overlay.groups.interest import Interest, InterestHeard, Interests
from gossamer.overlay.groups.messages import Join, JoinHeard, Leave, LeaveHeard, TreeHeard, TreeUpdate

FIRST_TIER = (Role.BACKBONE, Role.PEER)
MAX_WAITING = 64
"""Parcels that wait for this node to be in the group."""


class MulticastSettings(Settings, frozen=True):
    """Settings of a multicast channel.

    retry
        Seconds until a request or a tree that was not acknowledged is said again. At loss p one hop takes
        retry × (1 / (1 − p)² − 1) longer on average.
    merge
        Seconds that a request to join waits for others, so that the root hears few large ones.
    refresh
        Seconds between refreshes of the membership and of the tree.
    window
        Parcels per source that are remembered to recognise a second copy.
    """

    retry: Annotated[float, Meta(gt=0, le=3600)] = 0.5
    merge: Annotated[float, Meta(gt=0, le=60)] = 0.1
    refresh: Annotated[float, Meta(ge=1, le=86400)] = 30.0
    window: Annotated[int, Meta(ge=1, le=1_000_000)] = 4096


S = TypeVar("S", bound=MulticastSettings)


class Multicast(Template[S]):
    """Many sources, one tree: parcels leave their origin along the tree in all directions.

    Promises: at most once; no order between sources, no repair of what is lost.
    Acknowledged: Never; publishing is best effort and `acknowledged` is refused.
    Costs: one copy per edge of the group's tree, which joins only nodes that listen or publish; two control
        messages per edge and change of the tree, one per member and refresh.
    Needs: a backbone, or a tree handed over as a container; below it, a server.
    """

    name = "multicast"
    settings_type = MulticastSettings
    promises = frozenset({AT_MOST_ONCE})
    watches = (TREE, SERVER, BELOW, NODES)
    follow = False
    """Whether the root stays where it has moved; see Group."""

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        times = GroupTimes(settings.retry, settings.merge, settings.refresh)
        self.group = Group(times, self.regrouped, self.follow)
        self.interests = Interests()
        self.publishing = False
        self.seen = Seen(settings.window)
        self._waiting: deque[Parcel] = deque()
        self._repeats = False
        """Whether interest will be told again: another change must not put that off."""

    # parcels

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        if not self.publishing:
            self.publishing = True
            self._settle(ctx)
        self.spread(ctx, parcel, None)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if parcel.stamp.node == ctx.node or not self.seen.add(parcel.stamp):
            ctx.drop(parcel, "seen before")
        else:
            self.spread(ctx, parcel, sender)

    def spread(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        """Pass a parcel on and deliver it here; one that begins here waits until there is a tree."""
        passing = sender is not None and not on_backbone(ctx)
        if passing or self.ready(ctx) or sender in self.group.neighbours(ctx):
            ctx.send(self.hops(ctx, sender), parcel)
        else:
            self._waiting.append(parcel)
            if len(self._waiting) > MAX_WAITING:
                ctx.drop(self._waiting.popleft(), "not in the group yet")
        ctx.deliver(parcel, sender)

    def ready(self, ctx: Context) -> bool:
        """Whether parcels that begin here can leave: this node is in the group, or its server has spoken."""
        return self.group.joined(ctx) if on_backbone(ctx) else ctx.server in self.interests.said

    def hops(self, ctx: Context, sender: str | None) -> list[str]:
        """Where a parcel from a neighbour, or from here, goes next."""
        near = self.group.neighbours(ctx) if on_backbone(ctx) else ()
        beside = [node for node, said in self.interests.said.items() if said.listens]
        if beside:
            return sorted({*near, *beside} - {sender})
        return [node for node in near if node != sender]  # in order of name already

    def obstacle(self, ctx: Context) -> str | None:
        return f"the group of {ctx.channel!r}" if len(self._waiting) >= MAX_WAITING else None

    def unconfirmed(self, ctx: Context) -> list[str]:
        """This node alone has what waits here; for what has left, no neighbour answers."""
        return [ctx.node] if any(each.stamp.node == ctx.node for each in self._waiting) else []

    def onward(self, ctx: Context, parcel: Parcel, sender: str) -> list[str]:
        return self.hops(ctx, sender)

    def regrouped(self, ctx: Context) -> None:
        """This node has another tree, or one below the backbone has heard from a node next to it."""
        while self._waiting and self.ready(ctx):
            parcel = self._waiting.popleft()
            ctx.send(self.hops(ctx, None), parcel)
        self._settle(ctx)

    # who listens

    def has_subscribers(self, ctx: Context) -> bool:
        return self._listens(ctx) or self.group.listeners(ctx)

    def _listens(self, ctx: Context, but: str | None = None) -> bool:
        return bool(ctx.subscribers) or self.interests.listening(but)

    def on_open(self, ctx: Context) -> None:
        if on_backbone(ctx):
            self.group.backbone_changed(ctx)
        self._settle(ctx)

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        if membership.change == "publishing":
            self.publishing = True
        elif membership.change in ("up", "down"):
            self.interests.forget(membership.who)
            if membership.change == "up":
                self.group.neighbour_back(ctx, membership.who)
        self._settle(ctx)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        edge = {*(ctx.container(BELOW) or ()), ctx.server or ""}
        self.interests.keep(tuple(edge))
        if on_backbone(ctx):
            self.group.backbone_changed(ctx)
        self._settle(ctx)

    def on_timer(self, ctx: Context, name: str) -> None:
        if name == "interest":
            self._repeats = False
            self._settle(ctx, again=True)
        else:
            self.group.timer(ctx, name)

    def stays(self, ctx: Context) -> bool:
        """Whether this node belongs to the group even if nobody here listens."""
        return self.publishing

    def _settle(self, ctx: Context, again: bool = False) -> None:
        """Say to the group or the server, and to those below, what they do not know yet."""
        server, waiting = ctx.server, False
        publishes = self.stays(ctx) or self.interests.publishing(server)
        if on_backbone(ctx):
            self.group.want(ctx, self._listens(ctx), publishes)
        elif server is not None:
            waiting = self.interests.tell(ctx, server, self._listens(ctx, server), publishes, again)
        for node in ctx.container(BELOW) or ():
            # not before it is ready: what they publish it could not pass on, and only keep a little of it
            if node in self.interests.said and self.ready(ctx):
                elsewhere = self._listens(ctx, node) or self.group.listeners(ctx)
                waiting |= self.interests.tell(ctx, node, elsewhere, False, again)
        if waiting and not self._repeats:
            self._repeats = True
            ctx.wake("interest", self.settings.retry)

    @on(Interest)
    def hear(self, ctx: Context, interest: Interest, sender: str) -> None:
        self.interests.hear(ctx, interest, sender)
        if on_backbone(ctx):
            self._settle(ctx)
        else:
            self.regrouped(ctx)

    @on(InterestHeard)
    def heard(self, ctx: Context, heard: InterestHeard, sender: str) -> None:
        self.interests.heard(heard, sender)

    # the group

    @on(Join)
    def join(self, ctx: Context, join: Join, sender: str) -> None:
        self.group.join(ctx, join, sender)

    @on(JoinHeard)
    def join_heard(self, ctx: Context, heard: JoinHeard, sender: str) -> None:
        self.group.join_heard(ctx, heard, sender)

    @on(Leave)
    def leave(self, ctx: Context, leave: Leave, sender: str) -> None:
        self.group.leave(ctx, leave, sender)

    @on(LeaveHeard)
    def leave_heard(self, ctx: Context, heard: LeaveHeard, sender: str) -> None:
        self.group.leave_heard(ctx, heard, sender)

    @on(TreeUpdate)
    def update(self, ctx: Context, update: TreeUpdate, sender: str) -> None:
        self.group.update(ctx, update, sender)

    @on(TreeHeard)
    def update_heard(self, ctx: Context, heard: TreeHeard, sender: str) -> None:
        self.group.update_heard(ctx, heard, sender)


def on_backbone(ctx: Context) -> bool:
    """Whether a node takes part in groups itself, rather than through a server."""
    return ctx.role in FIRST_TIER
