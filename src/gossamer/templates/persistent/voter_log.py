"""The log of a voter: what is decided goes to disk in its order; a log that lost something is refilled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from msgspec import Meta

from gossamer.consensus.disk_store import DiskStore
from gossamer.consensus.log import RaftLog
from gossamer.consensus.messages import RAFT_MESSAGES, AppendEntries, RaftMessage
from gossamer.consensus.stores import MemoryStore
from gossamer.core.context import BELOW, Context
from gossamer.core.control import on
from gossamer.core.effect import Appended, History, Report, Stalled, Stored
from gossamer.core.errors import Damaged, StorageError
from gossamer.core.names import VIRTUAL, last
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import SourceKey
from gossamer.core.trace import STORED
from gossamer.core.wire import Item, decode, encode
from gossamer.overlay.groups.interest import Interest, InterestHeard
from gossamer.overlay.groups.messages import Join, JoinHeard, Leave, LeaveHeard, TreeHeard, TreeUpdate
from gossamer.templates.multicast import on_backbone
from gossamer.templates.persistent.messages import MAX_REASON, Unstored, error_of, message_of, words
from gossamer.templates.persistent.replay import LOST, Replay, Replayed, Wish
from gossamer.templates.reliable.messages import Acks, Gone, Have, Missing
from gossamer.templates.reliable.window import UNLIMITED, Stream
from gossamer.templates.total_order.forwarding import Relay, Relayed
from gossamer.templates.total_order.template import TotalOrder, TotalOrderSettings

LOG = 0
"""The wish of this node's own log; those of subscriptions have the number of the subscription."""
LOOK = 0
"""The ticket of the first look at the log."""
EXAMINE = -1
"""The ticket under which records are read that entries are compared with."""
AT_ONCE = 256
"""Records that are read for that at a time."""
FORGET = 5.0
"""Seconds after which what another node said of its disk holds no longer; it says it more often."""
RETAIN = 60.0
"""Seconds between two looks at what may be trimmed, at most."""


class PersistentSettings(TotalOrderSettings, frozen=True):
    """Settings of a persistent channel: those of total-order. Each seat keeps a log.

    keep_seconds, keep_bytes
        How old a segment of the log may become, and how many bytes each seat keeps; whole segments go. 0
        keeps everything for ever. A reader that asks for older events begins with the oldest that is there.
    """

    keep_seconds: Annotated[float, Meta(ge=0)] = 0.0
    keep_bytes: Annotated[int, Meta(ge=0)] = 0


_OF_MEMBERS = (
    Interest,
    InterestHeard,
    Join,
    JoinHeard,
    Leave,
    LeaveHeard,
    Missing,
    Relayed,
    TreeHeard,
    TreeUpdate,
    Unstored,
)
"""Messages about members and links, and requests: they depend on no value that is stored."""

S = TypeVar("S", bound=PersistentSettings)
Places = list[tuple[int, Parcel]]
Identity = tuple[SourceKey, int]
"""Source and sequence number of a parcel."""


def _identity(frame: bytes) -> Identity | None:
    """What a record of the log is; None for one that takes the place of what was lost."""
    parcel = decode(frame) if frame != LOST else None
    return (parcel.stamp.key, parcel.stamp.sequence) if isinstance(parcel, Parcel) else None


