"""Subscriptions that are kept while nobody is there, and move with whoever has them (seed 002, section 2.1).

A dispatcher keeps a *box* for each, and every dispatcher above it knows on which side it is. Who comes back
elsewhere claims the box there: the claim climbs to the root, which lets one claim after the other go down to
where the box is, and the box answers with all that it kept. Of claims that wait only the latest counts.
Nothing is missing, nothing comes twice and nothing before what it depends on, because of two rules:

- A claim goes on to a neighbour only when that one knows the filter of who claims. So an event that comes
  by later finds its way there.
- A claim travels in the relays, behind the events that came by earlier. So the box has those before it
  answers.

What goes both ways is recognised by the last parcel of each source that the box had. All that an event
depends on and that is wanted came to the box before it, so what the box has comes before what has not been
there. Who publishes where the claim was made waits until it is answered: the answer comes behind all that was
sent from where the box was, so what is published then follows what was delivered there.
"""

from __future__ import annotations

from gossamer.core.context import Context
from gossamer.core.event import Criteria
from gossamer.core.names import nanoseconds
from gossamer.core.parcel import Bound, Parcel
from gossamer.core.trace import EXPIRED
from gossamer.overlay.box import WINDOW, Box, Taker
from gossamer.overlay.movewords import MAX_HOSTED, Claim, Filled, Hosts, More, Outrun, Resume, Settled, Taken
from gossamer.overlay.turns import Place, Turns, remember

MAX_BOXES = 10_000
"""Subscriptions that a dispatcher keeps."""
PATIENCE = 20.0
"""Seconds without anything new after which a claim is made again."""
STEP = WINDOW // 4
"""Parcels after which who hands them over is told that they have come."""
GIVEN_UP = "kept no longer"
HERE = ""


