"""Ringtree in a world: structure, the three rules one by one, repair."""

from __future__ import annotations

import pytest

from gossamer.core.errors import NotAdvertised
from gossamer.core.event import Criteria, Envelope
from gossamer.core.operations import Advertise, Withdraw
from gossamer.templates.ringtree.template import RingTree
from tests.templates.ringtree.rings import CHANNEL, Ring, names

DETECTED = 6.0
"""Seconds until a dead neighbour is missing, at one heartbeat a second and a patience of three."""

# Four entry points: ring 0 is m0 to m3, ring 1 m4 to m11, ring 2 m12 to m27. Place 3 of ring 1 is m7; its
# children are m18 and m19. Place 4 is m8, with m20 and m21.


def ring(kind: type[RingTree] = RingTree, mend: float = 0.0) -> Ring:
    return Ring(28, 16, kind=kind, mend=mend)


def after(*dead: str, kind: type[RingTree] = RingTree) -> Ring:
    """A ring in which some have failed and are missed, and nobody takes their place."""
    own = ring(kind)
    own.kill(*dead)
    own.run(DETECTED)
    return own


def without(rule: int) -> type[RingTree]:
    """Members that do not follow one of the rules."""
    return type(f"Without{rule}", (RingTree,), {"rules": RingTree.rules - {rule}})


def feeds(own: Ring, publisher: str) -> list[str]:
    """The entry points that a publisher knows."""
    return [name for each in own.at(publisher).member.entries.values() for name in each.entries]


# structure


def test_sixteen_publishers_know_four_members_and_each_member_feeds_two() -> None:
    own = ring()
    assert own.lost() == set()
    loads = own.loads()
    assert loads["p0"] == 4
    assert {loads[name] for name in names("m", 12)} == {2}
    assert sum(loads.values()) == 28
    assert [entries.entries for entries in own.at("p5").member.entries.values()] == [("m0", "m1", "m2", "m3")]


def test_the_ring_of_entry_points_grows_with_the_publishers_and_nobody_misses_anything_meanwhile() -> None:
    own = Ring(28, 4, mend=0.0)
    assert len(feeds(own, "p0")) == 2
    own.add(*(f"p{number}" for number in range(4, 17)))
    for name in [f"p{number}" for number in range(4, 17)]:
        own.offer(name)
    for _ in range(40):
        own.publish(wait=0.05)
    own.run(5.0)
    assert len(feeds(own, "p0")) == 5
    assert own.lost() == set()
    assert all(own.got[name] == list(range(1, 42)) for name in names("m", 28))


def test_a_member_that_publishes_feeds_the_ring_and_gets_its_own_once() -> None:
    own = ring()
    assert own.reached("m20") == set(names("m", 28))
    assert own.got["m20"] == [1]


def test_a_second_copy_is_refused_and_memory_is_bounded() -> None:
    own = Ring(7, 2, window=10)
    for _ in range(100):
        own.publish(wait=0.05)
    seen = own.at("m3").seen
    assert all(len(each.recent) <= 20 for source in seen._recent.values() for each in source.windows)
    assert own.got["m3"] == list(range(1, 101))
    assert not own.ledger.examples


# the rules


def test_a_dead_member_costs_nobody_anything() -> None:
    own = after("m7")
    assert own.lost() == set()
    assert own.feeders("m18")[0] == "m6"


def test_the_first_rule_feeds_the_left_child() -> None:
    assert after("m7", "m19").lost() == set()
    assert after("m7", "m19", kind=without(1)).lost() == {"m18"}


def test_the_second_rule_alone_feeds_the_right_child_when_the_left_is_dead_too() -> None:
    own = after("m7", "m18")
    assert own.lost() == set()
    assert own.feeders("m19") == ["m8"]
    assert after("m7", "m18", kind=without(2)).lost() == {"m19"}


def test_two_dead_neighbours_need_the_third_rule() -> None:
    own = after("m7", "m8")
    assert own.lost() == set()
    assert (own.feeders("m19")[0], own.feeders("m20")[0]) == ("m18", "m19")
    assert after("m7", "m8", kind=without(3)).lost() == {"m19", "m20"}


def test_a_whole_ring_dead_but_for_one_misses_nobody() -> None:
    own = after(*(f"m{number}" for number in range(5, 12)))
    assert own.lost() == set()
    assert after(*(f"m{number}" for number in range(5, 12)), kind=without(3)).lost()


def test_a_member_serves_three_and_with_both_neighbours_dead_four() -> None:
    own = after("m7")
    own.reached()
    assert max(own.loads()[name] for name in names("m", 28)) == 3
    own = after("m6", "m8")
    own.reached()
    assert own.loads()["m7"] == 4
    assert max(own.loads()[name] for name in names("m", 28)) == 4


