"""What a dispatcher keeps, on its disk: a log of what happens to its boxes.

A box begins with a record of its state and one of each parcel in it. What comes, what is done and that it has
gone follow. When the log has grown far beyond what is still kept, all of that is written again, and what was
before may go. A state counts only with all of its parcels, so that a crash in between leaves what was there.

A subscriber may have got more before a crash than is on disk. So each life is numbered, which is on disk
before anything is given out, and has places of its own.

What is to be done when something is on disk is done then only: if it cannot be written, it waits until all
that is kept has been written anew. A log that is damaged stays closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from gossamer.core.context import Context
from gossamer.core.effect import Appended, History
from gossamer.core.errors import GossamerError
from gossamer.core.operations import Position
from gossamer.core.parcel import Parcel
from gossamer.core.wire import decode, encode
from gossamer.filters.identity import identity, restored
from gossamer.templates.dispatch.session import Box
from gossamer.templates.dispatch.session_messages import Marks

AT_ONCE, MAX_BYTES = 1000, 4 * 1024 * 1024
"""Records, and about how many bytes, that are read or written at a time."""
MAX_QUEUE = 1_000_000
"""Records that may wait for the disk."""
SLACK = 10_000
"""Records that a log may have beyond twice what is kept."""
PLACES = 2**32
"""Places that a life has."""
LOAD = 0
"""The ticket of what is read."""

Then = Callable[[Context], None]
Taking = Callable[[Context, dict[str, Box]], None]


class State(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A box, and how many parcels of it follow."""

    name: str
    identity: bytes
    claimed: int
    next: int
    done: Position
    lost: int
    marks: Marks
    count: int


