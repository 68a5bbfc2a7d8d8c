"""Total order: reliable, and everybody sees the same order, whoever sequences and dies."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from gossamer.consensus.messages import Entry, History, InstallSnapshot, NoSuchLog
from gossamer.core.context import Context
from gossamer.core.effect import Acknowledged, Lost, Missed
from gossamer.core.errors import ConfigError, ProtocolError
from gossamer.core.event import Criteria, Envelope, QoS
from gossamer.core.names import VIRTUAL
from gossamer.core.parcel import Parcel
from gossamer.overlay.groups.interest import Interest
from gossamer.overlay.groups.messages import TreeUpdate
from gossamer.simulator.invariants.checks import Ledger
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.rules import Loss
from gossamer.simulator.network.topology import Network
from gossamer.simulator.scenario.run import Channel, Publish, Scenario, Subscribe, build
from gossamer.simulator.workload.observers import Witness
from gossamer.simulator.world import World
from gossamer.templates.reliable.messages import Acks, Gone, Have, Missing
from gossamer.templates.total_order.order_stream import Order, order_parcel
from gossamer.templates.total_order.template import TotalOrder, TotalOrderSettings
from gossamer.testing.fake import FakeContext, parcel
from tests.templates.worlds import CHANNEL, Net

Event = tuple[str, int]
"""Source and number."""


class Orders(Witness):
    """What came where, in which order: of each node the events of its lives, one list for each life."""

    def __init__(self) -> None:
        self.got: dict[tuple[str, int], list[Event]] = defaultdict(list)
        self.gaps: list[tuple[str, str]] = []

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
        stamp = parcel.stamp
        self.got[node, life] += [
            (stamp.node, stamp.first + each) for each in (range(stamp.count) if picks is None else picks)
        ]

    def missed(
        self, world: World, node: str, life: int, channel: str, source: str, to: tuple[int, ...] | None = None
    ) -> None:
        self.gaps.append((node, source))


def net(template: type[TotalOrder[Any]] = TotalOrder, names: str = "abcd", **more: Any) -> tuple[Net, Orders]:
    """A line of nodes that all subscribe, after ten quiet seconds."""
    made = Net(template, pairwise(names), more.pop("settings", None), **more)
    orders = Orders()
    made.world.add_witness(orders)
    made.subscribe([*names, *more.get("below", ())])
    made.world.run(10)
    return made, orders


def seated(source: str, *args: Any, **more: Any) -> tuple[Net, Orders]:
    """The same with a council, after an event of a source: before it there is nothing to decide."""
    made, orders = net(*args, **more)
    made.world.publish(source, CHANNEL, b"first")
    made.world.run(15)
    orders.got.clear()
    return made, orders


def sequencer(world: World) -> list[str]:
    """Who leads now, of the nodes that are up."""
    up = [(node, world.engine(node)) for node in world.nodes if world.running(node)]
    return [node for node, engine in up if engine and engine.instance(CHANNEL).template.raft.leads]


def seats(world: World, node: str) -> int:
    """How many voters there are, as a node knows it."""
    engine = world.engine(node)
    assert engine is not None
    return len(engine.instance(CHANNEL).template.raft.seats)


# one node at a time


class Member:
    """The node m below its root a, to which a speaks."""

    def __init__(self) -> None:
        self.ctx = FakeContext("m", neighbours="a", subscribers={1: Criteria()})
        self.template = TotalOrder(TotalOrderSettings())
        self.template.on_open(self.ctx)
        self.template.group.update(self.ctx, TreeUpdate(1, 1, ("a", "m"), (0, 0), (3, 1)), "a")
        for source in ("x", "y", f"a/{VIRTUAL}a"):
            self.template.have(self.ctx, Have(source, 1, 1, 0), "a")
        self.told = 0

    def parcel(self, source: str, number: int) -> list[Event]:
        return self._take(parcel(source, number, number))

    def place(self, *places: Event, first: int, term: int = 1) -> list[Event]:
        """The order says what comes from an index on."""
        self.told += 1
        entries = tuple(Entry(term, source, 1, number) for source, number in places)
        return self._take(self.order((1, "a"), term, first, entries))

    def order(self, history: History, term: int, first: int, entries: tuple[Entry, ...]) -> Parcel:
        order = Order(history, term, first, 0, entries)
        return order_parcel(FakeContext("a"), f"a/{VIRTUAL}a", self.told, order)

    def _take(self, came: Parcel) -> list[Event]:
        """What it delivers then."""
        self.ctx.clear()
        self.template.on_parcel(self.ctx, came, "a")
        return [(each.stamp.node, each.stamp.sequence) for each in self.ctx.delivered()]


def test_a_parcel_waits_for_its_place() -> None:
    member = Member()
    assert member.parcel("x", 1) == []
    assert member.place(("x", 1), first=10) == [("x", 1)]


def test_a_place_waits_for_its_parcel_and_those_behind_wait_too() -> None:
    member = Member()
    assert member.place(("x", 1), ("y", 1), first=10) == []
    assert member.parcel("y", 1) == []
    assert member.parcel("x", 1) == [("x", 1), ("y", 1)]


def test_who_hears_of_a_place_asks_for_its_parcel_though_nobody_else_tells_of_it() -> None:
    member = Member()
    member.place(("x", 1), first=10)
    member.ctx.clear()
    for _ in range(2):
        member.template.on_timer(member.ctx, "beat")
    assert ("a", Missing("x", 1, ((1, 1),))) in member.ctx.sent()


def test_a_place_waits_for_the_places_before_it() -> None:
    member = Member()
    assert member.parcel("x", 1) == []
    assert member.parcel("y", 1) == []
    assert member.place(("x", 1), first=10) == [("x", 1)]
    assert member.place(("y", 2), first=12) == []
    assert member.parcel("y", 2) == []
    assert member.place(("y", 1), first=11) == [("y", 1), ("y", 2)]


def test_places_that_nobody_tells_are_not_waited_for_long_and_the_gap_is_told() -> None:
    member = Member()
    member.parcel("x", 1)
    member.place(("x", 1), first=10)
    member.parcel("x", 2)
    assert member.place(("x", 2), first=20) == [], "what stands between may still come"
    member.ctx.clear()
    for _ in range(50):  # ten seconds, and laggard is a minute
        member.template.on_timer(member.ctx, "beat")
    assert [(each.stamp.node, each.stamp.sequence) for each in member.ctx.delivered()] == [("x", 2)]
    assert "x" in [each.source for each in member.ctx.effects if isinstance(each, Missed)]


@pytest.mark.parametrize("teller", [(f"a/{VIRTUAL}a", 1), (f"b/{VIRTUAL}b", 1)], ids=["the same", "another"])
def test_places_that_were_told_while_a_member_was_away_are_a_gap_though_none_follow(
    teller: tuple[str, int],
) -> None:
    """All others have done them, so nobody will tell them again; what waits for them would wait for ever."""
    member = Member()
    member.parcel("x", 1)
    assert member.place(("x", 1), first=10) == [("x", 1)]
    member.parcel("x", 2)
    member.ctx.clear()
    member.template.have(member.ctx, Have(*teller, 5, 4), "a")
    for _ in range(50):  # ten seconds, and laggard is a minute
        member.template.on_timer(member.ctx, "beat")
    assert {each.source for each in member.ctx.effects if isinstance(each, Missed)} == {"x", "y"}
    member.told = 4
    assert member.parcel("x", 3) == []
    assert member.place(("x", 3), first=30) == ([("x", 3)] if teller[0] == f"a/{VIRTUAL}a" else [])


def test_the_second_of_two_gaps_in_the_order_is_told_too_though_nothing_follows() -> None:
    """Replay: python benchmarks/proof.py persistent --first 9 --seeds 9"""
    member = Member()
    order = f"a/{VIRTUAL}a"
    member.parcel("x", 1)
    assert member.place(("x", 1), first=10) == [("x", 1)]
    member.parcel("x", 2)
    member.template.have(member.ctx, Have(order, 1, 3, 3), "a")
    member.told = 2
    assert member.place(("x", 2), first=20) == []
    member.template.have(member.ctx, Have(order, 1, 9, 8), "a")
    member.ctx.clear()
    told = []
    for _ in range(2):
        for _ in range(50):  # ten seconds, and laggard is a minute
            member.template.on_timer(member.ctx, "beat")
        told.append([each.source for each in member.ctx.effects if isinstance(each, Missed)])
    assert [(each.stamp.node, each.stamp.sequence) for each in member.ctx.delivered()] == [("x", 2)]
    assert [each.count("x") for each in told] == [1, 2]


def test_who_told_the_order_in_an_earlier_life_says_that_it_is_gone() -> None:
    ctx = FakeContext("a", incarnation=2, neighbours="m")
    template = TotalOrder(TotalOrderSettings())
    template.on_open(ctx)
    template.group.update(ctx, TreeUpdate(1, 1, ("m", "a"), (0, 0), (3, 1)), "m")
    template.missing(ctx, Missing(f"a/{VIRTUAL}a", 1, ((1, 3),)), "m")
    assert ctx.sent()[-1] == ("m", Gone(f"a/{VIRTUAL}a", 1, False))


def test_a_place_that_is_told_again_changes_nothing() -> None:
    member = Member()
    member.parcel("x", 1)
    assert member.place(("x", 1), first=10) == [("x", 1)]
    assert member.place(("x", 1), ("x", 2), first=10, term=2) == []
    assert member.parcel("x", 2) == [("x", 2)]


def test_who_misses_one_parcel_of_a_source_that_lives_anew_waits_for_no_other_of_that_life() -> None:
    """All had them, so nobody keeps them, and who came late waited for each: ten minutes at full size.

    Replay: python benchmarks/proof.py total-order --first 13 --seeds 13
    """
    member = Member()
    member.place(("x", 1), ("x", 2), ("y", 1), ("x", 3), ("y", 2), first=10)
    assert member.parcel("x", 2) == member.parcel("y", 1) == member.parcel("y", 2) == []
    member.template.have(member.ctx, Have("x", 1, 1, 3, True), "a")
    member.ctx.clear()
    for _ in range(310):  # a minute, which is what laggard is
        member.template.on_timer(member.ctx, "beat")
    delivered = [(each.stamp.node, each.stamp.sequence) for each in member.ctx.delivered()]
    assert delivered == [("x", 2), ("y", 1), ("y", 2)]
    assert "x" in [each.source for each in member.ctx.effects if isinstance(each, Missed)]


def test_a_newcomer_has_nothing_to_do_with_the_places_before_its_time() -> None:
    """Its parcel had a place that was done and released before it came: nobody waits for it."""
    member = Member()
    member.template.have(member.ctx, Have(f"a/{VIRTUAL}a", 2, 8, 7), "a")
    assert member.parcel("x", 1) == []
    member.ctx.clear()
    member.template.on_timer(member.ctx, "beat")
    (acks,) = (each for _, each in member.ctx.sent() if isinstance(each, Acks))
    assert ("x", 1, 1, 1, 0) in acks.positions
    assert member.template.streams[VIRTUAL + "a", 2].complete == 7


def test_what_an_earlier_history_tells_counts_no_more() -> None:
    member = Member()
    member.place(("x", 1), first=10)
    member.parcel("x", 1)
    member.parcel("y", 1)
    member.told += 1
    assert member._take(member.order((0, "z"), 9, 11, (Entry(9, "y", 1, 1),))) == []
    assert member.place(("x", 2), ("y", 1), first=11) == []
    assert member.parcel("x", 2) == [("x", 2), ("y", 1)]


# in a line


class Losing(TotalOrder[TotalOrderSettings]):
    """Total order in which one node hears nothing of the order for a while."""

    name = "losing"

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if ctx.node == "d" and parcel.stamp.node[0] == VIRTUAL and 17e9 <= ctx.now < 19e9:
            return
        super().on_parcel(ctx, parcel, sender)


def test_losing_the_order_stalls_delivery_and_then_it_recovers() -> None:
    line, orders = seated("a", Losing)
    line.publish("b", 20, start=16.0, every=0.1)
    line.world.run(18.8)
    assert len(orders.got["d", 1]) < 12 < len(orders.got["c", 1]), "what has no place is not delivered"
    held = line.at("d").streams["b", 1].held
    assert len(held) >= 8, "though the parcels have come"
    line.world.run(25)
    assert orders.got["d", 1] == orders.got["c", 1] == [("b", number) for number in range(1, 21)]
    assert orders.gaps == []


class Deaf(TotalOrder[TotalOrderSettings]):
    """Total order in which one node hears nothing of the order from some time on."""

    name = "deaf"

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if ctx.node != "d" or parcel.stamp.node[0] != VIRTUAL or ctx.now < 16e9:
            super().on_parcel(ctx, parcel, sender)


@pytest.mark.parametrize("server", [False, True], ids=["alone", "with its server"])
def test_a_client_that_is_back_does_not_wait_for_what_it_published_itself_before(server: bool) -> None:
    """All others have it, so that nobody keeps it; its places are told as long as somebody lacks them.

    Replay: python benchmarks/proof.py total-order --first 6 --seeds 6
    """
    line, orders = seated("b", Deaf, below={"x": "c"}, settings={"laggard": 600.0})
    line.publish("x", 10, start=17.0)
    line.world.run(30)
    mine = [("x", number) for number in range(1, 11)]
    assert orders.got["b", 1] == mine
    assert line.at("c").streams["x", 1].low == 11
    nodes = "xc" if server else "x"
    for node in nodes:
        line.world.crash(node)
    line.world.run(32)
    for node in nodes:
        line.world.restart(node)
    line.subscribe(nodes)
    line.world.run(40)
    line.publish("b", 5, start=40.0)
    line.world.run(70)
    assert orders.got["b", 1] == [*mine, *(("b", number) for number in range(2, 7))]
    assert orders.got["x", 2][-5:] == orders.got["b", 1][-5:]
    assert line.ledger.counts.violations == 0


def test_losing_parcels_stalls_delivery_of_all_sources_and_then_it_recovers() -> None:
    line, orders = net()
    line.world.add_rule(Loss(senders=("b",), receivers=("c",), items=("parcel",), start=12.0, end=12.5))
    for source in "ad":
        line.publish(source, 20, start=11.0, every=0.1)
    line.world.run(20)
    assert len(orders.got["a", 1]) == 40
    assert all(orders.got[node, 1] == orders.got["a", 1] for node in "bcd")


@pytest.mark.parametrize("seed", range(1, 4))
def test_two_sources_have_one_order_at_all_members_and_at_those_below_servers(seed: int) -> None:
    line, orders = net(below={"x": "a", "y": "d"}, link=LinkModel(loss=0.3, jitter=0.02), seed=seed)
    line.world.run(15)
    for source in "ady":
        line.publish(source, 20, start=15.0, every=0.1)
    line.world.run(60)
    assert sorted(orders.got["a", 1]) == [(source, number) for source in "ady" for number in range(1, 21)]
    for node in "bcdxy":
        assert orders.got[node, 1] == orders.got["a", 1], node
    assert line.ledger.counts.violations == 0


def test_a_parcel_that_expires_is_left_out_and_stops_nobody() -> None:
    line, orders = seated("b")
    line.world.add_rule(Loss(senders=("c",), receivers=("d",), items=("parcel",), start=16.0, end=17.0))
    line.world.run(16)
    line.world.publish("a", CHANNEL, b"brief", Envelope(qos=QoS(expiry=0.5)))
    line.world.publish("a", CHANNEL, b"lasting")
    line.world.run(25)
    assert orders.got["b", 1] == [("a", 1), ("a", 2)]
    assert orders.got["d", 1] == [("a", 2)]
    assert orders.gaps == []


def test_criteria_pick_from_the_one_order() -> None:
    line, orders = net(names="abc")
    line.world.subscribe("c", CHANNEL, Criteria(("size", ">", 3)))
    line.world.run(11)
    for number in range(6):
        line.world.publish("ab"[number % 2], CHANNEL, b"", Envelope({"size": number}))
    line.world.run(15)
    every = orders.got["b", 1]
    assert len(every) == 6
    assert len(orders.got["c", 1]) == 8, "all of them once, and two of them again"


def test_publishers_wait_while_nothing_can_be_decided_and_go_on_afterwards() -> None:
    line, orders = seated("b", names="abcde", settings={"send_window": 8, "patience": 2.0})
    (head,) = sequencer(line.world)
    assert head != "b"
    others = tuple(node for node in "abcde" if node != head)
    line.world.add_rule(Loss(senders=others, start=16.0, end=25.0))
    line.world.run(16.5)
    line.publish(head, 8, every=0.01)
    line.world.run(24)
    assert orders.got[head, 1] == [], "a place that no majority has is not told"
    assert line.obstacle(head) is not None
    line.world.run(45)
    assert line.obstacle(head) is None
    for node in "abcde":
        assert orders.got[node, 1] == [(head, number) for number in range(1, 9)]


# sequencers that die


def scenario(nodes: int, duration: float, loss: float) -> Scenario:
    return Scenario(
        name="kills",
        network=Network(kind="field", nodes=nodes),
        duration=duration,
        monitor=True,
        link=LinkModel(latency=0.005, jitter=0.002, loss=loss),
        channel=(Channel(CHANNEL, "total-order", {"refresh": 5.0}),),
        publish=(Publish(CHANNEL, 2.0, pick=3, poisson=True, start=20.0, end=duration - 30),),
        subscribe=(Subscribe(CHANNEL),),
    )


def kills(seed: int, loss: float) -> tuple[World, Ledger, Orders, set[str]]:
    """Two sequencers die, one after the other; they come back when nobody publishes any more."""
    ledger, orders = Ledger(), Orders()
    world = build(scenario(10, 100.0, loss), seed, ledger, templates={"total-order": TotalOrder})
    world.add_witness(orders)
    killed: list[str] = []
    for time in (30.0, 50.0):
        world.run(time)
        while not (leading := sequencer(world)) or seats(world, leading[0]) < 5:  # fewer may not survive it
            world.run(world.now + 1)
        killed.append(leading[0])
        world.crash(leading[0])
        world.at(75.0, lambda node=leading[0]: world.restart(node))  # type: ignore[misc]
    world.run(100)
    ledger.finish(world, 25)
    assert ledger.counts.violations == 0, ledger.examples[0]
    assert len(sequencer(world)) == 1
    return world, ledger, orders, set(killed)


@pytest.mark.parametrize("seed", range(1, 4))
def test_when_sequencers_die_others_go_on_with_the_same_order_and_who_stays_misses_nothing(seed: int) -> None:
    world, _, orders, killed = kills(seed, 0.0)
    assert len(killed) == 2
    first, *others = [orders.got[node, 1] for node in world.nodes if node not in killed]
    assert len(first) > 60
    assert all(events == first for events in others)
    assert {node for node, _ in orders.gaps} <= killed


@pytest.mark.parametrize("seed", range(1, 4))
def test_when_sequencers_die_and_much_is_lost_there_is_still_one_order(seed: int) -> None:
    world, ledger, orders, killed = kills(seed, 0.3)
    assert ledger.counts.delivered > 0.9 * ledger.counts.expected
    longest = max((orders.got[node, 1] for node in world.nodes if node not in killed), key=len)
    place = {event: index for index, event in enumerate(longest)}
    for node in world.nodes:
        known = [place[event] for event in orders.got[node, 1] if event in place]
        assert known == sorted(known), node


# settings


@pytest.mark.parametrize(
    ("settings", "key"),
    [({"seats": 0}, "seats"), ({"heartbeat": 0}, "heartbeat"), ({"patience": -1}, "patience")],
)
def test_settings_out_of_range_name_their_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TotalOrder.parse(settings)
    assert caught.value.key == key


def test_a_letter_from_the_future_is_refused_and_changes_nothing() -> None:
    member = Member()
    before = member.template.raft.history
    for message in (
        NoSuchLog("m", "x", 1, (2**63 - 1, "x"), 1),
        NoSuchLog("m", "x", 1, (0, "x"), 2**62),
        InstallSnapshot("m", "x", 1, (1, "x"), 1, 2**63 - 1, 1, (), (), 0),
    ):
        with pytest.raises(ProtocolError):
            member.template.message(member.ctx, message, "a")
    assert member.template.raft.history == before


def test_a_client_that_only_publishes_is_acknowledged_and_its_window_moves_on() -> None:
    net = Net(TotalOrder, [("b1", "b2"), ("b2", "b3")], {"send_window": 4}, below={"c": "b1"})
    net.subscribe(["b3"])
    net.world.run(10)
    net.publish("c", 20, start=10.0, every=0.2)
    net.world.run(40)
    assert net.got["b3", "c"] == list(range(1, 21))
    assert net.obstacle("c") is None
    assert net.at("c").unconfirmed(net.ctx("c")) == []


def test_only_the_server_of_a_source_acknowledges_its_events() -> None:
    ctx = FakeContext("m", neighbours="a", below=("source", "other"))
    template = TotalOrder(TotalOrderSettings())
    template.on_open(ctx)
    template.hear(ctx, Interest(1, False, True), "source")
    template.hear(ctx, Interest(1, True, False), "other")
    template.have(ctx, Have("m/source", 1, 1, 1), "source")
    template.on_parcel(ctx, parcel("m/source", 1), "source")
    template.acks(ctx, Acks(0, 0, (("source", 1, 0, 0, 1),)), "other")
    assert template.streams["source", 1].confirmed == 0


# what never gets a place


class Source(Member):
    """The same node, which publishes."""

    def publish(self, number: int) -> None:
        self.template.on_publish(self.ctx, parcel("m", number, number))

    def told_of(self) -> list[object]:
        """What the publishers here are told, in order."""
        return [each for each in self.ctx.effects if isinstance(each, Lost | Acknowledged)]


def test_a_parcel_that_a_later_one_overtakes_in_the_order_is_lost_before_that_is_acknowledged() -> None:
    source = Source()
    for number in (1, 2, 3, 4):
        source.publish(number)
    source.place(("m", 1), first=10)
    assert source.told_of() == [Acknowledged(source.ctx.id, 1)]
    source.place(("x", 1), ("m", 4), first=11)
    assert source.told_of() == [
        Lost(source.ctx.id, 2, 2),
        Lost(source.ctx.id, 3, 3),
        Acknowledged(source.ctx.id, 4),
    ]


def test_a_place_that_is_void_makes_its_parcel_a_lost_one() -> None:
    source = Source()
    for number in (1, 2):
        source.publish(number)
    source.place(("x", 1), first=10)
    source.told += 1
    source._take(source.order((1, "a"), 1, 11, (Entry(1), Entry(1, "m", 1, 2))))
    assert source.told_of() == [Lost(source.ctx.id, 1, 1), Acknowledged(source.ctx.id, 2)]


def test_where_a_part_of_the_order_is_missing_nothing_is_called_lost() -> None:
    source = Source()
    for number in (1, 2, 3):
        source.publish(number)
    source.place(("m", 1), first=10)
    source.place(("m", 3), first=12)
    assert not any(isinstance(each, Lost) for each in source.told_of())
