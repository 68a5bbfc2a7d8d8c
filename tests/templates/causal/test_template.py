"""Causal: nothing is delivered before what it depends on, and little travels to make it so."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.core.context import SERVER
from gossamer.core.effect import Missed
from gossamer.core.errors import ConfigError
from gossamer.core.event import Criteria, Envelope, QoS
from gossamer.core.names import Role
from gossamer.core.parcel import MAX_DEPENDS, Parcel
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.rules import Loss
from gossamer.simulator.network.topology import Network
from gossamer.simulator.scenario.run import Channel, Churn, Publish, React, Result, Scenario, Subscribe, run
from gossamer.simulator.workload.agents import Reactor
from gossamer.templates.causal.cut import AskCut, Cut
from gossamer.templates.causal.template import Causal, CausalSettings
from gossamer.templates.reliable.messages import Have
from gossamer.testing.fake import FakeContext, parcel
from tests.templates.worlds import CHANNEL, Net


class Lone:
    """The template on one node without a network: parcels come as the test says."""

    def __init__(self, node: str = "m", patience: float = 10.0) -> None:
        self.ctx = FakeContext(node, neighbours="abx", subscribers={1: Criteria()})
        self.template = Causal(CausalSettings(patience=patience))

    def gets(self, source: str, number: int, *depends: tuple[str, int], life: int = 1) -> None:
        """A parcel of a stream that has been there from its beginning."""
        sent = parcel(source, number, number, incarnation=life)
        if depends:
            sent = sent.depending_on(tuple((node, 1, least) for node, least in depends))
        if sent.stamp.key not in self.template.streams:
            self.template.open(self.ctx, sent.stamp.key, source, 1)
        self.template.on_parcel(self.ctx, sent, "a")

    def publishes(self, number: int = 1) -> tuple[tuple[str, int, int], ...]:
        """What a parcel of this node names."""
        self.template.on_publish(self.ctx, parcel(self.ctx.node, number, number))
        own = [each for each in self.ctx.delivered() if each.stamp.node == self.ctx.node]
        return own[-1].depends

    @property
    def delivered(self) -> list[tuple[str, int]]:
        return [(each.stamp.node, each.stamp.sequence) for each in self.ctx.delivered()]


# what is named


def test_the_first_parcel_of_a_node_that_has_heard_nothing_names_nothing() -> None:
    assert Lone().publishes() == ()


def test_a_parcel_names_what_was_delivered_here_since_the_last() -> None:
    lone = Lone()
    lone.gets("a", 1)
    lone.gets("b", 1)
    lone.gets("b", 2)
    assert sorted(lone.publishes(1)) == [("a", 1, 1), ("b", 1, 2)]
    assert lone.publishes(2) == (), "its own earlier parcel says it"
    lone.gets("a", 2)
    assert lone.publishes(3) == (("a", 1, 2),)


def test_what_another_names_is_not_named_again() -> None:
    lone = Lone()
    lone.gets("b", 1)
    lone.gets("a", 1, ("b", 1))
    lone.gets("c", 1, ("a", 1))
    assert lone.publishes() == (("c", 1, 1),)


def test_what_came_after_what_another_names_is_named() -> None:
    lone = Lone()
    lone.gets("b", 1)
    lone.gets("b", 2)
    lone.gets("a", 1, ("b", 1))
    assert sorted(lone.publishes()) == [("a", 1, 1), ("b", 1, 2)]


def test_a_node_without_subscribers_has_heard_nothing() -> None:
    lone = Lone()
    lone.ctx.subscribers.clear()
    lone.gets("a", 1)
    assert lone.publishes() == ()


def test_what_does_not_fit_one_header_leaves_ahead_in_parcels_without_events() -> None:
    net = Net(Causal, [("a", "b")])
    net.subscribe("ab")
    net.publish("a", start=1.0)
    net.world.run(5)
    template, sources = net.at("a"), [f"s{number:03}" for number in range(2 * MAX_DEPENDS + 5)]
    template.fresh = {(source, 1): 7 for source in sources}
    net.world.publish("a", CHANNEL, b"one")
    held = template.streams["a", 1].held.values()
    assert [(each.stamp.sequence, each.stamp.count) for each in held] == [(2, 0), (3, 0), (4, 1)]
    assert sorted(node for each in held for node, _, _ in each.depends) == sources
    assert max(len(each.depends) for each in held) == MAX_DEPENDS
    assert template.fresh == {}


def test_a_parcel_without_events_passes_and_is_delivered_to_nobody() -> None:
    lone = Lone()
    blank = parcel("a", 1, 1, ()).depending_on((("b", 1, 1),))
    lone.template.open(lone.ctx, ("a", 1), "a", 1)
    lone.template.on_parcel(lone.ctx, blank, "a")
    lone.gets("a", 2)
    assert lone.delivered == []
    lone.gets("b", 1)
    assert lone.delivered == [("b", 1), ("a", 2)]


# what waits


def test_a_parcel_waits_for_what_it_names_and_is_sent_on_meanwhile() -> None:
    lone = Lone()
    lone.gets("a", 1, ("b", 2))
    lone.gets("b", 1)
    assert lone.delivered == [("b", 1)]
    assert lone.template.streams["a", 1].next == 1, "it is not acknowledged"
    assert lone.template.streams["a", 1].reach == 1, "nor asked for"
    lone.gets("b", 2)
    assert lone.delivered == [("b", 1), ("b", 2), ("a", 1)]


@pytest.mark.parametrize("over", [0, 2])
def test_what_others_depend_on_is_asked_for_though_its_source_tells_nobody_any_more(over: int) -> None:
    lone = Lone()
    lone.gets("b", 1)
    stream = lone.template.streams["b", 1]
    stream.over = over
    lone.gets("a", 1, ("b", 3))
    assert stream.missing(10**12, 1, 10) == ([] if over else [2, 3]), (
        "nobody has what is not here, if it is over"
    )


def test_what_waits_for_what_waits_goes_on_with_it() -> None:
    lone = Lone()
    lone.gets("d", 1, ("c", 1))
    lone.gets("c", 1, ("a", 2))
    lone.gets("a", 2)
    lone.gets("a", 1, ("b", 1))
    assert lone.delivered == []
    lone.gets("b", 1)
    assert lone.delivered == [("b", 1), ("a", 1), ("a", 2), ("c", 1), ("d", 1)]


def test_an_expired_parcel_has_passed() -> None:
    lone = Lone()
    brief = parcel("b", 1, 1, qos=QoS(expiry=0.5))
    lone.template.open(lone.ctx, ("b", 1), "b", 1)
    lone.gets("a", 1, ("b", 1))
    lone.ctx.now = 1_000_000_000
    lone.template.on_expired(lone.ctx, brief, "b")
    assert lone.delivered == [("a", 1)]


def test_own_parcels_wait_for_nothing() -> None:
    lone = Lone()
    lone.gets("a", 1, ("m", 1))
    assert lone.delivered == [("a", 1)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(5, 40))
def test_whatever_comes_in_whatever_order_causes_come_first(seed: int, nodes: int, steps: int) -> None:
    """Against full vector clocks; parcels of one source overtake each other too."""
    dice = random.Random(seed)
    lones = {f"n{number}": Lone(f"n{number}") for number in range(nodes)}
    for lone in lones.values():
        for other in lones:
            lone.template.open(lone.ctx, (other, 1), other, 1)
    clocks: dict[tuple[str, int], dict[str, int]] = {}
    under_way: list[tuple[str, Parcel]] = []
    for _ in range(steps):
        if under_way and dice.random() < 0.6:
            target, sent = under_way.pop(dice.randrange(len(under_way)))
            lones[target].template.on_parcel(lones[target].ctx, sent, sent.stamp.node)
        else:
            name = dice.choice(sorted(lones))
            lone = lones[name]
            clock: dict[str, int] = {}
            for source, number in lone.delivered:
                clock[source] = max(number, clock.get(source, 0))
            number = clock.get(name, 0) + 1
            clocks[name, number] = clock
            lone.publishes(number)
            (sent,) = [each for each in lone.ctx.delivered() if each.stamp.key == (name, 1)][-1:]
            under_way += [(other, sent) for other in lones if other != name]
    dice.shuffle(under_way)
    for target, sent in under_way:
        lones[target].template.on_parcel(lones[target].ctx, sent, sent.stamp.node)
    for lone in lones.values():
        assert sorted(lone.delivered) == sorted(clocks), "everything came"
        got: dict[str, int] = {}
        for source, number in lone.delivered:
            assert number == got.get(source, 0) + 1
            assert all(got.get(other, 0) >= least for other, least in clocks[source, number].items())
            got[source] = number


# in a network


def conversation(seed: int, loss: float = 0.5, **more: Any) -> Result:
    scenario = Scenario(
        name="talk",
        network=Network(kind="tree", nodes=7),
        duration=80.0,
        link=LinkModel(loss=loss),
        channel=(Channel(CHANNEL, "causal"),),
        publish=(Publish(CHANNEL, 1.0, pick=3, poisson=True, start=10.0, end=30.0),),
        subscribe=(Subscribe(CHANNEL),),
        react=(React(CHANNEL, 0.1, end=30.0),),
        **more,
    )
    return run(scenario, seed, templates={"causal": Causal})


@pytest.mark.parametrize("seed", range(1, 6))
def test_at_half_of_all_items_lost_everybody_gets_every_answer_after_its_question(seed: int) -> None:
    result = conversation(seed)
    assert result.published > 60
    assert (result.delivered, result.violations, result.missed) == (result.expected, 0, 0)


@pytest.mark.parametrize(("seed", "loss"), [(1, 0.0), (2, 0.2), (3, 0.2)])
def test_while_everybody_crashes_and_comes_back_nothing_comes_after_what_depends_on_it(
    seed: int, loss: float
) -> None:
    scenario = Scenario(
        name="storm",
        network=Network(kind="tree", nodes=10),
        duration=120.0,
        link=LinkModel(loss=loss, jitter=0.01),
        channel=(Channel(CHANNEL, "causal", {"refresh": 5.0}),),
        publish=(Publish(CHANNEL, 1.0, pick=4, poisson=True, start=10.0, end=90.0),),
        subscribe=(Subscribe(CHANNEL), Subscribe(CHANNEL, pick=2, join=20.0, stay=20.0, away=10.0)),
        react=(React(CHANNEL, 0.04, end=90.0),),
        churn=(Churn(every=60.0, down=8.0, start=15.0, end=90.0),),
    )
    result = run(scenario, seed, templates={"causal": Causal})
    assert result.published > 250
    assert result.delivered > result.expected / 2
    assert "causal" not in {each.promise for each in result.examples}, result.examples[:1]


def test_an_answer_that_overtakes_its_question_waits_for_it() -> None:
    net = Net(Causal, [("q", "c"), ("q", "a"), ("a", "c2"), ("c", "z")])
    net.world.subscribe("a", CHANNEL)
    net.world.subscribe("z", CHANNEL)
    net.publish("q", start=1.0)
    net.publish("a", start=2.0)
    net.world.run(10)
    Reactor(net.world, "a", CHANNEL, share=1.0)
    net.world.add_rule(Loss(senders=("q",), receivers=("c",), items=("parcel",), start=10.0, end=10.005))
    net.publish("q", start=10.0)
    net.world.run(20)
    assert net.got["z", "q"] == [1, 2]
    assert net.got["z", "a"] == [1, 2]
    assert net.order["z"].index(("q", 2)) < net.order["z"].index(("a", 2))
    assert net.ledger.counts.violations == 0


def test_nodes_below_a_server_keep_the_order_too_also_when_they_move() -> None:
    net = Net(Causal, [("a", "b"), ("a", "c")], below={"x": "b", "y": "c"})
    net.world.link("x", "c")
    net.subscribe("abcxy")
    for node in "axy":
        Reactor(net.world, node, CHANNEL, share=0.15, end=40.0)
    net.world.run(10)
    net.publish("a", 40, start=10.0)
    net.publish("x", 40, start=10.0)
    net.world.at(12.0, lambda: _move(net))
    net.world.run(90)
    assert net.gaps == {}
    assert net.ledger.counts.violations == 0
    published = {source: max(net.got[source, source], default=0) for source in "axy"}
    for node in "abcxy":
        for source, count in published.items():
            assert net.got[node, source] == list(range(1, count + 1)), (node, source)


def _move(net: Net) -> None:
    net.world.unlink("x", "b")
    net.world.set("b", "below", ())
    net.world.set("c", "below", ("x", "y"))
    net.world.set("x", SERVER, "c")


# beginning in the middle


def test_who_joins_a_conversation_late_gets_it_in_order_from_somewhere_on() -> None:
    """A newcomer that hears late of one of the sources begins a second time, and is told so."""
    told = [seed for seed in range(1, 7) if join_late(seed)]
    assert len(told) <= 1


def join_late(seed: int) -> bool:
    """Whether the newcomer was told of a gap."""
    net = Net(Causal, [("a", "b"), ("b", "c"), ("c", "d")], link=LinkModel(loss=0.3), seed=seed)
    net.subscribe("abc")
    for node in "abc":
        Reactor(net.world, node, CHANNEL, share=0.2, end=35.0)
    net.publish("a", 100, start=5.0, every=0.2)
    net.publish("b", 100, start=5.0, every=0.2)
    net.world.run(15)
    net.subscribe("d")
    net.world.run(100)
    assert net.gaps.keys() <= {"d"}
    assert net.ledger.counts.violations == 0
    for source in "ab":
        numbers = net.got["d", source]
        assert numbers[-1] == net.got["c", source][-1]
        assert net.gaps or numbers == list(range(numbers[0], numbers[-1] + 1))
        assert numbers[0] > 20
    return bool(net.gaps)


def test_a_stream_that_begins_here_in_the_middle_asks_for_a_cut_and_begins_behind_it() -> None:
    net = Net(Causal, [("a", "b"), ("b", "c")])
    net.subscribe("ab")
    net.publish("a", 20, start=1.0)
    net.publish("b", 20, start=1.0)
    net.world.run(20)
    net.subscribe("c")
    net.world.run(22)
    net.publish("a", 3, start=22.0)
    net.world.run(40)
    assert net.said["c", "b", "AskCut"] >= 1
    assert net.said["b", "c", "Cut"] >= 1
    assert net.got["c", "a"] == [21, 22, 23]
    assert not net.at("c").unsure


@pytest.mark.parametrize("came", [3, 2])
def test_what_waits_here_is_delivered_though_its_source_keeps_it_no_longer(came: int) -> None:
    """Who has it all misses nothing, wherever the source begins now; who lacks something learns it."""
    lone = Lone()
    lone.ctx = FakeContext("m", role=Role.CLIENT, containers={SERVER: "a"}, subscribers={1: Criteria()})
    lone.gets("a", 1)
    for number in range(2, came + 1):
        lone.gets("a", number, ("b", 1))
    lone.template.have(lone.ctx, Have("a", 1, 4, 4, False), "a")
    lone.gets("a", 4)
    lone.gets("b", 1)
    told = [each.source for each in lone.ctx.effects if isinstance(each, Missed)]
    assert (lone.delivered[-1], told) == ((("a", 4), []) if came == 3 else (("b", 1), ["a"]))
    if came == 3:
        assert lone.delivered == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("a", 4)]


def test_what_came_before_its_stream_was_known_to_begin_is_not_taken_for_missed() -> None:
    """A stream begins with what has come just before the number that its source says: nothing is missing."""
    lone = Lone()
    lone.ctx = FakeContext("m", role=Role.CLIENT, containers={SERVER: "a"}, subscribers={1: Criteria()})
    lone.template.on_parcel(lone.ctx, parcel("a", 1, 1), "a")
    lone.template.have(lone.ctx, Have("a", 1, 2, 1), "a")
    assert lone.delivered == [("a", 1)]
    assert not lone.template.unsure


def test_only_who_is_sure_tells_its_cut() -> None:
    lone = Lone()
    lone.gets("a", 1)
    lone.gets("b", 1)
    lone.template.ask_cut(lone.ctx, AskCut((("a", 1, 1),)), "x")
    (answer,) = [what for _, what in lone.ctx.sent() if isinstance(what, Cut)]
    assert sorted(answer.positions) == [("a", 1, 1), ("b", 1, 1)]
    lone.ctx.clear()
    lone.template.ask_cut(lone.ctx, AskCut((("a", 1, 2),)), "x")
    lone.template.unsure["c", 1] = (3, 0)
    lone.template.ask_cut(lone.ctx, AskCut((("a", 1, 1),)), "x")
    assert lone.ctx.sent() == []


def test_a_cut_nobody_asked_for_changes_nothing_of_what_is_known() -> None:
    lone = Lone()
    lone.gets("a", 1)
    lone.template.cut(lone.ctx, Cut((("a", 1, 50),)), "x")
    lone.gets("a", 2)
    assert lone.delivered == [("a", 1), ("a", 2)]


# what cannot be had


def test_what_depends_on_a_parcel_that_died_with_its_source_comes_after_patience() -> None:
    """q tells only a, and dies; a's answer goes everywhere."""
    net = Net(Causal, [("a", "q"), ("a", "c"), ("c", "z")], {"refresh": 2.0})
    net.subscribe("aqcz")
    net.publish("q", start=3.0)
    net.publish("a", start=3.5)
    net.world.run(10)
    net.world.add_rule(Loss(senders=("a",), receivers=("c",), items=("parcel",), start=10.0, end=10.5))
    net.world.at(10.0, lambda: net.world.publish("q", CHANNEL))
    net.world.at(10.1, lambda: net.world.crash("q"))
    net.world.at(11.0, lambda: net.world.publish("a", CHANNEL))
    net.world.run(60)
    assert net.got["a", "q"] == [1, 2]
    assert net.got["z", "a"] == [1, 2]
    assert net.ledger.counts.violations == 0


