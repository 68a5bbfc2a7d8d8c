"""Total order: reliable with a sequencer; the order is a stream of its own (seed 000, 4.1.3)."""

from __future__ import annotations

from collections import deque
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from gossamer.core.context import NODES, TREE, Context
from gossamer.core.control import on
from gossamer.core.names import last, nanoseconds
from gossamer.core.parcel import Header, Parcel, make_body
from gossamer.core.receipt import PROOF_BYTES, Stamp
from gossamer.core.template import AT_MOST_ONCE, GAP_FREE, TOTAL_ORDER
from gossamer.overlay.council import NONE, Council
from gossamer.overlay.councilwords import (
    Ask,
    Copied,
    Copy,
    Entry,
    Found,
    Founded,
    History,
    Lead,
    Letter,
    Number,
    Stranger,
    Vote,
    Welcome,
)
from gossamer.overlay.founding import Founding
from gossamer.overlay.keeper import CouncilSettings, Keeper
from gossamer.overlay.post import Post, Relay, Relayed
from gossamer.overlay.stream import Key, Stream
from gossamer.templates.multicast import on_backbone
from gossamer.templates.reliable import Reliable, ReliableSettings

MARK = "!"
"""Begins the name of a sequencer's order as a source: ``b1/!b1`` is what b1 says about the order."""
MAX_PLACES = 256
"""Entries of one parcel of the order."""
NO_PROOF = bytes(PROOF_BYTES)


