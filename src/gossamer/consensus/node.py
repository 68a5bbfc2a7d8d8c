"""A Raft group: a few nodes that keep one record of decisions, so that no two nodes ever see two orders.

The seats belong to the best matches of the channel among the live backbone nodes. One of them leads, the
rendezvous node where it can; it writes entries, the others copy them, and what a majority has is decided for
ever (the rules are those of Raft; who stands for leadership follows from the ranking instead of dice). Seats
are changed one at a time by entries of the record itself. A node that restarts has forgotten everything: it
is another life and has to be given a seat anew. As long as a majority of the seats lives, or comes back where
records are on disk, nothing decided is lost; on the smaller side of a split nothing is decided.

A Raft group is founded by the rendezvous node when no node that should know of one does. If a majority of the
seats has begun a new life at once, their record is gone: then a later history begins, and the earlier ends.
A seat gives its record up for that of a later history only, and only when it has that: what a message claims
ends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

import msgspec

from gossamer.consensus.candidate import Candidate
from gossamer.consensus.leader import Leader
from gossamer.consensus.log import RaftLog
from gossamer.consensus.messages import (
    AppendEntries,
    AppendEntriesReply,
    BootstrapReply,
    Entry,
    FetchedParcel,
    FetchParcels,
    History,
    InstallSnapshot,
    NoSuchLog,
    RaftMessage,
    RequestVote,
    RequestVoteReply,
    TimeoutNow,
    Voter,
    Voters,
)
from gossamer.consensus.stores import MemoryStore, RaftSettings
from gossamer.core.context import Context
from gossamer.core.control import AHEAD, check_instants
from gossamer.core.errors import ProtocolError
from gossamer.core.names import NANOSECONDS, VIRTUAL, nanoseconds
from gossamer.overlay.groups.rendezvous import ranking

L = TypeVar("L", bound=RaftMessage)
NONE: History = (0, "")
APART = 2**36  # more entries than one history has
MILLISECOND = 1_000_000


def _lives(message: RaftMessage) -> Iterator[tuple[int, int]]:
    """Lives that a message names, each with a number of parcels that were sent in it."""
    seats: Voters = getattr(message, "seats", ())
    yield from ((life, 0) for _, life in seats)
    if isinstance(message, InstallSnapshot):
        yield from ((life, number) for _, life, number in (*message.positions, message.tip))


def check_history(name: str, history: History, index: int, latest: int) -> None:
    """Raise ProtocolError unless a history can have begun, and can have an entry at an index."""
    if history[0] > latest:
        raise ProtocolError(f"message.{name}", history[0], f"an instant, at most {latest}")
    if index > history[0] + APART:
        raise ProtocolError("message.index", index, f"of that history, at most {history[0] + APART}")


def check_term(term: int, latest: int) -> None:
    """Raise ProtocolError unless there can have been that many terms: less than one per millisecond.

    The bound is the clock's and moves on faster than terms do: wherever honest nodes are pushed to, those
    that did not hear of it follow them a moment later.
    """
    if term * MILLISECOND > latest:
        raise ProtocolError("message.term", term, f"at most {latest // MILLISECOND}")


def check_sequence(life: int, sequence: int, latest: int) -> None:
    """Raise ProtocolError unless a source can have sent so many parcels since its life began."""
    if life * MILLISECOND > latest:
        raise ProtocolError("message.seats", life, f"at most {latest // MILLISECOND}")
    if sequence > latest - life * MILLISECOND:
        raise ProtocolError("message.sequence", sequence, "what its source can have sent in its life")


def check_entry(entry: Entry, latest: int) -> None:
    """Raise ProtocolError unless an entry can be true: no order is about the parcels of an order."""
    if entry.key[0].startswith(VIRTUAL):
        raise ProtocolError("message.source", entry.source, "a source of events")
    check_sequence(entry.incarnation, entry.sequence, latest)
    for _, life in entry.seats:
        check_sequence(life, 0, latest)


class RaftNode:
    """One seat's view, or that of a node without a seat.

    live
        Who lives, as far as this node knows.
    send
        Sends a message on its way.
    decided
        Called when more is decided.
    elected
        Called when this node begins to lead.
    """

    def __init__(
        self,
        settings: RaftSettings,
        *,
        live: Callable[[Context], Collection[str]],
        send: Callable[[Context, RaftMessage], None],
        commit_index: Callable[[Context], None],
        elected: Callable[[Context], None],
        store: MemoryStore,
    ) -> None:
        self.settings = settings
        self.store = store
        self.live = live
        self._send = send
        self.history = NONE
        self.term = 0
        self.voted = ""
        self.leader = ""
        self.record: RaftLog | None = None
        self.commit_index = 0
        self.settled = 0  # what everybody in the group has, so that the record may forget it
        self.time = 0  # nanoseconds that this node has watched
        self._tell_decided = commit_index
        self._tell_elected = elected
        self.written = 0
        self._heard = 0
        self._period = 0
        self.candidate: Candidate | None = None  # while this node stands
        self.leading: Leader | None = None
        self._former = ""
        self.lives: dict[str, int] = {}  # of nodes that have answered
        self._answer: tuple[str, int] | None = None  # whom to tell what was copied, once it is kept

    # reading

    def life(self, ctx: Context) -> int:
        return self.store.life or ctx.incarnation

    def seat(self, ctx: Context) -> Voter:
        return (ctx.node, self.life(ctx))

    @property
    def seats(self) -> Voters:
        return self.record.seats if self.record else ()

    @property
    def leads(self) -> bool:
        return self.leading is not None

    def seated(self, ctx: Context) -> bool:
        """Whether this node has a seat."""
        return self.seat(ctx) in self.seats

    # time

    def start(self, ctx: Context) -> None:
        if not self._period:
            self._heard = self.time
            self._sleep(ctx)

    def _sleep(self, ctx: Context) -> None:
        busy = self.candidate is not None or (self.leading is not None and self.leading.waiting)
        self._period = nanoseconds(self.settings.retry if busy else self.settings.heartbeat)
        ctx.wake("council", self._period / NANOSECONDS)

    def timer(self, ctx: Context) -> None:
        """The beat; it goes on as long as this node has a record."""
        self.time += self._period
        self._period = 0
        if self.leading is not None:
            self.leading.spread(ctx, again=True)
            self.leading.steer(ctx)
        elif self.time - self._heard > self._patience(ctx) and (self.seated(ctx) or self.candidate):
            self.stand(ctx)
        elif self.candidate is not None:
            self.candidate.canvass(ctx)
        if self.record is not None:
            self._sleep(ctx)

    def _patience(self, ctx: Context) -> int:
        """The better the place of a seat, the earlier it stands; so that seldom two stand at once."""
        live = self.live(ctx)
        seats = {name for name, _ in self.seats if name in live or name == ctx.node}
        names = [*ranking(ctx.id, seats, 99), *ranking(ctx.id, live, 2 * self.settings.seats), ctx.node]
        wait = (names.index(ctx.node) + 1) * 2 * self.settings.heartbeat
        alive = bool(self.leader) and self.leader in live
        return nanoseconds(wait + (self.settings.patience if alive or self.candidate is not None else 0))

    # messages

    def write(self, ctx: Context, kind: type[L], to: str, *rest: object) -> None:
        """Send a message on its way."""
        message = kind(to, ctx.node, self.life(ctx), self.history, self.term, *rest)
        self._send(ctx, message)

    def hear(self, ctx: Context, message: RaftMessage) -> None:
        """A message to this node; one from a node that can be no voter says nothing."""
        if not self.plausible(ctx, message.origin) or not self._heeds(ctx, message):
            return
        if message.history < self.history and not isinstance(message, NoSuchLog):
            if self.record is not None:
                self.welcome_in(ctx, message.origin)
            return
        handlers: dict[type[RaftMessage], Callable[[Context, Any], None]] = {
            RequestVote: self._ask,
            RequestVoteReply: self._vote,
            AppendEntries: self._copy,
            AppendEntriesReply: self._copied,
            InstallSnapshot: self._welcome,
            NoSuchLog: self._stranger,
            TimeoutNow: self._lead,
        }
        handlers[type(message)](ctx, message)

    def plausible(self, ctx: Context, name: str) -> bool:
        """Whether another node may be a voter: a live backbone node, or one that has a seat."""
        return name != ctx.node and (name in self.live(ctx) or name in dict(self.seats))

    def _heeds(self, ctx: Context, message: RaftMessage) -> bool:
        """Whether a message counts here. One of a later history does not while this node has a record: that
        may be all that is left of what was acknowledged, and is kept until the state of the later is here.
        """
        if message.history <= self.history or isinstance(message, InstallSnapshot | NoSuchLog):
            return True
        if self.record is None:
            self.hear_of(message.history)
            return True
        if isinstance(message, RequestVote | AppendEntries):
            self.write(ctx, NoSuchLog, message.origin)
        return False

    def check(self, ctx: Context, message: RaftMessage) -> None:
        """Raise ProtocolError unless the numbers of a message can be true; a node passes on no others."""
        check_instants(message, ctx.now)  # also of a message that came inside another message
        latest = ctx.now + AHEAD
        index = 0 if isinstance(message, FetchedParcel | BootstrapReply) else getattr(message, "index", 0)
        check_history("history", message.history, index, latest)
        check_term(message.term, latest)
        match message:
            case FetchedParcel():  # a node without a history names the index that it was asked for
                check_history("index", (latest, ""), message.index, latest)
            case BootstrapReply():
                check_history("latest", message.latest, message.index, latest)
            case FetchParcels():
                check_history("indexes", message.history, max(message.indexes, default=0), latest)
            case AppendEntries():
                for entry in message.entries:
                    check_entry(entry, latest)
        for life, sequence in _lives(message):
            check_sequence(life, sequence, latest)

    def _follow(self, term: int) -> None:
        """A later term has begun."""
        self._former = self.leader or self._former
        self.term, self.voted, self.leader = term, "", ""
        self.leading = self.candidate = self._answer = None

    def surpassed(self, history: History, term: int) -> None:
        """A later term has told the order: this node leads no more, and the next term is later yet."""
        if self.leads and history == self.history and term > self.term:
            self._follow(term)
            self._heard = self.time

    def resign(self) -> None:
        """This node must not vote or acknowledge any more: it neither leads nor stands."""
        self.leading = self.candidate = self._answer = None
        self.leader = ""

    # standing for leadership

    def stand(self, ctx: Context, invited: bool = False) -> None:
        assert self.record is not None
        self._follow(self.term + 1)
        self.voted, self._heard, self.candidate = ctx.node, self.time, Candidate(self)
        self.store.hard_state(ctx, self, lambda ctx: self._sworn(ctx, invited))

    def _sworn(self, ctx: Context, invited: bool) -> None:
        candidate = self.candidate
        if candidate is not None:
            candidate.vote(ctx, self.seat(ctx))
            if candidate is self.candidate:  # its own vote was not enough
                candidate.canvass(ctx, invited)

    def content(self, ctx: Context) -> bool:
        """Whether there is a leader."""
        silence = self.time - self._heard
        return self.leads or (self.leader in self.live(ctx) and silence < nanoseconds(self.settings.patience))

    def urge(self, ctx: Context) -> None:
        """Somebody knows of no Raft group, and perhaps all seats have forgotten: who has none stands too."""
        if self.record is not None and self.candidate is None and not self.content(ctx):
            self.stand(ctx)

    def _ask(self, ctx: Context, ask: RequestVote) -> None:
        """Somebody stands. A node without a record has not lost one in this life, and may vote for any."""
        if self.content(ctx) and not ask.invited:
            if self.leads and ask.origin not in dict(self.seats):
                self.welcome_in(ctx, ask.origin)
            return
        if ask.term > self.term:
            self._follow(ask.term)
        index = self.record.last if self.record else 0
        term = self.record.term(index) if self.record else 0
        best = (ask.index_term, ask.index) >= (term or 0, index)
        if ask.term == self.term and best and self.voted in ("", ask.origin):
            self.voted, self._heard = ask.origin, self.time
            self.store.hard_state(ctx, self, lambda ctx: self._grant(ctx, ask))
            return
        self.write(ctx, RequestVoteReply, ask.origin, False)
        if not best and not self.seated(ctx):
            self.urge(ctx)  # whoever has no seat is asked only then

    def _grant(self, ctx: Context, ask: RequestVote) -> None:
        if (self.term, self.voted) == (ask.term, ask.origin):
            self.write(ctx, RequestVoteReply, ask.origin, True)

    def _vote(self, ctx: Context, vote: RequestVoteReply) -> None:
        self.lives[vote.origin] = vote.life
        if vote.term > self.term:
            self._follow(vote.term)
        elif vote.term == self.term and vote.granted and self.candidate is not None:
            self.candidate.vote(ctx, (vote.origin, vote.life))

    def go_on(self, ctx: Context) -> None:
        """Too many have forgotten, and nobody knows more than this node: its record goes on."""
        assert self.record is not None
        self.history = (max(ctx.now, self.history[0] + 1), ctx.node)
        self.store.go_on(self)
        self.record.append(Entry(self.term, seats=(self.seat(ctx),)))
        self.win(ctx)

    def win(self, ctx: Context) -> None:
        self.candidate, self.leader = None, ctx.node
        self.leading = Leader(self, self._former)
        self._tell_elected(ctx)
        self.propose(ctx, Entry(self.term))

    def _lead(self, ctx: Context, lead: TimeoutNow) -> None:
        """The leader wants this node to lead."""
        if lead.term == self.term and self.seated(ctx) and not self.leads:
            self.stand(ctx, invited=True)
            self._sleep(ctx)

    # leading

    def propose(self, ctx: Context, entry: Entry) -> None:
        """Write an entry; it is decided once a majority has it."""
        assert self.record is not None
        self.record.append(entry)
        self.store.gather(self.record, self.commit_index)
        self.store.entries(ctx, self)
        if self.leading is not None:
            self.leading.spread(ctx)

    def welcome_in(self, ctx: Context, name: str) -> None:
        record = self.record
        assert record is not None
        self.write(ctx, InstallSnapshot, name, *record.state())

    def _copied(self, ctx: Context, copied: AppendEntriesReply) -> None:
        if copied.term > self.term:
            leads = self.leads
            self._follow(copied.term)
            self.stand(ctx, invited=True) if leads else None  # whoever stood in vain must not end it
        elif self.leading is not None:
            self.leading.copied(ctx, copied)
            self._decide(ctx)

    def _decide(self, ctx: Context) -> None:
        """What a majority has, of this term, is decided."""
        assert self.record is not None and self.leading is not None  # noqa: PT018
        index = self.leading.commit_index(ctx)
        if index > self.commit_index and self.record.term(index) == self.term:
            self.commit_index = index
            if self.store.gather(self.record, self.commit_index):
                self.store.gathered(ctx, self)
        self._tell_decided(ctx)

    def kept(self, ctx: Context, index: int) -> None:
        """Entries up to an index are kept here."""
        assert self.record is not None
        self.written = min(index, self.record.last)
        if self.leads:
            self._decide(ctx)

    def answer(self, ctx: Context) -> None:
        """Tell the leader what was copied; the message leaves when all of it is kept."""
        if self._answer is not None and self.record is not None:
            to, upto = self._answer
            self.write(ctx, AppendEntriesReply, to, min(upto, self.record.last), self.store.held, True)

    def settle(self, index: int) -> None:
        """Everybody has everything up to an index."""
        self.settled = max(self.settled, min(index, self.commit_index))
        if self.record is not None:
            self.record.compact(min(self.settled, self.store.logged))
            self.store.trim(self.record.base, self)

    # copying

    def _copy(self, ctx: Context, copy: AppendEntries) -> None:
        record = self.record
        if record is None:
            self.write(ctx, NoSuchLog, copy.origin)
            return
        if copy.term < self.term:
            self.write(ctx, AppendEntriesReply, copy.origin, record.last, 0, False)
            return
        if copy.term > self.term:
            self._follow(copy.term)
        self.leader, self._heard, self.candidate = copy.origin, self.time, None
        self.start(ctx)
        known = record.term(copy.index)
        if (known is not None and known != copy.index_term) or copy.index > record.last:
            shared = min(record.last, max(0, copy.index - 1))
            self.write(ctx, AppendEntriesReply, copy.origin, shared, 0, False)
            return
        if self.contradicted(copy):
            return
        upto = copy.index + len(copy.entries)
        self._answer = (copy.origin, upto)
        before = record.last
        kept = record.merge(copy.index, copy.entries)
        if kept < before:
            self.store.cut(kept)
            self.written = min(self.written, kept)
        self.commit_index = max(self.commit_index, min(copy.commit_index, upto))
        self.store.gather(record, self.commit_index)
        self.store.entries(ctx, self)
        self._tell_decided(ctx)
        self.settle(copy.settled)

    def contradicted(self, copy: AppendEntries) -> bool:
        """Whether a message has other entries than those that are decided here; these stay."""
        assert self.record is not None
        return self.record.contradicts(copy.index, copy.entries, self.commit_index)

    def entry(self, index: int) -> Entry | None:
        """An entry, if it is here."""
        record = self.record
        return record.entry(index) if record is not None and record.base < index <= record.last else None

    def _welcome(self, ctx: Context, welcome: InstallSnapshot) -> None:
        """Take over a state, if it is ahead of what is known here; that of a later history, once what this
        node has to keep of the earlier is in its log.
        """
        later = welcome.history > self.history
        if not self._credible(welcome) or (later and self._unlogged):
            return
        if later:
            self._begin_history(welcome.history)
        if welcome.term < self.term:
            self.write(ctx, AppendEntriesReply, welcome.origin, 0, 0, False)
            return
        if welcome.term > self.term:
            self._follow(welcome.term)
        if self.record is None or (
            welcome.index > self.commit_index and not self.record.covers(welcome.index, welcome.index_term)
        ):
            self._take(RaftLog(*msgspec.structs.astuple(welcome)[5:]))
            self.start(ctx)
        self.write(ctx, AppendEntriesReply, welcome.origin, welcome.index, welcome.index, True)

    def _credible(self, welcome: InstallSnapshot) -> bool:
        """Whether no more parcels have places than there can be entries since those that are known here."""
        record = self.record
        if record is None or welcome.history > self.history:
            return welcome.number <= self.store.numbered + APART
        return (
            welcome.index < record.base or 0 <= welcome.number - record.number <= welcome.index - record.base
        )

    @property
    def _unlogged(self) -> bool:
        """Whether something that is decided here has to go to the log still."""
        return self.record is not None and min(self.commit_index, self.store.held) > self.store.logged

    def _stranger(self, ctx: Context, stranger: NoSuchLog) -> None:
        """A node has no record, or an earlier one: its life is what counts when it gets a seat."""
        self.lives[stranger.origin] = stranger.life
        seated = self.leads and (stranger.origin, stranger.life) in self.seats
        if seated or (self.candidate is not None and stranger.history < self.history):
            self.welcome_in(ctx, stranger.origin)

    # beginnings

    def died(self, seat: Voter) -> bool:
        """Whether the node of a seat is known to have begun another life."""
        return self.lives.get(*seat) > seat[1]

    def hear_of(self, history: History) -> None:
        """There is a later history; a node without a record has nothing to do with earlier ones then."""
        if history > self.history and self.record is None:
            self._begin_history(history)

    def _begin_history(self, history: History) -> None:
        self.history, self.record, self.leader = history, None, ""
        self.term, self.voted, self.leading, self.candidate, self._answer = 0, "", None, None, None

    def found(self, ctx: Context, after: History = NONE) -> None:
        """Begin a history later than any that was heard of, with the only seat here.

        Its entries are counted from the clock, or from far behind the one before: no index means two things.
        A node that had a seat before goes on with all that its record has.
        """
        seat, old, parcels = self.seat(ctx), self.record if self.seated(ctx) else None, []
        earlier = max(self.history, after)[0]
        self.history = (max(ctx.now, earlier + (APART if earlier else 0)), ctx.node)
        self.term, self.voted, base = 1, ctx.node, self.history[0]
        if old is None:
            record = RaftLog(base, 0, (seat,), number=self.store.numbered)
        else:
            record = old.moved(base, self.term, (seat,))
            for index in range(old.base + 1, old.last + 1):
                if (parcel := self.store.get(index)) is not None:
                    parcels.append((index - old.base + base, parcel))
        self._take(record)
        for index, parcel in parcels:
            self.store.put(index, parcel)
        self.candidate = Candidate(self)
        self.store.hard_state(ctx, self, lambda ctx: self._sworn(ctx, invited=False))
        self.start(ctx)

    def _take(self, record: RaftLog) -> None:
        self.record = record
        self.commit_index = self.settled = self.written = record.base
        self.leader, self._heard, self.candidate = "", self.time, None
        self.leading, self.lives = None, {}
        self.store.renew(self)

    def restore(self, ctx: Context, history: History, term: int, voted: str, record: RaftLog) -> None:
        """Go on where an earlier life ended."""
        self.history, self.term, self.voted, self.record = history, term, voted, record
        self.commit_index = self.settled = record.base
        self.written = record.last
        self.start(ctx)
