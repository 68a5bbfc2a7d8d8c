"""Random histories of active objects that disconnect, move and reconnect under traffic.

Each history is a random hierarchy whose links lose, double and reorder, publishers, and objects that
wander: they are there for a while, away for a while, and come back at another dispatcher or below it; they
answer some of what they hear. At the end every object must have got all that it wanted, once, and nothing
after what depends on it.

``python -m tests.templates.dispatch.histories 1000`` runs so many, ``250 501`` so many from that seed on; a
failure prints its seed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import Any

from gossamer.core.context import BELOW, SERVER, TREE
from gossamer.core.event import Criteria, Envelope
from gossamer.core.names import Role
from gossamer.core.operations import Advertise, KeepSession, SessionDone
from gossamer.core.parcel import Parcel
from gossamer.core.tree import Tree
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.workload.observers import Witness
from gossamer.simulator.world import World

CHANNEL = "news"
KINDS = 4
BEGIN, END = 60.0, 90.0
"""Seconds: when traffic begins and ends."""
OVER = (250.0, 500.0, 1000.0)
"""Seconds: when everything has come, mostly; where links are slow, lossy and many; and at the latest."""


class Listener:
    """Who hears and says things, wherever it is: its past is a set of events, as bits of a number."""

    def __init__(self, name: str, criteria: Criteria, talks: float) -> None:
        self.name = name
        self.criteria = criteria
        self.talks = talks
        self.at: tuple[str, int] | None = None
        self.place = 0
        self.past = 0
        self.behind = 0
        """What something that was delivered here depends on."""
        self.got: list[int] = []


class History(Witness):
    """One history, and what is wrong with it."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.wrong: list[str] = []
        self.moves = 0
        self.events: list[tuple[dict[str, Any], int]] = []
        """Attributes of each event, and its past."""
        self._numbers: dict[tuple[str, int], int] = {}
        self._build(seed)
        self.objects = [self._object(number) for number in range(self.dice.randint(1, 3))]
        self.others = [Listener(f"at {node}", self._criteria(), 0.05) for node in self.names[:2]]
        self._plan()

    # the network

    def _build(self, seed: int) -> None:
        dice = self.dice
        self.names = [f"d{number}" for number in range(dice.randint(3, 9))]
        edges = [(self.names[dice.randrange(n)], self.names[n]) for n in range(1, len(self.names))]
        link = LinkModel(
            latency=dice.choice([0.005, 0.05]),
            jitter=0.05,
            loss=dice.choice([0.0, 0.1, 0.3]),
            duplicate=0.1,
            reorder=dice.choice([0.0, 0.3]),
            reorder_delay=0.5,
        )
        self.world = world = World(seed, link=link)
        tree = Tree(edges)
        for name in self.names:
            world.add_node(name, Role.BACKBONE)
        for a, b in edges:
            slow = dice.random() < 0.3
            world.link(a, b, LinkModel(latency=1.0, jitter=0.5, loss=link.loss) if slow else None)
        self.clients = [f"c{number}" for number in range(dice.randint(0, 3))]
        below: dict[str, tuple[str, ...]] = {}
        for client in self.clients:
            server = dice.choice(self.names)
            world.add_node(client, Role.CLIENT)
            world.link(server, client)
            world.set(client, SERVER, server)
            below[server] = (*below.get(server, ()), client)
        for name in self.names:
            world.set(name, TREE, tree)
            world.set(name, BELOW, below.get(name, ()))
        self.advertises = dice.random() < 0.5
        kind = "advertisement" if self.advertises else "subscription"
        patience = (0.5, 2.0, 20.0)[seed % 3]  # the first two look again for what is only slow
        world.open(CHANNEL, "dispatch", {"propagation": kind, "root": self.names[0], "patience": patience})
        world.add_witness(self)

    def _criteria(self) -> Criteria:
        choice = self.dice.random()
        return Criteria(("kind", "<", 2)) if choice < 0.3 else Criteria(("kind", ">=", int(choice < 0.6)))

    def _object(self, number: int) -> Listener:
        return Listener(f"object {number}", self._criteria(), 0.1)

    # what happens

    def _plan(self) -> None:
        world, dice = self.world, self.dice
        if self.advertises:
            for node in (*self.names, *self.clients):
                world.call(node, CHANNEL, Advertise(Criteria(("kind", "any", 0))), lambda reply: None)
        for other in self.others:
            node = other.name.removeprefix("at ")
            other.at = (node, world.subscribe(node, CHANNEL, other.criteria))
        for wanderer in self.objects:
            self._come(wanderer)
        for node in dice.sample(self.names, min(3, len(self.names))):
            at = BEGIN
            while (at := at + dice.expovariate(1.5)) < END:
                world.at(at, lambda node=node: self._publish(node, None))

    def _wander(self, wanderer: Listener) -> None:
        """It stays a while, goes, and comes back elsewhere; at the end it is there."""
        at = self.world.now + self.dice.expovariate(0.25)
        if at < END + 10:
            away = self.dice.choice([0.0, 0.01, self.dice.expovariate(0.3)])
            self.world.at(max(at, BEGIN), lambda: self._go(wanderer, away))

    def _come(self, wanderer: Listener) -> None:
        node = self.dice.choice([*self.names, *self.clients])
        number = self.world.subscribe(node, CHANNEL, wanderer.criteria)
        wanderer.at = (node, number)
        self.moves += 1
        self.world.call(node, CHANNEL, KeepSession(number, wanderer.name, wanderer.place), lambda reply: None)
        self._wander(wanderer)

    def _go(self, wanderer: Listener, away: float) -> None:
        """Disconnect; below a dispatcher only when that one has all that was published here."""
        assert wanderer.at is not None
        node, number = wanderer.at
        if node in self.clients and self._template(node).relay.unconfirmed:
            self.world.at(self.world.now + 0.1, lambda: self._go(wanderer, away))
            return
        wanderer.at = None
        self.world.unsubscribe(node, CHANNEL, number)
        self.world.at(self.world.now + away, lambda: self._come(wanderer))

    def _template(self, node: str) -> Any:
        engine = self.world.engine(node)
        assert engine is not None
        return engine.instance(CHANNEL).template

    def _publish(self, node: str, speaker: Listener | None) -> None:
        engine = self.world.engine(node)
        assert engine is not None
        if engine.instance(CHANNEL).obstacle:
            return
        attributes = {"kind": self.dice.randrange(KINDS)}
        index = len(self.events)
        number = self.world.publish(node, CHANNEL, b"", Envelope(attributes))  # delivered here at once
        assert len(self.events) == index + 1
        if speaker is not None:
            speaker.past |= 1 << index
        self._numbers[node, number] = index

    def published(self, world: World, node: str, life: int, channel: str, number: int, *_: Any) -> None:
        """An event depends on what was heard where it is published, and by who published it."""
        envelope: Envelope = _[-1]
        here = [each for each in (*self.objects, *self.others) if each.at and each.at[0] == node]
        past = 0
        for each in here:
            past |= each.past
        self._numbers[node, number] = len(self.events)
        self.events.append((dict(envelope.attributes), past))

    def delivered(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        subscription: int,
        parcel: Parcel,
        picks: tuple[int, ...] | None,
    ) -> None:
        listener = next(
            (each for each in (*self.objects, *self.others) if each.at == (node, subscription)), None
        )
        if listener is None:
            return  # it left in the same instant, and was not told any more
        event = self._numbers[parcel.stamp.node, parcel.stamp.first]
        if listener.past >> event & 1 and event in listener.got:
            self.wrong.append(f"{listener.name} got event {event} twice, at {node}")
        elif listener.behind >> event & 1:
            self.wrong.append(f"{listener.name} got event {event} after what depends on it, at {node}")
        listener.got.append(event)
        listener.behind |= self.events[event][1]
        listener.past |= self.events[event][1] | 1 << event
        if parcel.place is not None:
            listener.place = parcel.place
            done = SessionDone(listener.name, (parcel.place, parcel.stamp.count - 1))
            world.call(node, channel, done, lambda reply: None)
        if world.now < END and self.dice.random() < listener.talks:
            world.at(world.now, lambda: self._answer(listener, node))

    def _answer(self, listener: Listener, node: str) -> None:
        if listener.at is not None:
            self._publish(listener.at[0], listener)

    def run(self) -> History:
        """Let everything happen, and look whether anything is missing."""
        for instant in OVER:
            self.world.run(instant)
            lacking = [fault for each in (*self.objects, *self.others) if (fault := self._lacking(each))]
            if not lacking:
                break
        self.wrong += lacking
        return self

    def _lacking(self, listener: Listener) -> str:
        wanted = [n for n, (own, _) in enumerate(self.events) if listener.criteria.matches(own)]
        missing = sorted(set(wanted) - set(listener.got))
        return f"{listener.name} lacks {len(missing)} of {len(wanted)}: {missing[:5]}" if missing else ""


def told(seed: int) -> tuple[int, int, int, int, list[str]]:
    """Seed, events, deliveries to objects, moves and faults of one history."""
    history = History(seed).run()
    heard = sum(len(each.got) for each in history.objects)
    return seed, len(history.events), heard, history.moves, history.wrong


def main(arguments: Sequence[str]) -> int:
    """Run so many histories from a seed on, two at a time."""
    count, first = (int(each) for each in (*arguments, *("1000", "1")[len(arguments) :]))
    failed = events = heard = moves = 0
    with ProcessPoolExecutor(2) as pool:
        for seed, own, deliveries, wandered, wrong in pool.map(
            told, range(first, first + count), chunksize=5
        ):
            events, heard, moves = events + own, heard + deliveries, moves + wandered
            failed += bool(wrong)
            for each in wrong[:3]:
                print(f"history {seed}: {each}", flush=True)
    print(f"{count} histories, {moves} comings, {events} events, {heard} deliveries to who moves: ", end="")
    print(f"{failed} with something missing, twice or out of order")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
