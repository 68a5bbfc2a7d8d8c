"""One node as its registration service knows it: what it wants and publishes, its seat, and whom it may feed.

What the node says is repeated until the service has acknowledged it, and from time to time after that. The
seat goes along as a claim: a service that takes over from another makes the list again from what it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.context import Context
from gossamer.core.control import Message
from gossamer.core.parcel import Parcel
from gossamer.templates.ringtree.forwarding import onward
from gossamer.templates.ringtree.heartbeat import Pulse
from gossamer.templates.ringtree.matching import wants
from gossamer.templates.ringtree.messages import (
    Entries,
    EntriesHeard,
    Filters,
    Missing,
    Register,
    Registered,
    Seat,
    SeatHeard,
    Unseated,
)

Say = Callable[[Context, str, Message], None]
"""Says something to a node, this one included."""
TRIES = 4
"""How often a service is asked in vain before another is."""
MAX_GROUPS = 10_000
"""Groups that a publisher knows."""


class RingTimes(msgspec.Struct, frozen=True):
    """Seconds, but for patience, which counts heartbeats; the template's settings explain them."""

    heartbeat: Annotated[float, Meta(gt=0, le=3600)] = 1.0
    patience: Annotated[int, Meta(ge=1, le=1000)] = 3
    retry: Annotated[float, Meta(gt=0, le=3600)] = 0.5
    merge: Annotated[float, Meta(gt=0, le=60)] = 0.1
    refresh: Annotated[float, Meta(ge=1, le=86400)] = 30.0
    settle: Annotated[float, Meta(ge=0, le=3600)] = 1.0
    mend: Annotated[float, Meta(ge=0, le=86400)] = 5.0
    overlap: Annotated[float, Meta(ge=0, le=3600)] = 2.0


