"""Single-source: multicast whose tree has its root where the only source is (seed 000, 4.1.1)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from gossamer.core.context import Context
from gossamer.core.control import Message, on
from gossamer.core.names import MAX_NODE_NAME
from gossamer.core.parcel import Parcel
from gossamer.core.template import Membership
from gossamer.overlay.groups.interest import Interest
from gossamer.templates.multicast import Multicast, MulticastSettings, on_backbone

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME)]


class Claim(Message, frozen=True):
    """To the rendezvous node: the source is at this node, so it should be the root."""

    node: Name


class Claimed(Message, frozen=True):
    """To a node that claimed: this one is the root."""

    node: Name
    root: Name


class SingleSource(Multicast[MulticastSettings]):
    """One source per channel: the tree's root moves from the rendezvous node to the source's node.

    Promises: at most once, and the least latency that a tree over the members allows; no repair.
    Acknowledged: Never; publishing is best effort and `acknowledged` is refused.
    Costs: what multicast costs; events travel down the tree only, and never by way of the rendezvous node.
    Needs: what multicast needs, and that only one node publishes; what others publish is dropped and counted.
    """

    name = "single-source"
    follow = True

    def __init__(self, settings: MulticastSettings) -> None:
        super().__init__(settings)
        self.root: str | None = None
        """Who the rendezvous node says the root is, once this node has claimed to be."""

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        self._claim(ctx)
        if self.root not in (None, ctx.node):
            ctx.drop(parcel, "another node is the source")
        else:
            super().on_publish(ctx, parcel)

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        super().on_membership(ctx, membership)
        self._claim(ctx)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        if self.root != ctx.node or self.group.meeting(ctx) != ctx.node:
            self.root = None  # the rendezvous node may be another, and has to hear it again
        super().on_container(ctx, name, value)
        self._claim(ctx)

    @on(Interest)
    def hear(self, ctx: Context, interest: Interest, sender: str) -> None:
        super().hear(ctx, interest, sender)
        self._claim(ctx)

    def on_timer(self, ctx: Context, name: str) -> None:
        if name == "claim":
            self._claim(ctx)
        else:
            super().on_timer(ctx, name)

    def _claim(self, ctx: Context) -> None:
        """Ask the rendezvous node to let this node be the root, until it answers."""
        publishes = self.publishing or self.interests.publishing(ctx.server)
        if not publishes or self.root is not None or not on_backbone(ctx):
            return
        meeting = self.group.meeting(ctx)
        if meeting == ctx.node:
            self.claimed(ctx, Claimed(ctx.node, self._grant(ctx, ctx.node)), ctx.node)
        else:
            ctx.send(self.group.way(ctx, meeting), Claim(ctx.node))
            ctx.wake("claim", self.settings.retry)

    def _grant(self, ctx: Context, node: str) -> str:
        """At the rendezvous node: who is the root, now that a node has claimed to be."""
        if self.group.claimed is None or self.group.root(ctx) != self.group.claimed:
            self.group.claimed = node
            self.group.backbone_changed(ctx)
        return self.group.claimed

    @on(Claim)
    def claim(self, ctx: Context, claim: Claim, sender: str) -> None:
        meeting = self.group.meeting(ctx)
        if meeting != ctx.node:
            ctx.send(self.group.way(ctx, meeting), claim)
        else:
            answer = Claimed(claim.node, self._grant(ctx, claim.node))
            ctx.send(self.group.way(ctx, claim.node), answer)

    @on(Claimed)
    def claimed(self, ctx: Context, claimed: Claimed, sender: str) -> None:
        if claimed.node != ctx.node:
            ctx.send(self.group.way(ctx, claimed.node), claimed)
            return
        self.root = claimed.root
        if claimed.root == ctx.node:
            self.group.claimed = ctx.node
            self.group.backbone_changed(ctx)
