"""Groups in the simulator: they form, mend and balance their rings, and everybody gets everything."""

from __future__ import annotations

import math

import pytest

from gossamer.core.context import UNREAD, Context
from gossamer.core.control import Control
from gossamer.core.names import NANOSECONDS
from gossamer.core.parcel import Parcel
from gossamer.core.wire import Item
from gossamer.simulator.invariants.checks import Ledger
from gossamer.simulator.workload.agents import Publisher
from gossamer.simulator.world import World
from gossamer.templates.multiring.membership import Stage
from gossamer.templates.multiring.messages import Activate, Close, CloseAck, Meet, Ready, SwapAck
from gossamer.templates.multiring.template import Multiring
from tests.templates.multiring.cases import CASES
from tests.templates.multiring.groups import CHANNEL, group, hops, members, template, wrong


def right(world: World, until: float, within: float = 20.0) -> float:
    """Let time pass until all rings are right."""
    end = until + within
    while until < end:
        until += 0.5
        world.run(until)
        if not wrong(world):
            return until
    raise AssertionError(wrong(world)[:3])


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_peers_that_come_one_after_the_other_stand_in_one_ring(count: int) -> None:
    world = group(1, count)
    right(world, 8.0)
    assert len(members(world)) == count


def test_who_leaves_while_it_comes_into_an_inner_ring_is_out() -> None:
    world = group(1, 10, settings={"survey": 0})
    right(world, 8.0)
    leaver, left, other = (template(world, name) for name in ("p05", "p01", "p02"))
    assert leaver is not None
    assert left is not None
    assert other is not None
    ctx = world.engine("p05").instance(CHANNEL).context  # type: ignore[union-attr]
    leaver.joining.between(ctx, 1, left.position.me, other.position.me)
    world.unsubscribe("p05", CHANNEL, 1)
    right(world, 12.0)
    for name, each in (("p01", left), ("p02", other)):  # answers that were long on their way
        leaver.ready(ctx, Ready(1, each.position.me, (), ()), name)
    assert not leaver.position.rings


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_peers_that_come_at_the_same_instant_stand_in_one_ring(seed: int) -> None:
    world = group(seed, 30, over=0.0)
    right(world, 10.0, within=40.0)
    assert len(members(world)) == 30


def test_a_newcomer_stands_between_the_nearest_and_nothing_is_active_before_all_are_ready() -> None:
    world = group(1, 12, settings={"survey": 0})
    right(world, 8.0)
    world.unsubscribe("p05", CHANNEL, 1)
    world.run(12.0)
    heard: list[tuple[str, str, object]] = []
    world.add_tap(lambda a, b, item: heard.append((a, b, getattr(item, "message", item))))
    before = {name: each.spreading.hops for name, each in members(world)}
    world.subscribe("p05", CHANNEL)
    while not any(isinstance(what, Activate) for _, _, what in heard):
        assert {name: each.spreading.hops for name, each in members(world)} == before
        world.run(world.now + 0.001)
    ready = [a for a, b, what in heard if isinstance(what, Ready)]
    told = [b for _, b, what in heard if isinstance(what, Activate)]
    assert sorted(set(ready)) == sorted(set(told) & set(ready))
    assert len(set(ready)) >= 3  # both neighbours, and those behind them
    right(world, world.now)


def test_who_leaves_serves_until_all_around_have_acknowledged() -> None:
    world = group(1, 12, settings={"survey": 0})
    at = right(world, 8.0)
    heard: list[tuple[str, str, object]] = []
    world.add_tap(lambda a, b, item: heard.append((a, b, getattr(item, "message", item))))
    around = {
        person.name
        for ring in template(world, "p05").position.rings
        for person in ring.left[:2] + ring.right[:2]
    }  # type: ignore[union-attr]
    world.unsubscribe("p05", CHANNEL, 1)
    while template(world, "p05").position.rings:  # type: ignore[union-attr]
        assert template(world, "p05").spreading.hops  # type: ignore[union-attr]
        world.run(world.now + 0.01)
    assert {b for _, b, what in heard if isinstance(what, Close)} == around
    assert {a for a, _, what in heard if isinstance(what, CloseAck)} == around
    assert world.now - at < 2.0
    right(world, world.now)


