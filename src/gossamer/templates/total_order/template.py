"""Total order: reliable with a sequencer; the order is a stream of its own (seed 000, 4.1.3)."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from gossamer.consensus.bootstrap import Bootstrap
from gossamer.consensus.messages import (
    RAFT_MESSAGES,
    BootstrapReply,
    BootstrapRequest,
    Entry,
    FetchedParcel,
    FetchParcels,
    RaftMessage,
)
from gossamer.consensus.node import NONE, RaftNode
from gossamer.consensus.stores import MemoryStore, RaftSettings
from gossamer.core.context import BELOW, NODES, TREE, Context
from gossamer.core.control import on
from gossamer.core.effect import senseless
from gossamer.core.errors import ProtocolError
from gossamer.core.names import VIRTUAL, nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import SourceKey
from gossamer.core.template import AT_MOST_ONCE, GAP_FREE, PROGRESS, TOTAL_ORDER, Membership
from gossamer.core.trace import ORDERED
from gossamer.overlay.groups.tree import Rooted
from gossamer.templates.multicast import on_backbone
from gossamer.templates.reliable.messages import Have, Ranges
from gossamer.templates.reliable.sources import ReliableSettings
from gossamer.templates.reliable.template import Reliable
from gossamer.templates.reliable.window import Stream
from gossamer.templates.total_order.entry_fetch import Fetching
from gossamer.templates.total_order.forwarding import Carried, Post, Relay, Relayed
from gossamer.templates.total_order.order_stream import (
    MAX_PLACES,
    Order,
    check_order,
    order_parcel,
    read_order,
)
from gossamer.templates.total_order.skipped import AllSkips, among


class TotalOrderSettings(ReliableSettings, frozen=True):
    """Settings of a totally ordered channel, on top of those of reliable.

    seats
        Backbone nodes that keep the order; a majority of them has to live. An odd number is best.
    heartbeat
        Seconds between signs of life of the sequencer.
    patience
        Seconds without one until another seat takes over, and after which a seat that does not answer is
        given to another node, unless the backbone knows earlier that it died.
    """

    seats: Annotated[int, Meta(ge=1, le=9)] = 5
    heartbeat: Annotated[float, Meta(gt=0, le=60)] = 0.5
    patience: Annotated[float, Meta(gt=0, le=600)] = 4.0


S = TypeVar("S", bound=TotalOrderSettings)
NOWHERE = (Entry(0), 0)


class TotalOrder(Reliable[S]):
    """Reliable with one order for all: the rendezvous node gives every parcel its place.

    Parcels travel as in reliable; so does the order, as a stream of its own. A parcel waits in its window
    until its place has come and all places before it are done. A place is told only after a majority of a few
    seats has written it down and has the parcel, so that whoever takes over from a sequencer that died goes
    on from the same order, and a sequencer that was cut off tells nothing new.

    Promises: at most once, gap-free per source, and the same order for all members. After the last fault,
        with a majority of the seats, everything arrives and is acknowledged within twice ``laggard``, three
        times ``patience`` and two heartbeats for every seat and one more; what gets no place is told as lost.
    Acknowledged: The event has its place in the order: a majority of the voters has written the place down
        and has the event. Members may not have it yet.
    Costs: what reliable costs; per parcel a place in the order, many places to a message; a round trip from
        the sequencer to the nearest majority of the seats before delivery; a few messages per second between
        the seats. Windows hold parcels until everybody has delivered them.
    Needs: what reliable needs, and a majority of the seats; without one nothing is delivered.
    """

    name = "total-order"
    settings_type = TotalOrderSettings
    promises = frozenset({AT_MOST_ONCE, GAP_FREE, PROGRESS, TOTAL_ORDER})

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self.post = Post(self.way, settings.repair)
        self.store = self.make_keeper()
        self.raft = RaftNode(
            RaftSettings(settings.seats, settings.repair, settings.heartbeat, settings.patience),
            live=self.group.live,
            send=self.post.send,
            commit_index=self.commit_index,
            elected=self._elected,
            store=self.store,
        )
        self.bootstrap = Bootstrap(self.raft, self.lost)
        self.fetching = Fetching(self.raft)
        self.history = NONE
        self.next = 0
        """The index that is done next; 0 while the beginning is not known."""
        self.places: dict[int, tuple[Entry, int]] = {}
        """Entries by index, each with how many parcels had a place before."""
        self.sequencer = (0, "")
        """Term and node of whoever told the order last."""
        self._known = 0
        """The last index of this history that was heard."""
        self._unheard = False
        """Whether a part of the order was not heard, and no parcel from here has had a place since."""
        self._skips = AllSkips()
        """What is told to sources that hear no order."""
        self._room = 2 * settings.send_window * MAX_PLACES
        """Places that may wait: more than a sequencer tells before all have acknowledged them."""
        self._heard: dict[SourceKey, deque[tuple[int, int]]] = {}
        """Parcels of orders that are not done, each with the last index in it."""
        self._proposed: dict[SourceKey, int] = {}
        self._told = self._told_number = self._number = 0  # what this node has told: index, place, parcel
        self._lacked: deque[tuple[int, int]] = deque()  # parcels of the order told here, with the last index
        self._insisted = 0
        self._stuck, self._torn = (0, 0), 0  # since when; the index from which on places were never told here
        self._patience = min(self._laggard, nanoseconds(2 * settings.patience))

    @classmethod
    def recovery(cls, settings: Any) -> float:
        """What reliable takes; until another seat leads, whose turn comes last; and until places that no node
        tells any more are waited for no longer.
        """
        turns = 2.0 * (int(settings.seats) + 1) * float(settings.heartbeat)
        return 2.0 * float(settings.laggard) + 3.0 * float(settings.patience) + turns

    def make_keeper(self) -> MemoryStore:
        """How seats keep their record."""
        return MemoryStore(self.at_hand)

    def at_hand(self, key: SourceKey, number: int) -> Parcel | None:
        """A parcel that has arrived and waits for its place."""
        stream = self.streams.get(key)
        return stream.held.get(number) if stream else None

    # parcels and places

    def begins(self, ctx: Context, stream: Stream) -> bool:
        return stream.node.removeprefix(VIRTUAL) == ctx.node and stream.life == ctx.incarnation

    def stand_in(self, tree: Rooted) -> str:
        return self.sequencer[1] if self.sequencer[1] in tree else tree.root

    def find(self, stream: Stream, key: SourceKey, number: int) -> Parcel | None:
        return super().find(stream, key, number) or self.store.find(key, number)

    def open(self, ctx: Context, key: SourceKey, address: str, first: int = 0) -> Stream:
        stream = super().open(ctx, key, address, first)
        if key[0].startswith(VIRTUAL):
            stream.settled = max(0, stream.next - 1)  # acknowledged when its places are done
            stream.dead = stream.entry == ctx.node and not self.begins(ctx, stream)  # of an earlier life
            stream.over = int(stream.dead)
            stream.begun = self.next > 0  # what it told before it came here is missing here
        elif self.begins(ctx, stream):
            stream.settled = 0  # kept until it has its place: a new sequencer may have to begin with it
        elif on_backbone(ctx):
            stream.confirmed = max(0, stream.next - 1)  # it was forgotten when all of it had its places
        if len(stream.path) > 1 and not self.begins(ctx, stream):
            self._skips.of(key)
        return stream

    def resumes(self, stream: Stream) -> bool:
        """A new sequencer may have told places that this node lacks before it heard of that sequencer."""
        return self.next > 0 and stream.node.startswith(VIRTUAL)

    def located(self, ctx: Context, key: SourceKey, have: Have, sender: str) -> Stream | None:
        # a member that was away hears in this way what a teller said that has died since
        admitted = self._is_order(ctx, have.source, sender) or not key[0].startswith(VIRTUAL)
        stream = super().located(ctx, key, have, sender) if admitted else None
        if stream is not None and key in self._skips and sender == self.upstream(ctx, stream):
            self._skips[key].heard(have.base, max(have.high, stream.high) if sender == key[0] else -1)
        return stream

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if self._admits(ctx, parcel.stamp.key, parcel.stamp.source, sender):
            super().on_parcel(ctx, parcel, sender)
        else:
            ctx.drop(parcel, "an order of no voter")

    def _admits(self, ctx: Context, key: SourceKey, address: str, sender: str) -> bool:
        """Whether a parcel may come from there: one of the order only from a node that may be a voter, or has
        been one. A client believes its server.
        """
        if not key[0].startswith(VIRTUAL):
            return True
        known = key in self.streams or key[0].removeprefix(VIRTUAL) in self.group.live(ctx)
        return self._is_order(ctx, address, sender) and (known or not on_backbone(ctx))

    def _is_order(self, ctx: Context, address: str, sender: str) -> bool:
        """Whether the order can come from an address: right from a backbone node, and never from below."""
        entry, _, name = address.partition("/")
        return name == VIRTUAL + entry and sender not in (ctx.container(BELOW) or ())

    def kept(self, stream: Stream) -> int | None:
        return stream.arrived  # a newcomer's may have had its place before its time

    def turn(self, ctx: Context, parcel: Parcel) -> bool:
        stamp = parcel.stamp
        if stamp.node.startswith(VIRTUAL):
            return True
        place, _ = self.places.get(self.next, NOWHERE)
        return not self._ordered(ctx) or (place.key, place.sequence) == (stamp.key, stamp.sequence)

    def _ordered(self, ctx: Context) -> bool:
        """Whether this node gets the order; one below the backbone that only publishes does not."""
        return on_backbone(ctx) or self._listens(ctx, ctx.server)

    def advance(self, ctx: Context, stream: Stream, sender: str | None) -> None:
        if stream.torn and stream.node.startswith(VIRTUAL):
            stream.torn, self._torn = False, max(self.places, default=self.next - 1) + 1
        super().advance(ctx, stream, sender)
        if not stream.node.startswith(VIRTUAL):
            self._propose(ctx) if self.raft.leads else self._begin(ctx)
        self.fetching.arrived(ctx)
        self._go_on(ctx, sender)

    def in_order(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        if parcel.stamp.node.startswith(VIRTUAL):
            self._hear(ctx, parcel)
        elif self._ordered(ctx):
            parcel.place, stream = self.places[self.next][1], self.streams[parcel.stamp.key]
            stream.confirmed = max(stream.confirmed, parcel.stamp.sequence)  # its place may have come first
            self._pass()
            self.deliver(ctx, parcel, sender)

    def deliver(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        """A parcel whose turn it is, among all sources."""
        super().in_order(ctx, parcel, sender)

    def _hear(self, ctx: Context, parcel: Parcel) -> None:
        """The order goes on."""
        heard = self._heard.setdefault(parcel.stamp.key, deque())
        try:
            order = read_order(parcel)
            check_order(order, ctx.now, self.store.numbered)
        except ProtocolError as error:  # the stream has passed it: what follows still has its turn
            ctx.drop(parcel, senseless(error))
            heard.append((parcel.stamp.sequence, 0))
            return
        if order.history == self.history and len(self.places) + len(order.entries) > self._room:
            ctx.drop(parcel, "too many places wait")
            heard.append((parcel.stamp.sequence, 0))
            return
        if order.history < self.history or (order.history > self.history and not self._credible(ctx, parcel)):
            heard.append((parcel.stamp.sequence, 0))
            return
        self.raft.surpassed(order.history, order.term)
        before, whole = self.history, self._whole(order)
        if not whole or NONE < before < order.history:
            self._skips.tear()
        if order.history > self.history:
            self._change(ctx, order)
        self._unheard |= not whole
        self._find_skipped(ctx, order)
        self._unheard &= before > NONE  # before the first that is told here, this node had none to hear
        self._known = max(self._known, order.first + len(order.entries) - 1)
        self.next = self.next or order.first
        number, confirmed = order.number, {}
        for index, entry in enumerate(order.entries, order.first):
            if index >= self.next:
                self.places[index] = (entry, number)
            number += bool(entry.source)
            stream = self.streams.get(entry.key)
            if stream is not None and entry.key in self._skips:
                self._skips[entry.key].placed(entry.sequence, stream.fits(entry.sequence))
            if stream is not None and stream.confirmed < entry.sequence <= stream.high:
                stream.confirmed, confirmed[entry.key] = entry.sequence, stream
            self.bootstrap.hear(order.history, index, entry.seats)
        heard.append((parcel.stamp.sequence, order.first + len(order.entries) - 1))
        self.sequencer = max(self.sequencer, (order.term, parcel.stamp.source.partition("/")[0]))
        for key, stream in confirmed.items():
            self.heard_confirmed(ctx, key, stream)

    def _whole(self, order: Order) -> bool:
        """Whether an order goes on where what was heard ends. A later history decides anew of all that was
        not placed in the earlier, and so does the first from its beginning on.
        """
        if order.history > self.history:
            return self.history > NONE or order.first == order.history[0] + 1
        return order.first <= self._known + 1

    def _credible(self, ctx: Context, parcel: Parcel) -> bool:
        """Whether a later history is told by a node that may be a voter; a client believes its server."""
        return not on_backbone(ctx) or parcel.stamp.node.removeprefix(VIRTUAL) in self.group.live(ctx)

    def _find_skipped(self, ctx: Context, order: Order) -> None:
        """Parcels from here without a place, though a later one has its place: they will never have one.

        Where a part of the order was not heard, the places of those before the next one may be in that part.
        """
        own = (ctx.node, ctx.incarnation)
        stream = self.streams.get(own)
        if stream is None:
            return
        mine = (entry.sequence for entry in order.entries if entry.source and entry.key == own)
        placed = [number for number in mine if number <= stream.high]
        if not placed:
            return
        last_known = min(placed) if self._unheard else stream.confirmed
        self._unheard = False
        between = (each[0] for each in self._sent if last_known < each[0] < max(placed))
        self.given_up.update(set(between).difference(placed))

    def skipped(self, key: SourceKey, confirmed: int) -> tuple[int, Ranges]:
        return self._skips[key].upto(confirmed) if key in self._skips else (confirmed, ())

    def heard_skipped(self, ctx: Context, key: SourceKey, skipped: Ranges, confirmed: int) -> None:
        if key in self._skips:
            self._skips[key].take(skipped, confirmed)
        elif key == (ctx.node, ctx.incarnation):
            self.given_up.update(among((each[0] for each in self._sent), skipped, confirmed))

    def heard_confirmed(self, ctx: Context, key: SourceKey, stream: Stream) -> None:
        if key == (ctx.node, ctx.incarnation):
            stream.settled = stream.confirmed
            self.confirm(ctx, stream.confirmed)
            self._release(ctx, stream)
        elif stream.confirmed > stream.vouched[1]:  # a source below this node does not know it yet
            self._acknowledge(ctx, [key])

    def confirmed(self, stream: Stream, complete: int | None) -> int:
        return stream.confirmed

    def everywhere(self, ctx: Context, number: int) -> None:
        """That every member has a parcel does not acknowledge it: it needs its place."""

    def unconfirmed(self, ctx: Context) -> list[str]:
        return [ctx.node] if self._sent else []

    def _change(self, ctx: Context, order: Order) -> None:
        """Another history goes on from the same order, or begins one anew."""
        self.history, self.places, self.sequencer, self._known = order.history, {}, (0, ""), 0
        if order.first > self.next > 0:
            self._jump(ctx, order.first)

    def _pass(self) -> None:
        self.places.pop(self.next, None)
        self.next += 1

    def _go_on(self, ctx: Context, sender: str | None) -> None:
        """Do what is next, as far as it has come."""
        while (place := self.places.get(index := self.next)) is not None:
            if place[0].source and not self._deliver(ctx, place[0], sender):
                break
            if self.next == index and self.places.get(index) == place:
                self._pass()
        for key, heard in self._heard.items():
            stream, before = self.streams.get(key), heard[0][0] if heard else 0
            while heard and heard[0][1] < self.next:
                number, _ = heard.popleft()
                if stream is not None:
                    stream.settled = max(stream.settled, number)
            if stream is not None and stream.settled >= before > 0:
                self._release(ctx, stream)
                self._tick(ctx)

    def _deliver(self, ctx: Context, place: Entry, sender: str | None) -> bool:
        """Deliver the parcel of a place, unless that was before this node's time; False if it is not here."""
        key, number = place.key, place.sequence
        stream = self.streams.get(key)
        if number < self.streams.upto(key):
            return True
        if key == (ctx.node, ctx.incarnation) and (stream is None or number > stream.high):
            return True  # this node never sent it
        if stream is None:
            stream = self.open(ctx, key, place.source)
            self._tick(ctx)
        kept = self.store.find(key, number)
        if kept is not None and number not in stream.held:
            stream.begin(number)
            stream.add(kept)
        if stream.next == 0:
            return stream.over == 2  # nobody has anything of it for this node
        if not stream.fits(number):  # no source is so far ahead of what is known of it
            if stream.begun:
                ctx.gap(key[0])
            return True
        if stream.next < number + (lost := stream.lost(number)):
            if stream.begun:
                self.tell_gap(ctx, key[0])
            for parcel in stream.skip(number + lost):
                ctx.drop(parcel, "without a place")
        super().advance(ctx, stream, sender)
        if stream.next > number > stream.confirmed:
            stream.confirmed = number
        stream.high = max(stream.high, number)  # it exists: its source may be gone and tell nobody
        return stream.next > number

    def _beat(self, ctx: Context, key: SourceKey, stream: Stream) -> bool:
        busy = super()._beat(ctx, key, stream)
        if self._sent and not on_backbone(ctx) and self.begins(ctx, stream):
            self._insist(ctx, key, stream)
            busy = True
        waits = bool(self.places) or 0 < self._torn == self.next
        if not waits or self._stuck[0] != self.next:
            self._stuck = (self.next, self._time)
        elif self._time - self._stuck[1] > (self._laggard if self._may_come() else self._patience):
            self._skip(ctx)
        return busy or waits

    def _insist(self, ctx: Context, key: SourceKey, stream: Stream) -> None:
        """The server has everything and has not said that it is acknowledged: that may have been lost."""
        if ctx.server is not None and self._time - self._insisted >= self._reminder and not stream.waiting:
            self._insisted = self._time
            self._tell(ctx, key, stream, ctx.server)

    def _may_come(self) -> bool:
        """Whether what is next can still come: its place, if a stream of the order lacks something; or it has
        one, and its parcel does.
        """
        orders = (stream for stream in self.streams.values() if stream.node.startswith(VIRTUAL))
        return self.next in self.places or any(each.next <= each.high and each.over < 2 for each in orders)

    def _skip(self, ctx: Context) -> None:
        """What is next has not come for too long, and will not: go on behind it, and say so."""
        place = self.places.get(self.next)
        if place is None:
            self._jump(ctx, min(self.places, default=0))
        else:
            entry = place[0]
            stream = self.streams.get(entry.key)
            if stream is not None and 0 < stream.next <= entry.sequence:
                stream.miss(entry.sequence)
            self.tell_gap(ctx, entry.key[0])
            self._pass()
        self._go_on(ctx, None)

    def _jump(self, ctx: Context, index: int) -> None:
        """Places are missing: whatever they were for is missing too; 0 if nothing that follows is known.

        Subscriptions to which nothing was delivered yet begin behind what is missing.
        """
        self.next, self._torn = index, self._torn if self._torn > index > 0 else 0
        sources = {key: stream for key, stream in self.streams.items() if not key[0].startswith(VIRTUAL)}
        if any(stream.begun for stream in sources.values()):
            for name in sorted({key[0] for key in sources}):
                self.tell_gap(ctx, name)

    def _sweep(self, ctx: Context) -> None:
        super()._sweep(ctx)
        self._skips.tidy(self.streams)

    # sequencing

    def _elected(self, ctx: Context) -> None:
        assert self.raft.record is not None
        self._proposed = self.raft.record.positions()
        self._told = 0
        self._propose(ctx)
        self.tell_order(ctx)

    def _propose(self, ctx: Context) -> None:
        """Give places to parcels that have arrived in the order of their source."""
        for key, stream in tuple(self.streams.items()):
            if not key[0].startswith(VIRTUAL) and stream.next:
                number = max(self._proposed.get(key, 0), stream.next - 1) + 1
                while number in stream.held and self.raft.leads:
                    self._proposed[key] = number
                    self.raft.propose(ctx, Entry(self.raft.term, stream.address, key[1], number))
                    number += 1

    def commit_index(self, ctx: Context) -> None:
        """More places are decided."""
        self.tell_order(ctx)

    def tell_order(self, ctx: Context) -> None:
        """Tell everybody what is decided and kept, unless too much of the order is on its way."""
        raft, record, leads = self.raft, self.raft.record, self.raft.leading
        key = (VIRTUAL + ctx.node, ctx.incarnation)
        upto = min(raft.commit_index, leads.told(ctx)) if leads else 0
        if record is not None and self._told < record.base:  # everybody has heard it from this node before
            self._told, self._told_number = record.base, record.number
        while record is not None and self._told < upto:
            stream = self.streams.get(key) or self.open(ctx, key, f"{ctx.node}/{key[0]}", 1)
            if len(stream.held) >= self.settings.send_window:
                return
            first, count = self._told + 1, min(MAX_PLACES, upto - self._told)
            entries = record.valid(first, count, raft.commit_index)
            order = Order(raft.history, raft.term, first, self._told_number, entries)
            self._told_number += sum(bool(entry.source) for entry in entries)
            self._told += count
            self._number += 1
            self._lacked.append((self._number, self._told))
            for index, entry in enumerate(entries, first):
                if entry.source:
                    ctx.note(ORDERED, index, entry.key, entry.sequence, raft.history[1])
            self.launch(ctx, order_parcel(ctx, stream.address, self._number, order))

    def _release(self, ctx: Context, stream: Stream) -> None:
        before = stream.low
        super()._release(ctx, stream)
        if stream.low > before and stream.node.startswith(VIRTUAL) and self.begins(ctx, stream):
            while self._lacked and self._lacked[0][0] < stream.low:
                self.raft.settle(self._lacked.popleft()[1])
            self.tell_order(ctx)

    def stays(self, ctx: Context) -> bool:
        return super().stays(ctx) or self.raft.seated(ctx)

    # the Raft group

    @on(*RAFT_MESSAGES)
    def message(self, ctx: Context, message: RaftMessage, sender: str) -> None:
        self.raft.check(ctx, message)
        if sender in (ctx.container(BELOW) or ()):
            return  # a client is never a voter, and none is reached through it
        if message.to != ctx.node:
            self.post.send(ctx, message)
            return
        if not on_backbone(ctx):
            return  # a client is never a voter
        match message:
            case BootstrapRequest():
                self.bootstrap.asked(ctx, message)
            case BootstrapReply():
                self.bootstrap.answered(ctx, message)
            case FetchParcels():
                self.fetching.asked(ctx, message)
            case FetchedParcel():
                self._fetched(ctx, message)
            case _:
                self.raft.hear(ctx, message)
        self._settle(ctx)

    def _fetched(self, ctx: Context, fetched: FetchedParcel) -> None:
        """Another seat has the parcel of an entry, or has it not."""
        entry = self.raft.entry(fetched.index)
        stream = self.streams.get(entry.key) if entry else None
        parcel = self.fetching.fetched(ctx, fetched, stream is not None and stream.over == 2)
        if parcel is not None:
            self.on_parcel(ctx, parcel, fetched.origin)

    def _look(self, ctx: Context) -> None:
        """Ask other seats and sources for parcels that have an entry and are not here."""
        self.fetching.ask(ctx)
        for index in self.fetching.lacking():
            entry = self.raft.entry(index)
            assert entry is not None
            stream = self.streams.get(entry.key) or self.open(ctx, entry.key, entry.source)
            if stream.over < 2 and stream.fits(entry.sequence):
                stream.high = max(stream.high, entry.sequence)
                self._tick(ctx)

    @on(Relay)
    def relay(self, ctx: Context, relay: Relay, sender: str) -> None:
        ctx.send(sender, Relayed(relay.number))
        if isinstance(relay.message, RaftMessage):
            self.message(ctx, relay.message, sender)

    def way(self, ctx: Context, message: Carried) -> str | None:
        """The neighbour on the way of a message."""
        return self.group.way(ctx, message.to)

    @on(Relayed)
    def relayed(self, ctx: Context, relayed: Relayed, sender: str) -> None:
        self.post.taken(relayed, sender)

    def on_timer(self, ctx: Context, name: str) -> None:
        match name:
            case "council":
                self.raft.timer(ctx)
                self._look(ctx)
                self._settle(ctx)
                self._begin(ctx)
            case "found":
                self.bootstrap.timer(ctx)
                self._settle(ctx)
            case "post":
                self.post.timer(ctx)
            case _:
                super().on_timer(ctx, name)

    def regrouped(self, ctx: Context) -> None:
        super().regrouped(ctx)
        self._begin(ctx)

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        """A client that begins to listen, for itself or for those below it, heard no order meanwhile."""
        apart = not on_backbone(ctx) and not self.interests.listening(ctx.server)
        if apart and membership.change == "subscribed" and len(ctx.subscribers) == 1:
            self.next = self._known = self._torn = 0
            self.places = {}
        super().on_membership(ctx, membership)

    def on_container(self, ctx: Context, name: str, value: object) -> None:
        super().on_container(ctx, name, value)
        if name in (NODES, TREE):
            self._begin(ctx)

    def _begin(self, ctx: Context) -> None:
        """See to it that there is a Raft group, once parcels wait for their places."""
        here = on_backbone(ctx) and self.group.tree is not None and self.group.meeting(ctx) == ctx.node
        if here and any(each.waits for each in self.streams.values()):
            self.bootstrap.start(ctx)
