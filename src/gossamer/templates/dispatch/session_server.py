"""Subscriptions that are kept while nobody is there, and move with whoever has them (seed 002, section 2.1).

A dispatcher keeps a *box* for each. Who comes back elsewhere claims the box there, the claim finds it
(``seeking``), and the box answers with all that it kept.
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
from gossamer.templates.dispatch.claims import Place
from gossamer.templates.dispatch.locate import HERE, SAY_AGAIN, Seeking
from gossamer.templates.dispatch.session import WINDOW, Box, Heir, Taker
from gossamer.templates.dispatch.session_log import Ledger
from gossamer.templates.dispatch.session_messages import Claim, Filled, More, Outrun, Resume, Settled, Taken

MAX_BOXES = 10_000
"""Subscriptions that a dispatcher keeps."""
LONGEST = 600.0
"""Seconds after which a box is looked for again at the latest."""
LEAP = 2**48
"""Places by which an owner may be ahead of its box; more is an invention."""
STEP = WINDOW // 4
"""Parcels after which who hands them over is told that they have come."""
GIVEN_UP = "kept no longer"


class Keeping:
    """The boxes of a dispatcher, and what it knows of those of others.

    limit
        Parcels that a box keeps; the oldest go.
    absence
        Seconds after which a box that nobody comes back for is given up.
    patience
        Seconds without anything new after which a box that is on its way is looked for again.
    """

    def __init__(self, place: Place, limit: int, absence: float, patience: float) -> None:
        self.boxes: dict[str, Box] = {}
        self._place = place
        self._limit = limit
        self._absence = nanoseconds(absence)
        self._patience = patience
        self.seeking = Seeking(place, self)
        self.ledger = Ledger(limit)
        self._sought: dict[int, Box] = {}
        """Boxes that are on their way here, by the number of their claim."""
        self._leaving: dict[str, Box] = {}
        """Boxes that were claimed elsewhere and have not arrived there."""

    def names(self) -> dict[str, int]:
        """Of all boxes here, with the instant when the subscriber came."""
        return {name: box.claimed for name, box in self.boxes.items()}

    # who is here

    def attach(self, ctx: Context, name: str, criteria: Criteria, owner: Taker) -> None:
        """Somebody is here, or below, to take what is kept under a name."""
        box = self.boxes.get(name)
        if box is None:
            box = self._open(ctx, name, criteria, owner)
        elif box.owner is not None and (box.owner.node, box.owner.serial) != (owner.node, owner.serial):
            self._part(ctx, box.owner)
        if criteria != box.criteria:
            self._place.unwant(ctx, box)
            box.criteria = criteria
            self._place.want(ctx, box)
            if not box.claim:
                self.ledger.state(ctx, box, lambda ctx: None)
        anew = box.owner is not owner
        box.owner, box.hop, box.claimed = owner, owner.hop, max(box.claimed, ctx.now)
        if anew and not box.claim:
            if box.next <= owner.sent:
                box.follow(owner.sent)
                self.ledger.state(ctx, box, lambda ctx: None)
            self._resume(ctx, box)

    def detach(self, ctx: Context, name: str, node: str, serial: int) -> None:
        """The owner of a box is gone."""
        box = self.boxes.get(name)
        owner = box.owner if box is not None else None
        if box is not None and owner is not None and (owner.node, owner.serial) == (node, serial):
            box.owner, box.since = None, ctx.now
            self.tick(ctx)

    def forget(self, ctx: Context, name: str, sender: str = HERE) -> None:
        """The owner will not come back for it. A neighbour may say so of what it owned itself."""
        box = self.boxes.get(name)
        if box is not None and (sender == HERE or box.hop in (None, sender)):
            self._remove(ctx, box)
            if not box.claim:
                self.seeking.forgotten(ctx, name, HERE)

    def _remove(self, ctx: Context, box: Box) -> None:
        """A box is here no more. Those above remember that there was one, unless they hear otherwise."""
        if self.boxes.get(box.name) is box:
            del self.boxes[box.name]
            self._sought = {
                claim: each for claim, each in self._sought.items() if box not in (each, each.copy_of)
            }
            self._place.unwant(ctx, box)
            if not box.claim:
                self.ledger.left(ctx, box.name)

    def finish(self, ctx: Context, name: str, done: tuple[int, int], sender: str = HERE) -> None:
        """The owner has done everything up to a position; only it knows."""
        box = self.boxes.get(name)
        if box is None or box.hop != sender or (done[0] >= box.next and not box.claim):
            return
        if box.finish(done):
            self.ledger.done(ctx, box)

    def filling(self, node: str) -> str | None:
        """The name of a subscription of a node that has not come here yet."""
        for box in self.boxes.values():
            if box.claim and box.owner is not None and box.owner.node == node:
                return box.name
        return None

    def _open(self, ctx: Context, name: str, criteria: Criteria, owner: Taker) -> Box:
        if len(self.boxes) >= MAX_BOXES:
            absent = [box for box in self.boxes.values() if box.owner is None]
            for box in sorted(absent, key=lambda each: each.since)[:1]:
                self._give_up(ctx, box)
                self._remove(ctx, box)
        box = self.boxes[name] = Box(name, criteria, ctx.now)
        box.owner = owner  # before it is looked for: that it is nowhere may be known at once
        self._place.want(ctx, box)
        self._claim(ctx, box)
        self.tick(ctx)
        return box

    def _part(self, ctx: Context, owner: Taker) -> None:
        if owner.hop:
            self._place.relay.send(ctx, owner.hop, Taken(owner.serial))
        else:
            self._place.taken(ctx, owner.serial)

    def _resume(self, ctx: Context, box: Box) -> None:
        owner = box.owner
        if owner is not None:
            self._tell_owner(ctx, box, owner)
            if box.next <= owner.sent < box.next + LEAP:
                box.next = owner.sent + 1  # it has more of another copy: these places are taken
            owner.sent = owner.got = max(min(owner.sent, box.next - 1), box.first - 1)
            self._push(ctx, box, owner)

    def _tell_owner(self, ctx: Context, box: Box, owner: Taker) -> None:
        """Tell a subscriber what is done and how much was lost."""
        if owner.hop:
            self._place.relay.send(ctx, owner.hop, Resume(owner.serial, box.done, box.lost))
        else:
            self._place.resumed(ctx, box)
        box.lost = 0

    # what comes

    def keep(self, ctx: Context, box: Box, parcel: Parcel) -> None:
        """A parcel that a box wants."""
        if box.add(parcel):
            self.ledger.kept(ctx, box, parcel)
        elif not box.claim:
            return
        if box.owner is not None and not box.claim:
            self._push(ctx, box, box.owner)
        for old in box.shrink(self._limit):
            ctx.drop(old, GIVEN_UP)

    def _push(self, ctx: Context, box: Box, taker: Taker) -> None:
        """Hand over what a taker has not got, as far as it keeps up."""
        end = taker.upto if isinstance(taker, Heir) else box.next
        while taker.ready and (place := box.behind(taker.sent, end)):
            taker.sent, parcel = place, box.parcels[place]
            if parcel.deadline is not None and ctx.now > parcel.deadline:
                ctx.drop(box.parcels.pop(taker.sent), EXPIRED)
                continue
            taker.fly()
            if taker.hop:
                self._place.relay.send(ctx, taker.hop, parcel, (taker.node, taker.serial, taker.sent))
            else:
                ctx.deliver(parcel.placed(taker.sent), None, (taker.serial,))

    def more(self, ctx: Context, more: More, sender: str) -> None:
        """Somebody has parcels of a box up to a place."""
        key = (more.node, more.serial)
        for box in self.boxes.values():
            owner = box.owner
            if owner is not None and owner.hop == sender and (owner.node, owner.serial) == key:
                owner.land(more.upto)
                self._push(ctx, box, owner)
                return
        for box in self._leaving.values():
            heir = box.heir
            if heir is not None and (heir.node, heir.serial) == key:
                heir.land(more.upto)
                self._give(ctx, box, heir)
                return
        self.seeking.pass_back(ctx, more, sender)

    def renewed(self, ctx: Context, node: str) -> None:
        """What was on its way to a neighbour is gone: what is bound there leaves again."""
        if node == self._place.above:
            self.seeking.announce(ctx)
        for box in self.boxes.values():
            if box.owner is not None and box.owner.hop == node and not box.claim:
                box.owner.again()
                self._push(ctx, box, box.owner)

    # claimed elsewhere

    def answer(self, ctx: Context, claim: Claim) -> bool:
        """A claim has come to where its box may be; False if it is not here."""
        box, leaving = self.boxes.get(claim.name), self._leaving.get(claim.name)
        if claim.serial in self._sought and self._sought[claim.serial].copy_of is not None:
            box = None  # it is another copy that is claimed
        if box is not None and not box.claim:
            if claim.since < box.claimed:  # somebody has come back here since
                self.seeking.outrun(ctx, Outrun(claim.node, claim.serial))
                self.seeking.settled(ctx, Settled(claim.name, claim.serial), HERE)
                return True
            if box.owner is not None:
                self._part(ctx, box.owner)
                box.owner = None
            if leaving is not None:
                self._arrived(ctx, leaving)
            del self.boxes[box.name]
            self._hand_over(ctx, box, claim)
        elif leaving is not None:
            self._hand_over(ctx, leaving, claim)
        else:
            return False
        return True

    def _hand_over(self, ctx: Context, box: Box, claim: Claim) -> None:
        """Hand a box over from its beginning. It goes on keeping meanwhile: it may be claimed again."""
        box.heir = Heir(claim, self.seeking.toward(claim.node, claim.serial), box)
        box.since = ctx.now
        self._leaving[box.name] = box
        self.tick(ctx)
        if claim.serial in self._sought:  # it never got to who claimed it before
            self._sought[claim.serial].parcels.update(box.parcels)
            box.heir.sent = box.heir.upto - 1
        self._give(ctx, box, box.heir)

    def _give(self, ctx: Context, box: Box, heir: Heir) -> None:
        if heir.got >= heir.upto:
            self._arrived(ctx, box)
            return
        self._push(ctx, box, heir)
        if heir.sent < heir.upto and not box.behind(heir.sent, heir.upto):
            heir.sent = heir.upto  # this was the end of it
            about = (heir.upto, heir.count, box.done, box.lost, heir.marks)
            self.filled(ctx, Filled(heir.node, heir.serial, *about))

    def _arrived(self, ctx: Context, box: Box) -> None:
        del self._leaving[box.name]
        self._place.unwant(ctx, box)
        if box.name not in self.boxes or self.boxes[box.name].claim:
            self.ledger.left(ctx, box.name)

    # claimed here

    def _claim(self, ctx: Context, box: Box) -> None:
        """Look for a box. Answers to what was asked before are none to this."""
        self._sought.pop(box.claim, None)
        box.claim = 1 + ctx.rng.randrange(2**62)
        self._sought[box.claim] = box
        box.asked = box.said = ctx.now
        box.parcels.clear()
        self.seeking.claim(ctx, _wanted(ctx, box), HERE)

    def bound(self, ctx: Context, parcel: Parcel, bound: Bound) -> bool:
        """A parcel of a box for whoever claimed it; False if nobody here knows of that."""
        node, serial, place = bound
        box = self._sought.get(serial) if node == ctx.node else None
        if box is not None:
            box.asked = ctx.now
            box.parcels[place] = parcel
            if len(box.parcels) % STEP == 0:
                self.more(ctx, More(ctx.node, serial, place), HERE)
        elif node != ctx.node and (toward := self.seeking.toward(node, serial)):
            self._place.relay.send(ctx, toward, parcel, bound)
        else:
            return False
        return True

    def filled(self, ctx: Context, filled: Filled) -> None:
        """All of a box has been sent to who claimed it."""
        if filled.node != ctx.node:
            if toward := self.seeking.toward(filled.node, filled.serial):
                self._place.relay.send(ctx, toward, filled)
        elif (box := self._sought.get(filled.serial)) is not None:
            if len(box.parcels) < filled.count:  # some were lost with a dispatcher on the way
                self._claim(ctx, box)
            else:
                self._fill(ctx, box, filled)

    def merge(self, ctx: Context, name: str) -> bool:
        """An older copy was found of what is kept here: claim what it has, while this one goes on."""
        box = self.boxes.get(name)
        if box is None:
            return False
        box.copied = bool(box.claim)
        if not box.claim and not any(each.copy_of is box for each in self._sought.values()):
            box.claimed += 1  # later than the claim that brought it here, earlier than any by its subscriber
            copy = Box(name, box.criteria, box.claimed)
            copy.copy_of = box
            self._claim(ctx, copy)
        return True

    def _merge(self, ctx: Context, box: Box, copy: Box, filled: Filled) -> None:
        if self.boxes.get(box.name) is not box:  # it has been claimed meanwhile: its new place shall merge
            self.seeking.say(ctx, box.name)
            return
        if filled.next:
            box.lost += filled.lost
            for late in box.merge(copy):
                ctx.drop(late, GIVEN_UP)
        self.ledger.state(ctx, box, lambda ctx: self._settle(ctx, box, filled))
        if box.owner is not None:
            if box.lost:
                self._tell_owner(ctx, box, box.owner)
            self._push(ctx, box, box.owner)

    def _fill(self, ctx: Context, box: Box, filled: Filled) -> None:
        del self._sought[filled.serial]
        if box.copy_of is not None:
            self._merge(ctx, box.copy_of, box, filled)
            return
        after = box.owner.sent if box.owner is not None else 0  # who had more than is kept anywhere
        if not filled.next:
            box.origin, box.begun = after, ctx.now
            gap = filled.lost > 0 or (box.owner is not None and box.owner.known)  # it is not known how much
            box.lost += gap and not filled.lost
            box.anew = 0 if gap else box.sought
        box.fill(filled.next or after + 1, filled.done, filled.lost, filled.marks)
        for old in box.shrink(self._limit):
            ctx.drop(old, GIVEN_UP)
        self.ledger.state(ctx, box, lambda ctx: self._settle(ctx, box, filled))
        if box.name in self.boxes:  # it may have been claimed by now
            self._resume(ctx, box)
            if box.copied:
                self.merge(ctx, box.name)

    def _settle(self, ctx: Context, box: Box, filled: Filled) -> None:
        """A box is here: who had it need not keep it any more, and the next claim has its turn."""
        self.more(ctx, More(ctx.node, filled.serial, filled.next), HERE)
        self.seeking.settled(ctx, Settled(box.name, filled.serial, box.claimed), HERE)

    def open(self, ctx: Context) -> None:
        """What is kept is on disk too: read what is there."""
        self.ledger.open(ctx)
        self.tick(ctx)

    def restore(self, ctx: Context, boxes: dict[str, Box]) -> None:
        """Boxes of an earlier life: what came while this dispatcher was down is missing in them."""
        for box in boxes.values():
            box.lost += 1
            self.boxes[box.name] = box
            self.seeking.keeps(box.name, box.claimed)
            self._place.want(ctx, box)
        self.tick(ctx)

    def outrun(self, ctx: Context, outrun: Outrun) -> None:
        """Somebody has come elsewhere since: what was claimed here need not be kept."""
        box = self._sought.get(outrun.serial)
        if box is None:
            return
        if box.copy_of is not None:  # the box is elsewhere by now, or the other copy is the later one
            del self._sought[outrun.serial]
            self.seeking.say(ctx, box.name)
            return
        if box.claimed > box.sought:  # somebody has come here since, too
            box.sought = box.claimed
            self._claim(ctx, box)
            return
        if box.owner is not None:
            self._part(ctx, box.owner)
        self._remove(ctx, box)

    # the hierarchy and time

    def missed(self, ctx: Context, name: str, since: int) -> None:
        """Something was kept under a name for a subscriber that came at some instant, and is nowhere now.

        What is here began with nothing for a subscriber that came later: it is told that there is a gap.
        """
        box = self.boxes.get(name)
        if box is not None and not box.claim and since < box.anew:
            box.anew = 0
            box.lost += 1
            self.ledger.state(ctx, box, lambda ctx: None)
            if box.owner is not None:
                self._tell_owner(ctx, box, box.owner)

    def lose(self, ctx: Context, node: str) -> None:
        """A node is no neighbour any more."""
        for box in self.boxes.values():
            if box.owner is not None and box.owner.hop == node:
                box.owner, box.since = None, ctx.now
        self.seeking.lose(node)
        self.tick(ctx)

    def tick(self, ctx: Context) -> None:
        """Look after what is here in a while."""
        if self.boxes or self._leaving or self.seeking.waits or not self.ledger.ready:
            ctx.wake("kept", min(self._patience, SAY_AGAIN) / 2)

    def on_timer(self, ctx: Context) -> None:
        """Look again for what does not come, and give up what nobody comes back for."""
        for box in tuple(self.boxes.values()):
            if box.claim:
                self._insist(ctx, box)
            elif box.owner is None and ctx.now - box.since >= self._absence:
                self._give_up(ctx, box)
                self._remove(ctx, box)
        for copy in [each for each in self._sought.values() if each.copy_of is not None]:
            self._insist(ctx, copy)
        for box in tuple(self._leaving.values()):
            if ctx.now - box.since >= self._absence:
                self._give_up(ctx, box)
                self._arrived(ctx, box)
        self.seeking.ask(ctx)
        here = (box for box in self.boxes.values() if not box.claim and box.name not in self._leaving)
        self.ledger.tidy(ctx, (*here, *self._leaving.values()))
        self.tick(ctx)

    def _insist(self, ctx: Context, box: Box) -> None:
        """Look for a box again if nothing new comes, each time later; else say again that it is wanted."""
        if ctx.now - box.asked >= nanoseconds(min(self._patience * 2**box.tries, LONGEST)):
            box.tries = min(box.tries + 1, 20)
            self._claim(ctx, box)
        elif ctx.now - box.said >= nanoseconds(SAY_AGAIN):
            box.said = ctx.now
            self.seeking.claim(ctx, _wanted(ctx, box), HERE)

    def _give_up(self, ctx: Context, box: Box) -> None:
        for parcel in box.parcels.values():
            ctx.drop(parcel, GIVEN_UP)


def _wanted(ctx: Context, box: Box) -> Claim:
    return Claim(box.name, ctx.node, box.claim, box.sought)