def test_a_dependency_that_never_comes_is_given_up_and_if_it_comes_then_it_is_dropped_and_told() -> None:
    lone = Lone(patience=5.0)
    lone.gets("a", 1, ("z", 3))
    lone.template.open(lone.ctx, ("z", 1), "z", 1)
    lone.gets("z", 1)
    lone.ctx.clear()
    _beats(lone, 4.0)
    assert not lone.template.floor
    _beats(lone, 60.0)
    assert lone.template.floor == {("z", 1): 3}
    lone.gets("z", 2)
    lone.gets("z", 3)
    lone.gets("z", 4)
    assert lone.delivered == [], "it does not know yet what the third depended on"
    lone.template.cut(lone.ctx, Cut((("a", 1, 1), ("z", 1, 3))), "x")
    assert lone.delivered == [("a", 1), ("z", 4)]
    assert [reason for _, reason in lone.ctx.dropped()] == ["before the cut"] * 2


def test_who_did_without_a_parcel_tells_no_cut_that_has_what_names_it_and_not_itself() -> None:
    """What a neighbour had passed before a says all that z's third depended on."""
    lone = Lone(patience=5.0)
    lone.gets("z", 1)
    lone.gets("a", 1, ("z", 3))
    _beats(lone, 64.0)
    lone.template.ask_cut(lone.ctx, AskCut((("z", 1, 3),)), "x")
    lone.template.cut(lone.ctx, Cut((("a", 1, 1), ("z", 1, 3))), "x")
    lone.template.ask_cut(lone.ctx, AskCut((("a", 1, 1),)), "x")
    (answer,) = [what for _, what in lone.ctx.sent() if isinstance(what, Cut)]
    assert sorted(answer.positions) == [("a", 1, 1), ("z", 1, 3)]
    for number in (2, 3, 4):
        lone.gets("z", number)
    assert lone.delivered == [("z", 1), ("a", 1), ("z", 4)]