class Kept(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A parcel of a box."""

    name: str
    place: int
    frame: bytes


class Done(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """All of a box up to a position."""

    name: str
    done: Position


class Left(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A box is not kept here any more."""

    name: str


class Life(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A life of the dispatcher begins."""

    number: int


Record = State | Kept | Done | Left | Life
_decode = msgspec.msgpack.Decoder(Record).decode
_encode = msgspec.msgpack.Encoder().encode


class Replay:
    """Boxes as the records of a log say, one after the other.

    limit
        Parcels that a box keeps.
    life
        The last one that has begun.
    unreadable
        Records that make no sense.
    """

    def __init__(self, limit: int) -> None:
        self.life = 0
        self.unreadable = 0
        self._boxes: dict[str, Box] = {}
        self._limit = limit
        self._coming: tuple[Box, int] | None = None
        """A box of which parcels are still to come, and how many."""

    def take(self, data: bytes, now: int) -> None:
        """The next record."""
        try:
            record = _decode(data)
            match record:
                case State():
                    self._begin(record, now)
                case Kept():
                    self._keep(record)
                case Done() if record.name in self._boxes:
                    self._boxes[record.name].finish(record.done)
                case Left():
                    self._boxes.pop(record.name, None)
                case Life():
                    self.life = record.number
        except (msgspec.MsgspecError, GossamerError):
            self.unreadable += 1

    def found(self) -> dict[str, Box]:
        """All boxes, ready to keep what comes in the life after the last one."""
        self.life += 1
        boxes, self._boxes = self._boxes, {}
        for box in boxes.values():
            box.next = max(box.next, self.life * PLACES)
        return boxes

    def _begin(self, state: State, now: int) -> None:
        box = Box(state.name, restored(state.identity), now)
        box.claimed, box.next, box.done, box.lost = state.claimed, state.next, state.done, state.lost
        box.marks = {(node, life): sequence for node, life, sequence in state.marks}
        self._come(box, state.count)

    def _come(self, box: Box, count: int) -> None:
        self._coming = (box, count) if count else None
        if not count:
            self._boxes[box.name] = box

    def _keep(self, kept: Kept) -> None:
        parcel = decode(kept.frame)
        if not isinstance(parcel, Parcel):
            self.unreadable += 1
        elif self._coming is not None and self._coming[0].name == kept.name:
            box, count = self._coming
            box.parcels[kept.place] = parcel
            self._come(box, count - 1)
        elif (found := self._boxes.get(kept.name)) is not None:
            found.next = kept.place
            found.add(parcel)
            for _ in found.shrink(self._limit):
                pass


class Ledger:
    """The log of a dispatcher's boxes; one that was not opened does nothing.

    limit
        Parcels that a box keeps.
    ready
        Whether everything of earlier lives is here.
    trouble
        Why the log could not be read, or not be written when that was last tried.
    damaged
        Whether that is damage to the log, which only a repair can end.
    looked
        Whether the log was opened, or found unreadable.
    """

    def __init__(self, limit: int) -> None:
        self.ready = True
        self.trouble = ""
        self.damaged = False
        self.looked = True
        self._late: list[Then] = []
        """What is to be done when all that is kept has been written anew."""
        self._open = False
        self._limit = limit
        self._replay = Replay(limit)
        self._base = self._end = 0
        """Where what counts begins in the log, and where the log ends."""
        self._room = MAX_QUEUE
        """Records that may wait for the disk now."""
        self._ticket = LOAD
        self._queue: deque[tuple[Record | Parcel | Then, str, int]] = deque()
        """What is to be written, parcels with box and place, and what is to be done when that is on disk."""
        self._flying: dict[int, tuple[int, list[Then]]] = {}
        """What is being written: bytes, and what is to be done when they are on disk."""

    @property
    def unreadable(self) -> int:
        """Records of earlier lives that make no sense."""
        return self._replay.unreadable

    def open(self, ctx: Context) -> None:
        """Begin to read what earlier lives kept."""
        self._open, self.ready, self.looked = True, False, False
        self._late = []
        self._replay = Replay(self._limit)
        ctx.read(LOAD, 0, AT_ONCE)

    def read(self, ctx: Context, history: History, then: Taking) -> None:
        """A part of the log; what is to be done with all boxes when it was the last one."""
        self.trouble, self.damaged = history.error, history.damaged
        self.looked = True
        if history.error:
            return
        for record in history.records:
            self._replay.take(record, ctx.now)
        following = history.position + len(history.records)
        if history.records and following < history.end:
            ctx.read(LOAD, following, AT_ONCE)
            return
        self._base, self._end = history.begin, history.end
        boxes = self._replay.found()
        self._add(Life(self._replay.life))
        self._then(ctx, lambda ctx: self._begin(ctx, boxes, then))

    def _begin(
        self, ctx: Context, boxes: dict[str, Box], then: Callable[[Context, dict[str, Box]], None]
    ) -> None:
        self.ready = True
        then(ctx, boxes)

    # what happens

    def state(self, ctx: Context, box: Box, then: Then) -> None:
        """A box is kept here, as it is now; do something when that is on disk."""
        self._box(box)
        self._then(ctx, then)

    def kept(self, ctx: Context, box: Box, parcel: Parcel) -> None:
        """A box has one parcel more."""
        self._add(parcel, box.name, box.next - 1)
        self._flush(ctx)

    def done(self, ctx: Context, box: Box) -> None:
        """More of a box is done."""
        self._add(Done(box.name, box.done))
        self._flush(ctx)

    def left(self, ctx: Context, name: str) -> None:
        """A box is not kept here any more."""
        self._add(Left(name))
        self._flush(ctx)

    def tidy(self, ctx: Context, boxes: Iterable[Box]) -> None:
        """Write what is kept anew, if the log is much longer than that, or could not be written."""
        if not self.ready and self.trouble and not self.damaged and not self._flying:
            self.open(ctx)  # perhaps it can be read now
        if not self._open or not self.ready or self._queue or self._flying:
            return
        kept = list(boxes)
        live = sum(1 + len(box.parcels) for box in kept)
        if self.trouble or self._end - self._base > 2 * live + SLACK:
            self.trouble, base = "", self._end
            self._add(Life(self._replay.life))
            for box in kept:
                self._box(box)
            late, self._late = self._late, []
            for each in (*late, lambda ctx: self._trim(ctx, base)):
                self._add(each)
            self._room = MAX_QUEUE + len(self._queue)  # however much is kept
            self._flush(ctx)

    def _trim(self, ctx: Context, base: int) -> None:
        if base > self._base:
            self._base = base
            ctx.trim(base)

    # writing, a part at a time

    def _box(self, box: Box) -> None:
        own = (box.claimed, box.next, box.done, box.lost, box.listed, len(box.parcels))
        self._add(State(box.name, identity(box.criteria), *own))
        for place, parcel in box.parcels.items():
            self._add(parcel, box.name, place)

    def _then(self, ctx: Context, then: Then) -> None:
        if self._open:
            self._add(then)
            self._flush(ctx)
        else:
            then(ctx)

    def _add(self, what: Record | Parcel | Then, name: str = "", place: int = 0) -> None:
        if self._open:
            self._queue.append((what, name, place))

    def _flush(self, ctx: Context) -> None:
        """Write what waits, as far as the disk keeps up."""
        if len(self._queue) > self._room:
            self._give_up(f"more than {self._room} records wait for the disk")
        while self._queue and sum(size for size, _ in self._flying.values()) < MAX_BYTES:
            records, then = self._part()
            if records:
                self._ticket += 1
                self._flying[self._ticket] = sum(map(len, records)), then
                ctx.append(self._ticket, records)
            elif self._flying:
                self._flying[self._ticket][1].extend(then)
            else:
                self._do(ctx, then)

    def _part(self) -> tuple[list[bytes], list[Then]]:
        """Some of what waits, as records; and what is to be done when they are on disk."""
        records: list[bytes] = []
        then: list[Then] = []
        size = 0
        while self._queue and len(records) < AT_ONCE and size < MAX_BYTES:
            what, name, place = self._queue.popleft()
            if isinstance(what, Parcel):
                what = Kept(name, place, encode(what))
            if isinstance(what, msgspec.Struct):
                records.append(_encode(what))
                size += len(records[-1])
            else:
                then.append(what)
        return records, then

    def written(self, ctx: Context, report: Appended) -> None:
        """Something is on disk, or cannot be."""
        _, then = self._flying.pop(report.ticket, (0, []))
        self._end = report.position
        if report.error:
            self._give_up(report.error)
        self._do(ctx, then)
        self._flush(ctx)

    def _do(self, ctx: Context, then: list[Then]) -> None:
        """Something is on disk; what follows from that waits if anything before it could not be written."""
        if self.trouble:
            self._late += then
            return
        for each in then:
            each(ctx)

    def _give_up(self, trouble: str) -> None:
        """What waits is not written; all that is kept will be, when things are tidied."""
        self.trouble = trouble
        queue, self._queue = self._queue, deque()
        self._late += [what for what, _, _ in queue if not isinstance(what, (Parcel, msgspec.Struct))]
