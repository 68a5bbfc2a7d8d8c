"""Where a peer stands: who it is to others, the rings it is in, and its links.

Everything that changes rings goes through here, so that links and parcels follow at once.
"""

from __future__ import annotations

from gossamer.core.context import CONTACTS, PEERS, Context
from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.templates.multiring.circle import CIRCLE
from gossamer.templates.multiring.dissemination import Spreading
from gossamer.templates.multiring.messages import GREETING, MAX_ADDRESSES, REGULAR, Beat, Person
from gossamer.templates.multiring.modes import PeerLink
from gossamer.templates.multiring.ring import Ring
from gossamer.templates.multiring.settings import MultiringSettings


class Position:
    """One peer in one group.

    me
        What others are told of this peer.
    rings
        From the outermost to the innermost; empty outside the group.
    bandwidth
        Bytes per second that this peer can send, as its host measured it.
    """

    __slots__ = ("_silence", "_trial", "bandwidth", "me", "rings", "spreading")

    def __init__(self, settings: MultiringSettings, spreading: Spreading) -> None:
        self.me = Person("?", 0, 0, 0)
        self.rings: list[Ring] = []
        self.bandwidth = 0.0
        self.spreading = spreading
        self._silence = nanoseconds(settings.silence)
        self._trial = self._silence // 2

    @property
    def member(self) -> bool:
        """Whether this peer is in the group."""
        return bool(self.rings)

    def introduce(self, ctx: Context) -> None:
        """Begin: a peer at no place in particular."""
        self.me = Person(ctx.node, ctx.incarnation, 0, ctx.rng.randrange(CIRCLE), 0, addresses(ctx))

    def become(self, ctx: Context, place: int | None = None) -> None:
        """Place or rings have changed: this is how others will know it."""
        me = self.me
        self.me = Person(
            me.name,
            me.life,
            me.version + 1,
            me.place if place is None else place,
            len(self.rings),
            addresses(ctx),
        )

    def ring(self, level: int) -> Ring | None:
        """A ring that this peer is in."""
        return self.rings[level] if level < len(self.rings) else None

    def beat(self, level: int, kind: int) -> Beat:
        """What is said in a ring."""
        ring = self.rings[level]
        return Beat(level, self.me, ring.left, ring.right, kind)

    def settle(self, ctx: Context, fresh: str = "", past: int | None = None) -> None:
        """Rings may have changed: greet new neighbours and tell them of the past; forget links of others.

        A neighbour that moved up from behind another has little time to answer: it may be gone as well.
        ``fresh`` is one that has just come to the group, and wants only so many nanoseconds of the past.
        """
        spreading, links = self.spreading, self.spreading.links
        staying = {person.name for ring in self.rings for person in ring.neighbours}
        primary = not any(link.supplies for name, link in links.items() if name in staying)
        hops: dict[str, None] = {}
        for level, ring in enumerate(self.rings):
            near = [person.name for person in ring.neighbours]
            new = [name for name in near if name not in spreading.hops]
            for name in near:
                if name not in links:
                    links[name] = PeerLink(ctx.now - self._silence + self._trial, primary)
                    ctx.wake("trial", self._trial / NANOSECONDS)
                if name in new and name not in hops:
                    spreading.recall(ctx, name, past if name == fresh else None)
                hops[name] = None
            if new:
                ctx.send(new, self.beat(level, GREETING))
                ctx.send([name for name in near if name not in new], self.beat(level, REGULAR))
            for name in new:
                spreading.ask_mode(ctx, name)
        for name in [each for each in links if each not in hops]:
            del links[name]
        if tuple(hops) != spreading.hops or spreading.detours:
            spreading.reached(hops, self._detours())
            self._tell_host(ctx)

    def _detours(self) -> list[str]:
        """The backup links that stand in for congested neighbours."""
        found: dict[str, None] = {}
        links = self.spreading.links
        for ring in self.rings:
            for line in (ring.left, ring.right):
                link = links.get(line[0].name) if len(line) > 1 else None
                if link is not None and link.congested is not None:
                    found[line[1].name] = None
        return list(found)

    def congested(self, ctx: Context, name: str, congested: bool) -> None:
        """A neighbour takes too little, or enough again: the backup link is used meanwhile.

        What was announced to it meanwhile may not have left this host, so it is said again.
        """
        link = self.spreading.links.get(name)
        if link is None or congested == (link.congested is not None):
            return
        since, link.congested = link.congested, ctx.now if congested else None
        self.spreading.reached(self.spreading.hops, self._detours())
        if since is not None:
            self.spreading.recall(ctx, name, ctx.now - since)

    def hear(self, ctx: Context, name: str) -> None:
        """A sign of life."""
        link = self.spreading.links.get(name)
        if link is not None:
            link.heard = ctx.now
            link.proven = True

    def _tell_host(self, ctx: Context) -> None:
        """The host needs addresses of those that are sent to."""
        if self.me.addresses:
            known = (each for ring in self.rings for each in ring.left + ring.right)
            learn(ctx, *known)


def addresses(ctx: Context) -> tuple[str, ...]:
    """Where this peer listens."""
    contacts: dict[str, tuple[str, ...]] = ctx.container(CONTACTS) or {}
    return tuple(contacts.get(ctx.node, ()))[:MAX_ADDRESSES]


MAX_LEARNT = 256


def learn(ctx: Context, *people: Person) -> None:
    """Let the host know where peers listen; those it has not been told of for long are forgotten."""
    name = f"{PEERS}{ctx.channel}"
    known: dict[str, tuple[str, ...]] = ctx.container(name) or {}
    news = {each.name: each.addresses for each in people if each.addresses and each.name != ctx.node}
    if any(known.get(each) != where for each, where in news.items()):
        merged = {**{each: where for each, where in known.items() if each not in news}, **news}
        ctx.put(name, dict(list(merged.items())[-MAX_LEARNT:]))
