"""Agents: publishers and subscribers that follow a plan."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.core.event import Criteria, Envelope, QoS
from gossamer.simulator.network.rules import Crash, Pause, Restart
from gossamer.simulator.workload.agents import Publisher, Reactor, Subscriber
from gossamer.simulator.workload.observers import Witness
from gossamer.simulator.world import World


class Clerk(Witness):
    """Keeps publications, subscriptions and answers."""

    def __init__(self, world: World) -> None:
        self.published_at: list[float] = []
        self.payloads: list[bytes] = []
        self.envelopes: list[Envelope] = []
        self.members: list[tuple[Any, ...]] = []
        self.deliveries = 0
        self.answers = 0
        world.add_witness(self)

    def published(self, world, node, life, channel, number, payload, envelope):
        self.published_at.append(world.now)
        self.payloads.append(payload)
        self.envelopes.append(envelope)

    def subscribed(self, world, node, life, channel, subscription, criteria):
        self.members.append(("subscribed", world.now, life, criteria))

    def unsubscribed(self, world, node, life, channel, subscription):
        self.members.append(("unsubscribed", world.now, life))

    def delivered(self, *rest):
        self.deliveries += 1

    def answered(self, *rest):
        self.answers += 1


def test_a_constant_publisher_keeps_its_interval_from_a_phase_of_its_own(bench):
    world = bench().world
    clerk = Clerk(world)
    Publisher(world, "a", "c", rate=10, start=2, end=4)
    world.run(10)
    gaps = {round(b - a, 6) for a, b in zip(clerk.published_at, clerk.published_at[1:], strict=False)}
    assert gaps == {0.1}
    assert 2 < clerk.published_at[0] < 2.1
    assert len(clerk.published_at) == 20


def test_a_poisson_publisher_keeps_its_rate_on_average_only(bench):
    world = bench().world
    clerk = Clerk(world)
    Publisher(world, "a", "c", rate=10, poisson=True)
    world.run(200)
    gaps = [b - a for a, b in zip(clerk.published_at, clerk.published_at[1:], strict=False)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(0.1, rel=0.1)
    assert variance == pytest.approx(0.01, rel=0.2)


def test_a_publisher_stops_at_its_limit(bench):
    world = bench().world
    publisher = Publisher(world, "a", "c", rate=10, limit=7)
    world.run(10)
    assert publisher.sent == 7


def test_payloads_have_the_size_and_tell_events_apart(bench):
    world = bench().world
    clerk = Clerk(world)
    Publisher(world, "a", "c", rate=10, size=64, limit=5)
    world.run(10)
    assert {len(payload) for payload in clerk.payloads} == {64}
    assert len(set(clerk.payloads)) == 5


def test_attributes_are_chosen_anew_and_wishes_are_made(bench):
    world = bench().world
    clerk = Clerk(world)
    Publisher(world, "a", "c", rate=50, limit=50, attributes={"x": (1, 2), "y": ("k",)}, qos=QoS(expiry=3.0))
    world.run(10)
    assert {envelope.attributes["x"] for envelope in clerk.envelopes} == {1, 2}
    assert {envelope.attributes["y"] for envelope in clerk.envelopes} == {"k"}
    assert {envelope.qos for envelope in clerk.envelopes} == {QoS(expiry=3.0)}


def test_a_publisher_rests_while_its_node_is_down_or_paused(bench):
    world = bench().world
    clerk = Clerk(world)
    Publisher(world, "a", "c", rate=10)
    world.add_rule(Crash(node="a", at=1))
    world.add_rule(Restart(node="a", at=2))
    world.add_rule(Pause(node="a", start=3, end=4))
    world.run(5)
    assert {int(at) for at in clerk.published_at} == {0, 2, 4}


def test_a_subscriber_joins_and_leaves_on_time(bench):
    world = bench().world
    clerk = Clerk(world)
    Subscriber(world, "a", "c", criteria=Criteria(x=1), join=2, leave=5)
    world.run(10)
    assert clerk.members == [("subscribed", 2.0, 1, Criteria(x=1)), ("unsubscribed", 5.0, 1)]


def test_a_subscriber_subscribes_again_in_the_next_life(bench):
    world = bench().world
    clerk = Clerk(world)
    Subscriber(world, "a", "c")
    world.add_rule(Crash(node="a", at=1))
    world.add_rule(Restart(node="a", at=2))
    world.run(10)
    assert [member[:3] for member in clerk.members] == [("subscribed", 0.0, 1), ("subscribed", 2.0, 2)]


def test_joining_and_leaving_wait_for_the_end_of_a_pause_or_crash(bench):
    world = bench().world
    clerk = Clerk(world)
    Subscriber(world, "a", "c", join=2, leave=6)
    world.add_rule(Pause(node="a", start=1, end=3))
    world.add_rule(Crash(node="a", at=5))
    world.add_rule(Restart(node="a", at=7))
    world.run(10)
    assert [member[:3] for member in clerk.members] == [("subscribed", 3.0, 1)]


def test_a_share_of_events_is_answered(bench):
    world = bench().world
    clerk = Clerk(world)
    Subscriber(world, "b", "c", share=0.25)
    Publisher(world, "a", "c", rate=100, limit=2000)
    world.run(30)
    assert clerk.deliveries == 2000
    assert 420 < clerk.answers < 580


def test_equal_agents_on_other_nodes_have_other_dice(bench):
    world = bench().world
    Publisher(world, "a", "c", rate=1, limit=1)
    Publisher(world, "b", "c", rate=1, limit=1)
    clerk = Clerk(world)
    world.run(2)
    assert clerk.published_at[0] != clerk.published_at[1]


def test_a_reactor_answers_events_of_others_in_the_same_instant_and_no_events_of_its_own(bench):
    world = bench().world
    clerk = Clerk(world)
    world.subscribe("a", "c")
    world.subscribe("b", "c")
    reactor = Reactor(world, "b", "c", share=1.0, size=20)
    world.at(1.0, lambda: world.publish("a", "c", b"first"))
    world.run(10)
    assert reactor.sent == 1
    assert clerk.payloads == [b"first", b"b reacts 1 ........."]
    assert clerk.published_at[1] < 2


def test_a_reactor_answers_its_share_and_nothing_from_its_end_on(bench):
    world = bench().world
    world.subscribe("b", "c")
    reactor = Reactor(world, "b", "c", share=0.25, end=100)
    Publisher(world, "a", "c", rate=10)
    world.run(100)
    assert 200 < reactor.sent < 300
    sent = reactor.sent
    world.run(120)
    assert reactor.sent == sent
