"""Reliable: multicast with a window per source at every node of the tree (seed 000, 4.1.2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from gossamer.core.context import BELOW, SERVER, Context
from gossamer.core.control import on
from gossamer.core.names import NANOSECONDS, last, nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import SourceKey
from gossamer.core.template import AT_MOST_ONCE, GAP_FREE, PROGRESS, Membership
from gossamer.overlay.groups.interest import Interest
from gossamer.templates.multicast import on_backbone
from gossamer.templates.reliable.messages import MAX_ASKED, MAX_STREAMS, Acks, Gone, Have, Missing, Position
from gossamer.templates.reliable.sources import ReliableSettings, Sourced
from gossamer.templates.reliable.window import Stream, ranges

S = TypeVar("S", bound=ReliableSettings)
WINDOW_BYTES = 64 * 1024 * 1024
"""What the parcels of one source that are on their way may weigh."""
MOVES = 1000
"""Moves of a source that may have passed unheard."""
FAR = 16
"""Windows beyond what is next that a sequence number may be: a greater one is taken for nonsense."""


class Reliable(Sourced[S]):
    """Multicast with repair: every member that keeps up gets every event of every source, in its order.

    Promises: at most once, gap-free and in order per source, from the moment of joining on, for every member
        that keeps up; one that does not is dropped and learns it. A source may change its server, or hand
        everything over to its server and leave. After the last fault everything arrives and is acknowledged
        within twice ``laggard``.
    Acknowledged: Every member that keeps up has the event, and all before it of the same source. A member
        that falls behind for longer than `laggard` is waited for no longer.
    Costs: a window of parcels per source at every node of the tree; an acknowledgement per edge, merged over
        all sources and all members behind it; one request and one copy per parcel lost on an edge.
    Needs: what multicast needs.
    """

    name = "reliable"
    settings_type = ReliableSettings
    promises = frozenset({AT_MOST_ONCE, GAP_FREE, PROGRESS})
    repairs = True
    acknowledges = True

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self._sweeping = False
        self.repaired = 0
        """Parcels sent again by this node."""
        self.repaired_own = 0  # those that began here
        self._ticking = False
        self._near: list[str] = []
        """Who was next to this node at the last beat."""
        self._beat_length = nanoseconds(min(settings.repair, settings.ack))
        self._repair, self._reminder = nanoseconds(settings.repair), nanoseconds(2 * settings.ack)
        self._much = max(settings.send_window // 4, 1)
        self._far = max(1024, FAR * settings.send_window)
        self._sent: deque[tuple[int, int, int]] = deque()
        """Parcels from here that are not acknowledged: sequence number, and numbers of the first and the last
        event."""
        self.given_up: set[int] = set()
        """Sequence numbers among them that will never be acknowledged."""
        self._sides: dict[str, frozenset[str]] = {}
        """Per neighbour in the tree, the nodes that stand on its side."""
        self._answers = False
        """Whether this node may still answer for sources below it that have left."""

    # parcels

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        if not self.publishing:
            self.publishing = True
            self._settle(ctx)
        self.launch(ctx, parcel)

    def launch(self, ctx: Context, parcel: Parcel) -> None:
        """Send a parcel of a stream that begins here on its way."""
        stream = self._stream(ctx, parcel, 1)
        stream.add(parcel)
        if parcel.stamp.key == (ctx.node, ctx.incarnation):
            first = parcel.stamp.first
            self._sent.append((parcel.stamp.sequence, first, first + parcel.stamp.count - 1))
        if self.ready(ctx):
            ctx.send(self.hops(ctx, None), parcel)
        self.advance(ctx, stream, None)
        self._tick(ctx)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if len(self.streams) >= MAX_STREAMS and parcel.stamp.key not in self.streams:
            ctx.drop(parcel, "too many sources")
            return
        stream = self._stream(ctx, parcel, 0)
        number = parcel.stamp.sequence
        if not stream.fits(number):
            ctx.drop(parcel, "beyond the window")
            return
        self._answers |= stream.entry == ctx.node
        asked = stream.wanted.pop(number, set())
        if self.begins(ctx, stream) or not (stream.add(parcel, bool(asked)) or asked):
            ctx.drop(parcel, "seen before")
            return
        old = bool(stream.next) and number < stream.next
        ctx.send(sorted(asked) if old else self.hops(ctx, sender), parcel)
        self.advance(ctx, stream, sender)
        self._hasten(ctx, parcel.stamp.key, stream)
        self._tick(ctx)

    def on_expired(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        """An expired parcel still closes the gap it would leave."""
        self.on_parcel(ctx, parcel, sender)

    def onward(self, ctx: Context, parcel: Parcel, sender: str) -> list[str]:
        return []  # it went on, to close the gap there too

    @classmethod
    def recovery(cls, settings: Any) -> float:
        """A member that died is waited for once, and once more in another tree."""
        return 2 * float(settings.laggard)

    def figures(self) -> dict[str, int]:
        on_the_way = self.repaired - self.repaired_own
        return {"repaired_by_source": self.repaired_own, "repaired_on_the_way": on_the_way}

    def advance(self, ctx: Context, stream: Stream, sender: str | None) -> None:
        """Deliver what is next in order."""
        if stream.gap():
            self.tell_gap(ctx, stream.node)
        for parcel in stream.ready(lambda parcel: self.turn(ctx, parcel)):
            self.in_order(ctx, parcel, sender)
        self._release(ctx, stream)

    def tell_gap(self, ctx: Context, source: str) -> None:
        """Subscriptions here lack events of a source, and will never have them."""
        ctx.gap(source)

    def listen(self) -> None:
        """The first subscription begins here: what came before it is no concern of it."""
        self.streams.listen()

    def turn(self, ctx: Context, parcel: Parcel) -> bool:
        """Whether a parcel that is next in order may be delivered; what may not waits in the window."""
        return True

    def _release(self, ctx: Context, stream: Stream) -> None:
        """Forget what all behind us have; the source itself thereby moves the beginning, once it is heard.

        A backbone node lets nothing go that begins at or below it while it is not in the whole tree: members
        that it does not know of lack it.
        """
        if not stream.due:
            return
        above = self.upstream(ctx, stream)
        enters = above is None or (on_backbone(ctx) and stream.entry == ctx.node)
        if enters and not (self.group.complete(ctx) if on_backbone(ctx) else self.ready(ctx)):
            return
        stream.release()
        if above is None:
            stream.base = stream.low
            if stream.node == ctx.node and self.begins(ctx, stream):
                self.everywhere(ctx, stream.low - 1)

    def everywhere(self, ctx: Context, number: int) -> None:
        """Every member has the parcels from here up to a number."""
        self.confirm(ctx, number)

    def confirm(self, ctx: Context, number: int) -> None:
        """Parcels from here are acknowledged up to a number, but for those given up: tell the application."""
        event = 0
        while self._sent and self._sent[0][0] <= number:
            sequence, first, event = self._sent.popleft()
            if sequence in self.given_up:
                self.given_up.discard(sequence)
                if first <= event:
                    ctx.lose(first, event)
        if event:
            ctx.acknowledge(event)

    def unconfirmed(self, ctx: Context) -> list[str]:
        """A server that has everything answers for it; on the backbone only the other members do."""
        stream = self.streams.get((ctx.node, ctx.incarnation))
        if stream is None or not stream.held:
            return []
        if not on_backbone(ctx):
            has = stream.reached.get(ctx.server or "", 0)
            return [] if has >= stream.high else [ctx.node]
        if len(self.group.live(ctx)) < 2 and not self.hops(ctx, None):
            return []
        return [] if self.ready(ctx) and not stream.waiting else [ctx.node]

    def in_order(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        """A parcel whose turn it is, source by source."""
        if parcel.deadline is not None and ctx.now > parcel.deadline:
            ctx.drop(parcel, "expired")
        else:
            ctx.deliver(parcel, sender)

    def obstacle(self, ctx: Context) -> str | None:
        stream = self.streams.get((ctx.node, ctx.incarnation))
        window = self.settings.send_window
        if stream is None or (
            max(len(stream.held), len(self._sent)) < window and stream.bytes < WINDOW_BYTES
        ):
            return None
        return f"the slowest member of {ctx.channel!r}"

    # streams

    def _stream(self, ctx: Context, parcel: Parcel, first: int) -> Stream:
        stamp = parcel.stamp
        return self.streams.get(stamp.key) or self.open(ctx, stamp.key, stamp.source, first)

    def open(self, ctx: Context, key: SourceKey, address: str, first: int = 0) -> Stream:
        """A stream that was not here."""
        stream = self.streams.begin(key, address, first)
        stream.limit = self._far
        stream.dead = key[0] == ctx.node and not self.begins(ctx, stream)  # an earlier life
        stream.over = int(stream.dead)
        self._place(ctx, key, stream)
        if not self._sweeping:
            self._sweeping = True
            ctx.wake("sweep", self.settings.laggard)
        return stream

    def _sweep(self, ctx: Context) -> None:
        """Forget streams in which nothing has happened for a while; give up what nobody has."""
        for key, stream in tuple(self.streams.items()):
            fresh, stream.fresh = stream.fresh, False
            if fresh or self.begins(ctx, stream):
                continue
            if not stream.idle and self.upstream(ctx, stream) is None and self.group.current(ctx):
                self._give_up(ctx, key, stream)
            elif stream.idle or stream.over == 2:
                self.streams.forget(key)
        self._sweeping = any(not self.begins(ctx, stream) for stream in self.streams.values())
        if self._sweeping:
            ctx.wake("sweep", self.settings.laggard)

    def _give_up(self, ctx: Context, key: SourceKey, stream: Stream) -> None:
        for parcel in stream.stop():
            ctx.drop(parcel, "its source has gone")

    def _place(self, ctx: Context, key: SourceKey, stream: Stream) -> None:
        """Find the neighbours behind this node, and tell new ones where the stream begins for them.

        Where more has been released here than the source was last known to have, the source is asked first:
        a new member would begin with old events that this node still has in its tail.
        """
        above = self.upstream(ctx, stream)
        new = stream.neighbours(self.hops(ctx, above), self._time)
        if above is None:  # nothing is kept for anybody but here
            stream.base = max(stream.base, stream.low)
        if new and above is not None and stream.base < stream.low:
            stream.untold.update(new)
            ctx.send(above, Missing(stream.address, key[1], ()))
            return
        for neighbour in new:
            self._tell(ctx, key, stream, neighbour)

    def _tell(self, ctx: Context, key: SourceKey, stream: Stream, neighbour: str) -> None:
        if stream.next:
            base, floor = self.first(ctx, stream, neighbour), self.oldest(ctx, stream, neighbour)
            about = (base, stream.high, stream.dead, stream.moves, floor)
            ctx.send(neighbour, Have(stream.address, key[1], *about))

    def regrouped(self, ctx: Context) -> None:
        super().regrouped(ctx)
        tree = self.group.tree
        more = self._more_behind(ctx)
        for key, stream in self.streams.items():
            if on_backbone(ctx):
                stream.acked = (-1, "")  # neighbours take it only with the version of the new tree
                for neighbour in more:
                    stream.unsure(neighbour)
                if stream.over and not stream.dead and tree is not None and stream.entry in tree:
                    stream.over = 0  # it was only not seen for a while; else who stands there says so again
            self._place(ctx, key, stream)
            self._acknowledge(ctx, [key])
        self._tick(ctx)

    def _more_behind(self, ctx: Context) -> list[str]:
        """Neighbours in the tree behind which nodes stand that did not stand there in the tree before: what
        these neighbours said of all behind them does not cover those nodes.
        """
        tree, before = self.group.tree, self._sides
        near = tree.neighbours(ctx.node) if tree is not None and ctx.node in tree else ()
        self._sides = {each: tree.side(ctx.node, each) for each in near} if tree is not None else {}
        return [each for each, side in self._sides.items() if not side <= before.get(each, frozenset())]

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        super().on_membership(ctx, membership)
        if membership.change == "subscribed" and len(ctx.subscribers) == 1:
            self.listen()
        if membership.change == "down":
            self._answers |= any(stream.entry == ctx.node for stream in self.streams.values())
        for key, stream in self.streams.items():
            if membership.change == "up":
                stream.unsure(membership.who)
            self._place(ctx, key, stream)
        self._tick(ctx)

    @on(Interest)
    def hear(self, ctx: Context, interest: Interest, sender: str) -> None:
        """A node below that listens now counts at once: what comes next is not released before it has it."""
        super().hear(ctx, interest, sender)
        if interest.listens and on_backbone(ctx):
            for key, stream in self.streams.items():
                self._place(ctx, key, stream)
            self._tick(ctx)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        own = self.streams.get((ctx.node, ctx.incarnation))
        if name == SERVER and own is not None and value is not None and own.address != ctx.address:
            own.move(ctx.address, own.moves + 1)
        super().on_container(ctx, name, value)

    def stays(self, ctx: Context) -> bool:
        return super().stays(ctx) or self._answers

    def _answered(self, ctx: Context) -> None:
        """Leave the group if all that sources below this node handed over has arrived everywhere."""
        here = (each for each in self.streams.values() if each.entry == ctx.node)
        if not any(each.waiting or (each.held and not self.group.complete(ctx)) for each in here):
            self._answers = False
            self._settle(ctx)

    # the beat: ask for what is missing, say what has come, remind those that are behind

    def _tick(self, ctx: Context) -> None:
        if not self._ticking:
            self._ticking = True
            ctx.wake("beat", self._beat_length / NANOSECONDS)

    def on_timer(self, ctx: Context, name: str) -> None:
        if name != "beat":
            self._sweep(ctx) if name == "sweep" else super().on_timer(ctx, name)
            return
        self._ticking = busy = False
        self._time += self._beat_length
        near, before = self.hops(ctx, None), self._near
        self._near = near
        streams = tuple(
            (key, stream)
            for key, stream in self.streams.items()
            if near != before or not stream.quiet(self.begins(ctx, stream))
        )
        for key, stream in streams:
            busy |= self._beat(ctx, key, stream)
        self._acknowledge(ctx, [key for key, _ in streams if key in self.streams])
        if self._answers:
            self._answered(ctx)
        if busy or self._answers:
            self._tick(ctx)

    def _beat(self, ctx: Context, key: SourceKey, stream: Stream) -> bool:
        """Whatever one stream needs; whether it will need more."""
        above = self.upstream(ctx, stream)
        if stream.placed != (above, self._near):
            stream.placed = (above, self._near)
            self._place(ctx, key, stream)
        if above is not None:
            numbers = stream.missing(self._time, self._repair, MAX_ASKED)
            if numbers or not (stream.next or stream.over == 2):
                ctx.send(above, Missing(stream.address, key[1], ranges(numbers)))
            self._seek(ctx, key, stream, [each for each in numbers if each < stream.next])
        elif stream.over == 1 and not stream.idle and self._ends(ctx, stream):
            self._give_up(ctx, key, stream)
        silent, laggards = stream.overdue(self._time, self._reminder, self._laggard)
        for neighbour in silent:
            self._tell(ctx, key, stream, neighbour)
        for neighbour in laggards:
            self._expel(ctx, key, stream, neighbour)
        self._release(ctx, stream)
        lacks = not stream.next and stream.over < 2
        wanting = lacks or stream.next <= stream.high or stream.waiting or stream.expelled
        unreleased = above is None and stream.due  # it is not released before the tree is whole
        return bool(wanting) or unreleased or self.lost(ctx)

    def _seek(self, ctx: Context, key: SourceKey, stream: Stream, numbers: list[int]) -> None:
        """What others lack of a source that lives anew: it has nothing of it left, but may come to ask for it
        here. If anybody has it, that is who stands in.
        """
        tree = self.group.tree
        if numbers and tree is not None and ctx.node in tree and (stream.dead or self.streams.anew(key)):
            hop = tree.tree.next_hop(ctx.node, self.stand_in(tree))
            if hop not in (None, self.upstream(ctx, stream)):
                ctx.send(hop, Missing(stream.address, key[1], ranges(numbers)))

    def _acknowledge(self, ctx: Context, keys: Iterable[SourceKey], reminded: bool = False) -> None:
        """One message per neighbour for all the sources behind it; a node that is reminded always answers.

        A source below this node also hears what the node itself has, for which it answers from then on.
        """
        said: dict[str, list[Position]] = {}
        lost = self.lost(ctx)
        vouches = not on_backbone(ctx) or self.group.complete(ctx)
        below: tuple[str, ...] = ctx.container(BELOW) or ()
        for key in keys:
            stream = self.streams[key]
            above = self.upstream(ctx, stream)
            if above is None:
                continue
            source_below = above in below
            complete = None if lost or (source_below and not vouches) else self.kept(stream)
            confirmed, skipped = self.skipped(key, self.confirmed(stream, complete))
            vouched = (stream.reach, confirmed) if source_below else stream.vouched
            if complete is None and (reminded or vouched != stream.vouched):
                complete = 0
            if complete is not None and ((complete, above) != stream.acked or vouched != stream.vouched):
                stream.acked, stream.vouched, stream.unsaid = (complete, above), vouched, 0
                position = (*key, complete, stream.reach, confirmed)
                if skipped and source_below:
                    ctx.send(above, Acks(*self.group.version, (position,), skipped))
                else:
                    said.setdefault(above, []).append(position)
        for above, positions in said.items():
            for start in range(0, len(positions), MAX_STREAMS):
                some = tuple(positions[start : start + MAX_STREAMS])
                ctx.send(above, Acks(*self.group.version, some))

    def _hasten(self, ctx: Context, key: SourceKey, stream: Stream) -> None:
        """Say ahead of the beat what is a good part of the window: a fast source would wait for it."""
        complete = stream.complete
        much = stream.unsaid >= WINDOW_BYTES // 4
        if complete is not None and (much or complete - stream.acked[0] >= self._much):
            self._acknowledge(ctx, [key])

    def confirmed(self, stream: Stream, complete: int | None) -> int:
        """Up to which number the events of a source are acknowledged, given what all behind here have."""
        return complete or 0

    def kept(self, stream: Stream) -> int | None:
        """What the source need no longer keep for this node and those behind it."""
        return stream.complete

    @on(Acks)
    def acks(self, ctx: Context, acks: Acks, sender: str) -> None:
        peer = on_backbone(ctx) and sender in self.group.neighbours(ctx)
        other = peer and (acks.epoch, acks.counter) != self.group.version
        skipped = acks.skipped
        for source, incarnation, number, own, confirmed in acks.positions:
            some, skipped = skipped, ()
            stream = self.streams.get((source, incarnation))
            if stream is not None and sender in self.hops(ctx, self.upstream(ctx, stream)):
                if other:  # what the neighbour itself has does not depend on the tree
                    stream.hear_own(sender, min(own, stream.high), self._time)
                    continue
                if own >= stream.low - 1:
                    stream.readmit(sender)
                stream.fresh |= stream.hear(
                    sender, min(number, stream.high), min(own, stream.high), self._time
                )
                if sender == ctx.server:  # only the server of a source knows
                    confirmed = min(confirmed, stream.high)
                    self.heard_skipped(ctx, (source, incarnation), some, confirmed)
                    stream.confirmed = max(stream.confirmed, confirmed)
                self.heard_confirmed(ctx, (source, incarnation), stream)
                self._release(ctx, stream)
                self._hasten(ctx, (source, incarnation), stream)

    def heard_confirmed(self, ctx: Context, key: SourceKey, stream: Stream) -> None:
        """A neighbour has said up to where the events of a source are acknowledged."""

    @on(Have)
    def have(self, ctx: Context, have: Have, sender: str) -> None:
        key = (last(have.source), have.incarnation)
        stream = self.located(ctx, key, have, sender)
        if stream is None or sender != self.upstream(ctx, stream) or have.base > have.high + 1:
            return
        stream.begin(have.base, have.floor or have.base, self.resumes(stream))
        stream.dead |= have.dead
        self.advance(ctx, stream, sender)
        stream.high = max(stream.high, min(have.high, stream.next + self._far))
        untold, stream.untold = sorted(stream.untold.intersection(stream.behind)), set()
        for neighbour in untold:
            self._tell(ctx, key, stream, neighbour)
        stream.acked = (-1, "")
        self._acknowledge(ctx, [key], reminded=True)
        self._tick(ctx)

    def resumes(self, stream: Stream) -> bool:
        """Whether this node lacks what a stream had before it came here."""
        return False

    def located(self, ctx: Context, key: SourceKey, have: Have, sender: str) -> Stream | None:
        """The stream that a neighbour speaks of, at its source's latest address; None if there are too many,
        or if the neighbour is not on the way to that address.

        A stream that has moved is told at once to all neighbours that are now behind this node.
        """
        stream = self.streams.get(key)
        on_the_way = self.upstream(ctx, Stream(have.source, life=have.incarnation)) == sender
        if stream is None:
            if len(self.streams) >= MAX_STREAMS or not on_the_way:
                return None
            stream = self.open(ctx, key, have.source)
            stream.moves = have.moves
        elif on_the_way and stream.moves < have.moves < stream.moves + MOVES and not self.begins(ctx, stream):
            stream.move(have.source, have.moves)
            self._place(ctx, key, stream)
            for neighbour in stream.behind:
                self._tell(ctx, key, stream, neighbour)
        stream.fresh = True
        return stream

    @on(Missing)
    def missing(self, ctx: Context, missing: Missing, sender: str) -> None:
        key = (last(missing.source), missing.incarnation)
        stream = self.streams.get(key)
        if stream is None:
            stream = Stream(missing.source, life=missing.incarnation)
            if self._ends(ctx, stream):
                ctx.send(sender, Gone(missing.source, missing.incarnation, self._stands_in(ctx)))
            elif key in self.streams.ended:
                self._tell(ctx, key, self.open(ctx, key, missing.source), sender)
            elif self.former(ctx, stream, sender):
                ctx.send(sender, Gone(missing.source, missing.incarnation, True))
            return
        if not missing.numbers:
            if stream.next:
                self._tell(ctx, key, stream, sender)
            elif stream.over or self.former(ctx, stream, sender):
                final = stream.over == 2 or self.former(ctx, stream, sender)
                ctx.send(sender, Gone(missing.source, missing.incarnation, final))
        for first, count in missing.numbers:
            for number in range(first, first + min(count, MAX_ASKED)):
                if not self._answer(ctx, key, stream, number, sender):
                    break
        self._tick(ctx)

    def _answer(self, ctx: Context, key: SourceKey, stream: Stream, number: int, sender: str) -> bool:
        """Send a parcel that somebody lacks, or what is known instead; whether to look for the next."""
        parcel, former = self.find(stream, key, number), self.former(ctx, stream, sender)
        if parcel is not None:
            self.repaired += 1
            self.repaired_own += self.begins(ctx, stream)
            ctx.send(sender, parcel)
        elif number < self.oldest(ctx, stream, sender):
            self._tell(ctx, key, stream, sender)
            return False
        elif stream.next and number < stream.next:
            if len(stream.wanted) < self.settings.send_window:
                stream.wanted.setdefault(number, set()).add(sender)
        elif stream.over or former or self._ends(ctx, stream):
            final = former or stream.over == 2 or (stream.over == 0 and self._stands_in(ctx))
            ctx.send(sender, Gone(stream.address, key[1], final))
            stream.expect(number, self.settings.send_window * (stream.over == 1))
            return False
        elif not self.begins(ctx, stream):
            stream.expect(number, self.settings.send_window)
        return True

    def find(self, stream: Stream, key: SourceKey, number: int) -> Parcel | None:
        """A parcel that somebody behind us lacks."""
        return stream.find(number)

    @on(Gone)
    def source_gone(self, ctx: Context, gone: Gone, sender: str) -> None:
        """The source of a stream has gone, and perhaps nobody has what we ask for, nor ever will."""
        key = (last(gone.source), gone.incarnation)
        stream = self.streams.get(key)
        if stream is None or stream.over == 2 or sender != self.upstream(ctx, stream):
            return
        stream.over = 1
        if gone.final or self._ends(ctx, stream):
            self._give_up(ctx, key, stream)
        self._tick(ctx)

    # laggards

    def _expel(self, ctx: Context, key: SourceKey, stream: Stream, neighbour: str) -> None:
        """Stop waiting for a neighbour: for it the stream goes on where we are, and the application is told.
        It hears so until it answers.
        """
        stream.expel(neighbour)
        self._tell(ctx, key, stream, neighbour)
