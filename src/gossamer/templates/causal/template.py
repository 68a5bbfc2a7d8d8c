"""Causal: reliable, and nothing is delivered before what it depends on.

A parcel depends on the earlier ones of its source, and on all that had been delivered at that node, on the
same channel, when it was sealed. Only direct dependencies are named: what was delivered there since the last
parcel, less what another of these depends on itself. If x delivers 5 of b, and then 7 of a that names 5 of
b, the next parcel of x names 7 of a and no more. An event that somebody publishes in answer to a delivery is
sealed after it, so its parcel names it.

A parcel whose dependencies have not passed here waits in the window of its source. It is sent on all the
same, but not acknowledged, so the window bounds what waits and the source feels it. Passed is what was
delivered or has expired, and what stands before the point from which this node delivers a source.

Who begins in the middle of a stream, or is told of a gap in it, does not know what the parcels depended on
that it did not see. It asks the neighbour towards the source for its *cut*: how far that one is with every
source. Nothing that the neighbour delivered depends on anything outside of it. So streams that begin here
begin behind the cut, and go on once all the others have reached it.

A dependency that cannot be had any more is given up: after ``patience`` if its source has left the tree or
lives anew, after ``laggard`` without movement of its stream in any case. What that one depended on is not
known here, so who named it waits for the cut of a neighbour that has passed it, but for what itself waits
for it. If the dependency comes later it is not delivered any more, and subscribers are told of the gap.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, TypeVar

from msgspec import Meta

from gossamer.core.context import Context
from gossamer.core.control import on
from gossamer.core.names import last, nanoseconds
from gossamer.core.parcel import MAX_DEPENDS, Depend, Parcel
from gossamer.core.receipt import SourceKey
from gossamer.core.template import AT_MOST_ONCE, CAUSAL, GAP_FREE, PROGRESS
from gossamer.templates.causal.cut import AskCut, Cut, Puzzle, Wait, explain, passed, remember
from gossamer.templates.multicast import on_backbone
from gossamer.templates.reliable.messages import Have
from gossamer.templates.reliable.sources import ReliableSettings
from gossamer.templates.reliable.template import Reliable
from gossamer.templates.reliable.window import Stream


class CausalSettings(ReliableSettings, frozen=True):
    """Settings of a causal channel, on top of those of reliable.

    patience
        Seconds that a parcel waits for one of a source that has left the tree or lives anew; a few times
        what a change of the tree takes to reach everybody.
    """

    patience: Annotated[float, Meta(gt=0, le=86400)] = 10.0


NOBODY: SourceKey = ("", 0)
S = TypeVar("S", bound=CausalSettings)


class Causal(Reliable[S]):
    """Reliable in causal order: every member gets an event after all that its publisher had got before.

    Promises: what reliable promises; and nothing before what it depends on, on the same channel. Who lacks
        what others depend on, and cannot have it any more, begins anew and learns it.
    Acknowledged: Every member that keeps up has the event, and all before it of the same source, as in
        reliable; a member may still hold it back for one that it depends on.
    Costs: what reliable costs; in each parcel, for every source heard since the last one that is not implied
        by another, its name and two numbers. A lost parcel delays those that depend on it.
    Needs: what reliable needs.
    """

    name = "causal"
    settings_type = CausalSettings
    promises = frozenset({AT_MOST_ONCE, GAP_FREE, CAUSAL, PROGRESS})

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self.fresh: dict[SourceKey, int] = {}
        """Parcels delivered here since the last one of this node, without those that another implies."""
        self.floor: dict[SourceKey, int] = {}
        """Per source the number up to which nothing is delivered here any more."""
        self._unexplained: dict[SourceKey, int] = {}
        """From which number up to its floor a source's parcels depend on nobody here knows what."""
        self.unsure: dict[SourceKey, tuple[int, int]] = {}
        """Sources of which parcels up to a number depend on nobody here knows what; and since when."""
        self._beginning: set[SourceKey] = set()
        """Sources that begin here behind a cut and wait for the others to reach it."""
        self._cut: dict[SourceKey, int] = {}
        """The cut that these wait for; of several all that is in one of them."""
        self._puzzles: dict[SourceKey, Puzzle] = {}
        self._solutions: dict[SourceKey, Puzzle] = {}  # the last of each source
        self._waits: dict[SourceKey, Wait] = {}
        self._heard: dict[SourceKey, None] = {}
        """Sources of which something was delivered here."""
        self._gaps: dict[SourceKey, None] = {}
        """Those of them of which something will not be, and this has not been told."""
        self._ask_at = 0

    # parcels from here

    def blanks(self, ctx: Context) -> int:
        """What does not fit one header leaves ahead, in parcels without events."""
        return max(0, len(self.fresh) - 1) // MAX_DEPENDS

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        named = tuple((*key, number) for key, number in islice(self.fresh.items(), MAX_DEPENDS))
        for node, incarnation, _ in named:
            del self.fresh[node, incarnation]
        super().on_publish(ctx, parcel.depending_on(named) if named else parcel)

    # parcels whose turn it is

    def turn(self, ctx: Context, parcel: Parcel) -> bool:
        """Whether all that a parcel depends on has passed. Own parcels name only what has."""
        source, ready = parcel.stamp.key, self._ready(ctx, parcel)
        if ready:
            self._waits.pop(source, None)
        if ready and source in self._puzzles:
            puzzle = self._puzzles.pop(source)
            remember(self._solutions, source, puzzle)
            for node, life, number in puzzle.reasons:
                explain(self._unexplained, self.floor, (node, life), number)
            if parcel.stamp.sequence > self.floor.get(source, 0):
                self._unexplained.pop(source, None)
        return ready

    def _ready(self, ctx: Context, parcel: Parcel) -> bool:
        source, number = parcel.stamp.key, parcel.stamp.sequence
        if source == (ctx.node, ctx.incarnation) or number <= self.floor.get(source, 0):
            return True
        if source in self.unsure:
            return False
        if source in self._beginning:
            for key, least in self._cut.items():
                if not self._passed(ctx, key, least):
                    return self._wait(source, key, least)
            self._reached()
        for node, incarnation, least in parcel.depends:
            if not self._passed(ctx, (node, incarnation), least):
                return self._wait(source, (node, incarnation), least)
        if source not in self._puzzles:
            reasons = self._reasons(parcel)
            if not reasons and source not in self._unexplained:
                return True
            known_to = number if reasons else self.floor.get(source, 0)
            self._puzzles[source] = Puzzle(known_to, reasons, self._time, self._solutions.get(source))
        return self._solved(ctx, source, self._puzzles[source])

    def _reasons(self, parcel: Parcel) -> frozenset[Depend]:
        """What a parcel names and nobody here knows the dependencies of."""
        return frozenset(
            (node, life, number)
            for node, life, number in parcel.depends
            if self._unexplained.get((node, life), number + 1) <= number <= self.floor.get((node, life), 0)
        )

    def _solved(self, ctx: Context, source: SourceKey, puzzle: Puzzle) -> bool:
        """Whether all that a neighbour had passed has passed here, but for what waits for it."""
        if puzzle.cut is None:
            return False
        for key, least in puzzle.cut.items():
            if self._passed(ctx, key, least) or (behind := self._behind(ctx, key, source, puzzle)):
                continue
            if behind is None or key in self._beginning or key in self._puzzles:
                self._begin_anew(source, puzzle)
            return self._wait(source, key, least)
        return True

    def _begin_anew(self, source: SourceKey, puzzle: Puzzle) -> None:
        """Two that are in the dark would wait for each other: this one begins behind its cut."""
        assert puzzle.cut is not None
        del self._puzzles[source]
        self._raise(source, puzzle.position)
        self._join(source, puzzle.cut)

    def _join(self, source: SourceKey, cut: dict[SourceKey, int]) -> None:
        """Let a source that begins here wait for one more cut: two together are a cut, too."""
        self._beginning.add(source)
        for key, number in cut.items():
            self._cut[key] = max(number, self._cut.get(key, 0))
            if key in self._beginning:
                self._raise(key, number)

    def _behind(self, ctx: Context, key: SourceKey, source: SourceKey, puzzle: Puzzle) -> bool | None:
        """Whether the next parcel of one source cannot come before that of another: it depends on it, or both
        lack just the same parcel, which only one would name if it depended on the other. None if it waits for
        it because somebody in between is in the dark.
        """
        other = self._puzzles.get(key)
        if other is not None:
            return len(puzzle.reasons) == 1 and other.reasons == puzzle.reasons
        seen, dark = set(), False
        while key in self._waits and key not in seen:
            seen.add(key)
            dark |= key in self._beginning or key in self._puzzles
            key, least = self._waits[key].key, self._waits[key].number
            if self._passed(ctx, key, least):  # it will go on as soon as it is looked at
                return False
            if key == source:
                return None if dark else True
        return False

    def _passed(self, ctx: Context, key: SourceKey, number: int) -> bool:
        if number <= self.floor.get(key, 0) or key == (ctx.node, ctx.incarnation):
            return True
        return number < self.streams.upto(key) and key not in self.unsure

    def _wait(self, source: SourceKey, key: SourceKey, number: int) -> bool:
        if (stream := self.streams.get(key)) is not None and not stream.over:
            stream.expect(number, self.settings.send_window)  # it exists, though its source may be silent
        wait = self._waits.get(source)
        if wait is None or (wait.key, wait.number) != (key, number):
            self._waits[source] = Wait(key, number, self._time)
        return False

    def advance(self, ctx: Context, stream: Stream, sender: str | None) -> None:
        super().advance(ctx, stream, sender)
        self._resume(ctx)

    def _resume(self, ctx: Context) -> None:
        """Go on with sources whose next parcel waits no longer, and with those that waited for them."""
        while free := [
            each for each, wait in self._waits.items() if self._passed(ctx, wait.key, wait.number)
        ]:
            for source in free:
                del self._waits[source]
                self._go_on(ctx, source)
        self._tell_gaps(ctx)

    def _go_on(self, ctx: Context, source: SourceKey) -> None:
        stream = self.streams.get(source)
        if stream is not None:
            super().advance(ctx, stream, self.upstream(ctx, stream))

    def in_order(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        stamp, floor = parcel.stamp, self.floor.get(parcel.stamp.key, 0)
        own = stamp.key == (ctx.node, ctx.incarnation)
        if stamp.sequence <= floor and not own:
            ctx.drop(parcel, "before the cut")
            return
        if not own:
            self._tell_gaps(ctx, stamp.key)
            remember(self._heard, stamp.key, None)
            if ctx.subscribers:
                self._note(parcel)
        if stamp.count:
            super().in_order(ctx, parcel, sender)

    def listen(self) -> None:
        super().listen()
        self._heard.clear()
        self._gaps.clear()

    def _tell_gaps(self, ctx: Context, follows: SourceKey = NOBODY) -> None:
        """Of sources that live anew nothing more may come; then there is no gap."""
        for key in [key for key in self._gaps if key == follows or not self.streams.anew(key)]:
            del self._gaps[key]
            self.tell_gap(ctx, key[0])

    def _note(self, parcel: Parcel) -> None:
        """Whoever depends on a parcel depends on what it depends on: that need not be named any more."""
        for node, incarnation, number in parcel.depends:
            if self.fresh.get((node, incarnation), number + 1) <= number:
                del self.fresh[node, incarnation]
        self.fresh[parcel.stamp.key] = parcel.stamp.sequence

    # beginning in the middle

    @on(Have)
    def have(self, ctx: Context, have: Have, sender: str) -> None:
        key = (last(have.source), have.incarnation)
        position = self.streams.upto(key)
        missed = (min(have.base, have.floor or have.base) if position else have.base) - 1
        stream = self.located(ctx, key, have, sender)
        if stream is None:
            return
        missed = stream.beginning(missed + 1) - 1
        if missed >= max(1, position) and sender == self.upstream(ctx, stream):
            if not position:
                self.unsure[key] = (missed, self._time)
                remember(self._unexplained, key, 0)
            elif missed > stream.reach:  # what is here waits for what it depends on, and is not missed
                self._raise(key, missed)
                self._gaps.pop(key, None)  # reliable tells it
        super().have(ctx, have, sender)

    def _ask(self, ctx: Context) -> None:
        """One request per neighbour for all the sources behind it."""
        asked: dict[str, list[tuple[str, int, int]]] = {}
        puzzles = {key: puzzle.number for key, puzzle in self._puzzles.items() if puzzle.cut is None}
        for key, number in (puzzles | {key: number for key, (number, _) in self.unsure.items()}).items():
            above = self.upstream(ctx, stream) if (stream := self.streams.get(key)) else None
            for neighbour in self.hops(ctx, None) if above is None else [above]:
                asked.setdefault(neighbour, []).append((*key, number))
        for neighbour, sources in asked.items():
            ctx.send(neighbour, AskCut(tuple(sources)))

    @on(AskCut)
    def ask_cut(self, ctx: Context, ask: AskCut, sender: str) -> None:
        """Only who is sure itself can answer, and only about what it has passed."""
        if self.unsure or self._beginning:
            return
        cut = passed(self.streams, self.floor, self._unexplained)
        if any(number <= cut.get((node, life), 0) for node, life, number in ask.sources):
            ctx.send(sender, Cut(tuple((*key, number) for key, number in cut.items() if number > 0)))

    @on(Cut)
    def cut(self, ctx: Context, cut: Cut, sender: str) -> None:
        """Streams that begin here begin behind the cut; the others have to reach it first."""
        told = {(node, life): number for node, life, number in cut.positions}
        told.pop((ctx.node, ctx.incarnation), None)
        begin = {key for key, (number, _) in self.unsure.items() if number <= told.get(key, 0)}
        for key in begin:
            del self.unsure[key]
        solved = [key for key, puzzle in self._puzzles.items() if puzzle.number <= told.get(key, 0)]
        for key in solved:
            self._puzzles[key].learn(told, key)
        if not (begin or solved):
            return
        begin |= {key for key in told if not self.streams.upto(key)}
        self._beginning |= begin
        for key, number in told.items():
            if key in self._beginning or key in self.unsure or self._given_up(ctx, key):
                self._raise(key, number)
            if begin:
                self._cut[key] = max(number, self._cut.get(key, 0))
        for key in told:
            self._go_on(ctx, key)
        self._resume(ctx)

    def _given_up(self, ctx: Context, key: SourceKey) -> bool:
        """Whether a source has gone with something that others name."""
        lost = (each[:2] for puzzle in self._puzzles.values() for each in puzzle.reasons)
        return key in lost and self._gone(ctx, key)

    def _raise(self, key: SourceKey, number: int) -> None:
        """Deliver nothing of a source up to a number. What it depended on is not known before the cut."""
        position = self.streams.upto(key)
        if number >= max(position, self.floor.get(key, 0) + 1):
            remember(self._unexplained, key, self._unexplained.get(key, position))
            remember(self.floor, key, number)
            if key in self._heard:
                del self._heard[key]
                remember(self._gaps, key, None)

    def _reached(self) -> None:
        """All that is in the cut has passed: nothing in it depends on anything else."""
        for key, number in self._cut.items():
            explain(self._unexplained, self.floor, key, number)
        self._beginning.clear()
        self._cut.clear()

    # what does not come

    def on_timer(self, ctx: Context, name: str) -> None:
        super().on_timer(ctx, name)
        if name == "beat":
            self._look_after(ctx)

    def _look_after(self, ctx: Context) -> None:
        """Ask again, and do without what does not come."""
        if self._time >= self._ask_at:
            self._ask(ctx)
            self._ask_at = self._time + nanoseconds(2 * self.settings.ack)
        for wait in [wait for wait in self._waits.values() if self._in_vain(ctx, wait)]:
            self._raise(wait.key, wait.number)
            self._go_on(ctx, wait.key)
        asking = [(key, since) for key, (_, since) in self.unsure.items()]
        asking += [(key, puzzle.since) for key, puzzle in self._puzzles.items() if puzzle.cut is None]
        for key, since in asking:
            if self._time - since >= self._laggard:
                self._skip(ctx, key)
        for key in tuple(self._puzzles):
            self._go_on(ctx, key)
        if self._beginning:
            self._look_at_cut(ctx)
        self._resume(ctx)
        if self.unsure or self._beginning or self._puzzles or self._waits:
            self._tick(ctx)

    def _look_at_cut(self, ctx: Context) -> None:
        """Others may wait for us to reach it, though no parcel does."""
        for key, least in self._cut.items():
            if not self._passed(ctx, key, least):
                self._wait(NOBODY, key, least)
                return
        self._reached()

    def _in_vain(self, ctx: Context, wait: Wait) -> bool:
        """Whether a stream that others wait for has stood still for too long."""
        position = self.streams.upto(wait.key)
        if position != wait.position:
            wait.position, wait.since = position, self._time
        laggard, patience = self.settings.laggard, self.settings.patience
        limit = min(laggard, patience) if self._gone(ctx, wait.key) else laggard
        return self._time - wait.since >= nanoseconds(limit)

    def _gone(self, ctx: Context, key: SourceKey) -> bool:
        """Whether a source is not here, has gone, or lives anew."""
        stream, tree = self.streams.get(key), self.group.tree
        left = tree is not None and on_backbone(ctx) and stream is not None and stream.entry not in tree
        return stream is None or bool(stream.over) or self.streams.anew(key) or left

    def _skip(self, ctx: Context, key: SourceKey) -> None:
        """Nobody says what a stream depends on: it begins behind all that is known to exist."""
        self.unsure.pop(key, None)
        self._puzzles.pop(key, None)
        if key in self.streams:
            known = {each: stream.high for each, stream in self.streams.items()}
            self._raise(key, known[key])
            self._join(key, known)
            self._go_on(ctx, key)
