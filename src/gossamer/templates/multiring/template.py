"""Multiring: peers without a server pass parcels around rings, and rings within rings (seed 004)."""

from __future__ import annotations

from typing import Any

from gossamer.core.context import BANDWIDTH, CONTACTS, Context
from gossamer.core.control import on
from gossamer.core.names import NANOSECONDS
from gossamer.core.parcel import Parcel
from gossamer.core.template import AT_MOST_ONCE, Membership, Template
from gossamer.templates.multiring.discovery import Finding
from gossamer.templates.multiring.dissemination import Spreading
from gossamer.templates.multiring.election import View, joins, resigns, unbalanced
from gossamer.templates.multiring.join import Joining
from gossamer.templates.multiring.leave import Leaving
from gossamer.templates.multiring.membership import Entrance
from gossamer.templates.multiring.messages import (
    Activate,
    Announce,
    Beat,
    Close,
    CloseAck,
    Find,
    Found,
    Meet,
    Ping,
    Pong,
    Prepare,
    Query,
    Ready,
    Request,
    Response,
    Seek,
    SetMode,
    Swap,
    SwapAck,
)
from gossamer.templates.multiring.peer import Position
from gossamer.templates.multiring.repair import Upkeep
from gossamer.templates.multiring.settings import MultiringSettings
from gossamer.templates.multiring.survey import Surveying
from gossamer.templates.multiring.swap import Swapping