def test_a_ring_of_one_is_looked_after_by_the_service() -> None:
    own = Ring(7, 1, mend=0.0)
    own.kill("m0")
    assert own.lost() == own.members()
    own.run(DETECTED)
    assert own.lost() == set()
    assert feeds(own, "p0") == ["m1", "m2"]


# repair


def test_two_dead_neighbours_and_a_dead_child_lose_two_until_a_newcomer_takes_the_slot() -> None:
    own = after("m7", "m8", "m18")
    assert own.lost() == {"m19", "m20"}
    own.add("m100")
    own.join("m100")
    own.run(2.0)
    assert own.at("m100").member.seat.slot == 7  # type: ignore[union-attr]
    assert own.lost() == set()


def test_without_newcomers_leaves_are_moved_into_open_slots() -> None:
    own = ring(mend=5.0)
    own.kill("m7", "m8", "m18")
    own.run(DETECTED)
    assert own.lost() == {"m19", "m20"}
    own.run(12.0)
    assert own.lost() == set()
    registrar = own.at("s0").service.registrar
    assert registrar is not None
    ((_, crowd),) = registrar.crowds
    assert crowd.roll is not None
    assert crowd.roll.open == ()
    assert (crowd.roll.at(7), crowd.roll.at(8), crowd.roll.at(18)) == ("m27", "m26", "m25")


def test_a_node_that_returns_becomes_a_leaf() -> None:
    own = after("m7")
    own.world.restart("m7")
    own.join("m7")
    own.run(3.0)
    assert own.at("m7").member.seat.slot == 28  # type: ignore[union-attr]
    assert own.lost() == set()


def test_who_returns_before_anybody_misses_it_becomes_a_leaf_too() -> None:
    own = ring()
    own.kill("m7")
    own.world.restart("m7")
    own.join("m7")
    own.run(3.0)
    assert own.at("m7").member.seat.slot == 28  # type: ignore[union-attr]
    assert own.lost() == set()


# groups by attribute


def test_events_go_only_to_groups_that_want_them() -> None:
    own = Ring(0, 2)
    own.add("m0", "m1", "m2", "m3")
    own.join("m0", Criteria(event="trade"))
    own.join("m1", Criteria(event="quote"))
    own.join("m2", Criteria(("price", ">", 10)))
    own.join("m3", Criteria(event="trade"))
    own.join("m3", Criteria(event="quote"))
    own.run(3.0)
    own.publish("p0", Envelope({"event": "trade", "price": 5}))
    own.publish("p0", Envelope({"event": "quote", "price": 50}))
    own.publish("p0", Envelope({"event": "news"}))
    assert {name: own.got[name] for name in names("m", 4)} == {
        "m0": [1],
        "m1": [2],
        "m2": [2],
        "m3": [1, 2],
    }
    received = {(receiver, parcel.stamp.first) for _, receiver, parcel in own.hops}
    assert received == {("m0", 1), ("m3", 1), ("m1", 2), ("m2", 2), ("m3", 2)}


def test_publishers_are_matched_by_what_they_advertise_and_publish_nothing_else() -> None:
    own = Ring(0, 0)
    own.add("p0", "p1", "m0", "m1")
    own.join("m0", Criteria(event="trade"))
    own.join("m1", Criteria(event="quote"))
    own.world.call("p0", CHANNEL, Advertise(Criteria(event="trade")), lambda reply: None)
    own.world.call("p1", CHANNEL, Advertise(Criteria(event="quote")), lambda reply: None)
    own.run(3.0)
    assert feeds(own, "p0") == ["m0"]
    assert feeds(own, "p1") == ["m1"]
    with pytest.raises(NotAdvertised):
        own.publish("p0", Envelope({"event": "quote"}))
    own.publish("p0", Envelope({"event": "trade"}))
    own.world.call("p0", CHANNEL, Withdraw(Criteria(event="trade")), lambda reply: None)
    own.run(1.0)
    own.publish("p0", Envelope({"event": "quote"}))
    assert (own.got["m0"], own.got["m1"]) == ([1], [2])


def test_who_wants_something_else_moves_to_another_group() -> None:
    own = Ring(0, 1)
    own.add("m0", "m1")
    first = own.join("m0", Criteria(event="trade"))
    own.join("m1", Criteria(event="trade"))
    own.run(2.0)
    own.join("m0", Criteria(event="quote"))
    own.world.unsubscribe("m0", CHANNEL, first)
    own.run(3.0)
    own.publish("p0", Envelope({"event": "trade"}))
    own.publish("p0", Envelope({"event": "quote"}))
    assert (own.got["m0"], own.got["m1"]) == ([2], [1])


def test_who_leaves_is_told_nothing_more() -> None:
    own = ring()
    own.world.unsubscribe("m5", CHANNEL, 1)
    own.run(3.0)
    assert own.at("m5").member.seat is None
    assert own.reached() == own.members() - {"m5"}
    assert own.feeders("m5") == []
