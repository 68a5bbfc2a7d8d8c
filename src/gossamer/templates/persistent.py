"""Persistent: total order with a history on disk that is replayed to whoever asks (seed 000, 4.1.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from gossamer.core.context import Context
from gossamer.core.control import on
from gossamer.core.effect import Appended, History, Report, Stalled
from gossamer.core.names import nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.core.template import DURABLE, Membership
from gossamer.core.trace import STORED
from gossamer.core.wire import encode
from gossamer.overlay.councilwords import LETTERS, Letter
from gossamer.overlay.keeper import Keeper
from gossamer.overlay.record import Record
from gossamer.overlay.replay import (
    MAX_REPLAYED,
    HistoryWish,
    MoreHistory,
    Replay,
    Replayed,
    Wish,
    answer_of,
    parcels_of,
)
from gossamer.overlay.stream import UNLIMITED
from gossamer.overlay.vault import Vault
from gossamer.templates.multicast import on_backbone
from gossamer.templates.total_order import TotalOrder, TotalOrderSettings

LOG = 0
"""The wish of this node's own log; those of subscriptions have the number of the subscription."""
LOOK = 0
"""The ticket of the first look at the log."""
RETAIN = 60.0
"""Seconds between two looks at what may be trimmed, at most."""
MAX_READS = 1024
"""Requests for history that wait for the disk."""


class PersistentSettings(TotalOrderSettings, frozen=True):
    """Settings of a persistent channel: those of total-order. Each seat keeps a log.

    keep_seconds, keep_bytes
        How old a segment of the log may become, and how many bytes each seat keeps; whole segments go. 0
        keeps everything for ever. A reader that asks for older events begins with the oldest that is there.
    """

    keep_seconds: Annotated[float, Meta(ge=0)] = 0.0
    keep_bytes: Annotated[int, Meta(ge=0)] = 0


S = TypeVar("S", bound=PersistentSettings)
Places = list[tuple[int, Parcel]]