class LoggedOrder(TotalOrder[S]):
    """Total order whose seats keep a log.

    A node looks at its log before it votes or acknowledges anything. A log that is damaged, or that lacks
    what the record of its seat has summed up, is refilled from the other seats first; where there is no
    other, and the record has not what was lost, the channel stays closed. Log and record name the same
    parcels at the same positions: an entry that should be in the log already is compared with what is there,
    and a node whose log has something else acknowledges nothing.
    """

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self.wishes: dict[int, Wish] = {}
        self.trouble = ""
        """Why the log cannot be written."""
        self._stall: Unstored | None = None
        """Why small values cannot be written."""
        self._unlogged: Unstored | None = None
        """Why the last append to the log failed."""
        self._refusal: Unstored | None = None
        """What is wrong with a log that no other seat can refill."""
        self._elsewhere: Unstored | None = None
        """Why a node that this one depends on cannot store events."""
        self.looked = False
        """Whether the log of this node was opened, or found damaged."""
        self.refused = False
        """Whether the log is damaged, and no other seat has what it lost."""
        self._ready = False
        """Whether this node may vote and acknowledge: its log has all that its record has summed up."""
        self._end: int | None = None
        """What comes next in the log of this node; None while that is not known."""
        self._content: dict[int, Identity | None] = {}
        """What the log has, by position, from the end of what the record has summed up; None: it was lost."""
        self._content_from = self._begins = 0
        """The first position of that; and where the log began when it was opened."""
        self._began = 0
        """What the log held when this life began: it was delivered then, and is only history now."""
        self._logged = 0
        """The index up to which entries are in the log, or are none for the log."""
        self._count = 0
        """How many parcels had a place up to there."""
        self._tickets = LOOK
        self._written: int | None = None
        """Up to which index entries are on disk, while records go there; one lot at a time."""
        self._writing: Places = []
        self._appending = 0
        """The ticket of the append that is under way."""
        self._lagging = 0
        """The index at which entries waited for their parcels at the last beat."""
        self._trimmed: dict[str, int] = {}
        """Other seats whose logs begin behind the end of this one, and where."""
        self._found: dict[tuple[SourceKey, int], Parcel] = {}
        """Parcels that were read from the log of another seat."""

    def make_keeper(self) -> MemoryStore:
        return DiskStore(self.at_hand)

    def on_open(self, ctx: Context) -> None:
        super().on_open(ctx)
        if on_backbone(ctx):
            ctx.read(LOOK, 0, 0)
        else:
            self.looked = self._ready = True
        if self.settings.keep_seconds or self.settings.keep_bytes:
            ctx.wake("retain", min(self.settings.keep_seconds / 4 or RETAIN, RETAIN))

    def obstacle(self, ctx: Context) -> str | None:
        unstored = self._unstored
        return self.trouble or (words(unstored) if unstored is not None else None) or super().obstacle(ctx)

    # a disk that does not take more

    @property
    def _unstored(self) -> Unstored | None:
        return self._stall or self._unlogged or self._refusal or self._elsewhere

    def failure(self, ctx: Context) -> StorageError | None:
        unstored = self._unstored
        return error_of(unstored) if unstored is not None else None

    @property
    def reads(self) -> bool:
        """Whether the log of this node can be read; a disk that takes nothing more can be."""
        return self._end is not None or self._unlogged is not None

    def waits(self, ctx: Context, item: Item) -> bool:
        """What this node passes on for others does not wait for its disk; its own word does."""
        own = (ctx.node, VIRTUAL + ctx.node)
        if isinstance(item, Parcel):
            return item.stamp.node in own
        message = item.message.message if isinstance(item.message, Relay) else item.message
        match message:
            case AppendEntries() if message.origin == ctx.node and self.raft.leads and self.store.sworn:
                # the others write at the same time, and this node counts itself when it has written; while
                # its disk takes nothing it is silent, so that another voter leads
                return self._stall is not None
            case RaftMessage() | Replay() | Replayed():
                return last(message.origin) in own
            case Have() | Gone():
                return last(message.source) in own
            case Acks():
                return self._stall is None  # else it calls nothing acknowledged, see ``confirmed``
            case _:
                return not isinstance(message, _OF_MEMBERS)

    def confirmed(self, stream: Stream, complete: int | None) -> int:
        """While nothing can be stored, what this node believes to be acknowledged may not be on its disk."""
        return super().confirmed(stream, complete) if self._stall is None else 0

    def _tell_sources(self, ctx: Context, sender: str = "") -> None:
        """Tell nodes whose events wait for this one: those below, and all if this is the only voter."""
        below, record = ctx.container(BELOW) or (), self.raft.record
        every = sender or (record is not None and record.seats == (self.raft.seat(ctx),))
        sources = (each for each in self.streams.values() if not each.node.startswith(VIRTUAL))
        hops = {self.upstream(ctx, each) for each in sources} - {None, sender}
        hops.update(name for name, said in self.interests.said.items() if said.publishes and name in below)
        to = sorted(hop for hop in hops if hop is not None and (every or hop in below))
        if to:
            ctx.send(to, self._unstored or Unstored(ctx.node))

    @on(Unstored)
    def unstored(self, ctx: Context, unstored: Unstored, sender: str) -> None:
        """A node cannot store what is published here, or can again."""
        before, self._elsewhere = self._elsewhere, unstored if unstored.reason else None
        if before is not None or self._elsewhere is not None:
            ctx.wake("elsewhere", FORGET)
            self._tell_sources(ctx, sender)

    def confirm(self, ctx: Context, number: int) -> None:
        if self._sent and self._sent[0][0] <= number:
            self._elsewhere = None
        super().confirm(ctx, number)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        super().on_parcel(ctx, parcel, sender)
        if self._unstored is not None and sender in (ctx.container(BELOW) or ()):
            ctx.send(sender, self._unstored)

    # a log that is not what it was

    @on(*RAFT_MESSAGES)
    def message(self, ctx: Context, message: RaftMessage, sender: str) -> None:
        """A node that does not know its own log, or has not all of it, neither votes nor acknowledges."""
        if self._ready or message.to != ctx.node:
            super().message(ctx, message, sender)

    def _begin(self, ctx: Context) -> None:
        if self._ready:
            super()._begin(ctx)

    def _looked(self, ctx: Context, history: History) -> None:
        """The log was opened, or not."""
        assert isinstance(self.store, DiskStore)
        if not self.looked:
            self.store.open(ctx, self.raft)  # what earlier lives left
        record = self.raft.record
        if history.final:
            self._refuse(ctx, history.error)
        elif history.error and not history.damaged:
            self.trouble = f"the disk of {ctx.node!r}: {history.error}"
            ctx.wake("look", 1.0)
        elif history.error:
            others = record is not None and len(record.seats) > 1
            self._ready, self._end, self._logged, self._written, self._writing = False, None, 0, None, []
            self._appending = 0
            self.raft.resign()
            self.trouble = f"the log of {ctx.node!r} from {history.position} on: {history.error}"
            if others or (record is not None and history.position >= record.number):
                ctx.repair(LOOK)
            else:
                self.refused = True
                self._refusal = Unstored(ctx.node, f"log of {ctx.channel!r}", history.error[:MAX_REASON])
        elif record is not None and history.end < record.number and record.seats == (self.raft.seat(ctx),):
            lacking = f"it has {history.end} of {record.number} acknowledged records"
            self._refuse(ctx, f"{lacking}, and no other seat has the rest")
        elif self._written is None:  # else a later look, or the report of the append, says where it ends
            self._began = self._began or history.end
            last_summed_up = min(record.number, history.end) - 1 if record else history.end
            self._content, self._content_from = {}, max(history.begin, last_summed_up)
            self._begins = history.begin
            self._examine(ctx, history, self._content_from)
        self.looked = True

    def _examine(self, ctx: Context, history: History, first: int) -> None:
        """Read what the log has behind what the record has summed up, and the last that it has summed up."""
        if first < history.end:
            self._end = None
            ctx.read(EXAMINE, first, AT_ONCE)
            return
        record = self.raft.record
        self._end = self.store.numbered = history.end
        self.trouble = "" if record is None or self._end >= record.number else self.trouble
        if record is not None and record.tip[0]:
            tip = (record.tip[:2], record.tip[2])
            if not self._agrees(record.number - 1, tip):
                self._contradict(ctx, record.number - 1, tip)
                return
        self._log(ctx)
        self._admit(ctx)

    def _examined(self, ctx: Context, history: History) -> None:
        """Records of the log have come."""
        if history.error:
            self._looked(ctx, history)
            return
        if not history.records:
            ctx.wake("look", 1.0)
            return
        for place, frame in enumerate(history.records, history.position):
            self._content[place] = _identity(frame)
        self._examine(ctx, history, history.position + len(history.records))

    def _agrees(self, place: int, identity: Identity) -> bool:
        """Whether nothing else is in the log at a place, as far as the log still has it."""
        known = self._content.get(place)
        return known is None or known == identity

    def _contradict(self, ctx: Context, place: int, identity: Identity) -> None:
        """The log has something else than what is acknowledged: nothing can be told to be in it any more."""
        (source, life), number = identity
        reason = (
            f"record {place} is not parcel {number} of {source!r}, life {life}, which the order has there: "
            "log and state are of different histories; look at both with gossamer log verify and dump"
        )
        self._refuse(ctx, reason)

    def _refuse(self, ctx: Context, reason: str) -> None:
        """Neither read nor write the log in this life, and say why."""
        self.trouble = f"the log of {ctx.node!r}: {reason}"
        self._ready, self._end, self._written, self._writing, self._appending = False, None, None, [], 0
        self.refused = True
        self._refusal = Unstored(ctx.node, f"log of {ctx.channel!r}", reason[:MAX_REASON])
        self.raft.resign()
        self._tell_sources(ctx)

    def _admit(self, ctx: Context) -> None:
        """Vote and acknowledge once the log has all that the record has summed up."""
        record = self.raft.record
        whole = self._end is not None and (record is None or self._end >= record.number)
        if not self._ready and whole and not self.refused:
            self._ready, self.trouble = True, ""
            self._begin(ctx)

    # the log of a seat

    def commit_index(self, ctx: Context) -> None:
        self._log(ctx)
        super().commit_index(ctx)

    def _log(self, ctx: Context) -> None:
        """Append what is decided and here, in its order."""
        raft, record = self.raft, self.raft.record
        if record is None or not raft.seated(ctx):
            self.store.logged = UNLIMITED
            return
        if self._logged < record.base:
            self._logged, self._count = record.base, record.number
        # what is on its way to the disk is needed still: a node that dies has it from its record
        self.store.logged = self._logged if self._written is None else self._written
        if self._end is None or self._written is not None or self.refused:
            return
        if self._end < self._count:
            self.ask_log(ctx)
            return
        while self._content_from < min(record.number - 1, self._end):
            self._content.pop(self._content_from, None)
            self._content_from += 1
        if self._unexamined(record):  # a state was taken over
            self._ready, self._end, self._logged = False, None, 0
            self.raft.resign()
            ctx.read(LOOK, 0, 0)
            return
        before, parcels = self._logged, self._due(ctx, raft.commit_index, record)
        if parcels is None:
            return
        self._append(ctx, before, parcels)
        self.store.logged = before if parcels else self._logged

    def _unexamined(self, record: RaftLog) -> bool:
        """Whether something in the log has to be compared with the record, and was not read for that."""
        assert self._end is not None
        first = self._count if self._logged > record.base or not record.tip[0] else record.number - 1
        return self._begins <= first < self._end and first not in self._content

    def _due(self, ctx: Context, commit_index: int, record: RaftLog) -> Places | None:
        """What is decided, here and not in the log; the log has gone so far afterwards. None if the log has
        something else.
        """
        parcels: Places = []
        assert self._end is not None
        while self._logged < commit_index:
            index = self._logged + 1
            entry = record.entry(index)
            if entry.source and not record.void(index, commit_index):
                if not self._agrees(self._count, (entry.key, entry.sequence)):
                    self._contradict(ctx, self._count, (entry.key, entry.sequence))
                    return None
                if self._count >= self._end + len(parcels):
                    parcel = self.store.get(index)
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
        self._written, self._writing, self._appending = before, parcels, self._tickets
        ctx.append(self._tickets, frames, self._end)
        self._content.update(dict.fromkeys(range(self._end, self._end + len(frames))))
        self._content.update((place, (parcel.stamp.key, parcel.stamp.sequence)) for place, parcel in parcels)
        self._end += len(frames)

    def on_report(self, ctx: Context, report: Report) -> None:
        if isinstance(report, Appended) and report.ticket != self._appending:
            return  # it was under way when the log was found damaged
        if isinstance(report, Appended):
            parcels, self._writing, self._written = self._writing, [], None
            cause = None if isinstance(report.failure, Damaged) else report.failure
            failed, self._unlogged = self._unlogged, message_of(ctx.node, cause)
            if failed is not None or self._unlogged is not None:
                self._tell_sources(ctx)
            if report.error:
                self.trouble = f"the disk of {ctx.node!r}: {report.error}"
                self._end, self._logged = None, 0  # once it is known what the log has, from the record again
                ctx.wake("look", 1.0)
                return
            self.store.numbered = report.position
            for place, parcel in parcels:
                ctx.note(STORED, place, parcel.stamp.key, parcel.stamp.sequence, self.raft.history[1])
            self._log(ctx)
            self._admit(ctx)
        elif isinstance(report, Stored):
            assert isinstance(self.store, DiskStore)
            self.store.stored(ctx, self.raft, report.ticket)
        elif isinstance(report, Stalled):
            self._stall = message_of(ctx.node, report.failure)
            self._tell_sources(ctx)
            if self._stall is None:
                self._acknowledge(
                    ctx, tuple(self.streams)
                )  # what was acknowledged meanwhile, see ``confirmed``
        elif report.ticket == LOOK:
            self._looked(ctx, report)
        elif report.ticket == EXAMINE:
            self._examined(ctx, report)
        else:
            self.read(ctx, report)

    def unconfirmed(self, ctx: Context) -> list[str]:
        """A node that closes leaves a whole log, which others can read without the record."""
        return super().unconfirmed(ctx) if self._written is None else [ctx.node]

    def on_timer(self, ctx: Context, name: str) -> None:
        if name == "look":
            ctx.read(LOOK, 0, 0)
        elif name == "elsewhere":
            self._elsewhere = None
        elif name == "retain":
            if self._end is not None and not self.trouble:
                ctx.retain(self.settings.keep_seconds, self.settings.keep_bytes)
            ctx.wake("retain", min(self.settings.keep_seconds / 4 or RETAIN, RETAIN))
        elif name in ("council", "found") and not self._ready:
            ctx.wake(name, self.settings.heartbeat)  # the beat goes on when this node may vote
            self._log(ctx)
        else:
            super().on_timer(ctx, name)
            if name == "council":
                self._log(ctx)
                self._catch_up(ctx)

    # from the logs of other seats

    def ask_log(self, ctx: Context) -> None:
        """Ask another seat for what its log has behind the end of this one."""

    def read(self, ctx: Context, history: History) -> None:
        """Records that were asked for."""

    def at_hand(self, key: SourceKey, number: int) -> Parcel | None:
        return super().at_hand(key, number) or self._found.get((key, number))

    def _catch_up(self, ctx: Context) -> None:
        """Entries are decided, and their parcels have not come for a beat: other seats may have them in their
        logs only.
        """
        waits = self._end is not None and self._written is None and self._logged < self.raft.commit_index
        if waits and self._lagging == self._logged and self.raft.seated(ctx) and len(self.raft.seats) > 1:
            self.ask_log(ctx)
        self._lagging = self._logged

    def _gather(self, ctx: Context, parcels: Places) -> None:
        """Take parcels of entries out of what another seat had in its log."""
        self.wishes.pop(LOG, None)
        self._found = {(parcel.stamp.key, parcel.stamp.sequence): parcel for _, parcel in parcels}
        self.fetching.arrived(ctx)
        self._found = {}
        self._log(ctx)

    def backfill(self, ctx: Context, wish: Wish, replayed: Replayed, parcels: Places) -> None:
        """This node got its seat late, or its log was damaged: it takes what the others have."""
        if self._written is not None or self._end is None or replayed.asked != self._end:
            wish.next = wish.next if self._end is None else self._end
            return
        if self._end >= self._count:
            self._gather(ctx, parcels)
            return
        if replayed.frames and replayed.first == self._end:
            self._write(ctx, self._logged, parcels, replayed.frames)
        elif replayed.frames:  # it has trimmed what comes before; another seat may have it
            self._trimmed[last(replayed.origin)] = replayed.first
            others = {name for name, _ in self.raft.seats if name in self.raft.live(ctx)} - {ctx.node}
            if not others <= self._trimmed.keys():
                wish.next = self._end
                self.ask_log(ctx)
                return
            first, self._trimmed, self._end = min(self._trimmed.values()), {}, None
            del self.wishes[LOG]
            ctx.repair(LOOK, first)
            return
        if self._end >= self._count:
            del self.wishes[LOG]
            self._log(ctx)
        else:
            wish.next = self._end
