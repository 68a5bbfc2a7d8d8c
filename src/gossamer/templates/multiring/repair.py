"""Keeping rings whole: signs of life, repair after a crash, and setting right who stands next to whom.

Peers tell their neighbours who else stands next to them. From that each sees by itself when somebody stands
between it and its neighbour, and greets them. Only who has spoken itself becomes a neighbour; who stands
behind a neighbour is known by its word, and moves up when the neighbour falls silent (seed 004, 5.5.2.2).
"""

from __future__ import annotations

from gossamer.core.context import UNREAD, Context
from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.templates.multiring.circle import apart, between
from gossamer.templates.multiring.messages import ANSWER, GREETING, REGULAR, Beat, Close, Find, Meet, Person
from gossamer.templates.multiring.peer import Position, learn
from gossamer.templates.multiring.ring import Ring
from gossamer.templates.multiring.settings import MultiringSettings

MAX_LOST = 64
REMEMBERED = 600 * NANOSECONDS
"""How long lost peers are looked for."""
MAX_PASSES = 128
MAX_FIND = 2**20 - 1
MAX_GREETED = 256


class Upkeep:
    """The rings of one peer, kept whole.

    lost
        Peers that fell silent, and when: for a while nobody's word brings them back, only their own; and they
        are looked for, in case that a partition has ended.
    """

    def __init__(self, settings: MultiringSettings, position: Position) -> None:
        self.position = position
        self.lost: dict[str, tuple[Person, int]] = {}
        self.repairs = 0
        self._beat, self._silence = nanoseconds(settings.beat), nanoseconds(settings.silence)
        self._ticked = 0
        self._greeted: dict[tuple[int, str], int] = {}

    # signs of life

    def look(self, ctx: Context) -> None:
        """Give up who has been silent for too long."""
        links = self.position.spreading.links
        late, self._ticked = ctx.now - self._ticked > 2 * self._beat, ctx.now
        for name in links if late else ctx.container(UNREAD) or ():
            if name in links:  # it may have spoken: nobody listened to it here
                links[name].heard = ctx.now
        for name in [name for name, link in links.items() if ctx.now - link.heard >= self._silence]:
            self.lose(ctx, name)

    def tick(self, ctx: Context) -> None:
        """Give up who has been silent for too long, and give signs of life."""
        self.look(ctx)
        links = self.position.spreading.links
        quiet = {name for name, link in links.items() if ctx.now - link.said >= self._beat // 2}
        for level, ring in enumerate(self.position.rings):
            state = (self.position.me, ring.left, ring.right)
            for person in ring.neighbours:
                link = links.get(person.name)
                if link is not None and (person.name in quiet or link.told.get(level) != state):
                    link.told[level] = state
                    link.said = ctx.now
                    ctx.send(person.name, self.position.beat(level, REGULAR))

    def lose(self, ctx: Context, name: str) -> None:
        """A peer has crashed, or cannot be reached: those behind it move up."""
        found = next((p for ring in self.position.rings if (p := ring.known(name))), None)
        if found is None:
            return
        self.repairs += 1
        self.lost[name] = (found, ctx.now)
        while len(self.lost) > MAX_LOST:
            del self.lost[next(iter(self.lost))]
        self.forget(ctx, name, 0)

    def forget(self, ctx: Context, name: str, level: int) -> None:
        """A peer is no longer in a ring, nor in those within it."""
        position = self.position
        for number, ring in enumerate(position.rings[level:], level):
            short = [side for side in ring.sides(name) if len(ring.side(side)) == 1]
            ring.drop(name)
            for rightward in short if ring.neighbours else ():
                self._look_round(ctx, number, rightward)
        position.settle(ctx)

    def _look_round(self, ctx: Context, level: int, rightward: bool) -> None:
        """Nobody is known behind a neighbour that is gone: let others bring this peer to who is next."""
        if level:
            self._find_on(ctx, Find(level, rightward, self.position.me, 0))
        else:
            ctx.send(self.position.rings[0].side(not rightward)[0].name, Meet(self.position.me, 1))

    # who stands where

    def take(self, ctx: Context, level: int, person: Person, past: int | None = None) -> None:
        """A peer that has just spoken is in a ring; a newcomer wants to know so much of the past."""
        position = self.position
        ring = position.ring(level)
        if ring is None or person.name == ctx.node:
            return
        learn(ctx, person)
        self.lost.pop(person.name, None)
        self._update(ctx, person)
        ring.take(position.me.key, person)
        position.settle(ctx, person.name, past)
        position.hear(ctx, person.name)

    def _update(self, ctx: Context, person: Person) -> None:
        """Where a peer was known to be it is no longer, if it has moved or left inner rings."""
        for level, ring in enumerate(self.position.rings):
            known = ring.known(person.name)
            if known is None or known.news >= person.news:
                continue
            if level >= person.rings:
                self.forget(ctx, person.name, level)
            elif known.place != person.place:
                ring.drop(person.name)

    def beat(self, ctx: Context, beat: Beat, sender: str) -> None:
        """A peer says who stands next to it."""
        position = self.position
        ring, person = position.ring(beat.level), beat.person
        if person.name != sender:
            return
        if ring is None:
            if beat.kind != ANSWER:
                ctx.send(sender, Close(beat.level, (), ()))
            return
        known = ring.known(sender)
        if known is not None and known.news > person.news:
            return
        if known != person or sender not in position.spreading.links:
            self.take(ctx, beat.level, person)
        else:
            position.hear(ctx, sender)
        self._compare(ctx, ring, beat)
        astray = beat.kind == REGULAR and not ring.sides(sender)
        if astray and beat.level == 0:  # step by step it would take long to where it belongs
            self.meet(ctx, person)
        if beat.kind == GREETING or astray:
            ctx.send(sender, position.beat(beat.level, ANSWER))
            link = position.spreading.links.get(sender)
            if link is not None and not link.wanted:  # its link may be younger than what it was told
                position.spreading.ask_mode(ctx, sender)

    def _compare(self, ctx: Context, ring: Ring, beat: Beat) -> None:
        """Believe a neighbour about those behind it; greet whoever stands between it and this peer."""
        sender = beat.person
        link = self.position.spreading.links.get(sender.name)
        state = (beat.left, beat.right, ring.left, ring.right, self.position.me)
        if link is not None and link.compared.get(beat.level) == state:
            return
        people = (*beat.left, *beat.right)
        credible = {each.name for each in people if self._credible(ctx, each)}
        left, right = (
            tuple(each for each in line if each.name in credible) for line in (beat.left, beat.right)
        )
        ring.follow(ctx.node, sender.name, left, right)
        greeted = [self.suggest(ctx, beat.level, each) for each in people if each.name in credible]
        if link is not None and not any(greeted) and len(credible) == len({each.name for each in people}):
            link.compared[beat.level] = (beat.left, beat.right, ring.left, ring.right, self.position.me)

    def suggest(self, ctx: Context, level: int, person: Person) -> bool:
        """Greet somebody who is said to be in a ring, if it would stand nearer than a neighbour; if so."""
        ring, me = self.position.ring(level), self.position.me.key
        if ring is None or person.name == ctx.node:
            return False
        right, left = ring.right[:1], ring.left[:1]
        nearer = (
            not right
            or between(me, person.key, right[0].key)
            or not left
            or between(left[0].key, person.key, me)
        )
        if nearer:
            self.greet(ctx, level, person)
        return nearer

    def _credible(self, ctx: Context, person: Person) -> bool:
        """Whether word of a peer that fell silent here is newer: the dead are soon not spoken of."""
        lost = self.lost.get(person.name)
        return lost is None or person.life > lost[0].life or ctx.now - lost[1] > 3 * self._silence

    def greet(self, ctx: Context, level: int, person: Person) -> None:
        """Somebody may stand nearer than a neighbour: if it answers, it does."""
        key = (level, person.name)
        if ctx.now - self._greeted.get(key, -self._beat) < self._beat // 4:
            return
        self._greeted.pop(key, None)
        self._greeted[key] = ctx.now
        if len(self._greeted) > MAX_GREETED:
            del self._greeted[next(iter(self._greeted))]
        learn(ctx, person)
        ctx.send(person.name, self.position.beat(level, GREETING))

    # an inner ring that nobody near is in

    def enter_alone(self, ctx: Context, level: int) -> None:
        """Be in an inner ring, and look on both sides for the next that is."""
        position = self.position
        del position.rings[level:]
        position.rings.append(Ring())
        position.become(ctx)
        for rightward in (False, True):
            self._find_on(ctx, Find(level, rightward, position.me, 0))

    def find(self, ctx: Context, find: Find) -> None:
        """Greet who looks for the next of an inner ring, if this peer is that; else pass it on."""
        if find.origin.name == ctx.node:
            return
        if self.position.ring(find.level) is not None:
            self.greet(ctx, find.level, find.origin)
        elif find.passes < MAX_FIND:
            self._find_on(ctx, Find(find.level, find.rightward, find.origin, find.passes + 1))

    def _find_on(self, ctx: Context, find: Find) -> None:
        around = self.position.ring(find.level - 1) if find.level else None
        line = around.side(find.rightward) if around else ()
        if line:
            ctx.send(line[0].name, find)

    # two rings that meet

    def meet(self, ctx: Context, person: Person, passes: int = 0) -> None:
        """Bring somebody to where it belongs: greet it if that is here, else pass it on to who is nearer."""
        position = self.position
        me = position.me
        if not position.rings or person.name == ctx.node or passes > MAX_PASSES:
            return
        ring = position.rings[0]
        if ring.known(person.name) is not None:
            return
        right, left = ring.right[:1], ring.left[:1]
        if (not right or between(me.key, person.key, right[0].key)) or (
            not left or between(left[0].key, person.key, me.key)
        ):
            self.greet(ctx, 0, person)
            return
        known = {each.name: each for each_ring in position.rings for each in each_ring.neighbours}
        nearest = min(known.values(), key=lambda each: (apart(each.place, person.place), each.name))
        if apart(nearest.place, person.place) < apart(me.place, person.place):
            ctx.send(nearest.name, Meet(person, passes + 1))
        else:
            self.greet(ctx, 0, person)

    def remember(self, ctx: Context) -> list[Person]:
        """Lost peers that are still looked for."""
        for name in [name for name, (_, at) in self.lost.items() if ctx.now - at > REMEMBERED]:
            del self.lost[name]
        return [person for person, _ in self.lost.values()]
