"""Nodes that crash and come back at random, members that come and go, and nodes below others."""

from __future__ import annotations

from statistics import mean

import pytest

from gossamer.core.config import parse
from gossamer.core.context import BELOW, SERVER
from gossamer.core.errors import ConfigError
from gossamer.core.names import Role
from gossamer.simulator.scenario.run import Scenario, build, run
from gossamer.simulator.workload.agents import Mortal, Subscriber
from gossamer.simulator.workload.observers import Witness

FIELD = """
duration = 100.0
[network]
kind = "tree"
nodes = 7
[[channel]]
name = "c"
template = "multicast"
"""


class Diary(Witness):
    """When lives and subscriptions began and ended."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str, float]] = []

    def started(self, world, node, life):
        self.notes.append(("up", node, world.now))

    def stopped(self, world, node, life):
        self.notes.append(("down", node, world.now))

    def subscribed(self, world, node, life, channel, subscription, criteria):
        self.notes.append(("in", node, world.now))

    def unsubscribed(self, world, node, life, channel, subscription):
        self.notes.append(("out", node, world.now))

    def times(self, what: str) -> list[float]:
        return [at for each, _, at in self.notes if each == what]


def lengths(starts: list[float], ends: list[float]) -> float:
    return mean(end - start for start, end in zip(starts, ends, strict=False))


# crashes


def test_a_node_crashes_and_comes_back_about_as_often_as_it_was_told(bench):
    world, diary = bench().world, Diary()
    world.add_witness(diary)
    Mortal(world, "a", every=100, down=10, start=50)
    world.run(50_000)
    down, up = diary.times("down"), diary.times("up")
    assert {node for _, node, _ in diary.notes} == {"a"}
    assert down[0] > 50
    assert 400 < len(down) < 520
    assert 8 < lengths(down, up) < 12
    assert 85 < lengths(up, down[1:]) < 115


def test_by_the_end_of_the_churn_everybody_is_back_and_stays(bench):
    for seed in range(20):
        world, diary = bench(seed=seed).world, Diary()
        world.add_witness(diary)
        Mortal(world, "a", every=10, down=50, end=100)
        world.run(1000)
        assert diary.notes[-1][0] == "up"
        assert diary.notes[-1][2] <= 100
        assert world.running("a")


def test_churn_takes_all_but_those_that_it_spares_and_follows_the_seed():
    text = FIELD + '[[churn]]\nevery = 10.0\ndown = 5.0\nspare = ["n1", "n2"]\n'

    def crashes(seed: int) -> list[tuple[str, str, float]]:
        world, diary = build(parse(text, Scenario), seed), Diary()
        world.add_witness(diary)
        world.run(100)
        return diary.notes

    assert {node for _, node, _ in crashes(1)} == {"n3", "n4", "n5", "n6", "n7"}
    assert crashes(1) == crashes(1) != crashes(2)


# members


def test_a_member_comes_and_goes_between_its_first_and_last_instant(bench):
    world, diary = bench().world, Diary()
    world.add_witness(diary)
    Subscriber(world, "a", "c", join=100, leave=20_000, stay=30, away=10)
    world.run(30_000)
    came, went = diary.times("in"), diary.times("out")
    assert came[0] == 100
    assert went[-1] <= 20_000
    assert 430 < len(came) < 570
    assert 26 < lengths(came, went) < 34
    assert 8.5 < lengths(went, came[1:]) < 11.5


def test_a_member_that_is_away_when_its_node_comes_back_stays_away(bench):
    world, diary = bench().world, Diary()
    world.add_witness(diary)
    Subscriber(world, "a", "c", stay=50, away=1e6)
    world.run(1000)
    assert len(diary.times("out")) == 1
    world.crash("a")
    world.restart("a")
    world.run(2000)
    assert len(diary.times("in")) == 1


# tiers

TIERS = (
    FIELD
    + """
[[below]]
role = "secondary"
nodes = ["n2", "n3"]
[[below]]
role = "client"
under = "secondary"
each = 2
[[below]]
role = "client"
pick = 1
nodes = ["n3"]
"""
)


def test_nodes_hang_below_others_under_names_that_say_so():
    world = build(parse(TIERS, Scenario), 1)
    assert world.nodes[7:] == (
        *("n2-s1", "n3-s1"),
        *("n2-s1-c1", "n2-s1-c2", "n3-s1-c1", "n3-s1-c2"),
        "n3-c1",
    )
    assert world.address("n3-s1-c2") == "n3/n3-s1/n3-s1-c2"
    assert world.engine("n3-s1-c2").containers[SERVER] == "n3/n3-s1"
    assert world.engine("n3").containers[BELOW] == ("n3-s1", "n3-c1")
    roles = [world.engine(node).role for node in ("n3", "n3-s1", "n3-c1")]
    assert roles == [Role.BACKBONE, Role.SECONDARY, Role.CLIENT]


def test_agents_are_chosen_by_role_and_reach_each_other_across_the_tiers():
    text = """
[[publish]]
channel = "c"
role = "client"
rate = 1.0
start = 20.0
end = 80.0
[[subscribe]]
channel = "c"
role = "secondary"
[[subscribe]]
channel = "c"
role = "client"
"""
    result = run(parse(TIERS + text, Scenario), 1)
    assert result.published == 5 * 60
    assert result.delivered == result.expected == 5 * 60 * 7


def test_nobody_is_connected_below_a_node_that_is_down():
    world = build(parse(TIERS, Scenario), 1)
    assert world.connected("n3-s1-c1")
    world.crash("n3")
    assert [world.connected(node) for node in ("n3", "n3-s1", "n3-s1-c1", "n2-s1-c1")] == [False] * 3 + [True]


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ('[[below]]\nrole = "client"\nunder = "secondary"\npick = 1', "below[0].pick"),
        ('[[below]]\nrole = "client"\nnodes = ["n8"]', "below[0].nodes"),
        ('[[below]]\nrole = "client"\n[[below]]\nrole = "client"', "below[1].node"),
        ('[[churn]]\nevery = 1\ndown = 1\nspare = ["n8"]', "churn[0].spare"),
        ("[[churn]]\nevery = 1\ndown = 1\nstart = 2\nend = 1", "churn[0].end"),
        ('[[subscribe]]\nchannel = "c"\nstay = 1', "subscribe[0].stay"),
        ('[[subscribe]]\nchannel = "c"\nrole = "client"\npick = 1', "subscribe[0].pick"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(more, key):
    with pytest.raises(ConfigError) as caught:
        build(parse(FIELD + more, Scenario), 1)
    assert caught.value.key == key