def test_one_answer_of_a_neighbour_is_enough_for_all_that_it_had_passed() -> None:
    lone = Lone(patience=5.0)
    lone.gets("b", 1)
    for number in range(1, 5):
        lone.gets("a", number, ("z", number))
    lone.ctx.clear()
    _beats(lone, 60.0)
    lone.template.cut(lone.ctx, Cut((("a", 1, 3), ("b", 1, 2), ("z", 1, 3))), "x")
    assert lone.delivered == [], "it has to wait for what the neighbour had passed"
    lone.gets("b", 2)
    _beats(lone, 60.0)
    assert lone.delivered == [("b", 2), ("a", 1), ("a", 2), ("a", 3)], "the fourth needs another answer"
    lone.template.cut(lone.ctx, Cut((("a", 1, 4), ("b", 1, 2), ("z", 1, 4))), "x")
    assert lone.delivered[4:] == [("a", 4)]


def _beats(lone: Lone, seconds: float) -> None:
    for _ in range(round(seconds / 0.2)):
        lone.template.on_timer(lone.ctx, "beat")


def test_two_that_wait_for_a_third_that_never_comes_do_not_wait_for_each_other() -> None:
    lone = Lone(patience=5.0)
    lone.gets("a", 1, ("z", 1))
    lone.gets("b", 1, ("z", 1))
    lone.ctx.clear()
    _beats(lone, 11.0)
    for _ in range(2):
        lone.template.cut(lone.ctx, Cut((("a", 1, 1), ("b", 1, 1), ("z", 1, 1))), "x")
    assert sorted(lone.delivered) == [("a", 1), ("b", 1)]