class Persistent(TotalOrder[S]):
    """Total order with a memory: the seats keep every event on disk, and replay it.

    What the seats know of the order is on disk before they say so, so that they are the same after any
    crash; what is decided goes to a log of its own on each seat, a parcel a record, in the one order. A
    subscriber may ask for the history from a number or an instant on: it gets it from a seat, and then goes
    over to what is delivered live, without a gap and nothing twice.

    Promises: what total-order promises; what is acknowledged is on the disks of a majority of the seats and
        survives every crash; a new subscriber may have the history before it goes on live.
    Costs: what total-order costs, every parcel twice on the disk of each seat, and two syncs before delivery.
    Needs: what total-order needs, and a state folder on the nodes that may have a seat. A seat stays with its
        node, also while that is down.
    """

    name = "persistent"
    settings_type = PersistentSettings
    promises = TotalOrder.promises | {DURABLE}

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self.wishes: dict[int, Wish] = {}
        self.trouble = ""
        """Why the log cannot be written."""
        self._stall = ""
        """Why small values cannot be written."""
        self.looked = False
        """Whether the log of this node was opened, or found damaged."""
        self.refused = False
        """Whether the log is damaged, and no other seat has what it lost."""
        self._ready = False
        """Whether this node may vote and acknowledge: its log has all that its record has summed up."""
        self._live = 0
        """The number that is delivered next here; 0 before the first."""
        self._end: int | None = None
        """What comes next in the log of this node; None while that is not known."""
        self._began = 0
        """What the log held when this life began: it was delivered then, and is only history now."""
        self._logged = 0
        """The index up to which entries are in the log, or are none for the log."""
        self._count = 0
        """How many parcels had a place up to there."""
        self._paused: set[int] = set()
        """Subscriptions whose applications have no room for more of the history."""
        self._tickets = LOOK
        self._reads: dict[int, Replay] = {}
        self._written: int | None = None
        """Up to which index entries are on disk, while records go there; one lot at a time."""
        self._writing: Places = []
        self._asked = 0

    def make_keeper(self) -> Keeper:
        return Vault(self.at_hand)

    def on_open(self, ctx: Context) -> None:
        super().on_open(ctx)
        if on_backbone(ctx):
            ctx.read(LOOK, 0, 0)
        else:
            self.looked = self._ready = True
        if self.settings.keep_seconds or self.settings.keep_bytes:
            ctx.wake("retain", min(self.settings.keep_seconds / 4 or RETAIN, RETAIN))

    def obstacle(self, ctx: Context) -> str | None:
        return self.trouble or self._stall or super().obstacle(ctx)

    # a log that is not what it was

    @on(*LETTERS)
    def letter(self, ctx: Context, letter: Letter, sender: str) -> None:
        """A node that does not know its own log, or has not all of it, neither votes nor acknowledges."""
        if self._ready or letter.to != ctx.node:
            super().letter(ctx, letter, sender)

    def _begin(self, ctx: Context) -> None:
        if self._ready:
            super()._begin(ctx)

    def _looked(self, ctx: Context, history: History) -> None:
        """The log was opened, or not."""
        assert isinstance(self.keeper, Vault)
        if not self.looked:
            self.keeper.open(ctx, self.council)  # what earlier lives left
        record = self.council.record
        if history.error and not history.damaged:
            self.trouble = f"the disk of {ctx.node!r}: {history.error}"
            ctx.wake("look", 1.0)
        elif history.error:
            others = record is not None and len(record.seats) > 1
            self._ready, self._end, self._logged, self._written, self._writing = False, None, 0, None, []
            self.trouble = f"the log of {ctx.node!r} from {history.position} on: {history.error}"
            if others or (record is not None and history.position >= record.number):
                ctx.repair(LOOK)
            else:
                self.refused = True
        else:
            self._end = history.end
            self._began = self._began or history.end
            self.keeper.numbered = history.end
            self.trouble = "" if record is None or self._end >= record.number else self.trouble
            self._log(ctx)
            self._admit(ctx)
        self.looked = True

    def _admit(self, ctx: Context) -> None:
        """Vote and acknowledge once the log has all that the record has summed up."""
        record = self.council.record
        if not self._ready and self._end is not None and (record is None or self._end >= record.number):
            self._ready, self.trouble = True, ""
            self._begin(ctx)

    # the log of a seat

    def decided(self, ctx: Context) -> None:
        self._log(ctx)
        super().decided(ctx)

    def _log(self, ctx: Context) -> None:
        """Append what is decided and here, in its order."""
        council, record = self.council, self.council.record
        if record is None or not council.seated(ctx):
            self.keeper.logged = UNLIMITED
            return
        if self._logged < record.base:
            self._logged, self._count = record.base, record.number
        # what is on its way to the disk is needed still: a node that dies has it from its record
        self.keeper.logged = self._logged if self._written is None else self._written
        if self._end is None or self._written is not None:
            return
        if self._end < self._count:
            self._ask(ctx, LOG, self.wishes.setdefault(LOG, Wish(self._end)))
            return
        before, parcels = self._logged, self._due(council.decided, record)
        self._append(ctx, before, parcels)
        self.keeper.logged = before if parcels else self._logged

    def _due(self, decided: int, record: Record) -> Places:
        """What is decided, here and not in the log; the log has gone so far afterwards."""
        parcels: Places = []
        assert self._end is not None
        while self._logged < decided:
            index = self._logged + 1
            if record.entry(index).source and not record.void(index, decided):
                if self._count >= self._end + len(parcels):
                    parcel = self.keeper.get(index)
                    if parcel is None:
                        break
                    parcels.append((self._count, parcel))
                self._count += 1
            self._logged = index
        return parcels

    def _append(self, ctx: Context, before: int, parcels: Places) -> None:
        if parcels:
            self._write(ctx, before, parcels, [encode(parcel) for _, parcel in parcels])

    def _write(self, ctx: Context, before: int, parcels: Places, frames: Sequence[bytes]) -> None:
        assert self._end is not None
        self._tickets += 1
        self._written, self._writing = before, parcels
        self._end += len(frames)
        ctx.append(self._tickets, frames)

    def on_report(self, ctx: Context, report: Report) -> None:
        if isinstance(report, Appended):
            parcels, self._writing, self._written = self._writing, [], None
            if report.error:
                self.trouble = f"the disk of {ctx.node!r}: {report.error}"
                self._end, self._logged = None, 0  # once it is known what the log has, from the record again
                ctx.wake("look", 1.0)
                return
            for place, parcel in parcels:
                ctx.note(STORED, place, parcel.stamp.key, parcel.stamp.sequence, self.council.history[1])
            self._log(ctx)
            self._admit(ctx)
        elif isinstance(report, Stalled):
            self._stall = f"the disk of {ctx.node!r}: {report.error}" if report.error else ""
        elif report.ticket == LOOK:
            self._looked(ctx, report)
        else:
            self._read(ctx, report)

    # history, where it is kept

    @on(Replay)
    def replay(self, ctx: Context, replay: Replay, sender: str) -> None:
        if replay.to.rpartition("/")[2] != ctx.node:
            self._forward(ctx, replay.to, replay)
        elif self._end is not None and self.council.seated(ctx):
            if len(self._reads) < MAX_READS:
                self._tickets += 1
                self._reads[self._tickets] = replay
                ctx.read(self._tickets, replay.first, MAX_REPLAYED)
        elif self._keeper_of_history(ctx) not in (None, ctx.node):
            to = self._keeper_of_history(ctx) or ""
            self._forward(ctx, to, Replay(to, replay.origin, replay.wish, replay.first, replay.since))

    def _forward(self, ctx: Context, to: str, message: Replay | Replayed) -> None:
        hop = ctx.toward(to)
        if hop is not None:
            ctx.send(hop, message)

    def _read(self, ctx: Context, history: History) -> None:
        replay = self._reads.pop(history.ticket, None)
        if replay is None or history.error:
            return
        answer = answer_of(replay, history, ctx.address)
        if replay.origin == ctx.address:
            self.replayed(ctx, answer, ctx.node)
        else:
            self._forward(ctx, replay.origin, answer)

    def unconfirmed(self, ctx: Context) -> list[str]:
        """Who closes a node has a whole log, that others can read without the record."""
        return [] if self._written is None else [ctx.node]

    # history, where it is wanted

    def on_call(self, ctx: Context, call: int, request: Any) -> None:
        if isinstance(request, HistoryWish):
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
        if self.council.seated(ctx) and self._end is not None and LOG not in self.wishes:
            return ctx.node
        if not on_backbone(ctx):
            return ctx.server
        return self.council.leader or self.sequencer[1] or self.group.meeting(ctx)

    def _another_seat(self, ctx: Context) -> str | None:
        """One of the other seats, each in its turn: the leader itself may have to ask."""
        record = self.council.record
        others = [node for node, _ in record.seats if node != ctx.node] if record is not None else []
        if not others:
            self.trouble = (
                f"the log of {ctx.node!r} has {self._end} records and {self._count} are acknowledged: "
                "it was damaged, and no other seat has the rest"
            )
            return None
        self._asked += 1
        return others[self._asked % len(others)]

    def _ask(self, ctx: Context, number: int, wish: Wish) -> None:
        self._paused.discard(number)
        to = self._another_seat(ctx) if number == LOG else self._keeper_of_history(ctx)
        ctx.wake("history", 5 * self.settings.repair)
        if to is None:
            return
        replay = Replay(to, ctx.address, number, wish.next, wish.since)
        if to == ctx.node:
            self.replay(ctx, replay, ctx.node)
        else:
            self._forward(ctx, to, replay)

    @on(Replayed)
    def replayed(self, ctx: Context, replayed: Replayed, sender: str) -> None:
        if replayed.to.rpartition("/")[2] != ctx.node:
            self._forward(ctx, replayed.to, replayed)
            return
        wish = self.wishes.get(replayed.wish)
        if wish is None or wish.done or replayed.asked != wish.next:
            return
        parcels = parcels_of(replayed)
        wish.next, wish.since = replayed.following, 0 if parcels else wish.since
        if replayed.wish == LOG:
            self._backfill(ctx, wish, replayed, parcels)
            return
        for _, parcel in parcels:
            ctx.deliver(parcel, None, to=(replayed.wish,))
        if wish.next >= max(replayed.end, self._live):
            wish.done = True
            ctx.reply(wish.call, wish.next, more=True)
        elif replayed.following > replayed.asked:
            self._paused.add(replayed.wish)
            ctx.reply(wish.call, wish.next, more=True)

    def _backfill(self, ctx: Context, wish: Wish, replayed: Replayed, parcels: Places) -> None:
        """This node got its seat late, or its log was damaged: it takes what the others have."""
        if self._written is not None or self._end is None or replayed.asked != self._end:
            wish.next = wish.next if self._end is None else self._end
            return
        if replayed.frames and replayed.first == self._end:
            self._write(ctx, self._logged, parcels, replayed.frames)
        elif replayed.frames:  # the others have trimmed what comes before
            self._end = None
            del self.wishes[LOG]
            ctx.repair(LOOK, replayed.first)
            return
        if self._end >= self._count:
            del self.wishes[LOG]
            self._log(ctx)
        else:
            wish.next = self._end

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
        if name == "look":
            ctx.read(LOOK, 0, 0)
        elif name == "retain":
            if self._end is not None and not self.trouble:
                ctx.retain(self.settings.keep_seconds, self.settings.keep_bytes)
            ctx.wake("retain", min(self.settings.keep_seconds / 4 or RETAIN, RETAIN))
        elif name == "council" and not self._ready:
            ctx.wake("council", self.settings.heartbeat)  # the beat goes on when this node may vote
            self._log(ctx)
        elif name == "history":
            for number, wish in tuple(self.wishes.items()):
                if not wish.done and number not in self._paused:
                    self._ask(ctx, number, wish)
        else:
            super().on_timer(ctx, name)
            if name == "council":
                self._log(ctx)
