"""Where boxes are, and the claims of those who look for them.

Every dispatcher above a box knows on which side it is. A claim climbs to the root, which lets one after the
other go down to where the box is; what answers it goes back to who made it, and what that one says to who
answers goes the way of the claim. A claim that is made anew has another number, so that no answer to the one
before is taken for one to it.

Two dispatchers that were cut off from each other may both keep something under one name. The first dispatcher
that hears of both tells the later one to claim what the older one has.

That nobody keeps anything under a name is said only by who has heard from all dispatchers below it what is
kept there. So two that have not found each other yet, or do not agree who is above, do not both begin anew.

What was kept by a dispatcher that is lost, or begins anew without a disk, is nowhere. Those above it remember
the names, and the root tells those below it the names of which it alone knows. So a subscriber that comes
back for one of them is told a gap, also if it remembers nothing itself, and although the dispatcher that kept
it, or the root, has begun anew. The limit: where all dispatchers that remember a name are down at one time,
or there is only one, nothing is left to tell the gap by; and a dispatcher that was cut off while a name was
forgotten may tell a gap that is none. Subscribers that remember for themselves are told in any case.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import structs

from gossamer.core.context import Context
from gossamer.core.names import nanoseconds
from gossamer.templates.dispatch.claims import Place, Turns, remember, same
from gossamer.templates.dispatch.session_messages import (
    MAX_HOSTED,
    Ask,
    Claim,
    Filled,
    Forgotten,
    Hosted,
    Hosts,
    Merge,
    More,
    Outrun,
    Remembered,
    Settled,
)

SAY_AGAIN = 10.0
"""Seconds after which who looks for a box says so again, under the same number."""
GONE = 90.0
"""Seconds after which who has its turn, and has not said so again, is taken to be gone."""
HERE = ""
Key = tuple[str, int]
"""Who made a claim, and its number."""


class Boxes(Protocol):
    """What a dispatcher keeps itself."""

    def names(self) -> dict[str, int]:
        """Of everything that is kept here, or on its way here, with the instant when its subscriber came."""

    def merge(self, ctx: Context, name: str) -> bool:
        """An older copy was found of what is kept here; False if nothing is."""

    def answer(self, ctx: Context, claim: Claim) -> bool:
        """A claim has come to where its box may be; False if it is not here."""

    def tick(self, ctx: Context) -> None:
        """Something waits: look after it in a while."""

    def outrun(self, ctx: Context, outrun: Outrun) -> None: ...

    def filled(self, ctx: Context, filled: Filled) -> None: ...

    def missed(self, ctx: Context, name: str, since: int) -> None:
        """What was kept under a name for a subscriber that came at some instant is nowhere now."""


class Seeking:
    """What a dispatcher knows of the boxes of others, and of the claims that came by."""

    def __init__(self, place: Place, here: Boxes) -> None:
        self._place = place
        self._here = here
        self._where: dict[str, tuple[str, int]] = {}
        """The side on which a box is, by name, and when its subscriber came there."""
        self._once: dict[str, int] = {}
        """Names under which something was kept here, or on a side, and that were not forgotten since; and
        when the last subscriber came that is known of."""
        self._orphans: list[str] = []
        """Of these: names that were on the side of a neighbour that is lost, and have not been passed on."""
        self._came: dict[Key, str] = {}
        """Of claims that climbed by: from which side."""
        self._went: dict[Key, str] = {}
        """Of claims that went down by: to which side."""
        self._going: list[tuple[Claim, str]] = []
        """Claims that wait for a neighbour to know a filter."""
        self._turns = Turns(nanoseconds(GONE))
        """At the root: which claim comes next."""
        self._undecided: list[tuple[Claim, bool]] = []
        """Claims of boxes that may be below, though nobody has said so; and whether they came from above."""
        self._heard: set[str] = set()
        """Neighbours that have said all that is on their side."""
        self._told = False
        """Whether the one above has been told all."""

    @property
    def waits(self) -> bool:
        """Whether there are claims that nobody below has answered for."""
        return bool(self._undecided)

    def claim(self, ctx: Context, claim: Claim, sender: str) -> None:
        """Somebody looks for a box: up to the root, and from there to where it is."""
        if sender and sender == self._place.above:
            self._go_down(ctx, claim, True)
            return
        remember(self._came, (claim.node, claim.serial), sender)
        if self._place.above:
            self._pass(ctx, claim, self._place.above)
        else:
            self._take_turn(ctx, claim)

    def _take_turn(self, ctx: Context, claim: Claim) -> None:
        refused, goes = self._turns.take(claim, ctx.now)
        if refused is not None:
            self.outrun(ctx, Outrun(refused.node, refused.serial))
        if goes:
            self._go_down(ctx, claim, False)

    def _go_down(self, ctx: Context, claim: Claim, from_above: bool) -> None:
        if self._here.answer(ctx, claim):
            return
        side, _ = self._where.get(claim.name, (HERE, 0))
        kept = claim.kept or claim.name in self._once
        if side and side != self._place.above:
            remember(self._went, (claim.node, claim.serial), side)
            self._pass(ctx, structs.replace(claim, kept=kept), side)
        elif self._unheard():
            waiting = [each for each in self._undecided if not same(each[0], claim)]
            self._undecided = [*waiting, (claim, from_above)]
            self._here.tick(ctx)
        else:
            self._here.filled(ctx, Filled(claim.node, claim.serial, lost=int(kept)))

    def _decide(self, ctx: Context) -> None:
        """Something is known that was not known before."""
        undecided, self._undecided = self._undecided, []
        for claim, from_above in undecided:
            if self._place.above and not from_above:  # this is the root no more
                self._pass(ctx, claim, self._place.above)
            else:
                self._go_down(ctx, claim, from_above)

    def _pass(self, ctx: Context, claim: Claim, to: str) -> None:
        self._going = [(each, at) for each, at in self._going if at != to or not same(each, claim)]
        self._going.append((claim, to))
        self.go_on(ctx)

    def go_on(self, ctx: Context) -> None:
        """Claims go on, to neighbours that know all filters by now."""
        if self._orphans:
            self._pass_down(ctx)
        if self._undecided:
            self._decide(ctx)
        going, self._going = self._going, []
        for claim, to in going:
            if self._place.knows(to):
                self._place.relay.send(ctx, to, claim)
            else:
                self._going.append((claim, to))

    def toward(self, node: str, serial: int) -> str:
        """The neighbour on the way to who made a claim; nobody if it was made here."""
        side = self._came.get((node, serial))
        return (self._place.above or HERE) if side is None else side

    def pass_back(self, ctx: Context, more: More, sender: str) -> None:
        """What who claimed says to who answers: the way of the claim, which climbed and then went down."""
        up = None if sender == self._place.above else self._place.above
        if onward := self._went.get((more.node, more.serial), up):
            self._place.relay.send(ctx, onward, more)

    def outrun(self, ctx: Context, outrun: Outrun) -> None:
        """Somebody has come elsewhere since: who made this claim need not keep anything."""
        toward = self.toward(outrun.node, outrun.serial)
        if toward:
            self._place.relay.send(ctx, toward, outrun)
        elif outrun.node == ctx.node:
            self._here.outrun(ctx, outrun)

    def settled(self, ctx: Context, settled: Settled, sender: str) -> None:
        """A box is where it was claimed: all above learn on which side, and the next claim has its turn."""
        if sender:
            remember(self._where, settled.name, (sender, settled.since))
        else:
            self._where.pop(settled.name, None)
        self.keeps(settled.name, settled.since)
        if not sender and not self._place.above:
            self._remind(ctx, self._below, [settled.name])
        if self._place.above:
            self._place.relay.send(ctx, self._place.above, settled)
        elif (waiting := self._turns.settled(settled.name, settled.serial)) is not None:
            self._take_turn(ctx, waiting)

    # what was kept

    def keeps(self, name: str, since: int) -> None:
        """Something is kept under a name, here or on a side, for a subscriber that came at some instant."""
        remember(self._once, name, max(since, self._once.get(name, 0)))

    def remembered(self, ctx: Context, remembered: Remembered, sender: str) -> None:
        """A neighbour knows that something was kept under some names; if it is nowhere, that is a gap."""
        above = self._place.above
        new: list[str] = []
        for name, since in remembered.names if sender in self._place.beside else ():
            side, _ = self._where.get(name, (HERE, 0))
            if name not in self._once:
                new.append(name)
            self.keeps(name, since)
            if side != sender:
                self._missed(ctx, name, since, side)
        if above and sender != above:
            self._remind(ctx, [above], new)

    def _missed(self, ctx: Context, name: str, since: int, side: str) -> None:
        """What was kept under a name before some instant is not what is kept on a side."""
        if side and side != self._place.above:
            self._place.relay.send(ctx, side, Remembered(((name, since),)))
        else:
            self._here.missed(ctx, name, since)

    def forgotten(self, ctx: Context, name: str, sender: str) -> None:
        """What was kept under a name, here or by a neighbour, has been forgotten: that is no gap."""
        above, side = self._place.above, self._where.get(name, (HERE, 0))[0]
        if name in self._here.names() or (sender != above and side != sender):
            return
        if side == sender:
            self._where.pop(name, None)
        if self._once.pop(name, None) is None and sender:
            return
        to = self._below if not above else [above] if sender != above else []
        for node in to:
            if node != sender:
                self._place.relay.send(ctx, node, Forgotten(name))

    @property
    def _below(self) -> list[str]:
        """Dispatchers below this one."""
        return [node for node in self._place.beside if node != self._place.above]

    def _remind(self, ctx: Context, nodes: list[str], names: list[str]) -> None:
        """Neighbours learn under which names something was kept."""
        known = [(name, self._once[name]) for name in names if name in self._once]
        for node in nodes:
            for first in range(0, len(known), MAX_HOSTED):
                self._place.relay.send(ctx, node, Remembered(tuple(known[first : first + MAX_HOSTED])))

    def _alone(self) -> list[str]:
        """Names under which something was kept, and of which no neighbour below says that it is there."""
        below = {*self._below}
        return [name for name in self._once if self._where.get(name, (HERE, 0))[0] not in below]

    def _pass_down(self, ctx: Context) -> None:
        """The root tells what it alone knows of to those below it, for it may begin anew too."""
        orphans, self._orphans = self._orphans, []
        if not self._place.above:
            self._remind(ctx, self._below, orphans)

    # the hierarchy

    def _unheard(self) -> list[str]:
        """Dispatchers below that have not said all that is on their side."""
        above = self._place.above
        return [node for node in self._place.beside if node != above and node not in self._heard]

    def announce(self, ctx: Context) -> None:
        """There is somebody new above: it has to know what is on this side."""
        above = self._place.above
        self._heard.discard(above or HERE)
        self._told = False
        below = {name: since for name, (side, since) in self._where.items() if side != above}
        names = [*(below | self._here.names()).items()]
        for first in range(0, len(names) if above else 0, MAX_HOSTED):
            self._place.relay.send(ctx, above or "", Hosts(tuple(names[first : first + MAX_HOSTED])))
        if above:
            self._remind(ctx, [above], [*self._once])
        self._tell(ctx, ())

    def say(self, ctx: Context, name: str) -> None:
        """Those above learn anew that something is kept on this side: they may know of another copy."""
        since = self._here.names().get(name, self._where.get(name, (HERE, 0))[1])
        if since:
            self._tell(ctx, ((name, since),))

    def _tell(self, ctx: Context, names: tuple[Hosted, ...]) -> None:
        """Those above learn what is new on this side, and whether that is all."""
        everything = not self._unheard()
        if self._place.above and (names or (everything and not self._told)):
            self._place.relay.send(ctx, self._place.above, Hosts(names, everything))
            self._told = everything

    def hosts(self, ctx: Context, hosts: Hosts, sender: str) -> None:
        """A neighbour below has boxes on its side."""
        here = self._here.names() if hosts.names else {}
        new: list[Hosted] = []
        for name, since in hosts.names:
            side, known = (HERE, here[name]) if name in here else self._where.get(name, (None, 0))
            if side is None or side == self._place.above:
                new.append((name, since))
            if side in (None, sender) and self._once.get(name, since) < since:
                self._place.relay.send(ctx, sender, Remembered(((name, self._once[name]),)))
            if side in (None, sender, self._place.above):
                remember(self._where, name, (sender, since))
            elif known < since:
                self._place.relay.send(ctx, sender, Merge(name))
            else:
                remember(self._where, name, (sender, since))
                self._merge_at(ctx, name, side or HERE)
        if hosts.everything:
            self._heard.add(sender)
            if not self._place.above:
                self._remind(ctx, [sender], self._alone())
        self._tell(ctx, tuple(new))
        self.go_on(ctx)

    def merge(self, ctx: Context, name: str) -> None:
        """An older copy was found of what is kept here, or below."""
        side, _ = self._where.get(name, (HERE, 0))
        self._merge_at(ctx, name, HERE if side == self._place.above else side)

    def _merge_at(self, ctx: Context, name: str, side: str) -> None:
        if not self._here.merge(ctx, name) and side:
            self._place.relay.send(ctx, side, Merge(name))

    def ask(self, ctx: Context) -> None:
        """Claims wait for what neighbours have not said: they may have said it when they knew less."""
        for node in self._unheard() if self._undecided else ():
            self._place.relay.send(ctx, node, Ask())

    def asked(self, ctx: Context, sender: str) -> None:
        """The one above has to know what is on this side."""
        if sender == self._place.above:
            self.announce(ctx)

    def lose(self, node: str) -> None:
        """A node is no neighbour any more."""
        self._heard.discard(node)
        self._orphans += [name for name, (side, _) in self._where.items() if side == node]
        self._where = {name: where for name, where in self._where.items() if where[0] != node}
        self._going = [(claim, to) for claim, to in self._going if to != node]