class Order(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is in a parcel of the order: entries, from an index of a history on."""

    history: History
    first: Number
    entries: Annotated[tuple[Entry, ...], Meta(max_length=MAX_PLACES)]


_decode = msgspec.msgpack.Decoder(Order).decode
_encode = msgspec.msgpack.Encoder().encode


class TotalOrderSettings(ReliableSettings, frozen=True):
    """Settings of a totally ordered channel, on top of those of reliable.

    seats
        Backbone nodes that keep the order; a majority of them has to live. An odd number is best.
    heartbeat
        Seconds between signs of life of the sequencer.
    patience
        Seconds without one until another seat takes over, unless the backbone knows earlier that it died.
    """

    seats: Annotated[int, Meta(ge=1, le=9)] = 5
    heartbeat: Annotated[float, Meta(gt=0, le=60)] = 0.5
    patience: Annotated[float, Meta(gt=0, le=600)] = 5.0


S = TypeVar("S", bound=TotalOrderSettings)


class TotalOrder(Reliable[S]):
    """Reliable with one order for all: the rendezvous node gives every parcel its place.

    Parcels travel as in reliable; so does the order, as a stream of its own. A parcel is delivered when it
    and its place have come and all places before it are done. A place is told only after a majority of a
    few seats has written it down, so that whoever takes over from a sequencer that died goes on from the same
    order, and a sequencer that was cut off tells nothing new.

    Promises: at most once, gap-free per source, and the same order for all members.
    Costs: what reliable costs; per parcel a place in the order, many places to a message; a round trip from
        the sequencer to the nearest majority of the seats before delivery; a few messages per second between
        the seats. Publishers wait until their parcels have a place.
    Needs: what reliable needs, and a majority of the seats; without one nothing is delivered.
    """

    name = "total-order"
    settings_type = TotalOrderSettings
    promises = frozenset({AT_MOST_ONCE, GAP_FREE, TOTAL_ORDER})

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self.post = Post(self.group.way, settings.repair)
        self.council = Council(
            CouncilSettings(settings.seats, settings.repair, settings.heartbeat, settings.patience),
            live=self.group.live,
            send=self.post.send,
            decided=self._decided,
            elected=self._elected,
            keeper=self.keeper(),
        )
        self.founding = Founding(self.council)
        self.history = NONE
        self.next = 0
        """The index that is done next; 0 while the beginning is not known."""
        self.places: dict[int, Entry] = {}
        self.arrived: dict[Key, dict[int, tuple[Parcel, str | None]]] = {}
        """Parcels in order per source, without a place or before their turn."""
        self.done: dict[Key, int] = {}
        self._proposed: dict[Key, int] = {}
        self._told = 0
        """The index up to which this node, as sequencer, has told the order."""
        self._number = 0
        self._indexes: deque[tuple[int, int]] = deque()
        """Parcels of the order on their way, each with the last index in it."""
        self._stuck = (0, 0)

    def keeper(self) -> Keeper:
        """How seats keep their record."""
        return Keeper()

    # parcels and places

    def begins(self, ctx: Context, stream: Stream) -> bool:
        return last(stream.address) in (ctx.node, MARK + ctx.node)

    def open(self, ctx: Context, key: Key, address: str, first: int = 0) -> Stream:
        stream = super().open(ctx, key, address, first)
        if on_backbone(ctx) and address.partition("/")[0] == ctx.node and key[0][0] != MARK:
            stream.settled = self.done.get(key, 0)  # kept, for whoever sequences, until it has a place
        return stream

    def in_order(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        key = parcel.stamp.key
        if key[0][0] == MARK:
            self._hear(ctx, parcel)
        elif parcel.stamp.sequence > self.done.get(key, 0):
            self.arrived.setdefault(key, {})[parcel.stamp.sequence] = (parcel, sender)
            if self.council.leads:
                self._propose(ctx, key)
        self._go_on(ctx)

    def _hear(self, ctx: Context, parcel: Parcel) -> None:
        """The order goes on."""
        order = _decode(parcel.payloads[0])
        if order.history < self.history:
            return
        if order.history > self.history:
            self.history, self.next, self.places = order.history, 0, {}
            self.council.hear_of(order.history)
        self.next = self.next or order.first
        for index, entry in enumerate(order.entries, order.first):
            if index >= self.next:
                self.places[index] = entry
            self.founding.hear(order.history, entry.seats)

    def _go_on(self, ctx: Context) -> None:
        """Do what is next, as far as it has come."""
        while self.next in self.places and self._do(ctx, self.places[self.next]):
            del self.places[self.next]
            self.next += 1

    def _do(self, ctx: Context, entry: Entry) -> bool:
        """Deliver the parcel whose place is next; False if it has not come."""
        if not entry.source:
            return True
        key, number = (last(entry.source), entry.incarnation), entry.sequence
        arrived = self.arrived.get(key, {})
        if number not in arrived:
            return self._passed(ctx, key, entry)
        for earlier in [each for each in arrived if each < number]:
            ctx.drop(arrived.pop(earlier)[0], "placed before this node joined")
            if key in self.done:
                ctx.gap(key[0])
        parcel, sender = arrived.pop(number)
        self._settled(ctx, key, number)
        self.deliver(ctx, self.next, parcel, sender)
        return True

    def deliver(self, ctx: Context, index: int, parcel: Parcel, sender: str | None) -> None:
        """A parcel whose turn it is, among all sources."""
        super().in_order(ctx, parcel, sender)

    def _passed(self, ctx: Context, key: Key, entry: Entry) -> bool:
        """Whether a parcel that is not here has been delivered, or was before this node's time."""
        stream = self.streams.get(key)
        upto = stream.next if stream else self._ended.get(key, 0)
        if entry.sequence < upto or entry.sequence <= self.done.get(key, 0):
            self._settled(ctx, key, entry.sequence)
            return True
        if stream is None:
            self.open(ctx, key, entry.source)
            self._tick(ctx)
        return False

    def _settled(self, ctx: Context, key: Key, number: int) -> None:
        self.done[key] = max(number, self.done.get(key, 0))
        if not self.arrived.get(key):
            self.arrived.pop(key, None)
        stream = self.streams.get(key)
        if stream is not None and stream.settled < number:
            stream.settled = number
            self._release(ctx, stream)
            self._tick(ctx)

    def forget(self, key: Key) -> None:
        super().forget(key)
        if key not in self.arrived:
            self.done.pop(key, None)

    def _beat(self, ctx: Context, key: Key, stream: Stream) -> bool:
        busy = super()._beat(ctx, key, stream)
        if not self.places or self._stuck[0] != self.next:
            self._stuck = (self.next, self._time)
        elif self._time - self._stuck[1] > nanoseconds(self.settings.laggard):
            self._skip(ctx)
        return busy or bool(self.places)

    def _skip(self, ctx: Context) -> None:
        """What is next has not come for too long, and will not: go on behind it, and say so."""
        entry = self.places.pop(self.next, None)
        if entry is not None:
            key = (last(entry.source), entry.incarnation)
            self._settled(ctx, key, entry.sequence)
            ctx.gap(key[0])
            self.next += 1
        else:
            self.next = min(self.places)
            for name in sorted({key[0] for key in self.done}):
                ctx.gap(name)
        self._go_on(ctx)

    # sequencing

    def _elected(self, ctx: Context) -> None:
        assert self.council.record is not None
        self._proposed = self.council.record.positions()
        self._told = max(self.council.settled, self.council.record.base)
        for key in sorted(self.arrived):
            self._propose(ctx, key)
        self._tell_order(ctx)

    def _propose(self, ctx: Context, key: Key) -> None:
        for number, (parcel, _) in sorted(self.arrived[key].items(), key=lambda item: item[0]):
            if number > self._proposed.get(key, 0):
                self._proposed[key] = number
                entry = Entry(self.council.term, parcel.stamp.source, key[1], number)
                self.council.propose(ctx, entry)

    def _decided(self, ctx: Context) -> None:
        if self.council.leads:
            self._tell_order(ctx)

    def _tell_order(self, ctx: Context) -> None:
        """Tell everybody what is decided, unless too much of the order is on its way."""
        council, record = self.council, self.council.record
        key = (MARK + ctx.node, ctx.incarnation)
        while record is not None and self._told < council.decided:
            stream = self.streams.get(key) or self.open(ctx, key, f"{ctx.node}/{key[0]}", 1)
            if len(stream.held) >= self.settings.send_window:
                return
            count = min(MAX_PLACES, council.decided - self._told)
            order = Order(council.history, self._told + 1, record.entries(self._told + 1, count))
            self._told += count
            self._number += 1
            stamp = Stamp(stream.address, ctx.incarnation, self._number, self._number, 1, NO_PROOF)
            body, split = make_body([_encode(order)], [])
            self._indexes.append((self._number, self._told))
            self.launch(ctx, Parcel(Header(ctx.id, stamp, ctx.now, split), body))

    def _release(self, ctx: Context, stream: Stream) -> None:
        super()._release(ctx, stream)
        if last(stream.address) == MARK + ctx.node and self.council.leads:
            while self._indexes and self._indexes[0][0] < stream.low:
                self.council.settle(self._indexes.popleft()[1])
            self._tell_order(ctx)

    def stays(self, ctx: Context) -> bool:
        return super().stays(ctx) or self.council.seated(ctx)

    # the council

    @on(Ask, Vote, Copy, Copied, Stranger, Welcome, Lead, Found, Founded)
    def letter(self, ctx: Context, letter: Letter, sender: str) -> None:
        if letter.to != ctx.node:
            self.post.send(ctx, letter)
            return
        match letter:
            case Found():
                self.founding.asked(ctx, letter)
            case Founded():
                self.founding.answered(ctx, letter)
            case _:
                self.council.hear(ctx, letter)
        self._settle(ctx)

    @on(Relay)
    def relay(self, ctx: Context, relay: Relay, sender: str) -> None:
        ctx.send(sender, Relayed(relay.number))
        self.letter(ctx, relay.letter, sender)

    @on(Relayed)
    def relayed(self, ctx: Context, relayed: Relayed, sender: str) -> None:
        self.post.taken(relayed, sender)

    def on_timer(self, ctx: Context, name: str) -> None:
        match name:
            case "post":
                self.post.timer(ctx)
            case "council":
                self.council.timer(ctx)
            case "found":
                self.founding.timer(ctx)
                self._settle(ctx)
            case _:
                super().on_timer(ctx, name)

    def regrouped(self, ctx: Context) -> None:
        super().regrouped(ctx)
        self._begin(ctx)

    def on_container(self, ctx: Context, name: str, value: object) -> None:
        super().on_container(ctx, name, value)
        if name in (NODES, TREE):
            self._begin(ctx)

    def _begin(self, ctx: Context) -> None:
        if on_backbone(ctx) and self.group.tree is not None:
            self.founding.start(ctx)
