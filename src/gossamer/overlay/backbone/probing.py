"""Hello: who is there, and how far away.

Every node of the first tier probes the nodes it knows, one by one. A scheduler spends a set budget of bytes
per second: neighbours in the tree (critical) come round most often, then the nearest, then all others.

Deadline scheduling. A node of weight w is due again after ``max(pause, gap × W / w)``, where gap is the
time that one probe and its reply take up of the budget, and W the sum of all weights. Weights: a critical
node 8, a near one 4, all others together at most a quarter of W (half while some have never been measured),
so that distant nodes share what is left. No two probes are closer than a gap: the budget is never exceeded.

A node that does not answer is probed again at once, in its turn of the budget, until it answers or has been
silent too often to believe in bad luck: ``misses ≥ ln(DOUBT) / ln(loss)``, loss being the measured share of
unanswered probes to that node or to all, whichever is more, so that half of all items may be lost without
declaring anybody dead by mistake. A node whose link has just broken is believed to be dead after CUT misses:
connections between living nodes seldom break, and one that is alive answers the next probe.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush, nsmallest
from math import ceil, log
from typing import Annotated, Any

from msgspec import Meta

from gossamer.core.context import CONTACTS, DISTANCES, NODES, TREE, Context
from gossamer.core.control import Message, on
from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.core.template import Membership, Settings, Template
from gossamer.overlay.backbone.members import Roster

EXCHANGE_BYTES = 74
"""The largest frames of a probe and its reply together."""
CRITICAL, NEAR = 8, 4
"""Weights."""
CUT = 2
"""Unanswered probes after which a node is dead whose link has broken."""
ROUNDS = 3
"""How often they are counted anew because a sign of life came by another way, perhaps a late one."""
DOUBT = 1e-6
"""Probability of mistaking a living node for a dead one that is small enough."""
FORGIVING, RELENT = 4 * NANOSECONDS, 60 * NANOSECONDS
"""How long a node is not called dead again after it was, at first and at most: others may reach it where this
node cannot. It doubles each time, until the node answers or has a link again; a word of the dead that comes
late costs a moment, and not a minute.
"""
FEW = 32
"""Measurements below which each is worth publishing sooner."""
OUTSTANDING = 30 * NANOSECONDS
"""How late a reply may come and still measure."""

Nonce = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Probe(Message, frozen=True, gc=False):
    """Are you there?"""

    nonce: Nonce


class ProbeReply(Message, frozen=True, gc=False):
    """I am."""

    nonce: Nonce


class HelloSettings(Settings, frozen=True):
    """Settings of the hello service.

    budget
        Bytes per second for probes and the replies to them; one exchange takes 74.
    nearest
        How many nodes count as near.
    pause
        Seconds that a node has peace between two probes, unless it is suspected.
    refresh
        Seconds between two changes of the published distances, at least; less while few are known.
    """

    budget: Annotated[float, Meta(gt=0, le=1e9)] = 200.0
    nearest: Annotated[int, Meta(ge=0, le=1024)] = 16
    pause: Annotated[float, Meta(ge=0, le=3600)] = 1.0
    refresh: Annotated[float, Meta(ge=0, le=3600)] = 5.0


class _Peer:
    """What probing has shown of one node.

    distance
        Smoothed half round trip; 0 if unknown.
    misses, since, sent
        Unanswered probes in a row, when the first of them left, and when the last probe left.
    due
        When it is to be probed again, for critical and near nodes.
    spared, relent
        Until when it is not called dead, and for how long it will be spared next.
    cut
        Rounds of probes that are left since its link broke; 0 once it has answered.
    """

    __slots__ = ("cut", "distance", "due", "loss", "misses", "relent", "sent", "since", "spared")

    def __init__(self, loss: float) -> None:
        self.distance = 0
        self.loss = loss
        self.misses = self.since = self.sent = self.due = 0
        self.meet()

    def meet(self) -> None:
        """It was reached: nothing that was held against it counts any more."""
        self.cut = self.misses = self.spared = 0
        self.relent = FORGIVING


class Hello(Template[HelloSettings]):
    """Probes the first tier.

    Promises: probes and replies stay within the budget; critical nodes are probed most often, then near
        ones; a dead critical node is noticed after a few probes.
    Costs: the budget.
    Needs: contacts, from the host.
    """

    name = "gossamer.hello"
    settings_type = HelloSettings
    watches = (TREE, NODES, CONTACTS)

    def __init__(self, settings: HelloSettings, roster: Roster) -> None:
        super().__init__(settings)
        self.roster = roster
        self._gap = ceil(EXCHANGE_BYTES / settings.budget * NANOSECONDS)
        self._pause = nanoseconds(settings.pause)
        self._peers: dict[str, _Peer] = {}
        self._critical: frozenset[str] = frozenset()
        self._heap: list[tuple[int, str]] = []
        self._fresh: deque[str] = deque()
        self._waiting: set[str] = set()
        """Names in ``_fresh``."""
        self._round: list[str] = []
        self._others_due = 0
        self._free = 0
        """When the budget allows the next probe."""
        self._wake_at = -1
        self._nonce = 0
        self._open: dict[int, tuple[str, int, int]] = {}
        """Probes on their way: to whom, when, and when to worry; in the order of their leaving."""
        self._worried: dict[int, tuple[str, int]] = {}
        """Probes given up, whose late replies still measure."""
        self._loss = 0.5
        self._published_at = -1
        self._published: dict[str, int] = {}
        self._changed = False
        self._known_version = -1

    # what happens

    def on_open(self, ctx: Context) -> None:
        if self.roster.serves(ctx):
            self._sleep(ctx, int(ctx.rng.random() * min(self._gap, NANOSECONDS)))

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        if not self.roster.serves(ctx):
            return
        if name == TREE:
            self._critical = frozenset(value.neighbours(ctx.node)) if value else frozenset()
            self._rank(ctx)
        self._take_up(ctx)
        self._plan(ctx)

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        """A link that comes is a sign of life, for both have greeted; one that breaks is a reason to probe
        its node at once.
        """
        who, change = membership.who, membership.change
        if change == "up" and self.roster.serves(ctx) and who in (ctx.container(CONTACTS) or ()):
            self._known(who).meet()
            for nonce in [each for each, (name, *_) in self._open.items() if name == who]:
                self._worried[nonce] = self._open.pop(nonce)[:2]  # it says nothing of the time from now on
            self._sign(ctx, who)
        elif change == "down" and who in self._peers and who in self.roster.live:
            peer = self._peers[who]
            peer.cut, peer.misses = ROUNDS, 0
            self._hurry(who, peer, 0)
            self._plan(ctx)

    @on(Probe)
    def probed(self, ctx: Context, probe: Probe, sender: str) -> None:
        if not self.roster.serves(ctx):
            return
        ctx.send(sender, ProbeReply(probe.nonce))
        self._sign(ctx, sender)

    @on(ProbeReply)
    def replied(self, ctx: Context, reply: ProbeReply, sender: str) -> None:
        asked = self._open.get(reply.nonce) or self._worried.get(reply.nonce)
        if asked is None or asked[0] != sender:
            return
        self._open.pop(reply.nonce, None)
        self._worried.pop(reply.nonce, None)
        peer = self._peers[sender]
        self._measure(peer, max(1, (ctx.now - asked[1]) // 2))
        for _ in range(min(peer.misses, 64)):
            self._lose(peer, 1.0)
        self._lose(peer, 0.0)
        peer.meet()
        before = self._published.get(sender, 0)
        self.roster.distances[sender] = peer.distance
        if abs(peer.distance - before) * 8 > before:
            self._changed = True
        self._sign(ctx, sender)

    def on_timer(self, ctx: Context, name: str) -> None:
        self._wake_at = -1
        self._worry(ctx)
        patience = nanoseconds(self.settings.refresh) * min(len(self.roster.distances), FEW) // FEW
        if self._changed and ctx.now - self._published_at >= patience:
            self._publish(ctx)
        if ctx.now >= self._free:
            target = self._next(ctx)
            if target is not None:
                self._probe(ctx, target)
        self.roster.tell(ctx)
        self._plan(ctx)

    # signs of life

    def _sign(self, ctx: Context, name: str) -> None:
        self.roster.hear(name, ctx.now, direct=True)
        self.roster.tell(ctx)

    def _measure(self, peer: _Peer, sample: int) -> None:
        """One slow reply moves the estimate by an eighth of itself at most."""
        old = peer.distance
        peer.distance = sample if not old else max(1, old + (min(sample, 2 * old) - old) // 8)

    def _lose(self, peer: _Peer, lost: float) -> None:
        peer.loss += (lost - peer.loss) / 16
        self._loss += (lost - self._loss) / 64

    def _worry(self, ctx: Context) -> None:
        """Count probes whose replies are late."""
        now = ctx.now
        while self._open:
            nonce, (name, sent, worry) = next(iter(self._open.items()))
            if worry > now:
                break
            del self._open[nonce]
            self._worried[nonce] = (name, sent)
            self._miss(ctx, name, sent)
        while self._worried:
            nonce, (_, sent) = next(iter(self._worried.items()))
            if now - sent < OUTSTANDING:
                break
            del self._worried[nonce]

    def _miss(self, ctx: Context, name: str, sent: int) -> None:
        peer = self._peers[name]
        peer.misses += 1
        if peer.misses == 1:
            peer.since = sent
        if name not in self.roster.live:
            return
        if peer.misses >= (CUT if peer.cut else _enough(max(peer.loss, self._loss))):
            if self.roster.distances.pop(name, None) is not None:
                self._changed = True
                peer.distance = 0
            if peer.spared <= ctx.now:
                silent = self.roster.heard(name) <= peer.since
                if silent:
                    self.roster.silence(name, peer.sent, direct=True)
                peer.cut, peer.misses = max(0, peer.cut - 1), 0
                if silent or not peer.cut:
                    peer.spared, peer.relent = ctx.now + peer.relent, min(2 * peer.relent, RELENT)
        if peer.spared > ctx.now:
            return
        if peer.cut or name in self._critical or name in self.roster.nearest:
            self._hurry(name, peer, 0)
        else:
            self._queue(name, first=True)

    # who is next

    def _take_up(self, ctx: Context) -> None:
        """Take note of nodes that have become known."""
        if self._known_version == self.roster.version and ctx.container(CONTACTS) is None:
            return
        self._known_version = self.roster.version
        contacts = ctx.container(CONTACTS) or ()
        for name in sorted(self.roster.live.union(contacts).difference(self._peers)):
            if name != ctx.node:
                self._queue(name, first=name in contacts)

    def _queue(self, name: str, first: bool = False) -> None:
        if name not in self._waiting:
            self._waiting.add(name)
            if first:
                self._fresh.appendleft(name)
            else:
                self._fresh.append(name)

    def _hurry(self, name: str, peer: _Peer, due: int) -> None:
        peer.due = due
        heappush(self._heap, (due, name))

    def _rank(self, ctx: Context) -> None:
        """Find the nearest, and let those that have gained rank be probed sooner."""
        roster = self.roster
        distances = roster.distances
        near = nsmallest(
            self.settings.nearest,
            ((distance, name) for name, distance in distances.items() if name not in self._critical),
        )
        before, roster.nearest = roster.nearest, frozenset(name for _, name in near)
        for name in sorted(roster.nearest - before):
            # whoever is near somebody near is probably near
            for other in sorted(roster.measured(name)):
                if other not in distances and other in roster.live and other != ctx.node:
                    self._queue(other, first=True)
        self._heap = []
        total = self._weights()[0]
        for name in (*self._critical, *roster.nearest):
            peer = self._known(name)
            due = min(peer.due or ctx.now, ctx.now + self._period(name, total))
            self._hurry(name, peer, due)

    def _known(self, name: str) -> _Peer:
        peer = self._peers.get(name)
        if peer is None:
            peer = self._peers[name] = _Peer(self._loss)
        return peer

    def _weights(self) -> tuple[float, float]:
        """The sum of all weights, and the part of the others."""
        ranked = CRITICAL * len(self._critical) + NEAR * len(self.roster.nearest)
        rest = len(self.roster.live) - len(self._critical) - len(self.roster.nearest)
        others = max(1, rest, len(self._fresh))
        share = min(others * NEAR / 2, ranked / (1 if self._fresh else 3)) if ranked else 1.0
        return ranked + share, share

    def _period(self, name: str, total: float) -> int:
        weight = CRITICAL if name in self._critical else NEAR
        return max(self._pause, int(self._gap * total / weight))

    def _next(self, ctx: Context) -> str | None:
        """Whose turn it is, if it is anybody's."""
        self._drop_stale()
        ranked = self._heap[0][0] if self._heap else None
        if ranked is not None and ranked <= ctx.now and (ranked <= self._others_due or not ranked):
            return heappop(self._heap)[1]
        if self._others_due <= ctx.now:
            total, share = self._weights()
            self._others_due = ctx.now + int(self._gap * total / share)
            other = self._other(ctx)
            if other is not None:
                return other
            self._others_due = max(self._others_due, ctx.now + self._pause)
        if ranked is not None and ranked <= ctx.now:
            return heappop(self._heap)[1]
        return None

    def _drop_stale(self) -> None:
        heap = self._heap
        while heap and (heap[0][1] not in self._peers or self._peers[heap[0][1]].due != heap[0][0]):
            heappop(heap)

    def _other(self, ctx: Context) -> str | None:
        """New and suspected nodes first, then everybody in turn, those that are down included."""
        while self._fresh:
            name = self._fresh.popleft()
            self._waiting.discard(name)
            if self._rested(ctx, name, 0):
                return name
        if not self._round:
            self._round = self.roster.known(ctx)
            ctx.rng.shuffle(self._round)
        for _ in range(min(8, len(self._round))):
            name = self._round.pop()
            ranked = name in self._critical or name in self.roster.nearest
            if not ranked and self._rested(ctx, name, self._pause):
                return name
        return None

    def _rested(self, ctx: Context, name: str, pause: int) -> bool:
        peer = self._peers.get(name)
        return peer is None or not peer.sent or ctx.now - peer.sent >= pause

    # doing

    def _probe(self, ctx: Context, name: str) -> None:
        peer = self._known(name)
        self._nonce = (self._nonce + 1) % 2**32
        worry = min(max(4 * 2 * peer.distance, NANOSECONDS // 2), 10 * NANOSECONDS)
        if not (peer.distance or peer.cut):
            worry = 2 * NANOSECONDS
        self._open[self._nonce] = (name, ctx.now, ctx.now + worry)
        self._free = ctx.now + self._gap
        peer.sent = ctx.now
        if peer.cut and name in self.roster.live:
            self._hurry(name, peer, ctx.now + worry)
        elif name in self._critical or name in self.roster.nearest:
            self._hurry(name, peer, ctx.now + self._period(name, self._weights()[0]))
        ctx.send(name, Probe(self._nonce))

    def _publish(self, ctx: Context) -> None:
        """Publish distances, rank anew."""
        self._changed = False
        self._published_at = ctx.now
        self._published = dict(self.roster.distances)
        self._rank(ctx)
        ctx.put(DISTANCES, self._published)

    def _plan(self, ctx: Context) -> None:
        """Wake when the budget allows and somebody is due."""
        self._drop_stale()
        due = self._others_due
        if self._heap:
            due = min(due, self._heap[0][0])
        at = max(due, self._free, ctx.now + 1)
        if self._wake_at < 0 or at < self._wake_at:
            self._sleep(ctx, at - ctx.now)

    def _sleep(self, ctx: Context, nanosecond: int) -> None:
        self._wake_at = ctx.now + nanosecond
        ctx.wake("probe", nanosecond / NANOSECONDS)


def _enough(loss: float) -> int:
    """Misses in a row that are no bad luck any more."""
    return max(4, ceil(log(DOUBT) / log(min(max(loss, 0.02), 0.9))))
