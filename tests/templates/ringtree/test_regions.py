"""Regions: each with its own service and lists, and an event crosses each border once."""

from __future__ import annotations

from collections import Counter

from gossamer.core.event import Criteria, Envelope
from tests.templates.ringtree.rings import Ring

SERVERS = {"eu": ("e0", "e1"), "us": ("u0",), "asia": ("a0",)}
REGION_OF = {"e": "eu", "u": "us", "a": "asia"}


def regions(**settings: object) -> Ring:
    """Three regions with 20 members and 4 publishers each: em0, ep0 and so on."""
    own = Ring(0, 0, servers=SERVERS, mend=3.0, refresh=10.0, **settings)
    for letter, region in REGION_OF.items():
        for server in SERVERS[region]:
            own.world.set(server, "region", region)
        members = [f"{letter}m{number}" for number in range(20)]
        publishers = [f"{letter}p{number}" for number in range(4)]
        own.add(*members, *publishers, region=region)
        for name in members:
            own.join(name)
        for name in publishers:
            own.offer(name)
    own.run(8.0)
    return own


def members(*letters: str) -> set[str]:
    return {f"{letter}m{number}" for letter in letters for number in range(20)}


def crossings(own: Ring) -> Counter[tuple[str, str]]:
    """How often parcels went from one region to another."""
    ends = ((REGION_OF[sender[0]], REGION_OF[receiver[0]]) for sender, receiver, _ in own.hops)
    return Counter((one, other) for one, other in ends if one != other)


def test_an_event_reaches_all_regions_and_crosses_each_border_once() -> None:
    own = regions()
    assert own.reached("ep1") == members("e", "u", "a")
    assert crossings(own) == {("eu", "us"): 1, ("eu", "asia"): 1}
    assert own.reached("ap3") == members("e", "u", "a")
    assert crossings(own) == {("asia", "us"): 1, ("asia", "eu"): 1}
    assert not own.ledger.examples


def test_lists_and_rings_keep_to_their_region() -> None:
    own = regions()
    for name in members("e", "u", "a"):
        seat = own.at(name).member.seat
        assert seat is not None
        near = {seat.parent, seat.left, seat.right, seat.left_child, seat.right_child} - {""}
        assert {each[0] for each in near} == {name[0]}


def test_a_server_that_publishes_or_listens_itself_crosses_no_border_twice() -> None:
    own = regions()
    own.join("e0")
    own.join("u0")
    own.run(3.0)
    assert own.reached("e0") == members("e", "u", "a") | {"e0", "u0"}
    assert crossings(own) == {("eu", "us"): 1, ("eu", "asia"): 1}
    own.reached("up0")
    assert crossings(own) == {("us", "eu"): 1, ("us", "asia"): 1}


def test_nothing_crosses_a_border_behind_which_nobody_wants_it() -> None:
    own = Ring(0, 0, servers=SERVERS, refresh=10.0)
    for letter, region in REGION_OF.items():
        own.world.set(f"{letter}0", "region", region)
        own.add(f"{letter}m0", f"{letter}p0", region=region)
    own.join("em0", Criteria(event="trade"))
    own.join("um0", Criteria(event="trade"))
    own.join("am0", Criteria(event="quote"))
    own.offer("ep0")
    own.run(8.0)
    own.publish("ep0", Envelope({"event": "trade"}))
    assert crossings(own) == {("eu", "us"): 1}
    own.hops.clear()
    own.publish("ep0", Envelope({"event": "news"}))
    assert own.hops == []


def test_another_server_of_a_region_takes_over_its_borders() -> None:
    own = regions()
    own.kill("e0")
    own.run(60.0)
    assert own.reached("up0") == members("e", "u", "a")
    assert own.reached("ep0") == members("e", "u", "a")
    assert crossings(own) == {("eu", "us"): 1, ("eu", "asia"): 1}


def test_when_nobody_in_a_region_wants_anything_any_more_nothing_goes_there() -> None:
    own = regions()
    for number in range(20):
        name = f"um{number}"
        (subscription,) = own.world.engine(name).instance("news").context.subscribers  # type: ignore[union-attr]
        own.world.unsubscribe(name, "news", subscription)
    own.run(5.0)
    assert own.reached("ep0") == members("e", "a")
    assert crossings(own) == {("eu", "asia"): 1}


def test_nodes_of_a_region_that_nobody_serves_are_together_in_the_one_without_a_name() -> None:
    own = Ring(0, 0, servers={"eu": ("e0",)}, refresh=10.0)
    own.world.set("e0", "region", "eu")
    own.add("em0", "ep0", region="eu")
    own.add("xm0", "xm1", region="mars")
    for name in ("em0", "xm0", "xm1"):
        own.join(name)
    own.offer("ep0")
    own.run(12.0)
    assert own.reached("ep0") == {"em0", "xm0", "xm1"}