def test_two_in_the_dark_that_wait_for_each_other_by_way_of_others_begin_anew() -> None:
    """a is in the dark and would wait for c, which depends on b; b is, too, and would wait for d, which
    depends on a."""
    lone = Lone(patience=5.0)
    for source in "cd":
        lone.gets(source, 1)
    for source, lacks, last in (("a", "y", "b"), ("b", "z", "a")):
        lone.gets(source, 1, (lacks, 1))
        lone.gets("c" if last == "b" else "d", 2, (last, 1))
    lone.ctx.clear()
    _beats(lone, 11.0)
    assert lone.delivered == []
    lone.template.cut(lone.ctx, Cut((("a", 1, 1), ("c", 1, 2), ("y", 1, 1))), "x")
    lone.template.cut(lone.ctx, Cut((("b", 1, 1), ("d", 1, 2), ("z", 1, 1))), "x")
    _beats(lone, 1.0)
    everything = tuple((source, 1, 1 + (source in "cd")) for source in "abcdyz")
    lone.template.cut(lone.ctx, Cut(everything), "x")
    _beats(lone, 1.0)
    for source in "abcd":
        lone.gets(source, 2 + (source in "cd"))
    assert {("a", 2), ("b", 2), ("c", 3), ("d", 3)} <= set(lone.delivered), "all go on"