class Member:
    """What one node says to the service of its region, and what it was told.

    seat, former
        Its place; and for a while the place that it had before, which it serves too, so that a list that
        changes everywhere at once loses nothing.
    entries
        By group, who takes events that the group wants.
    """

    def __init__(self, times: RingTimes, say: Say) -> None:
        self.seat: Seat | None = None
        self.former: Seat | None = None
        self.entries: dict[bytes, Entries] = {}
        self.server = ""
        self.pulse = Pulse(times.patience)
        self.wanted: Filters = ()
        self.offered: Filters = ()
        self._times = times
        self._say = say
        self._version = (0, 0)
        self._number = 0
        self._heard = True
        self._tries = 0
        self.epoch = 0
        """Since when the service has been serving that this node is registered with."""
        self._ready = False
        self._told: dict[bytes, tuple[int, int]] = {}
        """Groups that the present service has told of, and how new that is."""
        self._awaited: int | None = None
        """Groups that the service said it would tell of; None while it does not know."""

    # reading

    @property
    def ready(self) -> bool:
        """Whether this node knows whom to give what it publishes."""
        return self._ready

    @property
    def busy(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.wanted or self.offered) or not self._heard

    def feeds(self, parcel: Parcel) -> list[str]:
        """Entry points of all groups that want a parcel that is published here."""
        wanting = (each for each in self.entries.values() if wants(each.wanted, parcel))
        return list(dict.fromkeys(name for each in wanting for name in each.entries))

    def onward(self, parcel: Parcel, sender: str | None, rules: Collection[int]) -> list[str]:
        """Whom a parcel goes to from the seat of this node, and from the one it had."""
        missing, targets = self.pulse.missing, []
        if self.seat is not None and wants(self.wanted, parcel):
            targets += onward(self.seat, missing, sender, rules)
        if self.former is not None and sender is not None:
            targets += onward(self.former, missing, sender, rules)
        return targets

    # registering

    def want(self, ctx: Context, wanted: Filters, offered: Filters) -> None:
        """Say what this node wants and offers from now on."""
        if (wanted, offered) == (self.wanted, self.offered):
            return
        if wanted != self.wanted:
            self._leave_seat(ctx)
        if not offered:
            self.entries.clear()
            self._told.clear()
            self._ready = False
        self.wanted, self.offered = wanted, offered
        self._number = max(ctx.now, self._number + 1)
        self._again(ctx)

    def follow(self, ctx: Context, server: str) -> None:
        """Register with a service, unless this node is registered there."""
        if server != self.server:
            self.server = server
            self._version = (0, 0)
            self._told.clear()
            self._awaited = None
            if self.busy:
                self._again(ctx)

    def _again(self, ctx: Context) -> None:
        self._heard, self._tries = False, 0
        self._register(ctx)

    def _register(self, ctx: Context) -> None:
        claim = (self.seat.epoch, self.seat.entries, self.seat.slot) if self.seat else (0, 0, 0)
        ctx.wake("register", self._times.retry)
        if self.server:
            what = Register(ctx.incarnation, self._number, self.wanted, self.offered, *claim)
            self._say(ctx, self.server, what)

    def due(self, ctx: Context) -> str:
        """It is time to register again; the service that has been asked too often in vain, or nobody."""
        if self._heard and self.busy:
            self._again(ctx)
        elif not self._heard:
            self._tries += 1
            if self._tries >= TRIES:
                return self.leave()
            self._register(ctx)
        return ""

    def leave(self) -> str:
        """Ask this service no more; its name."""
        server, self.server = self.server, ""
        return server

    def registered(self, ctx: Context, registered: Registered, sender: str) -> None:
        """The service knows what this node wants."""
        if sender != self.server or registered.number != self._number:
            return
        self._heard, self.epoch = True, registered.epoch
        self._awaited = registered.groups if registered.settled else None
        self._forget_earlier()
        if not self.busy:
            ctx.cancel("register")
        elif registered.settled:
            ctx.wake("register", self._times.refresh * (0.75 + ctx.rng.random() / 2))

    def hear_of(self, ctx: Context, epoch: int) -> None:
        """A neighbour knows a service that began in this epoch: if that is a later one, ask."""
        if epoch > self.epoch and self._heard and self.seat:
            self._again(ctx)

    # what the service tells

    def seated(self, ctx: Context, seat: Seat, sender: str) -> None:
        """The service gives this node a seat, or other neighbours."""
        if sender != self.server or not self.wanted:
            return
        self._say(ctx, sender, SeatHeard(seat.epoch, seat.counter))
        if (seat.epoch, seat.counter) <= self._version:
            return
        if seat.epoch != self._version[0]:
            self.pulse.watch(())  # whom the new service has not told of us yet says nothing to us
        self._version = (seat.epoch, seat.counter)
        if self.seat and (self.seat.entries, self.seat.slot) != (seat.entries, seat.slot):
            self._leave_seat(ctx)
        self.seat = seat
        self.pulse.watch((seat.left, seat.right))

    def unseated(self, ctx: Context, unseated: Unseated, sender: str) -> None:
        """Somebody took this node for dead."""
        if sender == self.server and (unseated.epoch, unseated.counter) >= self._version and self.seat:
            self._leave_seat(ctx)
            self._again(ctx)

    def _leave_seat(self, ctx: Context) -> None:
        if self.seat is not None:
            self.former, self.seat = self.seat, None
            ctx.wake("overlap", self._times.overlap)

    def overlapped(self) -> None:
        """Nobody uses the seat any more that this node had."""
        self.former = None

    def told(self, ctx: Context, entries: Entries, sender: str) -> None:
        """The service names the entry points of a group."""
        if sender != self.server or not self.offered:
            return
        self._say(ctx, sender, EntriesHeard(entries.epoch, entries.counter, entries.group))
        if self._told.get(entries.group, (0, 0)) >= (entries.epoch, entries.counter):
            return
        self._told[entries.group] = (entries.epoch, entries.counter)
        self.entries.pop(entries.group, None)
        if entries.entries and len(self.entries) < MAX_GROUPS:
            self.entries[entries.group] = entries
        if len(self._told) > 2 * MAX_GROUPS:
            self._told = {group: version for group, version in self._told.items() if group in self.entries}
        self._forget_earlier()

    def _forget_earlier(self) -> None:
        """Groups that only an earlier service knew are no more, once the present one has told its own."""
        if self._awaited is not None and len(self._told) >= self._awaited:
            self._ready = bool(self.offered)
            self.entries = {group: each for group, each in self.entries.items() if group in self._told}

    # heartbeats

    def beat(self, ctx: Context) -> str:
        """A beat has passed: report who is missing; whom to ask for a sign of life."""
        self.pulse.beat()
        if self.seat is None:
            return ""
        for node in sorted(self.pulse.missing):
            self._say(ctx, self.server, Missing(self.seat.epoch, self.seat.counter, node))
        return self.seat.right