class Keeping:
    """The boxes of a dispatcher, and what it knows of those of others.

    limit
        Parcels that a box keeps; the oldest go.
    absence
        Seconds after which a box that nobody comes back for is given up.
    """

    def __init__(self, place: Place, limit: int, absence: float) -> None:
        self.boxes: dict[str, Box] = {}
        self._place = place
        self._limit = limit
        self._absence = nanoseconds(absence)
        self._where: dict[str, str] = {}
        """The side on which a box is, by name."""
        self._came: dict[tuple[str, int], str] = {}
        """Of claims that climbed by: from which side."""
        self._went: dict[tuple[str, int], str] = {}
        """Of claims that went down by: to which side."""
        self._going: list[tuple[Claim, str]] = []
        """Claims that wait for a neighbour to know a filter."""
        self._turns = Turns(nanoseconds(3 * PATIENCE))
        """At the root: which claim comes next."""
        self._leaving: dict[tuple[str, int], Box] = {}
        """Boxes that were claimed elsewhere and have not arrived there."""

    # who is here

    def attach(self, ctx: Context, name: str, criteria: Criteria, owner: Taker) -> None:
        """Somebody is here, or below, to take what is kept under a name."""
        box = self.boxes.get(name)
        if box is None:
            box = self._open(ctx, name, criteria)
        elif box.owner is not None and (box.owner.node, box.owner.serial) != (owner.node, owner.serial):
            self._part(ctx, box.owner)
        if criteria != box.criteria:
            self._place.unwant(ctx, box)
            box.criteria = criteria
            self._place.want(ctx, box)
        box.owner, box.claimed = owner, max(box.claimed, ctx.now)
        if not box.claim:
            self._resume(ctx, box)

    def detach(self, ctx: Context, name: str, node: str, serial: int) -> None:
        """The owner of a box is gone."""
        box = self.boxes.get(name)
        owner = box.owner if box is not None else None
        if box is not None and owner is not None and (owner.node, owner.serial) == (node, serial):
            box.owner, box.since = None, ctx.now
            self._tick(ctx)

    def forget(self, ctx: Context, name: str) -> None:
        """Nobody will come back for it."""
        box = self.boxes.pop(name, None)
        if box is not None:
            self._place.unwant(ctx, box)

    def finish(self, ctx: Context, name: str, done: tuple[int, int]) -> None:
        """The owner has done everything up to a position."""
        if name in self.boxes:
            self.boxes[name].finish(done)

    def filling(self, node: str) -> str | None:
        """The name of a subscription of a node that has not come here yet."""
        for box in self.boxes.values():
            if box.claim and box.owner is not None and box.owner.node == node:
                return box.name
        return None

    def _open(self, ctx: Context, name: str, criteria: Criteria) -> Box:
        if len(self.boxes) >= MAX_BOXES:
            absent = [box for box in self.boxes.values() if box.owner is None]
            for box in sorted(absent, key=lambda each: each.since)[:1]:
                self.forget(ctx, box.name)
        box = self.boxes[name] = Box(name, criteria, ctx.now)
        box.claim = 1 + ctx.rng.randrange(2**62)
        self._place.want(ctx, box)
        self.claim(ctx, _wanted(ctx, box), HERE)
        self._tick(ctx)
        return box

    def _part(self, ctx: Context, owner: Taker) -> None:
        if owner.hop:
            self._place.relay.send(ctx, owner.hop, Taken(owner.serial))
        else:
            self._place.taken(ctx, owner.serial)

    def _resume(self, ctx: Context, box: Box) -> None:
        owner = box.owner
        if owner is not None:
            if owner.hop:
                self._place.relay.send(ctx, owner.hop, Resume(owner.serial, box.done, box.lost))
            else:
                self._place.resumed(ctx, box)
            box.lost = 0
            owner.sent = owner.got = max(owner.sent, box.first - 1)
            self._push(ctx, box, owner)

    # what comes

    def keep(self, ctx: Context, box: Box, parcel: Parcel) -> None:
        """A parcel that a box wants."""
        if not box.add(parcel) and not box.claim:
            return
        if box.owner is not None and not box.claim:
            self._push(ctx, box, box.owner)
        for old in box.shrink(self._limit):
            ctx.drop(old, GIVEN_UP)

    def _push(self, ctx: Context, box: Box, taker: Taker) -> None:
        """Hand over what a taker has not got, as far as it keeps up."""
        while taker.sent + 1 < box.next and (not taker.hop or taker.sent - taker.got < WINDOW):
            taker.sent += 1
            parcel = box.parcels.get(taker.sent)
            if parcel is None:
                continue
            if parcel.deadline is not None and ctx.now > parcel.deadline:
                ctx.drop(box.parcels.pop(taker.sent), EXPIRED)
            elif taker.hop:
                self._place.relay.send(ctx, taker.hop, parcel, (taker.node, taker.serial, taker.sent))
            else:
                ctx.deliver(parcel.placed(taker.sent), None, (taker.serial,))

    def more(self, ctx: Context, more: More, sender: str) -> None:
        """Somebody has parcels of a box up to a place."""
        key = (more.node, more.serial)
        for box in self.boxes.values():
            owner = box.owner
            if owner is not None and owner.hop == sender and (owner.node, owner.serial) == key:
                owner.got = max(owner.got, more.upto)
                self._push(ctx, box, owner)
                return
        if key in self._leaving:
            box = self._leaving[key]
            assert box.heir is not None
            box.heir.got = max(box.heir.got, more.upto)
            self._give(ctx, box, box.heir)
        elif onward := self._went.get(key, self._place.above):
            self._place.relay.send(ctx, onward, more)

    def renewed(self, ctx: Context, node: str) -> None:
        """What was on its way to a neighbour is gone: what is bound there leaves again."""
        if node == self._place.above:
            self.announce(ctx)
        for box in self.boxes.values():
            if box.owner is not None and box.owner.hop == node and not box.claim:
                box.owner.sent = box.owner.got
                self._push(ctx, box, box.owner)

    # looking for a box

    def claim(self, ctx: Context, claim: Claim, sender: str) -> None:
        """Somebody looks for a box: up to the root, and from there to where it is."""
        if sender and sender == self._place.above:
            self._go_down(ctx, claim)
            return
        remember(self._came, (claim.node, claim.serial), sender)
        if self._place.above:
            self._pass(ctx, claim, self._place.above)
        else:
            self._take_turn(ctx, claim)

    def _take_turn(self, ctx: Context, claim: Claim) -> None:
        refused = self._turns.refused(claim, ctx.now)
        if refused is not None:
            self.outrun(ctx, Outrun(refused.node, refused.serial))
        if self._turns.has(claim):
            self._go_down(ctx, claim)

    def _go_down(self, ctx: Context, claim: Claim) -> None:
        key, box = (claim.node, claim.serial), self.boxes.get(claim.name)
        side = self._where.get(claim.name)
        if key in self._leaving:  # it asks again: something got lost on the way
            self._renew(ctx, self._leaving[key])
        elif box is not None and not box.claim:
            if claim.since < box.claimed:  # somebody has come back here since
                self.outrun(ctx, Outrun(claim.node, claim.serial))
                self.settled(ctx, Settled(claim.name, claim.serial), HERE)
            else:
                self._hand_over(ctx, box, Taker(claim.node, claim.serial, self._toward(key)))
        elif side and side != self._place.above:
            remember(self._went, key, side)
            self._pass(ctx, claim, side)
        else:
            self.filled(ctx, Filled(claim.node, claim.serial))

    def _toward(self, key: tuple[str, int]) -> str:
        """The neighbour on the way to who made a claim; nobody if it was made here."""
        side = self._came.get(key)
        return (self._place.above or HERE) if side is None else side

    def _pass(self, ctx: Context, claim: Claim, to: str) -> None:
        self._going.append((claim, to))
        self.go_on(ctx)

    def go_on(self, ctx: Context) -> None:
        """Claims go on to neighbours that know all filters by now."""
        going, self._going = self._going, []
        for claim, to in going:
            if self._place.knows(to):
                self._place.relay.send(ctx, to, claim)
            else:
                self._going.append((claim, to))

    def outrun(self, ctx: Context, outrun: Outrun) -> None:
        """Somebody has come elsewhere since: who made this claim need not keep anything."""
        toward = self._toward((outrun.node, outrun.serial))
        if toward:
            self._place.relay.send(ctx, toward, outrun)
        elif outrun.node == ctx.node and (box := self._claimed(outrun.serial)) is not None:
            if box.claimed > box.sought:  # somebody has come here since, too
                box.claim, box.sought = 1 + ctx.rng.randrange(2**62), box.claimed
                self._claim_again(ctx, box)
                return
            if box.owner is not None:
                self._part(ctx, box.owner)
            self.forget(ctx, box.name)

    def settled(self, ctx: Context, settled: Settled, sender: str) -> None:
        """A box is where it was claimed: all above learn on which side, and the next claim has its turn."""
        if sender:
            remember(self._where, settled.name, sender)
        else:
            self._where.pop(settled.name, None)
        if self._place.above:
            self._place.relay.send(ctx, self._place.above, settled)
        elif (waiting := self._turns.settled(settled.name, settled.serial)) is not None:
            self._take_turn(ctx, waiting)

    # handing it over

    def _hand_over(self, ctx: Context, box: Box, heir: Taker) -> None:
        if box.owner is not None:
            self._part(ctx, box.owner)
            box.owner = None
        box.heir = heir
        del self.boxes[box.name]
        self._leaving[heir.node, heir.serial] = box
        self._place.unwant(ctx, box)
        self._renew(ctx, box)

    def _renew(self, ctx: Context, box: Box) -> None:
        """Hand a box over from its beginning."""
        heir = box.heir
        assert heir is not None
        heir.sent = heir.got = box.first - 1
        self._give(ctx, box, heir)

    def _give(self, ctx: Context, box: Box, heir: Taker) -> None:
        if heir.got >= box.next:
            del self._leaving[heir.node, heir.serial]  # it is there
            return
        self._push(ctx, box, heir)
        if heir.sent == box.next - 1:
            heir.sent = box.next  # this was the end of it
            about = (box.next, len(box.parcels), box.done, box.lost, box.listed)
            self.filled(ctx, Filled(heir.node, heir.serial, *about))

    def bound(self, ctx: Context, parcel: Parcel, bound: Bound) -> bool:
        """A parcel of a box for whoever claimed it; False if nobody here knows of that."""
        node, serial, place = bound
        box = self._claimed(serial) if node == ctx.node else None
        if box is not None:
            box.asked = ctx.now
            box.parcels[place] = parcel
            if len(box.parcels) % STEP == 0:
                self.more(ctx, More(ctx.node, serial, place), HERE)
        elif toward := self._toward((node, serial)):
            self._place.relay.send(ctx, toward, parcel, bound)
        else:
            return False
        return True

    def _claimed(self, serial: int) -> Box | None:
        return next((box for box in self.boxes.values() if box.claim == serial), None)

    def filled(self, ctx: Context, filled: Filled) -> None:
        """All of a box has been sent to who claimed it."""
        box = self._claimed(filled.serial) if filled.node == ctx.node else None
        if box is None:
            if toward := self._toward((filled.node, filled.serial)):
                self._place.relay.send(ctx, toward, filled)
        elif len(box.parcels) < filled.count:  # some were lost with a dispatcher on the way
            self._claim_again(ctx, box)
        else:
            self._fill(ctx, box, filled)

    def _fill(self, ctx: Context, box: Box, filled: Filled) -> None:
        serial = box.claim
        self.more(ctx, More(ctx.node, serial, filled.next), HERE)
        box.fill(filled.next, filled.done, filled.lost, filled.marks)
        for old in box.shrink(self._limit):
            ctx.drop(old, GIVEN_UP)
        self.settled(ctx, Settled(box.name, serial), HERE)
        if box.name in self.boxes:  # it may have been claimed by now
            self._resume(ctx, box)

    def _claim_again(self, ctx: Context, box: Box) -> None:
        box.asked = ctx.now
        box.parcels.clear()
        self.claim(ctx, _wanted(ctx, box), HERE)

    # the hierarchy and time

    def announce(self, ctx: Context) -> None:
        """There is somebody new above: it has to know what is on this side."""
        above = self._place.above
        names = [*self.boxes, *(name for name, side in self._where.items() if side != above)]
        for first in range(0, len(names) if above else 0, MAX_HOSTED):
            self._place.relay.send(ctx, above or "", Hosts(tuple(names[first : first + MAX_HOSTED])))

    def hosts(self, ctx: Context, hosts: Hosts, sender: str) -> None:
        """A neighbour below has boxes on its side."""
        new = tuple(name for name in hosts.names if name not in self.boxes and name not in self._where)
        for name in new:
            remember(self._where, name, sender)
        if new and self._place.above:
            self._place.relay.send(ctx, self._place.above, Hosts(new))

    def lose(self, ctx: Context, node: str) -> None:
        """A node is no neighbour any more."""
        for box in self.boxes.values():
            if box.owner is not None and box.owner.hop == node:
                box.owner, box.since = None, ctx.now
        self._where = {name: side for name, side in self._where.items() if side != node}
        self._going = [(claim, to) for claim, to in self._going if to != node]
        self._tick(ctx)

    def _tick(self, ctx: Context) -> None:
        if self.boxes:
            ctx.wake("kept", PATIENCE / 2)

    def on_timer(self, ctx: Context) -> None:
        """Claim again what does not come, and give up what nobody comes back for."""
        for box in tuple(self.boxes.values()):
            if box.claim and ctx.now - box.asked >= nanoseconds(PATIENCE):
                self._claim_again(ctx, box)
            elif box.owner is None and not box.claim and ctx.now - box.since >= self._absence:
                for parcel in box.parcels.values():
                    ctx.drop(parcel, GIVEN_UP)
                self.forget(ctx, box.name)
        self._tick(ctx)


def _wanted(ctx: Context, box: Box) -> Claim:
    return Claim(box.name, ctx.node, box.claim, box.sought)