class Multiring(Template[MultiringSettings]):
    """Peers in a ring, each with links to its two neighbours and to those behind them, and inner rings of
    those that can send most.

    Promises: at most once; no order between sources. Peers that stay get everything, whoever else comes,
        goes or crashes, as long as no two parts of the group are without a link between them for longer
        than what peers remember, and no more is sent than slow links carry: what every neighbour has
        forgotten before it was asked for is lost. Publishing waits where that would be soon.
    Acknowledged: Never; publishing is best effort and `acknowledged` is refused.
    Costs: a parcel per peer, and word of it by every other link; a sign of life per neighbour and ``beat``;
        about 4 · q messages per peer and ``survey``.
    Needs: nodes of role peer that can reach each other, and one contact in the group; no server.
    """

    name = "multiring"
    settings_type = MultiringSettings
    promises = frozenset({AT_MOST_ONCE})
    parcel_bytes = 256 * 1024  # what peers remember is bounded in bytes, and asked for by the parcel
    watches = (CONTACTS, BANDWIDTH)

    def __init__(self, settings: MultiringSettings) -> None:
        super().__init__(settings)
        self.spreading = Spreading(settings)
        self.position = Position(settings, self.spreading)
        self.upkeep = Upkeep(settings, self.position)
        self.finding = Finding(settings, self.position)
        self.joining = Joining(self.position, self.upkeep)
        self.leaving = Leaving(self.position, self.upkeep)
        self.surveying = Surveying(settings, self.position)
        self.swapping = Swapping(self.position)
        self.entrance = Entrance(settings, self.finding, self.joining, self.leaving, self.upkeep)

    # parcels: both ways round, primary links at once, secondary ones announce

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        if not self.entrance.publishes or not self.spreading.hops:
            self.entrance.want(ctx, bool(ctx.subscribers), True)
        self.spreading.begin(ctx, parcel)
        ctx.deliver(parcel)
        self._rest(ctx)

    def obstacle(self, ctx: Context) -> str | None:
        return "peers who may still ask for what was published" if self.spreading.rest(ctx.now) else None

    def _rest(self, ctx: Context) -> None:
        """Look again when there may be room."""
        if rest := self.spreading.rest(ctx.now):
            ctx.wake("room", rest / NANOSECONDS)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        self.position.hear(ctx, sender)
        if self.spreading.take(ctx, parcel, sender):
            ctx.deliver(parcel, sender)

    def on_feedback(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        """Back along the way that the event came; if that is forgotten, straight to its source."""
        assert parcel.header.answers is not None
        stamp = parcel.header.answers.stamp
        if stamp.node == ctx.node:
            ctx.deliver_feedback(parcel)
            return
        kept = self.spreading.store.get((stamp.node, stamp.incarnation, stamp.sequence))
        ctx.send(kept.via if kept and kept.via else stamp.node, parcel)

    def onward(self, ctx: Context, parcel: Parcel, sender: str) -> list[str]:
        return [name for name in self.spreading.hops if name != sender]

    @on(Announce)
    def announced(self, ctx: Context, announce: Announce, sender: str) -> None:
        self.position.hear(ctx, sender)
        self.spreading.announcement(ctx, announce, sender)

    @on(Request)
    def requested(self, ctx: Context, request: Request, sender: str) -> None:
        self.spreading.request(ctx, request, sender)

    @on(SetMode)
    def set_mode(self, ctx: Context, mode: SetMode, sender: str) -> None:
        self.spreading.set_mode(mode, sender)

    # who is in the group

    def has_subscribers(self, ctx: Context) -> bool:
        return bool(ctx.subscribers) or bool(self.spreading.hops)

    def on_open(self, ctx: Context) -> None:
        self.position.bandwidth = ctx.container(BANDWIDTH) or 0.0
        self.position.introduce(ctx)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        if name == BANDWIDTH:
            self.position.bandwidth = value or 0.0

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        match membership.change:
            case "subscribed" | "unsubscribed" | "publishing":
                publishes = self.entrance.publishes or membership.change == "publishing"
                self.entrance.want(ctx, bool(ctx.subscribers), publishes)
            case "down" if membership.who == self.entrance.entry:
                self.entrance.lose_entry(ctx)
            case "down":
                self.upkeep.lose(ctx, membership.who)
            case "congested" | "relieved":
                self.position.congested(ctx, membership.who, membership.change == "congested")

    def on_timer(self, ctx: Context, name: str) -> None:
        match name:
            case "fetch":
                self.spreading.fetch(ctx)
            case "room":
                self._rest(ctx)
            case "enter":
                self.entrance.timer(ctx)
            case "beat" if self.position.member:
                self.upkeep.tick(ctx)
                ctx.wake("beat", self.settings.beat)
            case "beat":
                self.entrance.watch_entry(ctx)
            case "trial":
                self.upkeep.look(ctx)
            case "probe":
                self.entrance.probe(ctx)
            case "survey" if self.position.member:
                self.joining.give_up()
                self.surveying.look(ctx)
                ctx.wake("survey", self.settings.survey * (0.5 + ctx.rng.random()))
            case "leave":
                self._resign_on(ctx)

    # coming in

    @on(Seek)
    def sought(self, ctx: Context, seek: Seek, sender: str) -> None:
        self.entrance.rival(seek.origin.name)
        self.finding.sought(ctx, seek, sender)

    @on(Found)
    def found(self, ctx: Context, found: Found, sender: str) -> None:
        self.finding.found(ctx, found)
        self.entrance.found(ctx, found)

    @on(Ping)
    def pinged(self, ctx: Context, ping: Ping, sender: str) -> None:
        self.finding.pinged(ctx, ping, sender)

    @on(Pong)
    def ponged(self, ctx: Context, pong: Pong, sender: str) -> None:
        self.position.hear(ctx, sender)
        self.entrance.ponged(ctx, pong, sender)

    @on(Prepare)
    def prepare(self, ctx: Context, prepare: Prepare, sender: str) -> None:
        self.joining.prepare(ctx, prepare, sender)

    @on(Ready)
    def ready(self, ctx: Context, ready: Ready, sender: str) -> None:
        if self.joining.ready(ctx, ready, sender) and ready.level == 0:
            self.entrance.entered(ctx)

    @on(Activate)
    def activate(self, ctx: Context, activate: Activate, sender: str) -> None:
        self.joining.activate(ctx, activate, sender)

    # a ring stays whole

    @on(Beat)
    def beat(self, ctx: Context, beat: Beat, sender: str) -> None:
        self.upkeep.beat(ctx, beat, sender)
        self.leaving.heard(ctx, sender)

    @on(Meet)
    def meet(self, ctx: Context, meet: Meet, sender: str) -> None:
        self.upkeep.meet(ctx, meet.person, meet.passes)

    @on(Close)
    def close(self, ctx: Context, close: Close, sender: str) -> None:
        self.leaving.close(ctx, close, sender)

    @on(CloseAck)
    def close_acknowledged(self, ctx: Context, ack: CloseAck, sender: str) -> None:
        self.leaving.acknowledged(ctx, ack, sender)
        if not self.position.rings:
            self.entrance.gone(ctx)

    # inner rings and their balance

    @on(Query)
    def query(self, ctx: Context, query: Query, sender: str) -> None:
        self.surveying.query(ctx, query, sender)

    @on(Response)
    def response(self, ctx: Context, response: Response, sender: str) -> None:
        view = self.surveying.response(ctx, response)
        if view is not None and self.joining.level is None and self.leaving.level is None:
            self._decide(ctx, view)

    def _decide(self, ctx: Context, view: View) -> None:
        q, level = self.settings.q, view.level
        if level == len(self.position.rings) - 1:
            if joins(view, q):
                self._join_inner(ctx, view)
            return
        for person in self.surveying.inner_sides(view):
            if person is not None:
                self.upkeep.suggest(ctx, level + 1, person)
        inner = self.surveying.views.get(level + 1)
        side = unbalanced(view) if level == 0 else None
        if inner is not None and resigns(view, inner, q):
            self.leaving.leave(ctx, level + 1)
            self._resign_on(ctx, first=True)
        elif side is not None:
            self.swapping.begin(ctx, side)

    def _join_inner(self, ctx: Context, view: View) -> None:
        left, right = self.surveying.inner_sides(view)
        if left is not None and right is not None:
            self.joining.between(ctx, view.level + 1, left, right)
        else:
            self.upkeep.enter_alone(ctx, view.level + 1)

    def _resign_on(self, ctx: Context, first: bool = False) -> None:
        if self.leaving.level and not first:
            self.leaving.say(ctx)
        if self.leaving.level:
            ctx.wake("leave", self.settings.retry)

    @on(Find)
    def find(self, ctx: Context, find: Find, sender: str) -> None:
        self.upkeep.find(ctx, find)

    @on(Swap)
    def swap(self, ctx: Context, swap: Swap, sender: str) -> None:
        self.swapping.asked(ctx, swap, sender)

    @on(SwapAck)
    def swap_agreed(self, ctx: Context, ack: SwapAck, sender: str) -> None:
        self.swapping.agreed(ctx, ack, sender)

    # for whoever looks on

    def figures(self) -> dict[str, int]:
        spreading = self.spreading
        return {
            "parcels taken": spreading.new,
            "bytes taken": spreading.new_bytes,
            "parcels taken twice": spreading.old,
            "bytes taken twice": spreading.old_bytes,
            "announced": spreading.announced,
            "requested": spreading.requested,
            "given up": spreading.forgone,
            "repairs": self.upkeep.repairs,
            "swaps": self.swapping.swaps,
            "inner rings": max(0, len(self.position.rings) - 1),
        }
