"""A relay hands parcels and messages to a neighbour in order, each once, whatever gets lost, doubled or
overtaken.

On a tree this is all that causal order takes. Where every node passes things on in the order in which they
came, and every hop keeps that order, whatever depends on an event follows it on each hop that both take. So
nothing has to say what it depends on, which could not be known where events go only to those who want them.

The receiver gives each relay a number. A node that begins a new life knows none of the old ones, so what was
on its way to its former self is not taken for new; it is dropped and counted by who sent it, for handing it
over now might bring it behind what depends on it. Messages are handed over again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from gossamer.core.context import Context
from gossamer.core.control import Message
from gossamer.core.names import nanoseconds
from gossamer.core.parcel import Bound, Parcel
from gossamer.core.trace import KEPT_FOR_SESSION
from gossamer.templates.dispatch.hop_messages import MAX_HOLES, Begin, Begun, Ended, Got, Sent
from gossamer.templates.dispatch.session_messages import Passed, What

EAGER = 64
"""Things after which a neighbour is told that they came, however short the time."""
RELAYS = 2**32 - 1
"""Numbers that a relay may have; a new one is hardly ever that of an earlier life, and takes five bytes."""
OVERHEAD = 500
"""Bytes that are reckoned for anything that waits, beside its body."""
LOST = "the neighbour has begun anew"
FULL = "the neighbour does not keep up"
"""Why a copy ends that was on its way to a kept subscription: its dispatcher has the parcel."""

Thing = tuple[Parcel | What, Bound | None]


class Going:
    """What goes to a neighbour, from 1 on, until it has said that it has it."""

    __slots__ = ("kept", "moved", "next", "number", "serial", "size")

    def __init__(self, serial: int, now: int) -> None:
        self.serial = serial
        self.number = 0
        """Of the relay; 0 until the neighbour has given it one."""
        self.next = 1
        self.kept: dict[int, Thing] = {}
        self.size = 0
        self.moved = now
        """When the neighbour was last reminded, or said something new."""

    def add(self, thing: Thing) -> int:
        self.kept[self.next] = thing
        self.size += _size(thing)
        self.next += 1
        return self.next - 1

    def release(self, upto: int) -> bool:
        """The neighbour has everything up to a number; whether that is news."""
        gone = []
        for number in self.kept:
            if number > upto:
                break
            gone.append(number)
        for number in gone:
            self.size -= _size(self.kept.pop(number))
        return bool(gone)


class Coming:
    """What comes from a neighbour."""

    __slots__ = ("asked", "count", "due", "held", "last", "next", "number", "opening", "size")

    def __init__(self, opening: tuple[int, int], number: int) -> None:
        self.opening = opening
        self.number = number
        self.next = 1
        self.held: dict[int, Thing] = {}
        self.size = 0
        self.last = 0
        """The greatest number that is known to exist."""
        self.asked: dict[int, int] = {}
        """When each hole was last named."""
        self.count = 0
        """What came since the neighbour was last told."""
        self.due = False
        """Whether the neighbour is to be told."""

    def add(self, number: int, thing: Thing, limit: int) -> bool:
        """Take something; False if it was here before, or is more than can be kept."""
        if number > self.next + limit // OVERHEAD:
            return False  # a sender that keeps to the limit never has so many on their way
        self.due, self.last = True, max(self.last, number)
        if number < self.next or number in self.held or self.size > limit:
            return False
        self.held[number] = thing
        self.size += _size(thing)
        self.asked.pop(number, None)
        self.count += 1
        return True

    def ready(self) -> Iterator[Thing]:
        """What is next in order, each once."""
        while self.next in self.held:
            thing = self.held.pop(self.next)
            self.size -= _size(thing)
            self.next += 1
            yield thing

    def holes(self, now: int, patience: int) -> list[int]:
        """What has not come though later things exist, each again only after a while."""
        gaps = (number for number in range(self.next, self.last + 1) if number not in self.held)
        due = (number for number in gaps if now - self.asked.get(number, now - patience) >= patience)
        found = list(islice(due, MAX_HOLES))
        self.asked.update(dict.fromkeys(found, now))
        return found


class Relay:
    """The relays of a node, to and from each of its neighbours.

    ack, retry
        Seconds after which a neighbour is told what came, and is reminded of what it has not said it has.
    limit
        Bytes that may wait for one neighbour. When there are more, all that waits is dropped and counted.
    renewed
        Called when what was on its way to a neighbour is gone.
    """

    def __init__(self, ack: float, retry: float, limit: int, renewed: Callable[[Context, str], None]) -> None:
        self._ack, self._retry, self._limit = ack, retry, limit
        self._renewed = renewed
        self._going: dict[str, Going] = {}
        self._coming: dict[str, Coming] = {}
        self._serial = 0
        self._wakes = 0
        """The instant of the next wake; 0 if none is set."""

    def hear(self, ctx: Context, message: Begin | Begun | Sent | Got | Ended, sender: str) -> None:
        """A neighbour says something about what is handed over."""
        match message:
            case Begin():
                self.begin(ctx, message, sender)
            case Begun():
                self.begun(ctx, message, sender)
            case Sent():
                self.sent(ctx, message, sender)
            case Got():
                self.got(ctx, message, sender)
            case Ended():
                self.ended(ctx, message, sender)

    # handing over

    def send(self, ctx: Context, node: str, what: Parcel | What, bound: Bound | None = None) -> None:
        """Hand something to a neighbour, behind all that was handed to it before."""
        going = self._going.get(node) or self._begin(ctx, node)
        if going.size > self._limit:
            going = self._anew(ctx, node, FULL)
        number = going.add((what, bound))
        if going.number:
            self._transmit(ctx, node, going, number)
        self._wake(ctx, self._retry)

    def open(self, ctx: Context, node: str) -> None:
        """Be ready to hand things to a neighbour, so that the first does not have to wait."""
        if node not in self._going:
            self._begin(ctx, node)

    @property
    def unconfirmed(self) -> list[str]:
        """Neighbours that have not said that they have everything."""
        return [node for node, going in self._going.items() if going.kept]

    def holds(self, source: str) -> bool:
        """Whether a parcel of a source waits for a neighbour to say that it has it."""
        return any(
            isinstance(what, Parcel) and what.stamp.node == source and bound is None
            for going in self._going.values()
            for what, bound in going.kept.values()
        )

    def obstacle(self) -> str | None:
        """Whom those who publish here have to wait for."""
        for node, going in self._going.items():
            if going.size > self._limit // 2:
                return f"{node!r}, which has {len(going.kept)} parcels to acknowledge"
        return None

    def _begin(self, ctx: Context, node: str) -> Going:
        self._serial += 1
        going = self._going[node] = Going(self._serial, ctx.now)
        ctx.send(node, Begin(ctx.incarnation, going.serial))
        self._wake(ctx, self._retry)
        return going

    def _anew(self, ctx: Context, node: str, reason: str) -> Going:
        """End a relay and begin the next: parcels that were not acknowledged are gone, messages are not."""
        old, going = self._going[node], self._begin(ctx, node)
        for what, bound in old.kept.values():
            if isinstance(what, Parcel):
                ctx.drop(what, reason if bound is None else KEPT_FOR_SESSION)
            else:
                going.add((what, bound))
        self._renewed(ctx, node)
        return going

    def _transmit(self, ctx: Context, node: str, going: Going, number: int) -> None:
        what, bound = going.kept[number]
        if isinstance(what, Parcel):
            ctx.send(node, what.relayed((going.number, number), bound))
        else:
            ctx.send(node, Passed(going.number, number, what))

    def begun(self, ctx: Context, begun: Begun, sender: str) -> None:
        """A neighbour is ready."""
        going = self._going.get(sender)
        if going and not going.number and (begun.life, begun.serial) == (ctx.incarnation, going.serial):
            going.number, going.moved = begun.relay, ctx.now
            for number in going.kept:
                self._transmit(ctx, sender, going, number)

    def got(self, ctx: Context, got: Got, sender: str) -> None:
        """A neighbour says what it has, and what it lacks."""
        going = self._going.get(sender)
        if going is None or going.number != got.relay:
            return
        if going.release(got.upto):
            going.moved = ctx.now
        for first, count in got.missing:
            for number in range(first, first + min(count, MAX_HOLES)):
                if number in going.kept:
                    self._transmit(ctx, sender, going, number)

    def ended(self, ctx: Context, ended: Ended, sender: str) -> None:
        """A neighbour knows nothing of a relay."""
        going = self._going.get(sender)
        if going is not None and going.number == ended.relay:
            self._anew(ctx, sender, LOST)

    # taking over

    def begin(self, ctx: Context, begin: Begin, sender: str) -> None:
        """A neighbour is going to hand things over."""
        coming, opening = self._coming.get(sender), (begin.life, begin.serial)
        if coming is None or opening > coming.opening:
            for what, _ in coming.held.values() if coming else ():
                if isinstance(what, Parcel):
                    ctx.drop(what, LOST)
            if coming is not None and begin.life > coming.opening[0] and sender in self._going:
                self._anew(ctx, sender, LOST)  # it knows nothing of what comes from here either
            coming = self._coming[sender] = Coming(opening, 1 + ctx.rng.randrange(RELAYS))
        if opening == coming.opening:
            ctx.send(sender, Begun(begin.life, begin.serial, coming.number))

    def take(
        self, ctx: Context, sender: str, place: tuple[int, int], what: Parcel | What
    ) -> Iterator[tuple[Parcel | What, Bound | None]]:
        """Something has come; all that is next in order now, each once."""
        coming = self._coming.get(sender)
        if coming is None or place[0] != coming.number:
            if isinstance(what, Parcel):
                ctx.drop(what, "of no relay")
            ctx.send(sender, Ended(place[0]))
            return
        bound = what.bound if isinstance(what, Parcel) else None
        if not coming.add(place[1], (what, bound), 2 * self._limit) and isinstance(what, Parcel):
            ctx.drop(what, "seen before")
        yield from coming.ready()
        if coming.count >= EAGER:
            self._acknowledge(ctx, sender, coming)
        self._wake(ctx, self._ack)

    def sent(self, ctx: Context, sent: Sent, sender: str) -> None:
        """A neighbour wants to know what has come."""
        coming = self._coming.get(sender)
        if coming is None or coming.number != sent.relay:
            ctx.send(sender, Ended(sent.relay))
            return
        coming.last = max(coming.last, min(sent.last, coming.next + self._limit // OVERHEAD))
        self._acknowledge(ctx, sender, coming)

    def _acknowledge(self, ctx: Context, node: str, coming: Coming) -> None:
        coming.due, coming.count = False, 0
        holes = coming.holes(ctx.now, nanoseconds(self._retry))
        ctx.send(node, Got(coming.number, coming.next - 1, tuple((number, 1) for number in holes)))

    # time, and neighbours that are none any more

    def on_timer(self, ctx: Context) -> None:
        """Tell neighbours what came, and remind them of what they have not said they have."""
        self._wakes = 0
        for node, coming in self._coming.items():
            if coming.due:
                self._acknowledge(ctx, node, coming)
            if coming.held:
                coming.due = True  # until the holes are filled
                self._wake(ctx, self._retry)
        for node, going in self._going.items():
            if going.kept or not going.number:
                if ctx.now - going.moved >= nanoseconds(self._retry):
                    going.moved = ctx.now
                    self._remind(ctx, node, going)
                self._wake(ctx, self._retry)

    def _remind(self, ctx: Context, node: str, going: Going) -> None:
        reminder: Message = Sent(going.number, going.next - 1)
        ctx.send(node, reminder if going.number else Begin(ctx.incarnation, going.serial))

    def forget(self, ctx: Context, node: str) -> None:
        """A node is no neighbour any more: what was on its way there, or is incomplete, ends here."""
        self._coming.pop(node, None)
        going = self._going.pop(node, None)
        for what, bound in going.kept.values() if going else ():
            if isinstance(what, Parcel):
                ctx.drop(what, "no neighbour any more" if bound is None else KEPT_FOR_SESSION)

    def _wake(self, ctx: Context, after: float) -> None:
        at = ctx.now + nanoseconds(after)
        if not self._wakes or at < self._wakes:
            self._wakes = at
            ctx.wake("relay", after)


def _size(thing: Thing) -> int:
    return OVERHEAD + (thing[0].size if isinstance(thing[0], Parcel) else 0)
