"""Things that happen to a ring at once, by seed: one correct ring at the end, nothing delivered twice.

``python -m tests.templates.multiring.cases 100`` runs all cases for a hundred seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from gossamer.core.context import CONTACTS
from gossamer.core.control import Control
from gossamer.core.wire import Item
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.invariants.checks import Ledger
from gossamer.simulator.network import rules
from gossamer.simulator.workload.agents import Publisher
from gossamer.templates.multiring.messages import Swap
from tests.templates.multiring.groups import CHANNEL, group, template, wrong

COUNT = 16
READY = 15.0
"""Virtual seconds until the group stands, inner rings included."""
SETTINGS = {"survey": 2.0, "probe": 5.0}


class Watched:
    """A group under traffic, and its books."""

    def __init__(self, seed: int, count: int = COUNT) -> None:
        self.dice = SeededDice(seed, label="case")
        self.world = group(seed, count, settings=SETTINGS, over=3.0)
        self.ledger = Ledger()
        self.world.add_witness(self.ledger)
        self.world.run(READY)
        Publisher(self.world, self.world.nodes[0], CHANNEL, rate=5.0, start=READY, end=READY + 30.0)

    def neighbour(self, name: str, rightward: bool = True) -> str:
        """Who stands next to a peer; itself if nobody does."""
        found = template(self.world, name)
        ring = found.position.ring(0) if found else None
        return ring.side(rightward)[0].name if ring and ring.neighbours else name

    def other(self) -> str:
        """A peer that does not publish."""
        return self.dice.choice(self.world.nodes[1:])

    def settles(self, since: float, within: float) -> float:
        """Seconds until the rings were right again; they have to be within so many."""
        until = since
        while until < since + within:
            until += 1.0
            self.world.run(until)
            if not wrong(self.world):
                return until - since
        raise AssertionError(f"seed {self.world.seed}: {wrong(self.world)[:3]}")

    def end(self, everything: bool) -> None:
        """Nothing twice; and whoever stayed has everything."""
        self.world.run(READY + 40.0)
        counts = self.ledger.counts
        assert counts.violations == counts.duplicates == 0, self.ledger.examples
        stayed = self.ledger.channels[CHANNEL].stayed
        assert stayed.seats > 1
        if everything:
            assert stayed.delivered == stayed.expected, f"seed {self.world.seed}: {stayed}"


def joins_at_one_place(seed: int) -> float:
    """Four peers come at the same instant, by the same contact."""
    case = Watched(seed)
    world, contact = case.world, case.other()
    inside = {name for name in world.nodes if name != contact and case.dice.random() < 0.25}
    for name in sorted(inside)[:4]:
        world.unsubscribe(name, CHANNEL, 1)
    world.run(READY + 5.0)
    for name in sorted(inside)[:4]:
        world.set(name, CONTACTS, {contact: ()})
        world.subscribe(name, CHANNEL)
    took = case.settles(READY + 5.0, 20.0)
    case.end(everything=True)
    return took


def swaps_beside_a_crash(seed: int) -> float:
    """While two change places one of them, or one next to them, crashes."""
    case = Watched(seed, 24)
    world, crashed = case.world, []

    def hear(sender: str, receiver: str, item: Item) -> None:
        swap = item.message if isinstance(item, Control) else None
        if isinstance(swap, Swap) and not crashed and world.now > READY:
            near = (sender, receiver, case.neighbour(sender, False), case.neighbour(receiver))
            victim = case.dice.choice(near)
            if victim != world.nodes[0]:
                crashed.append(victim)
                world.at(world.now + 0.3 * case.dice.random(), lambda: world.crash(victim))

    world.add_tap(hear)

    def leave(name: str) -> None:
        if world.running(name):
            world.unsubscribe(name, CHANNEL, 1)

    for number, name in enumerate(world.nodes[1:6]):  # somebody leaves: others get out of balance
        world.at(READY + number, lambda name=name: leave(name))  # type: ignore[misc]
    world.run(READY + 20.0)
    took = case.settles(READY + 20.0, 20.0)
    case.end(everything=True)
    return took


def adjacent_crashes(seed: int) -> float:
    """Two neighbours crash within a moment."""
    case = Watched(seed)
    one = case.other()
    victims = [name for name in (one, case.neighbour(one)) if name != case.world.nodes[0]]
    for name in victims:
        case.world.at(READY + 3.0 + 0.2 * case.dice.random(), lambda name=name: case.world.crash(name))  # type: ignore[misc]
    took = case.settles(READY + 3.5, 20.0)
    case.end(everything=True)
    return took


def partition_that_heals(seed: int) -> float:
    """Some of the peers are cut off for a while, long enough for two rings."""
    case = Watched(seed)
    part = tuple(name for name in case.world.nodes if case.dice.random() < 0.5)
    start, end = READY + 2.0, READY + 2.0 + 12.0 * case.dice.random()
    if part:
        case.world.add_rule(rules.Partition(parts=(part,), start=start, end=end))
    case.world.run(end)
    took = case.settles(end, 60.0)
    case.end(everything=False)
    return took


CASES: dict[str, Callable[[int], float]] = {
    each.__name__: each
    for each in (joins_at_one_place, swaps_beside_a_crash, adjacent_crashes, partition_that_heals)
}


def main(seeds: int) -> int:
    """All cases for so many seeds; what went wrong is printed."""
    failed = 0
    for name, case in CASES.items():
        times = []
        for seed in range(1, seeds + 1):
            try:
                times.append(case(seed))
            except AssertionError as error:
                failed += 1
                print(f"{name}: {error}", flush=True)
        times.sort()
        if times:
            middle, last = times[len(times) // 2], times[-1]
            print(f"{name}: {len(times)} of {seeds} seeds, right after {middle:g} s, at most {last:g} s")
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]))))
