"""Ringtree: groups by attribute and region, a ring of entry points, binary trees behind it (seed 001)."""

from __future__ import annotations

from collections import Counter, deque
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from gossamer.core.context import BELOW, NODES, REGION, SERVER, TREE, Context
from gossamer.core.control import Message, on
from gossamer.core.duplicates import Seen
from gossamer.core.errors import NotAdvertised, ProtocolError
from gossamer.core.event import Attributes, Criteria
from gossamer.core.operations import Advertise, Withdraw
from gossamer.core.parcel import Parcel
from gossamer.core.template import AT_MOST_ONCE, Membership, Settings, Template
from gossamer.overlay.groups.interest import Interest, InterestHeard, Interests
from gossamer.templates.multicast import on_backbone
from gossamer.templates.ringtree.failover import Succession, servers_of
from gossamer.templates.ringtree.forwarding import ALL_RULES
from gossamer.templates.ringtree.matching import EVERYTHING, together
from gossamer.templates.ringtree.member import Member, RingTimes
from gossamer.templates.ringtree.messages import (
    Beat,
    BeatHeard,
    Elsewhere,
    Entries,
    EntriesHeard,
    Filters,
    Missing,
    Register,
    Registered,
    Seat,
    SeatHeard,
    Unseated,
    Wants,
    WantsHeard,
)
from gossamer.templates.ringtree.service import Service

MAX_WAITING = 64
"""Parcels that wait until this node knows whom to give them."""


class RingTreeSettings(Settings, frozen=True):
    """Settings of a ringtree channel.

    servers
        Nodes that may serve each region, the first choice first, at most 16 for each: ``eu: e1 e2; us: u1``.
        Nodes of other regions are together in the one without a name, which the best matches of the channel
        among all nodes serve, unless a part without a colon says who does.
    heartbeat
        Seconds between two heartbeats; each costs a member two messages.
    patience
        Heartbeats without a sign of life after which a neighbour counts as failed: between
        patience × heartbeat and (patience + 2) × heartbeat seconds after it failed.
    retry
        Seconds until something that was not acknowledged is said again.
    merge
        Seconds that the service collects changes before it tells them.
    refresh
        Seconds between two registrations of a node, give or take a quarter; who is silent for four is
        forgotten.
    settle
        Seconds that a service that begins only listens to members that have a seat already.
    mend
        Seconds that an open slot waits for a newcomer, at least, before a leaf is moved there; 0 is for ever.
    overlap
        Seconds that a member with another seat also serves the one it had.
    window
        Parcels per source that are remembered to recognise a second copy.
    """

    servers: Annotated[str, Meta(max_length=16_384)] = ""
    heartbeat: Annotated[float, Meta(gt=0, le=3600)] = 1.0
    patience: Annotated[int, Meta(ge=1, le=1000)] = 3
    retry: Annotated[float, Meta(gt=0, le=3600)] = 0.5
    merge: Annotated[float, Meta(gt=0, le=60)] = 0.1
    refresh: Annotated[float, Meta(ge=1, le=86400)] = 30.0
    settle: Annotated[float, Meta(gt=0, le=3600)] = 1.0
    mend: Annotated[float, Meta(ge=0, le=86400)] = 5.0
    overlap: Annotated[float, Meta(gt=0, le=3600)] = 2.0
    window: Annotated[int, Meta(ge=1, le=1_000_000)] = 4096

    def __post_init__(self) -> None:
        servers_of(self.servers)


