"""The registration service of a region, on the node that serves it (seed 001, II.B and III.B).

It keeps a list for each group; the list is the group's structure. Whoever registers gets a seat, publishers
learn the entry points of each group that may want what they publish, and when something changes those are
told whom it concerns, until they have acknowledged it. Changes that come close together are told together.

One that begins to serve makes the lists from what members claim: for a while it only listens, and newcomers
wait. Meanwhile the members go on with the seats that they have; nothing they do needs the service.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from gossamer.core.context import Context
from gossamer.templates.ringtree.groups import Crowd, Crowds
from gossamer.templates.ringtree.heartbeat import Pulse
from gossamer.templates.ringtree.layout import beside, entry_points
from gossamer.templates.ringtree.matching import group_of
from gossamer.templates.ringtree.member import TRIES, RingTimes, Say
from gossamer.templates.ringtree.messages import (
    EntriesHeard,
    Filters,
    Missing,
    Register,
    Registered,
    Seat,
    SeatHeard,
    Unseated,
)
from gossamer.templates.ringtree.slots import Roll

KEPT = 4
"""Refreshes that a node outlives here without a word."""


class Listed(msgspec.Struct):
    """A node that has registered.

    left
        Refreshes until it is forgotten.
    counter
        Of the seat that it was given last.
    """

    register: Register
    group: bytes
    left: int = KEPT
    counter: int = 0


class Registrar:
    """The service of one region.

    listed, crowds
        Who has registered, and all groups.
    settling
        Whether it only listens still.
    """

    def __init__(self, ctx: Context, times: RingTimes, say: Say) -> None:
        self.listed: dict[str, Listed] = {}
        self.crowds = Crowds()
        self.settling = True
        self.epoch = max(1, ctx.now)
        self._times = times
        self._say = say
        self._counter = 0
        self._ages = 0
        self._newcomers: dict[str, None] = {}
        self._seats: dict[str, bool] = {}
        """Members that have not acknowledged their seat, and whether they were told."""
        self._lonely = Pulse(times.patience)
        """Members without neighbours."""
        self._due: dict[str, None] = {}
        """Timers that run."""
        self._wake(ctx, "settle", times.settle)
        self._wake(ctx, "age", times.refresh)

    def _wake(self, ctx: Context, name: str, after: float) -> None:
        """Wake once after so long, however often that is wanted."""
        if name not in self._due:
            self._due[name] = None
            ctx.wake(name, after)

    def timer(self, ctx: Context, name: str) -> None:
        """It is time for something."""
        self._due.pop(name, None)
        match name:
            case "settle":
                self._settle(ctx)
            case "flush":
                self._flush(ctx)
            case "tell":
                self._tell(ctx, again=True)
            case "mend":
                self._mend(ctx)
            case "age":
                self._age(ctx)

    def _settle(self, ctx: Context) -> None:
        """Whoever had a seat has claimed it: now the newcomers."""
        self.settling = False
        newcomers, self._newcomers = self._newcomers, {}
        for name in newcomers:
            if name in self.listed:
                self._seat(name)
        for name, listed in self.listed.items():
            self._welcome(ctx, name, listed.register.number)
        self._soon(ctx)

    def _later(self, ctx: Context) -> None:
        """Another service was here: wait until its members have told each other and all have claimed."""
        times = self._times
        self.settling = True
        ctx.wake("settle", times.settle + 2 * times.heartbeat + (TRIES + 1) * times.retry)

    # registrations

    def register(self, ctx: Context, register: Register, sender: str) -> None:
        """A node says what it wants and offers."""
        listed = self.listed.get(sender)
        if listed and (register.life, register.number) < (listed.register.life, listed.register.number):
            return
        self._outdo(register)
        if listed and register.life > listed.register.life:
            self._remove(sender, failed=True)
            listed = None
        if not register.wanted and not register.offered:
            self._remove(sender, failed=False)
            self._say(ctx, sender, Registered(register.number, self.epoch, 0, settled=True))
        elif listed and register.number == listed.register.number:
            listed.left, listed.register = KEPT, register
            if not register.entries and sender not in self._newcomers and register.wanted:
                self._seats[sender] = False
            self._welcome(ctx, sender, register.number)
        else:
            self._enter(ctx, sender, register, listed)
            self._welcome(ctx, sender, register.number)
        self._soon(ctx)

    def _outdo(self, register: Register) -> None:
        """Seats of an earlier epoch are not taken: if another service got ahead, everybody gets a new one."""
        if register.epoch > self.epoch:
            self.epoch = register.epoch + 1
            self._seats = dict.fromkeys((name for name, each in self.listed.items() if each.counter), False)
            self.crowds.again()

    def _enter(self, ctx: Context, name: str, register: Register, listed: Listed | None) -> None:
        earlier: Filters = listed.register.wanted if listed else ()
        if earlier != register.wanted and earlier:
            self._unseat(name, failed=False)
        if listed:
            self.crowds.unpublish(name)
        self.listed[name] = Listed(
            register, group_of(register.wanted), counter=listed.counter if listed else 0
        )
        if register.wanted and earlier != register.wanted:
            self._admit(ctx, name, register)
        if register.offered:
            self.crowds.publish(name, register.offered)

    def _welcome(self, ctx: Context, name: str, number: int) -> None:
        """Acknowledge; until all groups are known a publisher has to ask again."""
        self._say(ctx, name, Registered(number, self.epoch, self.crowds.awaiting(name), not self.settling))

    def _admit(self, ctx: Context, name: str, register: Register) -> None:
        """Give a member the seat that it claims, or one as soon as it may have one."""
        roll = self.crowds.made(register.wanted).roll
        assert roll is not None
        if register.entries and not len(roll):
            roll.resize(register.entries)
        if register.entries and (self.settling or not len(roll)):
            self._later(ctx)
        claimed = register.entries == roll.entries and roll.claim(name, register.slot)
        if claimed:
            self.crowds.changed[group_of(register.wanted)] = None
        elif self.settling:
            self._newcomers[name] = None
        else:
            self._seat(name)

    def _seat(self, name: str) -> None:
        group = self.listed[name].group
        roll = self.crowds.made(self.listed[name].register.wanted).roll
        assert roll is not None
        roll.join(name)
        self.crowds.changed[group] = None

    # who goes

    def missing(self, ctx: Context, missing: Missing, sender: str) -> None:
        """Somebody does not hear from a neighbour: that one has failed, if they still are neighbours."""
        reporter, failed = self.listed.get(sender), self.listed.get(missing.node)
        if reporter is None or failed is None or reporter.group != failed.group or self.settling:
            return
        if (missing.epoch, missing.counter) != (self.epoch, reporter.counter):
            return  # it may have others beside it by now, and says so again if not
        roll = self.crowds.roll(reporter.group)
        if roll is None:
            return
        here, there = roll.where.get(sender), roll.where.get(missing.node)
        if here is None or there not in (beside(here, roll.entries, 1), beside(here, roll.entries, -1)):
            return
        self._fail(ctx, missing.node)

    def _fail(self, ctx: Context, name: str) -> None:
        """A member has failed; if it has not it will ask again."""
        self._remove(name, failed=True)
        self._say(ctx, name, Unseated(self.epoch, self._counter))
        self._soon(ctx)

    def _remove(self, name: str, failed: bool) -> None:
        if name in self.listed:
            self._unseat(name, failed)
            self.crowds.unpublish(name)
            del self.listed[name]

    def _unseat(self, name: str, failed: bool) -> None:
        group = self.listed[name].group
        roll = self.crowds.roll(group)
        if roll is not None and name in roll.where:
            roll.remove(name, failed)
            self.crowds.changed[group] = None
        self._seats.pop(name, None)
        self._newcomers.pop(name, None)
        self._lonely.ignore(name)

    def _age(self, ctx: Context) -> None:
        """Forget who has not registered for long, and groups that nobody is in."""
        self._ages += 1
        for name, listed in tuple(self.listed.items()):
            listed.left -= 1
            if not listed.left:
                self._remove(name, failed=True)
        self.crowds.forget_empty()
        self._wake(ctx, "age", self._times.refresh)
        self._soon(ctx)

    def _mend(self, ctx: Context) -> None:
        """Move leaves into slots that no newcomer has taken for so long."""
        for group, crowd in self.crowds:
            if crowd.roll is None:
                continue
            for slot in crowd.roll.open:
                if slot in crowd.aging:
                    crowd.roll.mend(slot)
                    self.crowds.changed[group] = None
            crowd.aging = frozenset(crowd.roll.open)
            if crowd.aging:
                self._wake(ctx, "mend", self._times.mend)
        self._soon(ctx)

    # telling

    def want_abroad(self, ctx: Context, wanted: Collection[Filters]) -> None:
        """Other regions want this, and nothing else; publishers here give it to this service."""
        self.crowds.want_abroad(wanted)
        self._soon(ctx)

    def _soon(self, ctx: Context) -> None:
        if (self.crowds.changed or self._seats or self.crowds.untold) and not self.settling:
            self._wake(ctx, "flush", self._times.merge)

    def _flush(self, ctx: Context) -> None:
        """Tell what has changed to all whom it concerns."""
        changed, self.crowds.changed = self.crowds.changed, {}
        for group in changed:
            if group in self.crowds:
                self._compare(ctx, group, self.crowds[group])
        self._tell(ctx)

    def _compare(self, ctx: Context, group: bytes, crowd: Crowd) -> None:
        """Find out whose seat is another, and whether publishers have to know."""
        self.count()
        if crowd.roll is not None:
            self._resize(crowd.roll, entry_points(len(crowd.publishers)))
            for name in crowd.roll.changed():
                self.listed[name].counter = self._counter
                self._seats[name] = False
                self._watch(name, crowd.roll)
            if crowd.roll.open and self._times.mend:
                self._wake(ctx, "mend", self._times.mend)
            first = crowd.roll.first
        else:
            first = (ctx.node,) if crowd.wanted else ()
        self.crowds.enter(group, first, self._counter)

    def _watch(self, name: str, roll: Roll) -> None:
        """Look after a member that has no neighbours to do it."""
        if roll.lonely(name):
            self._lonely.look(name)
        else:
            self._lonely.ignore(name)

    def beat(self, ctx: Context) -> tuple[str, ...]:
        """A heartbeat has passed; whom to ask for a sign of life."""
        self._lonely.beat()
        for name in sorted(self._lonely.missing):
            self._fail(ctx, name)
        return self._lonely.watched

    def alive(self, node: str) -> None:
        """A node has given a sign of life."""
        self._lonely.alive(node)

    def count(self) -> int:
        """The next number for a message that replaces others."""
        self._counter += 1
        return self._counter

    def _resize(self, roll: Roll, entries: int) -> None:
        """Follow the number of publishers; downwards only by two and late: everybody gets another seat."""
        if entries > roll.entries or (entries < roll.entries - 1 and self._ages >= KEPT):
            roll.resize(entries)

    def _tell(self, ctx: Context, again: bool = False) -> None:
        """Tell what is new; or again, what has not been acknowledged."""
        for name in [name for name, told in self._seats.items() if again or not told]:
            seat = self.seat_of(name)
            if seat is None:
                del self._seats[name]
            else:
                self._seats[name] = True
                self._say(ctx, name, seat)
        for name, entries in self.crowds.news(self.epoch, again):
            self._say(ctx, name, entries)
        if self._seats or self.crowds.untold:
            self._wake(ctx, "tell", self._times.retry)

    def seat_of(self, name: str) -> Seat | None:
        """The seat of a member, as it is told; None if it has none."""
        listed = self.listed.get(name)
        roll = self.crowds.roll(listed.group) if listed else None
        if listed is None or roll is None or name not in roll.where:
            return None
        return roll.seat(name, self.epoch, listed.counter, listed.group)

    def seat_heard(self, heard: SeatHeard, sender: str) -> None:
        """A member has its seat."""
        listed = self.listed.get(sender)
        if listed and (heard.epoch, heard.counter) == (self.epoch, listed.counter):
            self._seats.pop(sender, None)

    def entries_heard(self, heard: EntriesHeard, sender: str) -> None:
        """A publisher knows the entry points of a group."""
        self.crowds.heard(heard, self.epoch, sender)
