"""Dispatch: dispatchers in a hierarchy route events by their attributes (seed 002, section 2).

Filters are told from neighbour to neighbour until each is known where it has to be (``overlay.filtertable``).
Events travel along them, handed over in order at every hop (``overlay.relay``), which is what causal order
takes on a tree. What somebody wants who is away is kept, and moves with it (``overlay.keeping``).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from gossamer.core.context import BELOW, NODES, SERVER, TREE, Context
from gossamer.core.control import on
from gossamer.core.duplicates import Seen
from gossamer.core.effect import Appended, History, Report
from gossamer.core.errors import NotAdvertised, ProtocolError, StorageError
from gossamer.core.event import Attributes, Criteria
from gossamer.core.names import MAX_NODE_NAME, Role
from gossamer.core.operations import Advertise, ForgetSession, KeepSession, SessionDone, Withdraw
from gossamer.core.parcel import Bound, Parcel
from gossamer.core.template import AT_MOST_ONCE, CAUSAL, Membership, Settings, Template
from gossamer.core.trace import EXPIRED
from gossamer.templates.dispatch.hierarchy import neighbourhood
from gossamer.templates.dispatch.hop_messages import Begin, Begun, Ended, Got, Sent
from gossamer.templates.dispatch.messages import Tell, Told
from gossamer.templates.dispatch.ordered_hop import Relay
from gossamer.templates.dispatch.routing_table import FilterTable
from gossamer.templates.dispatch.session import Box, Taker
from gossamer.templates.dispatch.session_client import Followed, Following, taken_over
from gossamer.templates.dispatch.session_handlers import heed
from gossamer.templates.dispatch.session_messages import FARTHEST, Passed, What
from gossamer.templates.dispatch.session_server import Keeping
from gossamer.templates.dispatch.table_sync import Telling

Name = Annotated[str, Meta(max_length=MAX_NODE_NAME)]


class DispatchSettings(Settings, frozen=True):
    """Settings of a dispatch channel.

    propagation
        ``subscription``: subscriptions climb to the root, and so does every event. ``advertisement``:
        publishers advertise; subscriptions are also sent down to those with whose advertisements they are
        compatible, and events go only where somebody wants them.
    root
        Name of the dispatcher at the top; without one, or while it is not there, the rendezvous node.
    above
        Who is above whom on the backbone, by name; without it the backbone's tree, seen from the root.
    ack
        Seconds after which a neighbour is told what came; at most 64 parcels come before.
    retry
        Seconds until what was not acknowledged is told, or asked for, again.
    window
        Parcels per source that are remembered to recognise a second copy.
    waiting
        Bytes that may wait for a neighbour's acknowledgement. Publishers wait at half of it; where events
        come from elsewhere, all that waits for that neighbour is dropped at more, and counted.
    kept
        Parcels that are kept for a subscription while nobody takes them. Of more the oldest are given up, and
        who comes back is told how many.
    absence
        Seconds after which nobody is expected back, and all that was kept is given up.
    disk
        Whether what is kept is on the disk of its dispatcher too, and there again in its next life.
    patience
        Seconds after which a subscription that is to come from another dispatcher is looked for again, if
        nothing of it has come.
    """

    propagation: Literal["subscription", "advertisement"] = "subscription"
    root: Name = ""
    above: Annotated[dict[Name, Name], Meta(max_length=10_000)] = {}
    ack: Annotated[float, Meta(gt=0, le=3600)] = 0.1
    retry: Annotated[float, Meta(gt=0, le=3600)] = 0.5
    window: Annotated[int, Meta(ge=1, le=1_000_000)] = 4096
    waiting: Annotated[int, Meta(ge=1024, le=2**32)] = 64 * 1024 * 1024
    kept: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000
    absence: Annotated[float, Meta(gt=0, le=1e9)] = 7 * 86400.0
    disk: bool = False
    patience: Annotated[float, Meta(gt=0, le=3600)] = 20.0


class Dispatch(Template[DispatchSettings]):
    """Content-based: an event goes where a subscription that it meets came from.

    Promises: at most once, and in causal order, whatever links lose, double or reorder; nothing is missing
        while dispatchers live and the hierarchy stays as it is. An event goes down only where somebody wants
        it, and with advertisements it goes nowhere else either. A subscription that is kept gets what came
        while it was away, once and in order, at whichever dispatcher it comes back. What came while its
        dispatcher was down is told as a gap, if the subscriber's node or a dispatcher that lived through it
        remembers the name; two copies that a partition made become one again.
    Acknowledged: Never; `acknowledged` is refused. What a publisher can wait for is `drain`: the next
        dispatcher has confirmed the events.
    Costs: a message per hop for each subscription that no other covers; a search in the index per event and
        dispatcher; per hop some ten bytes a parcel, and an acknowledgement for all that came in a tenth of a
        second. With advertisements a message per hop for each of those too, and for what they call down.
    Needs: a backbone, or a tree handed over as a container; below it, a server.
    """

    name = "dispatch"
    settings_type = DispatchSettings
    promises = frozenset({AT_MOST_ONCE, CAUSAL})
    watches = (TREE, SERVER, BELOW, NODES)
    content_based = True
    operations = (Advertise, Withdraw, KeepSession, SessionDone, ForgetSession)
    keeps = True
    repairs = True

    def __init__(self, settings: DispatchSettings) -> None:
        super().__init__(settings)
        self.table = FilterTable(settings.propagation == "advertisement", settings.retry)
        self.relay = Relay(settings.ack, settings.retry, settings.waiting, self._renewed)
        self.keeping = Keeping(self, settings.kept, settings.absence, settings.patience)
        self.following = Following(self.relay)
        self._own: dict[int, Criteria] = {}
        self._calls: dict[int, int] = {}
        """Of subscriptions that are kept: the call of the application."""
        self._kept: dict[int, str] = {}
        self._early: list[tuple[int, KeepSession | ForgetSession]] = []
        """Calls that wait until everything of earlier lives is here."""
        self._seen = Seen(settings.window)
        self.beside: tuple[str, ...] = ()

    @property
    def above(self) -> str | None:
        """The dispatcher above this one; the root has none."""
        return self.table.above

    @property
    def near(self) -> tuple[str, ...]:
        """Neighbours in the hierarchy."""
        return self.table.near

    @property
    def telling(self) -> Telling:
        return self.table.telling

    # events

    def admit(self, attributes: Attributes) -> None:
        """Events outside the advertisements of this node's applications are refused."""
        if self.table.advertises:
            own = self.table.advertised
            if not any(criteria.matches(attributes) for criteria in own):
                raise NotAdvertised(attributes, len(own))

    @property
    def looked(self) -> bool:
        """Whether what earlier lives kept on disk was opened, or found damaged."""
        return self.keeping.ledger.looked

    @property
    def refused(self) -> bool:
        """Whether that is damaged: the channel stays closed until it is repaired."""
        return self.keeping.ledger.damaged

    def failure(self, ctx: Context) -> StorageError | None:
        ledger = self.keeping.ledger
        return StorageError(f"log of {ctx.channel!r}", ledger.trouble) if ledger.damaged else None

    def obstacle(self, ctx: Context) -> str | None:
        if not self.keeping.ledger.ready:
            return f"what is kept on disk to be read {self.keeping.ledger.trouble}".rstrip()
        moving = self.following.absent() if self._client(ctx) else self.keeping.filling(ctx.node)
        return f"the subscription kept as {moving!r} to come here" if moving else self.relay.obstacle()

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        self._route(ctx, parcel, None)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        self._take(ctx, sender, parcel.relay, parcel)

    def on_expired(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        self._take(ctx, sender, parcel.relay, parcel)  # what comes behind it waits for it

    def _take(self, ctx: Context, sender: str, place: tuple[int, int], what: Parcel | What) -> None:
        for each, bound in self.relay.take(ctx, sender, place, what):
            if not isinstance(each, Parcel):
                heed(ctx, each, sender, self.keeping, self.following)
            elif bound is not None:
                self._bound(ctx, each, bound)
            elif each.deadline is not None and ctx.now > each.deadline:
                ctx.drop(each, EXPIRED)
            elif each.stamp.node == ctx.node or not self._seen.add(each.stamp):
                ctx.drop(each, "seen before")
            else:
                self._route(ctx, each, sender)

    def _bound(self, ctx: Context, parcel: Parcel, bound: Bound) -> None:
        if not (self.following if self._client(ctx) else self.keeping).bound(ctx, parcel, bound):
            ctx.drop(parcel, "kept for nobody here")

    def _route(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        try:
            hops, numbers, boxes = self._wanted_by(parcel, sender)
        except ProtocolError as error:
            ctx.drop(parcel, f"{error.field} makes no sense")
            return
        for hop in hops:
            self.relay.send(ctx, hop, parcel)
        if numbers:
            ctx.deliver(parcel, sender, numbers)
        for box in boxes:
            self.keeping.keep(ctx, box, parcel)

    def _wanted_by(self, parcel: Parcel, sender: str | None) -> tuple[list[str], list[int], list[Box]]:
        """Neighbours, subscriptions and boxes here that want an event of a parcel; raises ProtocolError."""
        found: set[str | int | Box] = set()
        last: Attributes | None = None
        for attributes in parcel.attributes or ({},):
            if (event := attributes or {}) != last:
                found |= self.table.index.matching(event)
                last = event
        if self.above and not self.table.advertises:
            found.add(self.above)
        found.discard(sender or "")
        hops = sorted(each for each in found if isinstance(each, str))
        boxes = sorted((each for each in found if isinstance(each, Box)), key=lambda box: box.name)
        return hops, sorted(each for each in found if isinstance(each, int)), boxes

    def onward(self, ctx: Context, parcel: Parcel, sender: str) -> list[str]:
        try:
            return self._wanted_by(parcel, sender)[0]
        except ProtocolError:
            return []

    def unconfirmed(self, ctx: Context) -> list[str]:
        own = self.relay.holds(ctx.node)
        return [*self.relay.unconfirmed, *([ctx.node] if own else ())]

    def has_subscribers(self, ctx: Context) -> bool:
        here = self._own or self.keeping.boxes
        return bool(here) or any(said.table for said in self.telling.said.values())

    # what applications here want and offer

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        if membership.change == "subscribed":
            number = int(membership.who)
            self._own[number] = ctx.subscribers[number]
            self.table.subscribe(self._own[number], number)
        elif membership.change == "unsubscribed":
            self._leave(ctx, int(membership.who))
        elif membership.change == "up" and membership.who in self.near:
            self.telling.begin(membership.who)
        self.settle(ctx)

    def _leave(self, ctx: Context, number: int) -> None:
        self._calls.pop(number, None)
        name = self._kept.pop(number, None)
        if number in self._own:
            self.table.unsubscribe(self._own.pop(number), number)
        elif name is not None and not self.following.detach(ctx, number):
            self.keeping.detach(ctx, name, ctx.node, number)

    def on_call(self, ctx: Context, call: int, request: Any) -> None:
        client = self._client(ctx)
        if not self.keeping.ledger.ready and isinstance(request, (KeepSession, ForgetSession)):
            self._early.append((call, request))
            self._refuse(ctx)
            return
        match request:
            case Advertise():
                self.advertise(ctx, request.criteria)
            case Withdraw():
                self.withdraw(ctx, request.criteria)
            case KeepSession():
                self._keep(ctx, call, request)
                return
            case SessionDone():
                (self.following if client else self.keeping).finish(ctx, request.name, request.done)
            case ForgetSession():
                (self.following if client else self.keeping).forget(ctx, request.name)
        ctx.reply(call)

    def advertise(self, ctx: Context, criteria: Criteria) -> None:
        """Applications here are going to publish events that meet these criteria."""
        self.table.advertise(criteria)
        self.settle(ctx)

    def withdraw(self, ctx: Context, criteria: Criteria) -> None:
        """One application here is not going to publish such events any more."""
        self.table.withdraw(criteria)
        self.settle(ctx)

    def _keep(self, ctx: Context, call: int, keep: KeepSession) -> None:
        """A subscription here becomes one that is kept: here, or at the server of a client."""
        number, criteria = keep.subscription, self._own.pop(keep.subscription, None)
        if criteria is None:
            return  # it has ended before everything of earlier lives was here
        self._kept[number], self._calls[number] = keep.name, call
        after = min(keep.after, FARTHEST)
        if self._client(ctx):
            followed = Followed(keep.name, criteria, number, call, after, known=keep.known)
            self.following.attach(ctx, followed)
        else:
            owner = Taker(ctx.node, number, "", after, keep.known)
            self.keeping.attach(ctx, keep.name, criteria, owner)
        self.table.unsubscribe(criteria, number)
        self.settle(ctx)

    # for keeping

    def want(self, ctx: Context, box: Box) -> None:
        self.table.subscribe(box.criteria, box)
        self.settle(ctx)

    def unwant(self, ctx: Context, box: Box) -> None:
        self.table.unsubscribe(box.criteria, box)
        self.settle(ctx)

    def knows(self, node: str) -> bool:
        return self.telling.even(node)

    def resumed(self, ctx: Context, box: Box) -> None:
        assert box.owner is not None
        ctx.reply(self._calls[box.owner.serial], (box.done, box.lost), more=True)

    def taken(self, ctx: Context, subscription: int) -> None:
        call = self._calls.pop(subscription, None)
        if call is not None:
            ctx.reply(call, error=taken_over(self._kept.pop(subscription)))

    # what neighbours say

    @on(Tell)
    def hear(self, ctx: Context, tell: Tell, sender: str) -> None:
        self.table.hear(ctx, tell, sender)
        self.settle(ctx)

    @on(Told)
    def told(self, ctx: Context, told: Told, sender: str) -> None:
        self.table.told(ctx, told, sender)
        self.settle(ctx)

    @on(Passed)
    def passed(self, ctx: Context, passed: Passed, sender: str) -> None:
        self._take(ctx, sender, (passed.relay, passed.number), passed.what)

    @on(Begin, Begun, Sent, Got, Ended)
    def relayed(self, ctx: Context, message: Begin | Begun | Sent | Got | Ended, sender: str) -> None:
        if sender in self.near:
            self.relay.hear(ctx, message, sender)

    def _renewed(self, ctx: Context, node: str) -> None:
        if self._client(ctx):
            self.following.moved(ctx)
        else:
            self.keeping.renewed(ctx, node)

    # the hierarchy, and time

    def on_open(self, ctx: Context) -> None:
        if self.settings.disk and not self._client(ctx):
            self.keeping.open(ctx)
        self._place(ctx)

    def on_report(self, ctx: Context, report: Report) -> None:
        if isinstance(report, Appended):
            self.keeping.ledger.written(ctx, report)
        elif isinstance(report, History):
            self.keeping.ledger.read(ctx, report, self._restore)
            self._refuse(ctx)

    def _refuse(self, ctx: Context) -> None:
        """Tell those that wait for what is on disk that it is damaged."""
        if (failure := self.failure(ctx)) is not None:
            early, self._early = self._early, []
            for call, _ in early:
                ctx.reply(call, error=failure)

    def _restore(self, ctx: Context, boxes: dict[str, Box]) -> None:
        """Everything of earlier lives is here."""
        self.keeping.restore(ctx, boxes)
        self._place(ctx)
        early, self._early = self._early, []
        for call, request in early:
            self.on_call(ctx, call, request)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        self._place(ctx)

    def _place(self, ctx: Context) -> None:
        """Find the dispatchers next to this one, and which of them is above; not before all is known here."""
        if not self.keeping.ledger.ready:
            return
        before = self.above
        for node in self.table.place(*neighbourhood(ctx, self.settings.root, self.settings.above)):
            self.relay.forget(ctx, node)
            self.keeping.lose(ctx, node)
        below = ctx.container(BELOW) or ()
        self.beside = tuple(node for node in self.near if node not in below)
        if self.above != before and self.above:
            if self._client(ctx):
                self.following.moved(ctx)
            else:
                self.keeping.seeking.announce(ctx)
        self.settle(ctx)

    def settle(self, ctx: Context, again: bool = False) -> None:
        """Tell neighbours what they do not know yet; claims may go on to who knows everything."""
        self.table.settle(ctx, again)
        for node in filter(self.telling.tells, self.near):
            self.relay.open(ctx, node)
        self.keeping.seeking.go_on(ctx)

    def on_timer(self, ctx: Context, name: str) -> None:
        if name == "relay":
            self.relay.on_timer(ctx)
        elif name == "kept":
            self.keeping.on_timer(ctx)
        else:
            self.settle(ctx, again=True)

    def _client(self, ctx: Context) -> bool:
        """Whether this node comes and goes, so that its server keeps what has to be kept."""
        return ctx.role is Role.CLIENT