@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_crash_the_ring_is_whole_within_two_seconds_and_nobody_misses_anything(seed: int) -> None:
    world = group(seed, 40, settings={"survey": 0})
    ledger = Ledger()
    world.add_witness(ledger)
    at = right(world, 8.0)
    Publisher(world, "p01", CHANNEL, rate=20.0, start=at, end=at + 20.0)
    for number in range(5):
        world.run(at + 3 * number + 1)
        world.crash(f"p{10 + 5 * number}")
        world.run(world.now + 2.0)
        assert not wrong(world)
    world.run(at + 25)
    stayed = ledger.channels[CHANNEL].stayed
    assert stayed.seats == 35
    assert stayed.delivered == stayed.expected
    assert not ledger.counts.violations


def _one_of_eight() -> tuple[World, Multiring, Context]:
    """A peer of a small group, as it is inside."""
    world = group(1, 8, settings={"survey": 0})
    right(world, 8.0)
    one, engine = template(world, "p1"), world.engine("p1")
    assert one is not None
    assert engine is not None
    return world, one, engine.instance(CHANNEL).context


def test_who_moves_up_and_is_dead_as_well_is_given_up_after_half_the_silence_and_not_a_beat_later() -> None:
    world, one, _ = _one_of_eight()
    near, behind = one.position.rings[0].left[:2]
    world.crash(near.name)
    world.crash(behind.name)
    while not one.upkeep.repairs:
        world.run(world.now + 0.01)
    assert behind.name in one.spreading.links
    world.run(world.now + one.settings.silence / 2)
    assert one.upkeep.repairs == 2
    assert behind.name not in one.spreading.links


def test_neighbours_that_nobody_listens_to_here_are_not_taken_for_dead() -> None:
    world, deaf, ctx = _one_of_eight()
    for link in deaf.spreading.links.values():
        link.heard = 0
    world.set("p1", UNREAD, deaf.spreading.hops)
    deaf.upkeep.tick(ctx)
    assert not deaf.upkeep.repairs
    world.set("p1", UNREAD, ())
    for _ in range(3):
        ctx.now += NANOSECONDS // 2
        deaf.upkeep.tick(ctx)
    assert deaf.upkeep.repairs == 2


def test_who_was_held_up_itself_takes_nobody_for_dead() -> None:
    _, late, ctx = _one_of_eight()
    ctx.now += 5 * NANOSECONDS
    late.upkeep.tick(ctx)
    assert not late.upkeep.repairs


def test_after_the_mode_switch_little_comes_twice_and_ways_are_short() -> None:
    world = group(3, 60, over=5.0)
    right(world, 25.0, within=60.0)
    names = [name for name, _ in members(world)]
    mean, _ = hops(world, names[:20])
    assert mean <= 1.5 * 4 * math.log(60, 4) / 2
    Publisher(world, "p01", CHANNEL, rate=20.0, size=500, start=world.now)
    world.run(world.now + 3.0)
    before = world.figures[CHANNEL]
    world.run(world.now + 5.0)
    after = world.figures[CHANNEL]
    twice, once = (after[name] - before[name] for name in ("bytes taken twice", "bytes taken"))
    assert once > 59 * 90 * 500
    assert twice < 0.05 * (once + twice)


def test_swaps_under_traffic_lose_nothing() -> None:
    world = group(2, 40, settings={"survey": 1.0})
    ledger = Ledger()
    world.add_witness(ledger)
    world.run(6.0)
    swaps = 0

    def hear(sender: str, receiver: str, item: Item) -> None:
        nonlocal swaps
        swaps += isinstance(item, Control) and isinstance(item.message, SwapAck) and bool(item.message.beyond)

    world.add_tap(hear)
    Publisher(world, "p01", CHANNEL, rate=20.0, start=6.0, end=14.0)
    world.run(20.0)
    stayed = ledger.channels[CHANNEL].stayed
    assert swaps >= 3
    assert stayed.delivered == stayed.expected
    assert not ledger.counts.violations


def test_who_only_publishes_stays_outside_and_finds_another_entry_when_the_first_crashes() -> None:
    world = group(1, 12, settings={"survey": 0})
    ledger = Ledger()
    world.add_witness(ledger)
    at = right(world, 8.0)
    world.unsubscribe("p12", CHANNEL, 1)
    world.run(at + 3)
    Publisher(world, "p12", CHANNEL, rate=10.0, start=at + 3, end=at + 13)
    world.run(at + 6)
    entry = template(world, "p12").entrance.entry  # type: ignore[union-attr]
    assert entry is not None
    assert "p12" not in {name for name, _ in members(world)}
    world.crash(entry)
    world.run(at + 20)
    assert ledger.counts.published == 100
    stayed = ledger.channels[CHANNEL].stayed
    assert stayed.delivered == stayed.expected


