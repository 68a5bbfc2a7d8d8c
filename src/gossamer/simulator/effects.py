"""Carries out what engines ask for, and brings engines what arrives for them.

Every item that a trace calls sent is accounted for. It is received by its target, or dropped: by the sender
with the target as peer (reasons "no link", "queue full", "lost on the way", "node is down", and those of
rules), or by the target with the sender as peer ("inbox full", "node crashed"). Only what is still on the
way when a run ends, or waits in an inbox, is neither. Models and rules may add copies. A row about the loss
of an item that a node sent before it crashed belongs to that life of the node and may come after its end.

Items travel as objects; their size is that of their frame.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gossamer.core.context import Dice
from gossamer.core.control import Control
from gossamer.core.effect import (
    SENSELESS,
    Acknowledged,
    Append,
    Deliver,
    DeliverFeedback,
    Drop,
    Effect,
    Lost,
    Missed,
    Read,
    Reply,
    Send,
    Store,
    Stored,
    Trim,
    Wake,
)
from gossamer.core.engine import Engine
from gossamer.core.errors import ProtocolError
from gossamer.core.names import nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.core.trace import EXPIRED
from gossamer.core.wire import Item, size
from gossamer.overlay.directory.service import Entry
from gossamer.simulator.clock import NETWORK, TIMER, Clock
from gossamer.simulator.host import Host, Way
from gossamer.simulator.network import rules
from gossamer.simulator.network.access_lines import HIGH, LOW
from gossamer.simulator.network.link_models import FULL, LinkModel
from gossamer.simulator.storage import Storage
from gossamer.simulator.supervision import Supervision
from gossamer.simulator.tally import Tally

if TYPE_CHECKING:
    from gossamer.simulator.world import World

NO_LINK, QUEUE_FULL, LOST_ON_THE_WAY = "no link", "queue full", "lost on the way"
NODE_DOWN, INBOX_FULL, CRASHED = "node is down", "inbox full", "node crashed"

Tap = Callable[[str, str, Item], None]
"""Hears sender, target and item of every transmission, before rules and models see it."""


class Carrier:
    """Between the engines of a world.

    hosts, channels
        Nodes by name and channels by number; the world keeps them.
    drops
        Drops by reason.
    tally
        What it all costs.
    disturbed, severed
        When a fault last began or ended; how many rules are in force that keep nodes apart.
    taps
        Who hears every transmission.
    calls
        Who waits for the reply to a call.
    storage
        The disks of the nodes.
    reach
        Makes the model of a link between two nodes that were never joined; None leaves them apart.
    """

    def __init__(self, world: World, clock: Clock, dice: Dice) -> None:
        self.hosts: dict[str, Host] = {}
        self.channels: dict[int, Entry] = {}
        self.drops: Counter[str] = Counter()
        self.tally = Tally()
        self.disturbed = self.severed = 0
        self.taps: list[Tap] = []
        self.calls: dict[int, Callable[[Reply], None]] = {}
        self.storage = Storage(self, clock, world.dice("storage"))
        self.clocks = Supervision(clock, world.dice("supervision"))
        self.reach: Callable[[str, str], LinkModel | None] | None = None
        self._world = world
        self._clock = clock
        self._dice = dice
        self._judges: list[tuple[int, rules.Judge]] = []
        self._carrying = False
        self._pending: deque[tuple[Host, list[Effect]]] = deque()

    def begin(self, judge: tuple[int, rules.Judge], severs: bool) -> None:
        """A rule comes into force; the number says where it stands in the list."""
        self.disturb()
        insort(self._judges, judge, key=_order)
        self.severed += severs

    def end(self, judge: tuple[int, rules.Judge], severs: bool) -> None:
        """A rule is no longer in force."""
        self.disturb()
        self._judges.remove(judge)
        self.severed -= severs

    def disturb(self) -> None:
        """A fault is about to begin or to end."""
        for witness in self._world.witnesses:
            witness.disturbed(self._world)
        self.disturbed = self._clock.now

    # inputs of engines

    def tell(self, host: Host, method: str, *arguments: Any) -> None:
        """Give an engine an input by its name; it waits during a pause, and is gone if the node is down."""
        if host.paused:
            host.late.append((method, arguments))
        elif host.engine is not None:
            self.carry(host, getattr(host.engine, method)(host.time(), *arguments))

    def _arrive(self, way: Way, item: Item) -> None:
        host = way.receiver
        engine = host.engine
        if engine is None:
            self.lose(self.hosts[way.sender], way.engine, host.name, item, NODE_DOWN)
            return
        if type(item) is Parcel:
            item = self.clocks.corrected(way, self.hosts[way.sender], item)
        if host.free and not host.paused:
            self._receive(host, engine, way.sender, item)
        elif len(host.inbox) >= host.limit:
            self.lose(host, engine, way.sender, item, INBOX_FULL)
        else:
            host.inbox.append((way.sender, item))
            self.serve(host)

    def serve(self, host: Host) -> None:
        """Let an idle server take what waits, until something costs time."""
        while host.inbox and host.work is None and not host.paused:
            host.work = host.inbox.popleft()
            cost = 0 if host.free else host.costs[_kind(host.work[1])]
            if cost:
                host.serving = self._clock.schedule(self._clock.now + cost, NETWORK, self._served, host)
            else:
                self.finish(host)

    def _served(self, host: Host, _: object) -> None:
        host.serving = None
        if not host.paused:
            self.finish(host)
            self.serve(host)

    def finish(self, host: Host) -> None:
        """The work on an item, if there is one, takes effect."""
        if host.work is not None:
            (sender, item), host.work = host.work, None
            assert host.engine is not None
            self._receive(host, host.engine, sender, item)

    def _receive(self, host: Host, engine: Engine, sender: str, item: Item) -> None:
        effects = engine.receive(host.time(), sender, item)
        if type(item) is Parcel and item.header.qos is not None:
            for effect in effects:
                if type(effect) is Drop and effect.reason == EXPIRED:
                    channel = self.channels[item.header.channel].name
                    self.tally.spared(self.hosts, host, sender, channel, item)
        self.carry(host, effects)

    def _wake(self, host: Host, key: tuple[int, str]) -> None:
        del host.wakes[key]
        if host.engine is None or host.paused:
            self.tell(host, "wake", *key)
        else:
            self.carry(host, host.engine.wake(host.time(), *key))

    def lose(self, host: Host, engine: Engine, peer: str, item: Item, reason: str) -> None:
        """An item between an engine of a host and a peer ends here; nothing but that comes of it."""
        engine.lost(host.time(), peer, item, reason)
        self.drops[reason] += 1

    # effects of engines

    def carry(self, host: Host, effects: list[Effect]) -> None:
        """Carry out effects in order; those caused meanwhile come after all of them."""
        if not effects:
            return
        if self._carrying:
            self._pending.append((host, effects))
            return
        self._carrying = True
        try:
            self._carry_out(host, effects)
            while self._pending:
                self._carry_out(*self._pending.popleft())
        finally:
            self._carrying = False

    def _carry_out(self, host: Host, effects: list[Effect]) -> None:
        stored: dict[int, int] = {}
        for effect in effects:
            kind = type(effect)
            if kind is Drop:
                self._dropped(effect)  # type: ignore[arg-type]
            elif host.engine is None:
                continue  # crashed by a witness in the middle of it
            elif kind is Send:
                self._send(host, effect)  # type: ignore[arg-type]
            elif kind is Deliver:
                self._deliver(host, effect)  # type: ignore[arg-type]
            elif kind is Wake:
                self._set_wake(host, effect)  # type: ignore[arg-type]
            elif kind is DeliverFeedback:
                self._deliver_feedback(host, effect)  # type: ignore[arg-type]
            elif kind is Reply:
                self._reply(effect)  # type: ignore[arg-type]
            elif kind is Store:
                self._store(host, effect)  # type: ignore[arg-type]
                if effect.ticket:  # type: ignore[attr-defined]
                    stored[effect.channel] = effect.ticket  # type: ignore[attr-defined]
            elif kind is Acknowledged:
                self._acknowledged(host, effect)  # type: ignore[arg-type]
            elif kind is Lost:
                self._lost(host, effect)  # type: ignore[arg-type]
            elif kind is Missed:
                self._missed(host, effect)  # type: ignore[arg-type]
            elif kind is Append or kind is Read or kind is Trim:
                self.storage.request(host, effect)  # type: ignore[arg-type]
        for channel, ticket in stored.items():
            self.tell(host, "report", channel, Stored(ticket))

    def _dropped(self, drop: Drop) -> None:
        """An item ended in an engine; all nodes of a world are honest, so what they say makes sense."""
        self.drops[drop.reason] += 1
        if type(drop.item) is Control and drop.reason.endswith(SENSELESS):
            raise ProtocolError(drop.reason.split()[0], drop.item.message, "what an honest node may say")

    def _send(self, host: Host, send: Send) -> None:
        item = send.item
        length = size(item)
        kind = _kind(item)
        channel = item.channel if type(item) is Control else item.header.channel  # type: ignore[union-attr]
        for peer in send.to:
            for tap in self.taps:
                tap(host.name, peer, item)
            way = host.ways.get(peer)
            if way is None and self.reach is not None:
                way = self._open(host, peer)
            if way is None or not way.up:
                assert host.engine is not None
                self.lose(host, host.engine, peer, item, NO_LINK)
            else:
                self.tally.sent(channel, kind, length)
                self._transmit(host, way, item, length, kind)

    def _open(self, host: Host, peer: str) -> Way | None:
        """A lane that comes about when it is first used."""
        receiver = self.hosts.get(peer)
        if receiver is None or receiver is host or self.reach is None or host.engine is None:
            return None
        model = self.reach(host.name, peer)
        if model is None:
            return None
        way = host.ways[peer] = Way(model, host, host.engine, receiver)
        way.up = True
        return way

    def _transmit(self, host: Host, way: Way, item: Item, length: int, kind: str) -> None:
        extra, copies = 0, 0
        dice, clock = self._dice, self._clock
        for _, judge in self._judges:
            verdict = judge(host.name, way.receiver.name, kind, dice)
            if type(verdict) is rules.Drop:
                self.lose(host, way.engine, way.receiver.name, item, verdict.reason)
                return
            if type(verdict) is rules.Delay:
                extra += verdict.by
            elif type(verdict) is rules.Duplicate:
                copies += 1
        if host.line is not None and way.receiver.line is not None:
            extra = self._lines(host, way, length, kind, extra)
        arrives = FULL if extra < 0 else way.carry(clock.now, length, dice, extra)
        if arrives < 0:
            reason = QUEUE_FULL if arrives == FULL else LOST_ON_THE_WAY
            self.lose(host, way.engine, way.receiver.name, item, reason)
            return
        clock.schedule(arrives, NETWORK, self._arrive, way, item)
        if way.duplicate:
            again = way.again(arrives, dice)
            if again >= 0:
                clock.schedule(again, NETWORK, self._arrive, way, item)
        for _ in range(copies):
            clock.schedule(way.copy(arrives, dice), NETWORK, self._arrive, way, item)

    def _lines(self, host: Host, way: Way, length: int, kind: str, extra: int) -> int:
        """Nanoseconds that the access lines of both sides add, or FULL; the sender is told of congestion."""
        mine, theirs = host.line, way.receiver.line
        assert mine is not None
        assert theirs is not None
        now, ahead = self._clock.now, kind == "control"
        through = mine.up.carry(now, length, ahead)
        if through < 0:
            return FULL
        far = nanoseconds(mine.access.latency + theirs.access.latency + way.model.latency)
        taken = theirs.down.carry(through + far, length, ahead)
        if theirs.down.free - through - far > HIGH and not way.congested:
            way.congested = True
            self._clock.schedule(now, NETWORK, self._congestion, host, way)
        return FULL if taken < 0 else extra + taken - now - nanoseconds(way.model.latency)

    def _congestion(self, host: Host, way: Way) -> None:
        """A lane is congested, or no longer."""
        line = way.receiver.line
        if host.engine is not way.engine or line is None:
            return
        waits = line.down.free - self._clock.now
        way.congested = waits > LOW
        change = "congested" if way.congested else "relieved"
        self.tell(host, "around", way.receiver.name, change)
        if way.congested:
            self._clock.schedule(self._clock.now + waits, NETWORK, self._congestion, host, way)

    def _deliver(self, host: Host, effect: Deliver) -> None:
        channel = self.channels[effect.channel].name
        for witness in host.witnesses:
            witness.delivered(
                self._world, host.name, host.life, channel, effect.subscription, effect.parcel, effect.picks
            )

    def _deliver_feedback(self, host: Host, effect: DeliverFeedback) -> None:
        channel = self.channels[effect.channel].name
        for witness in host.witnesses:
            witness.feedback(self._world, host.name, host.life, channel, effect.parcel)

    def _missed(self, host: Host, effect: Missed) -> None:
        channel = self.channels[effect.channel].name
        for witness in host.witnesses:
            witness.missed(self._world, host.name, host.life, channel, effect.source, effect.to)

    def _lost(self, host: Host, effect: Lost) -> None:
        channel = self.channels[effect.channel].name
        for witness in host.witnesses:
            witness.lost(self._world, host.name, host.life, channel, effect.first, effect.last)

    def _acknowledged(self, host: Host, effect: Acknowledged) -> None:
        channel = self.channels[effect.channel].name
        for witness in host.witnesses:
            witness.acknowledged(self._world, host.name, host.life, channel, effect.number)

    def _reply(self, reply: Reply) -> None:
        then = self.calls[reply.call]
        if not reply.more:
            del self.calls[reply.call]
        then(reply)

    def _store(self, host: Host, store: Store) -> None:
        if store.value is None:
            host.stored.pop(store.key, None)
        else:
            host.stored[store.key] = store.value

    def _set_wake(self, host: Host, wake: Wake) -> None:
        key = (wake.channel, wake.name)
        earlier = host.wakes.pop(key, None)
        if earlier is not None:
            self._clock.cancel(earlier)
        if wake.at is not None:
            at = wake.at
            if host.skew is not None:
                at = host.skew.true(self._clock.now, host.time(), at)
            host.wakes[key] = self._clock.schedule(at, TIMER, self._wake, host, key)


def _kind(item: Item) -> str:
    if type(item) is Control:
        return "control"
    return "parcel" if item.header.answers is None else "feedback"  # type: ignore[union-attr]


def _order(judge: tuple[int, rules.Judge]) -> int:
    return judge[0]
