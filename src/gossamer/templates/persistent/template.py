"""Persistent: total order with a history on disk that is replayed to whoever asks (seed 000, 4.1.4)."""

from __future__ import annotations

from typing import Any

import msgspec

from gossamer.core.context import Context
from gossamer.core.control import on
from gossamer.core.effect import History
from gossamer.core.names import last, nanoseconds
from gossamer.core.operations import MoreHistory, ReadHistory
from gossamer.core.parcel import Parcel
from gossamer.core.template import DURABLE, Membership
from gossamer.templates.multicast import on_backbone
from gossamer.templates.persistent.replay import MAX_REPLAYED, Replay, Replayed, Wish, answer_of, parcels_of
from gossamer.templates.persistent.voter_log import LOG, LoggedOrder, PersistentSettings, S
from gossamer.templates.total_order.forwarding import Carried, Relay
from gossamer.templates.total_order.template import TotalOrder

MAX_READS = 1024
"""Requests for history that wait for the disk."""


class Persistent(LoggedOrder[S]):
    """Total order with a memory: the seats keep every event on disk, and replay it.

    What the seats know of the order is on disk before they say so, so that they are the same after any
    crash; what is decided goes to a log of its own on each seat, a parcel a record, in the one order. A
    subscriber may ask for the history from a number or an instant on: it gets it from a seat, and then goes
    over to what is delivered live, without a gap and nothing twice.

    Promises: what total-order promises; what is acknowledged is on the disks of a majority of the seats and
        survives every crash; a new subscriber may have the history before it goes on live. After the last
        fault, with a majority of the seats, events are stored and arrive within the time that total-order
        states; a disk that takes nothing, or has lost what it kept, is a fault as long as it lasts.
    Acknowledged: The event has its place in the order, and place and event are on the disks of a majority of
        the voters. Members may not have it yet.
    Costs: what total-order costs, every parcel twice on the disk of each seat, and before delivery a sync,
        which the seats do at the same time.
    Needs: what total-order needs, and a state folder on the nodes that may have a seat. A seat stays with its
        node, also while that is down.
    """

    name = "persistent"
    settings_type = PersistentSettings
    promises = TotalOrder.promises | {DURABLE}
    operations = (ReadHistory, MoreHistory)

    def quorum(self) -> int:
        return len(self.raft.seats) // 2 + 1 if self.raft.leads else 0

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self._live = 0
        """The number that is delivered next here; 0 before the first."""
        self._paused: set[int] = set()
        """Subscriptions whose applications have no room for more of the history."""
        self._reads: dict[int, Replay] = {}
        self._asked = 0

    # history, where it is kept

    @on(Replay)
    def replay(self, ctx: Context, replay: Replay, sender: str) -> None:
        if replay.to.rpartition("/")[2] != ctx.node:
            self.post.send(ctx, replay)
        elif self.reads and self.raft.seated(ctx):
            if len(self._reads) < MAX_READS:
                self._tickets += 1
                self._reads[self._tickets] = replay
                ctx.read(self._tickets, replay.first, MAX_REPLAYED)
        elif self._keeper_of_history(ctx) not in (None, ctx.node):
            to = self._keeper_of_history(ctx) or ""
            self.post.send(ctx, Replay(to, replay.origin, replay.wish, replay.first, replay.since))

    @on(Relay)
    def relay(self, ctx: Context, relay: Relay, sender: str) -> None:
        super().relay(ctx, relay, sender)
        if isinstance(relay.message, Replay):
            self.replay(ctx, relay.message, sender)
        elif isinstance(relay.message, Replayed):
            self.replayed(ctx, relay.message, sender)

    def way(self, ctx: Context, message: Carried) -> str | None:
        """History also goes to clients."""
        history = isinstance(message, Replay | Replayed)
        return ctx.toward(message.to) if history else super().way(ctx, message)

    def read(self, ctx: Context, history: History) -> None:
        replay = self._reads.pop(history.ticket, None)
        if replay is None or history.error:
            return
        # what is delivered or on its way to the log belongs to the history too: a reader has to ask again
        end = max(history.end, self._end or 0, self._live)
        answer = answer_of(replay, msgspec.structs.replace(history, end=end), ctx.address)
        if replay.origin == ctx.address:
            self.replayed(ctx, answer, ctx.node)
        else:
            self.post.send(ctx, answer)

    # history, where it is wanted

    def on_call(self, ctx: Context, call: int, request: Any) -> None:
        if isinstance(request, ReadHistory):
            wish = Wish(request.first, nanoseconds(request.since), call=call)
            self.wishes[request.subscription] = wish
            self._ask(ctx, request.subscription, wish)
        elif isinstance(request, MoreHistory):
            more = self.wishes.get(request.subscription)
            if more is not None and not more.done:
                self._ask(ctx, request.subscription, more)
            ctx.reply(call, more is not None)
        else:
            super().on_call(ctx, call, request)

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        super().on_membership(ctx, membership)
        if membership.change == "unsubscribed":
            self.wishes.pop(int(membership.who), None)
            self._paused.discard(int(membership.who))

    def _keeper_of_history(self, ctx: Context) -> str | None:
        """Somebody who has the log, or knows who has."""
        if self.raft.seated(ctx) and self.reads and LOG not in self.wishes:
            return ctx.node
        if not on_backbone(ctx):
            return ctx.server
        return self.raft.leader or self.sequencer[1] or self.group.meeting(ctx)

    def _another_seat(self, ctx: Context) -> str | None:
        """One of the other seats, each in its turn: the leader itself may have to ask."""
        record = self.raft.record
        others = [node for node, _ in record.seats if node != ctx.node] if record is not None else []
        if not others:
            self.trouble = (
                f"the log of {ctx.node!r} has {self._end} records and {self._count} are acknowledged: "
                "it was damaged, and no other seat has the rest"
            )
            return None
        self._asked += 1
        return others[self._asked % len(others)]

    def ask_log(self, ctx: Context) -> None:
        assert self._end is not None
        self._ask(ctx, LOG, self.wishes.setdefault(LOG, Wish(self._end)))

    def _ask(self, ctx: Context, number: int, wish: Wish) -> None:
        self._paused.discard(number)
        to = self._another_seat(ctx) if number == LOG else self._keeper_of_history(ctx)
        ctx.wake("history", 5 * self.settings.repair)
        if to is None:
            return
        wish.whom = to
        replay = Replay(to, ctx.address, number, wish.next, wish.since)
        if to == ctx.node:
            self.replay(ctx, replay, ctx.node)
        else:
            self.post.send(ctx, replay)

    @on(Replayed)
    def replayed(self, ctx: Context, replayed: Replayed, sender: str) -> None:
        if replayed.to.rpartition("/")[2] != ctx.node:
            self.post.send(ctx, replayed)
            return
        wish = self.wishes.get(replayed.wish)
        if wish is None or wish.done or replayed.asked != wish.next:
            return
        if not self._believes(ctx, replayed, wish, sender):
            return
        parcels = parcels_of(replayed)
        wish.next, wish.since = replayed.following, 0 if parcels else wish.since
        if replayed.wish == LOG:
            self.backfill(ctx, wish, replayed, parcels)
            return
        for _, parcel in parcels:
            ctx.deliver(parcel, None, to=(replayed.wish,))
        if wish.next >= max(replayed.end, self._live):
            wish.done = True
            ctx.reply(wish.call, wish.next, more=True)
        elif replayed.following > replayed.asked:
            self._paused.add(replayed.wish)
            ctx.reply(wish.call, wish.next, more=True)

    def _believes(self, ctx: Context, replayed: Replayed, wish: Wish, sender: str) -> bool:
        """Whether an answer comes from a node that was asked, and goes on no further than it may.

        Only the voter that was asked may write into the log of another. A client was answered by its server;
        on the backbone the node that was asked may have passed the question on to any voter.
        """
        if replayed.wish == LOG and last(replayed.origin) != wish.whom:
            return False
        if not on_backbone(ctx) and sender != last(ctx.server or ""):
            return False
        reach = max(replayed.first + len(replayed.frames), replayed.asked + MAX_REPLAYED)
        return replayed.asked <= replayed.first <= replayed.following <= reach

    def tell_gap(self, ctx: Context, source: str) -> None:
        """A subscription that reads the history asks for what did not come; the others lack it."""
        for subscription, wish in self.wishes.items():
            if wish.done and subscription in ctx.subscribers:
                wish.done = False
                self._ask(ctx, subscription, wish)
        ctx.gap(source, tuple(each for each in ctx.subscribers if each not in self.wishes))

    def deliver(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        number = parcel.place or 0
        self._live = number + 1
        to = [each for each in ctx.subscribers if each not in self.wishes] if number >= self._began else []
        for subscription, wish in self.wishes.items():
            if wish.done and number == wish.next:
                wish.next += 1
                to.append(subscription)
            elif wish.done and number > wish.next:
                wish.done = False
                self._ask(ctx, subscription, wish)
        if parcel.deadline is not None and ctx.now > parcel.deadline:
            ctx.drop(parcel, "expired")
        else:
            ctx.deliver(parcel, sender, to)

    def on_timer(self, ctx: Context, name: str) -> None:
        if name == "history":
            for number, wish in tuple(self.wishes.items()):
                if not wish.done and number not in self._paused:
                    self._ask(ctx, number, wish)
        else:
            super().on_timer(ctx, name)
