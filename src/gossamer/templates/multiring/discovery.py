"""Finding the group: which peers are in it, and which of them are near (seed 004, 5.5.1).

Contacts are asked; those that are not in the group pass the question on to theirs. Peers that were found are
pinged, then the neighbours of the nearest, for a few rounds: whoever answers first is nearest.
"""

from __future__ import annotations

from collections.abc import Iterable

from gossamer.core.context import CONTACTS, Context
from gossamer.templates.multiring.messages import MAX_PEOPLE, Found, Person, Ping, Pong, Seek
from gossamer.templates.multiring.peer import Position, learn
from gossamer.templates.multiring.settings import MultiringSettings

PASSES = 4
"""How often a question is passed on by peers outside the group, at most."""
MAX_TRIES = 3
"""After so many it goes as far as it may."""
ASKED = 3
"""Contacts that are asked at once."""
CANDIDATES = 8
"""Peers that are pinged in one round."""
ROUNDS = 3
MAX_TOKENS = 512
MAX_ENTRIES = 16


class Finding:
    """One look for the group.

    entries
        Members that are known, by name: ways into the group.
    near
        Round trips in nanoseconds of those that answered, by name.
    pongs
        What they said.
    """

    def __init__(self, settings: MultiringSettings, position: Position) -> None:
        self.settings = settings
        self.position = position
        self.entries: dict[str, Person] = {}
        self.near: dict[str, int] = {}
        self.pongs: dict[str, Pong] = {}
        self.round = 0
        self._sent: dict[int, tuple[str, int]] = {}
        self._passed: dict[tuple[str, int, int], None] = {}
        self._token = 0

    # asking

    def seek(self, ctx: Context, *more: Person, tries: int = MAX_TRIES) -> None:
        """Ask some contacts, and peers known from before; further and further away the more often it was in
        vain, for most questions need not go far.
        """
        self._token += 1
        seek = Seek(self.position.me, self._token, min(PASSES, 2 ** (tries - 1)))
        learn(ctx, *more)
        names = [name for name in ctx.container(CONTACTS) or () if name != ctx.node]
        ctx.rng.shuffle(names)
        ctx.send(dict.fromkeys([*names[:ASKED], *(each.name for each in more)]), seek)

    def sought(self, ctx: Context, seek: Seek, sender: str) -> None:
        """Somebody looks for the group: answer if this peer is in it, else pass it on."""
        if seek.origin.name == ctx.node:
            return
        learn(ctx, seek.origin)
        if self.position.member:
            ctx.send(seek.origin.name, Found((self.position.me, *self._links())))
            return
        key = (seek.origin.name, seek.origin.life, seek.token)
        if key in self._passed:
            return
        self._passed[key] = None
        if len(self._passed) > MAX_TOKENS:
            del self._passed[next(iter(self._passed))]
        if self.entries:
            ctx.send(seek.origin.name, Found(tuple(self.entries.values())))
        elif seek.passes:
            names = [name for name in ctx.container(CONTACTS) or () if name not in (ctx.node, sender)]
            ctx.send(names[:CANDIDATES], Seek(seek.origin, seek.token, seek.passes - 1))

    def _links(self) -> Iterable[Person]:
        found = {each.name: each for ring in self.position.rings for each in ring.neighbours}
        return list(found.values())[: MAX_PEOPLE - 1]

    def found(self, ctx: Context, found: Found) -> None:
        """Members, by somebody's word."""
        for person in found.people:
            if person.name != ctx.node and person.rings:
                self.entries[person.name] = person
        while len(self.entries) > MAX_ENTRIES:
            del self.entries[next(iter(self.entries))]
        learn(ctx, *found.people)

    # measuring

    def begin(self) -> None:
        """Forget what was measured."""
        self.near, self.pongs, self.round, self._sent = {}, {}, 0, {}

    def sound(self, ctx: Context, people: Iterable[Person]) -> bool:
        """Ping peers that have not been; False if there are none, or it has been often enough."""
        tried = {name for name, _ in self._sent.values()}
        fresh = {each.name: each for each in people if each.name not in tried and each.name != ctx.node}
        if not fresh or self.round >= ROUNDS:
            return False
        self.round += 1
        names = list(fresh)
        ctx.rng.shuffle(names)
        learn(ctx, *fresh.values())
        for name in names[:CANDIDATES]:
            self.ping(ctx, name)
        return True

    def ping(self, ctx: Context, name: str) -> None:
        self._token += 1
        self._sent[self._token] = (name, ctx.now)
        ctx.send(name, Ping(self._token))

    def pinged(self, ctx: Context, ping: Ping, sender: str) -> None:
        """Answer at once: the time it takes is what is measured."""
        position = self.position
        outer = position.ring(0)
        left, right = (outer.left, outer.right) if outer else ((), ())
        others = tuple(self._links()) if position.member else tuple(self.entries.values())
        ctx.send(sender, Pong(ping.token, position.me, left, right, others))

    def ponged(self, ctx: Context, pong: Pong, sender: str) -> bool:
        """An answer; whether all have answered."""
        name, at = self._sent.get(pong.token, ("", 0))
        if name != sender or pong.person.name != sender:
            return False
        learn(ctx, pong.person, *pong.others)
        if not pong.person.rings:
            self.entries.pop(sender, None)
            self.found(ctx, Found(pong.others))
        else:
            self.entries[sender] = pong.person
            self.near[sender] = ctx.now - at
            self.pongs[sender] = pong
        return len(self.near) == len({name for name, _ in self._sent.values()})

    @property
    def nearest(self) -> Pong | None:
        """Who answered fastest."""
        if not self.near:
            return None
        return self.pongs[min(self.near, key=lambda name: (self.near[name], name))]

    def sides(self, pong: Pong) -> tuple[Person, Person]:
        """The two to come in between, left and right: the nearest peer, and the nearer of its neighbours."""
        me, left, right = pong.person, pong.left[:1], pong.right[:1]
        if not left or not right:
            return me, me
        far = 2**62
        if self.near.get(left[0].name, far) < self.near.get(right[0].name, far):
            return left[0], me
        return me, right[0]