def test_what_waits_is_bounded_by_the_window_of_its_source() -> None:
    net = Net(Causal, [("a", "b"), ("b", "c")], {"send_window": 8})
    net.subscribe("abc")
    net.publish("a", start=2.0)
    net.publish("b", start=2.0)
    net.world.run(5)
    net.at("b").fresh["z", 1] = 1  # as if b had heard one that nobody else ever will
    net.publish("b", 8, start=5.0, every=0.01)
    net.world.run(8)
    assert net.obstacle("b") is not None
    assert len(net.at("c").streams["b", 1].held) == 8
    net.world.run(120)
    assert net.obstacle("b") is None


def test_brief_events_do_not_hold_up_what_depends_on_them() -> None:
    net = Net(Causal, [("a", "b"), ("b", "c")])
    net.subscribe("abc")
    net.publish("a", start=2.0)
    net.publish("b", start=2.0)
    net.world.run(5)
    net.world.add_rule(Loss(senders=("b",), receivers=("c",), items=("parcel",), start=5.0, end=6.0))
    net.world.publish("a", CHANNEL, b"brief", Envelope(qos=QoS(expiry=0.3)))
    net.world.at(5.1, lambda: net.world.publish("b", CHANNEL, b"answer"))
    net.world.run(20)
    assert net.got["c", "a"] == [1]
    assert net.got["c", "b"] == [1, 2]
    assert net.ledger.counts.violations == 0


@pytest.mark.parametrize("settings", [{"patience": 0}, {"patience": "long"}])
def test_settings_out_of_range_name_their_key(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        Causal.parse(settings)
    assert caught.value.key == "patience"