class RingTree(Template[RingTreeSettings]):
    """Groups by attribute and region; a publisher feeds log2(publishers) members, and each member two others.

    Promises: at most once; only members of groups that want an event see it; no order, no repair of what is
        lost. When members fail, their neighbours feed those behind them; with many failures at once some are
        missed until the service has mended the list.
    Acknowledged: Never; publishing is best effort and `acknowledged` is refused.
    Costs: one copy per member, and one per region for its border; a member sends two, up to four while
        neighbours are missing. Two messages per member and heartbeat, about eight for who comes or goes.
    Needs: nodes that reach each other, as on a backbone; below it, a server. For regions, settings that name
        who serves them.
    """

    name = "ringtree"
    settings_type = RingTreeSettings
    promises = frozenset({AT_MOST_ONCE})
    watches = (TREE, SERVER, BELOW, NODES, REGION)
    content_based = True
    operations = (Advertise, Withdraw)
    rules: ClassVar[frozenset[int]] = ALL_RULES
    """The rules for failures that members follow."""

    def __init__(self, settings: RingTreeSettings) -> None:
        super().__init__(settings)
        own = {name: getattr(settings, name) for name in RingTimes.__struct_fields__}
        times = RingTimes(**own)
        self.succession = Succession(servers_of(settings.servers), settings.patience)
        self.member = Member(times, self._say)
        self.service = Service(times, self._say, self.succession)
        self.interests = Interests()
        self.offers: Counter[Criteria] = Counter()
        self.publishing = False
        self.seen = Seen(settings.window)
        self._beating = False
        self._waiting: deque[Parcel] = deque()
        self._wanted: Filters = ()
        """What subscribers here want."""

    # events

    def admit(self, attributes: Attributes) -> None:
        """Who advertises publishes nothing else."""
        if self.offers and not any(each.matches(attributes) for each in self.offers):
            raise NotAdvertised(attributes, len(self.offers))

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        self.seen.add(parcel.stamp)
        if not self.publishing:
            self.publishing = True
            self._settle(ctx)
        self._begin(ctx, parcel, None)
        ctx.deliver(parcel)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if parcel.stamp.node == ctx.node or not self.seen.add(parcel.stamp):
            ctx.drop(parcel, "seen before")
            return
        if sender in (ctx.container(BELOW) or ()):
            self._begin(ctx, parcel, sender)
        else:
            ctx.send(self.onward(ctx, parcel, sender), parcel)
        ctx.deliver(parcel, sender)

    def _begin(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        """Let a parcel leave that was published here or below, as soon as it is known where to."""
        if self.ready(ctx):
            ctx.send(self.hops(ctx, parcel, None, but=sender), parcel)
            return
        ctx.send([node for node in self._listening(ctx) if node != sender], parcel)
        self._waiting.append(parcel)
        if len(self._waiting) > MAX_WAITING:
            ctx.drop(self._waiting.popleft(), "not registered yet")

    def ready(self, ctx: Context) -> bool:
        """Whether parcels that begin here can leave."""
        return self.member.ready if on_backbone(ctx) else ctx.server in self.interests.said

    def unconfirmed(self, ctx: Context) -> list[str]:
        """This node alone has what waits here; for what has left, no neighbour answers."""
        return [ctx.node] if any(each.stamp.node == ctx.node for each in self._waiting) else []

    def onward(self, ctx: Context, parcel: Parcel, sender: str) -> list[str]:
        return self.hops(ctx, parcel, sender, but=sender)

    def hops(self, ctx: Context, parcel: Parcel, sender: str | None, but: str | None) -> list[str]:
        """Where a parcel goes from here; no sender means that it begins here or below."""
        targets = self._listening(ctx)
        if not on_backbone(ctx):
            if sender is None and ctx.server and self.interests.listens(ctx.server):
                targets.append(ctx.server)
        else:
            try:
                if sender is None:
                    targets += self.member.feeds(parcel)
                targets += self.member.onward(parcel, sender, self.rules)
                targets += self.service.across(parcel, sender)
            except ProtocolError as error:
                ctx.drop(parcel, f"{error.field} makes no sense")
                return []
        return [each for each in dict.fromkeys(targets) if each not in (ctx.node, but)]

    def _listening(self, ctx: Context) -> list[str]:
        """Nodes below that listen."""
        return [node for node in ctx.container(BELOW) or () if self.interests.listens(node)]

    def _release(self, ctx: Context) -> None:
        while self._waiting and self.ready(ctx):
            parcel = self._waiting.popleft()
            below = ctx.container(BELOW) or ()
            ctx.send([each for each in self.hops(ctx, parcel, None, None) if each not in below], parcel)

    # who listens and publishes

    def has_subscribers(self, ctx: Context) -> bool:
        return bool(ctx.subscribers or self.member.entries) or self.interests.listening()

    def on_open(self, ctx: Context) -> None:
        self._settle(ctx)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        self.interests.keep((*(ctx.container(BELOW) or ()), ctx.server or ""))
        self._settle(ctx)

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        if membership.change == "publishing":
            self.publishing = True
        elif membership.change in ("subscribed", "unsubscribed"):
            self._wanted = together(ctx.subscribers.values())
        elif membership.change == "up":
            self.interests.forget(membership.who)
        elif membership.change == "down":
            self.interests.forget(membership.who)
            self.member.pulse.gone(membership.who)
            self.succession.gone(membership.who)
        self._settle(ctx)

    def on_call(self, ctx: Context, call: int, request: Any) -> None:
        if isinstance(request, Advertise):
            self.offers[request.criteria] += 1
        elif isinstance(request, Withdraw):
            self.offers -= Counter([request.criteria])
        self._settle(ctx)
        ctx.reply(call)

    def _settle(self, ctx: Context, again: bool = False) -> None:
        """Say what this node wants and publishes to its service, or to the nodes next to it."""
        if on_backbone(ctx):
            self._follow(ctx)
            self.member.want(ctx, *self._wishes(ctx))
        self._tell_edge(ctx, again)
        self._release(ctx)

    def _wishes(self, ctx: Context) -> tuple[Filters, Filters]:
        """What this node and those below want, and what they publish; filters do not travel below servers."""
        wanted = EVERYTHING if self.interests.listening(ctx.server) else self._wanted
        if self.interests.publishing(ctx.server) or (self.publishing and not self.offers):
            return wanted, EVERYTHING
        return wanted, together(self.offers)

    def _tell_edge(self, ctx: Context, again: bool) -> None:
        server, waiting = ctx.server, False
        if server is not None:
            listens = bool(ctx.subscribers) or self.interests.listening(server)
            publishes = self.publishing or self.interests.publishing(server)
            waiting = self.interests.tell(ctx, server, listens, publishes, again)
        for node in ctx.container(BELOW) or ():
            if node in self.interests.said and self.ready(ctx):
                others = bool(ctx.subscribers or self.member.entries) or self.interests.listening(node)
                waiting |= self.interests.tell(ctx, node, others, False, again)
        if waiting:
            ctx.wake("edge", self.settings.retry)

    @on(Interest)
    def hear(self, ctx: Context, interest: Interest, sender: str) -> None:
        self.interests.hear(ctx, interest, sender)
        self._settle(ctx)

    @on(InterestHeard)
    def heard(self, ctx: Context, heard: InterestHeard, sender: str) -> None:
        self.interests.heard(heard, sender)

    # time

    def on_timer(self, ctx: Context, name: str) -> None:
        match name:
            case "edge":
                self._settle(ctx, again=True)
            case "register":
                self.succession.doubt(self.member.due(ctx))
                self._follow(ctx)
            case "beat":
                self._beat(ctx)
            case "overlap":
                self.member.overlapped()
            case _:
                self.service.timer(ctx, name)

    def _beat(self, ctx: Context) -> None:
        """A heartbeat: clockwise to the neighbour, and from a server to those before it."""
        asked = {self.member.beat(ctx), *self.succession.beat(), *self.service.beat(ctx)} - {""}
        for node in sorted(asked):
            self._say(ctx, node, Beat(self.member.epoch))
        self._beating = self._has_to_beat()
        if self._beating:
            ctx.wake("beat", self.settings.heartbeat)
        self._follow(ctx)

    def _has_to_beat(self) -> bool:
        return bool(self.member.seat or self.succession.watches or self.service.registrar)

    def _follow(self, ctx: Context) -> None:
        """Serve, or register with who serves."""
        serving = self.succession.serving(ctx)
        self.service.serve(ctx, serving)
        self.member.follow(ctx, serving)
        if not self._beating and self._has_to_beat():
            self._beating = True
            ctx.wake("beat", self.settings.heartbeat * ctx.rng.random())  # not all at once

    @on(Beat)
    def asked(self, ctx: Context, beat: Beat, sender: str) -> None:
        self._alive(ctx, sender, beat.epoch)
        self._say(ctx, sender, BeatHeard(self.member.epoch))

    @on(BeatHeard)
    def answered(self, ctx: Context, heard: BeatHeard, sender: str) -> None:
        self._alive(ctx, sender, heard.epoch)

    def _alive(self, ctx: Context, node: str, epoch: int) -> None:
        self.member.pulse.alive(node)
        self.member.hear_of(ctx, epoch)
        self.succession.trust(node)
        self.service.alive(node)

    # registration: the node's side

    @on(Registered)
    def registered(self, ctx: Context, registered: Registered, sender: str) -> None:
        self.succession.trust(sender)
        self.member.registered(ctx, registered, sender)
        self._settle(ctx)

    @on(Elsewhere)
    def elsewhere(self, ctx: Context, elsewhere: Elsewhere, sender: str) -> None:
        if sender == self.member.server:
            self.succession.doubt(self.member.leave())
            self.succession.trust(elsewhere.server)
            ctx.wake("register", self.settings.retry)  # not at once: two that disagree would keep us running

    @on(Seat)
    def seated(self, ctx: Context, seat: Seat, sender: str) -> None:
        self.member.seated(ctx, seat, sender)
        self._follow(ctx)

    @on(Unseated)
    def unseated(self, ctx: Context, unseated: Unseated, sender: str) -> None:
        self.member.unseated(ctx, unseated, sender)

    @on(Entries)
    def told(self, ctx: Context, entries: Entries, sender: str) -> None:
        self.member.told(ctx, entries, sender)
        self._settle(ctx)

    # registration: the service's side

    @on(Register, Missing, SeatHeard, EntriesHeard, Wants, WantsHeard)
    def serve(self, ctx: Context, message: Message, sender: str) -> None:
        self.service.take(ctx, message, sender)

    def _say(self, ctx: Context, node: str, message: Message) -> None:
        """Say something to a node; this one may serve its own region."""
        if node == ctx.node:
            self.dispatch(ctx, message, node)
        else:
            ctx.send(node, message)
