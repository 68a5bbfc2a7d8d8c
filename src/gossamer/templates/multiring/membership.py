"""The way in and out of the group: who listens is in the outermost ring, who only publishes has an entry.

A peer that finds nobody founds a ring of its own. Rings that were founded apart become one when one of their
peers finds one of the other.
"""

from __future__ import annotations

from enum import Enum

from gossamer.core.context import Context
from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.templates.multiring.discovery import MAX_TRIES, Finding
from gossamer.templates.multiring.join import Joining
from gossamer.templates.multiring.leave import Leaving
from gossamer.templates.multiring.messages import Found, Pong
from gossamer.templates.multiring.modes import PeerLink
from gossamer.templates.multiring.repair import Upkeep
from gossamer.templates.multiring.ring import Ring
from gossamer.templates.multiring.settings import MultiringSettings

ALONE_AFTER = 4
"""How often a peer looks for the group in vain before it founds one, though others look too."""
MAX_WAITS = 3
"""How often a newcomer waits longer, twice as long each time, before those that it pinged are given up."""


class Stage(Enum):
    """How far a peer has come."""

    OUTSIDE = 0
    SEEKING = 1
    SOUNDING = 2
    JOINING = 3
    INSIDE = 4
    LEAVING = 5


class Entrance:
    """One peer's coming and going.

    listens, publishes
        What applications here want.
    entry
        Of a peer that only publishes: the member that takes its parcels.
    """

    def __init__(
        self,
        settings: MultiringSettings,
        finding: Finding,
        joining: Joining,
        leaving: Leaving,
        upkeep: Upkeep,
    ) -> None:
        self.settings = settings
        self.finding, self.joining, self.leaving, self.upkeep = finding, joining, leaving, upkeep
        self.position = upkeep.position
        self.stage = Stage.OUTSIDE
        self.listens = self.publishes = False
        self.entry: str | None = None
        self._rivals: set[str] = set()
        self._tries = 0
        self._probe = 1.0
        self._waits = 0

    def want(self, ctx: Context, listens: bool, publishes: bool) -> None:
        """Applications here listen, publish, or stop doing so."""
        self.listens, self.publishes = listens, publishes
        if self.stage is Stage.INSIDE and not listens:
            self.stage = Stage.LEAVING
            self.joining.give_up()  # else it would stand in an inner ring when it has left the others
            self.leaving.leave(ctx, 0)
            self._leave_on(ctx)
        elif self.stage is Stage.OUTSIDE and (listens or (publishes and self.entry is None)):
            self._seek(ctx)

    # finding the way

    def _seek(self, ctx: Context) -> None:
        if self.stage is Stage.OUTSIDE:
            self.joining.since = ctx.now
        self.stage, self._tries = Stage.SEEKING, 0
        if self.position.me.name != ctx.node:
            self.position.introduce(ctx)
        self._look(ctx)

    def _look(self, ctx: Context) -> None:
        self._tries += 1
        self._rivals.clear()
        self.finding.seek(ctx, *self.upkeep.remember(ctx), tries=self._tries)
        ctx.wake("enter", self.settings.retry * (0.5 + ctx.rng.random()))

    def rival(self, name: str) -> None:
        """Somebody else looks for the group too."""
        self._rivals.add(name)

    def found(self, ctx: Context, found: Found) -> None:
        """Members are known: the way in, or somebody from another ring."""
        if self.stage is Stage.INSIDE:
            if found.people and found.people[0].rings:
                self.upkeep.meet(ctx, found.people[0])
        elif self.stage is Stage.SEEKING and self.finding.entries:
            self._sound(ctx)

    def _sound(self, ctx: Context) -> None:
        self.stage, self._waits = Stage.SOUNDING, 0
        self.finding.begin()
        if self.finding.sound(ctx, self.finding.entries.values()):
            ctx.wake("enter", self.settings.sounding)
        else:
            self._seek(ctx)

    def ponged(self, ctx: Context, pong: Pong, sender: str) -> None:
        """A peer has answered; when all have, there is nothing to wait for."""
        if self.finding.ponged(ctx, pong, sender) and self.stage is Stage.SOUNDING:
            self._nearer(ctx)
        if self.stage is Stage.INSIDE and pong.person.rings and pong.person.name == sender:
            self.upkeep.meet(ctx, pong.person)
        if sender == self.entry and not pong.person.rings:
            self.lose_entry(ctx)

    def _nearer(self, ctx: Context) -> None:
        """Try those next to the nearest; if that was done, come in there."""
        nearest = self.finding.nearest
        if nearest is None and self._waits < MAX_WAITS:
            self._waits += 1  # all that were found may be far away
            ctx.wake("enter", self.settings.sounding * 2**self._waits)
        elif nearest is None:
            self.finding.entries.clear()
            self._seek(ctx)
        elif self.finding.sound(ctx, (*nearest.left[:1], *nearest.right[:1], *nearest.others)):
            ctx.wake("enter", self.settings.sounding)
        elif self.listens:
            self.stage = Stage.JOINING
            self.joining.between(ctx, 0, *self.finding.sides(nearest))
            trip = self.finding.near[nearest.person.name] / NANOSECONDS
            ctx.wake("enter", 2 * self.settings.retry + 4 * trip)
        elif self.publishes:
            self._enter_by(ctx, nearest)
        else:
            self.stage = Stage.OUTSIDE  # nobody here wants anything any more

    # inside

    def timer(self, ctx: Context) -> None:
        """What was waited for has not come."""
        match self.stage:
            case Stage.SEEKING if self.finding.entries:
                self._sound(ctx)
            case Stage.SEEKING if not self.listens and self._tries >= ALONE_AFTER:
                self.stage = Stage.OUTSIDE  # the next parcel tries again
            case Stage.SEEKING if self.listens and self._may_found(ctx):
                self.position.rings.append(Ring())
                self.position.become(ctx)
                self.entered(ctx)
            case Stage.SEEKING:
                self._look(ctx)
            case Stage.SOUNDING:
                self._nearer(ctx)
            case Stage.JOINING:
                self.joining.give_up()
                self.finding.entries.clear()
                self._seek(ctx)
            case Stage.LEAVING:
                self.leaving.say(ctx)
                self._leave_on(ctx)

    def _may_found(self, ctx: Context) -> bool:
        lowest = all(ctx.node < name for name in self._rivals)
        return self._tries >= (MAX_TRIES if lowest else ALONE_AFTER)

    def entered(self, ctx: Context) -> None:
        """This peer is in the group: begin to look after its rings."""
        self.stage, self.entry = Stage.INSIDE, None
        self._probe = self.settings.probe if self.position.rings[0].right else 1.0
        ctx.cancel("enter")
        settings = self.settings
        ctx.wake("beat", settings.beat * ctx.rng.random())
        ctx.wake("probe", self._probe)
        if settings.survey:
            ctx.wake("survey", settings.survey * ctx.rng.random())
        if not self.listens:
            self.want(ctx, False, self.publishes)

    def probe(self, ctx: Context) -> None:
        """Look for peers that were lost or founded a ring of their own; less and less often."""
        if self.stage is Stage.INSIDE:
            lost = self.upkeep.remember(ctx)
            self.finding.seek(ctx, *([ctx.rng.choice(lost)] if lost else []))
            limit = min(self.settings.probe, 5.0) if lost else self.settings.probe
            self._probe = min(2 * self._probe, limit)
            ctx.wake("probe", self._probe * (0.5 + ctx.rng.random()))

    # outside

    def _enter_by(self, ctx: Context, nearest: Pong) -> None:
        """Publish through a member, and begin with what has been waiting."""
        spreading, name = self.position.spreading, nearest.person.name
        self.stage, self.entry = Stage.OUTSIDE, name
        spreading.links[name] = PeerLink(ctx.now)
        spreading.reached((name,), ())
        spreading.recall(ctx, name)
        ctx.wake("beat", self.settings.beat)

    def lose_entry(self, ctx: Context) -> None:
        """The member that took this peer's parcels is gone: find another."""
        spreading = self.position.spreading
        if self.entry is not None:
            self.finding.entries.pop(self.entry, None)
            spreading.links.pop(self.entry, None)
            self.entry = None
            spreading.reached((), ())
            if self.stage is Stage.OUTSIDE and self.publishes:
                self._seek(ctx)

    def watch_entry(self, ctx: Context) -> None:
        """Outside: is the entry still there?"""
        link = self.position.spreading.links.get(self.entry) if self.entry else None
        if self.entry is None or link is None:
            return
        if ctx.now - link.heard > nanoseconds(self.settings.silence):
            self.lose_entry(ctx)
        else:
            if self.stage is Stage.OUTSIDE:  # else what was measured on the way in would be forgotten
                self.finding.begin()
            self.finding.ping(ctx, self.entry)
            ctx.wake("beat", self.settings.beat)

    # leaving

    def _leave_on(self, ctx: Context) -> None:
        if self.position.rings:
            ctx.wake("enter", self.settings.retry)
        elif self.stage is Stage.LEAVING:
            self.left(ctx)

    def gone(self, ctx: Context) -> None:
        """All around do without this peer."""
        if self.stage is Stage.LEAVING:
            self.left(ctx)

    def left(self, ctx: Context) -> None:
        """This peer is out of the group."""
        self.stage = Stage.OUTSIDE
        for name in ("enter", "beat", "probe", "survey"):
            ctx.cancel(name)
        self.want(ctx, self.listens, self.publishes)