def test_who_stands_far_from_its_place_is_brought_there_by_who_it_takes_for_its_neighbour() -> None:
    """It would come there by itself, three peers a step: in a ring of thousands that took minutes."""
    world = group(1, 60)
    end = right(world, 12.0, within=40.0)
    ordered = [each for _, each in sorted(members(world), key=lambda each: each[1].position.me.key)]
    stray, far = ordered[0], ordered[30]
    for each in ordered:
        each.position.rings[0].drop(stray.position.me.name)
    stray.position.rings[0].left = stray.position.rings[0].right = (far.position.me,)
    ctx = world.engine(stray.position.me.name).instance(CHANNEL).context  # type: ignore[union-attr]
    stray.position.settle(ctx)
    brought: list[Meet] = []
    world.add_tap(lambda sender, to, item: _note(item, brought))
    assert right(world, end) - end < 4
    assert {each.person.name for each in brought} == {stray.position.me.name}


def _note(item: Item, brought: list[Meet]) -> None:
    if isinstance(item, Control) and isinstance(item.message, Meet):
        brought.append(item.message)


def test_who_left_while_it_was_looking_for_the_group_comes_in_the_next_time() -> None:
    world = group(1, 12, settings={"survey": 0})
    at = right(world, 8.0)
    world.unsubscribe("p12", CHANNEL, 1)
    world.run(at + 3)
    number = world.subscribe("p12", CHANNEL)
    while template(world, "p12").entrance.stage is not Stage.SOUNDING:  # type: ignore[union-attr]
        world.run(world.now + 0.005)
    world.unsubscribe("p12", CHANNEL, number)
    world.run(world.now + 5)
    assert template(world, "p12").entrance.entry is None  # type: ignore[union-attr]
    world.subscribe("p12", CHANNEL)
    right(world, world.now + 3)
    assert len(members(world)) == 12


def test_a_publisher_outside_that_begins_to_listen_comes_in() -> None:
    world = group(1, 12, settings={"survey": 0, "beat": 0.05})
    at = right(world, 8.0)
    world.unsubscribe("p12", CHANNEL, 1)
    world.run(at + 3)
    Publisher(world, "p12", CHANNEL, rate=10.0, start=at + 3, end=at + 30)
    world.run(at + 8)
    assert template(world, "p12").entrance.entry is not None  # type: ignore[union-attr]
    world.subscribe("p12", CHANNEL)
    right(world, world.now + 3)
    assert len(members(world)) == 12


def test_a_link_that_comes_to_a_peer_that_gets_everything_already_only_announces() -> None:
    world = group(4, 30, settings={"survey": 0})
    at = right(world, 8.0)
    Publisher(world, "p01", CHANNEL, rate=10.0, start=at, end=at + 5)
    world.run(at + 15)  # what came lately has been forgotten: nothing but the crash changes modes
    inside = dict(members(world))
    secondary = 0
    for victim in ("p07", "p15", "p23"):
        around = [
            line[0].name
            for line in (inside[victim].position.rings[0].left, inside[victim].position.rings[0].right)
        ]
        supplied = {
            name: any(
                link.supplies for other, link in inside[name].spreading.links.items() if other != victim
            )
            for name in around
        }
        world.crash(victim)
        right(world, world.now)
        for name, other in (around, around[::-1]):
            assert inside[name].spreading.links[other].wanted is not supplied[name]
            assert inside[other].spreading.links[name].eager is not supplied[name]
            secondary += supplied[name]
    assert 0 < secondary < 6


def test_a_crash_costs_no_parcel_of_a_transmission(  # every link carries every parcel, or word of it
) -> None:
    world = group(4, 20, settings={"survey": 0})
    right(world, 8.0)
    carried: set[tuple[str, str]] = set()

    def hear(sender: str, receiver: str, item: Item) -> None:
        if isinstance(item, Parcel) or type(item.message).__name__ == "Announce":
            carried.add((sender, receiver))

    world.publish("p01", CHANNEL, b"x")
    world.run(world.now + 1)
    world.add_tap(hear)
    world.publish("p01", CHANNEL, b"x")
    world.run(world.now + 2)
    links = {(name, hop) for name, each in members(world) for hop in each.spreading.hops}
    assert all(link in carried or link[::-1] in carried for link in links)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("seed", [1001, 1002])
def test_what_happens_at_once_ends_in_one_ring(case: object, seed: int) -> None:
    case(seed)  # type: ignore[operator]
