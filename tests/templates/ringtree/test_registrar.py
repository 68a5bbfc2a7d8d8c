"""The registration service while many come and go at once, and while the service itself does."""

from __future__ import annotations

from random import Random

import pytest

from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.rules import Loss, Partition
from gossamer.templates.ringtree.messages import Seat
from tests.templates.ringtree.rings import CHANNEL, Ring, names

TWO = {"": ("s0", "s1")}


def around(seats: dict[str, Seat | None]) -> dict[str, tuple[object, ...]]:
    """Seats without the numbers of the messages that told of them."""
    return {
        name: (seat.entries, seat.slot, seat.parent, seat.left, seat.right, seat.left_child, seat.right_child)
        for name, seat in seats.items()
        if seat
    }


def agrees(own: Ring) -> None:
    """Whether there is one service, and members and list say the same."""
    assert len(own.registrars()) == 1
    assert own.seats() == own.listed()


# many at once


@pytest.mark.parametrize("seed", range(4))
def test_members_and_list_agree_after_many_failed_joined_left_and_returned_at_once(seed: int) -> None:
    link = LinkModel(jitter=0.02, duplicate=0.05, reorder=0.05)
    own = Ring(60, 8, seed=seed, link=link, mend=3.0, refresh=5.0)
    own.world.add_rule(Loss(probability=0.1, start=own.world.now, end=own.world.now + 30.0))
    dice, present = Random(seed), names("m", 60)
    for wave in range(4):
        dice.shuffle(present)
        dead, gone = present[:12], present[12:16]
        own.kill(*dead)
        for name in gone:
            (number,) = own.world.engine(name).instance(CHANNEL).context.subscribers  # type: ignore[union-attr]
            own.world.unsubscribe(name, CHANNEL, number)
        fresh = [f"m{100 * (wave + 1) + number}" for number in range(9)]
        own.add(*fresh)
        for name in fresh:
            own.world.at(own.world.now + 2 * dice.random(), lambda name=name: own.join(name))  # type: ignore[misc]
        own.run(1.0 + 3 * dice.random())
        for name in dead[:6]:
            own.world.restart(name)
            own.join(name)
        for name in gone:
            own.join(name)
        own.run(2.0)
        present = sorted(own.members())
    own.run(90.0)
    agrees(own)
    ((_, registrar),) = own.registrars().items()
    ((_, crowd),) = registrar.crowds
    assert crowd.roll is not None
    assert crowd.roll.open == ()
    assert sorted(crowd.roll.where) == sorted(own.members())
    assert not own.ledger.examples


def test_a_member_that_was_taken_for_dead_asks_again_and_becomes_a_leaf() -> None:
    own = Ring(28, 16, mend=0.0)
    own.world.add_rule(Partition(parts=(("m7",),), start=own.world.now, end=own.world.now + 20.0))
    own.run(10.0)
    assert "m7" not in own.listed()
    own.run(60.0)
    agrees(own)
    assert own.at("m7").member.seat.slot == 28  # type: ignore[union-attr]
    assert own.lost() == set()


def test_it_costs_a_few_messages_when_one_member_fails() -> None:
    own = Ring(124, 16, mend=0.0, heartbeat=1.0, refresh=3600.0)
    own.run(5.0)

    def said(seconds: float) -> int:
        before = own.world.messages["control"]
        own.run(seconds)
        return own.world.messages["control"] - before

    quiet = said(10.0)
    own.kill("m20")
    assert abs(said(10.0) - quiet) < 60


# the service itself


def test_when_the_server_dies_the_next_takes_over_and_everybody_keeps_the_seat() -> None:
    own = Ring(40, 16, servers=TWO, mend=0.0)
    before = around(own.seats())
    own.kill("s0")
    own.run(1.0)
    assert own.lost() == set()  # nobody needs the service
    own.run(60.0)
    agrees(own)
    assert list(own.registrars()) == ["s1"]
    assert around(own.seats()) == before
    own.add("m100")
    own.join("m100")
    own.kill("m7")
    own.run(20.0)
    agrees(own)
    assert own.lost() == set()


def test_who_fails_together_with_the_server_is_missed_by_the_next() -> None:
    own = Ring(40, 16, servers=TWO, mend=3.0)
    own.kill("s0", "m7", "m8", "m18")
    own.run(80.0)
    agrees(own)
    assert own.lost() == set()
    assert not {"m7", "m8", "m18"} & own.listed().keys()


def test_a_server_that_is_back_serves_again() -> None:
    own = Ring(40, 16, servers=TWO, mend=0.0)
    before = around(own.seats())
    own.kill("s0")
    own.run(60.0)
    own.world.restart("s0")
    own.run(60.0)
    agrees(own)
    assert list(own.registrars()) == ["s0"]
    assert around(own.seats()) == before
    assert own.lost() == set()


def test_a_single_server_that_restarts_learns_the_list_from_its_members() -> None:
    own = Ring(40, 16, mend=0.0, refresh=10.0)
    before = around(own.seats())
    own.kill("s0")
    own.run(5.0)
    own.world.restart("s0")
    own.run(40.0)
    agrees(own)
    assert around(own.seats()) == before
    assert own.lost() == set()


def test_two_sides_of_a_partition_are_served_each_and_afterwards_together() -> None:
    own = Ring(40, 16, servers=TWO, mend=3.0, refresh=10.0)
    part = ("s1", "p1", *(f"m{number}" for number in range(0, 40, 2)))
    own.world.add_rule(Partition(parts=(part,), start=own.world.now, end=own.world.now + 60.0))
    own.run(58.0)
    assert sorted(own.registrars()) == ["s0", "s1"]
    assert own.reached("p1") == {f"m{number}" for number in range(0, 40, 2)}
    own.run(80.0)
    agrees(own)
    assert own.lost() == set()
    assert own.lost("p1") == set()
