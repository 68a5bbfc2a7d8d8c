"""Hello: who is probed how often, what it costs, how far others are and who is dead."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from gossamer.core.context import CONTACTS, DISTANCES, NODES, TREE
from gossamer.core.control import Control
from gossamer.core.names import NANOSECONDS, Role
from gossamer.core.template import Membership
from gossamer.core.tree import Tree
from gossamer.core.wire import encode
from gossamer.overlay.backbone.members import Roster
from gossamer.overlay.backbone.probing import EXCHANGE_BYTES, Hello, HelloSettings, Probe, ProbeReply
from gossamer.testing.fake import FakeContext
from tests.overlay.backbone.fields import Backbone


class Prober:
    """One hello service, and others that answer after a while or not at all."""

    def __init__(self, far: dict[str, float], tree: str = "", **settings: Any) -> None:
        """How far others are in seconds one way; edges of the tree as in "a-b a-c"."""
        self.far = far
        self.silent: set[str] = set()
        self.ctx = FakeContext("a", rng=Random(1), channel=Hello.name, now=NANOSECONDS)
        self.hello = Hello(HelloSettings(**settings), Roster())
        self.sent: list[tuple[int, str]] = []
        self.replies: list[tuple[int, str, int]] = []
        self.hello.on_open(self.ctx)
        self.roster = self.hello.roster
        self.roster.begin(self.ctx)
        self.ctx.containers[CONTACTS] = dict.fromkeys(far, ())
        self.hello.on_container(self.ctx, CONTACTS, self.ctx.containers[CONTACTS])
        if tree:
            self.put_tree(tree)

    def put_tree(self, edges: str) -> None:
        pairs = [each.split("-") for each in edges.split()]
        self.ctx.containers[TREE] = Tree((one, other) for one, other in pairs)
        self.hello.on_container(self.ctx, TREE, self.ctx.containers[TREE])

    def run(self, seconds: float) -> None:
        end = self.ctx.now + int(seconds * NANOSECONDS)
        due = self.ctx.woken().get("probe")
        while True:
            self._collect()
            due = self.ctx.woken().get("probe", due)
            first = min((each for each in self.replies), default=None)
            at = due if first is None or (due is not None and due <= first[0]) else first[0]
            if at is None or at > end:
                break
            self.ctx.now = max(self.ctx.now, at)
            if first is not None and at == first[0] and at != due:
                self.replies.remove(first)
                self.hello.replied(self.ctx, ProbeReply(first[2]), first[1])
            else:
                self.ctx.effects.clear()
                due = None
                self.hello.on_timer(self.ctx, "probe")
        self.ctx.now = end

    def _collect(self) -> None:
        for to, message in self.ctx.sent():
            assert isinstance(message, Probe)
            self.sent.append((self.ctx.now, to))
            if to not in self.silent:
                back = self.ctx.now + int(2 * self.far[to] * NANOSECONDS)
                self.replies.append((back, to, message.nonce))
        self.ctx.effects[:] = [each for each in self.ctx.effects if type(each).__name__ == "Wake"]

    def counts(self, since: float) -> Counter[str]:
        return Counter(to for at, to in self.sent if at >= since * NANOSECONDS)


def others(count: int, step: float = 0.001) -> dict[str, float]:
    """c000 is the nearest, and so on."""
    return {f"c{number:03d}": 0.005 + step * number for number in range(count)}


# the budget


def test_an_exchange_is_never_larger_than_the_budget_counts_it() -> None:
    largest = 2**32 - 1
    frames = [encode(Control(2**63 - 1, message)) for message in (Probe(largest), ProbeReply(largest))]
    assert sum(map(len, frames)) <= EXCHANGE_BYTES


@pytest.mark.parametrize("budget", [50.0, 200.0, 1000.0])
@pytest.mark.parametrize("silent", [0, 10, 40])
def test_the_budget_is_never_exceeded_whoever_answers(budget: float, silent: int) -> None:
    prober = Prober(others(40), budget=budget)
    prober.run(30)
    prober.silent = set(sorted(prober.far)[:silent])
    prober.run(60)
    gap = EXCHANGE_BYTES / budget * NANOSECONDS
    instants = [at for at, _ in prober.sent]
    assert all(later - earlier >= gap for earlier, later in pairwise(instants))
    assert len(instants) > 0.5 * 90 * budget / EXCHANGE_BYTES


def test_in_a_whole_backbone_probes_and_replies_stay_within_the_sum_of_all_budgets() -> None:
    backbone = Backbone(20, probe_budget=100.0)
    backbone.world.run(30)
    backbone.forget()
    backbone.world.run(130)
    assert backbone.bytes["Probe"] + backbone.bytes["ProbeReply"] <= 20 * 100 * 100
    assert backbone.bytes["Probe"] + backbone.bytes["ProbeReply"] > 0.7 * 20 * 100 * 100


# who is probed how often


def test_critical_nodes_are_probed_more_often_than_near_ones_and_those_more_often_than_others() -> None:
    prober = Prober(others(60) | {"y": 0.2, "z": 0.2}, "a-y a-z", budget=300.0, nearest=8)
    prober.run(120)
    counts = prober.counts(60)
    near = [counts[f"c{number:03d}"] for number in range(8)]
    distant = [counts[f"c{number:03d}"] for number in range(8, 60)]
    assert min(counts["y"], counts["z"]) > 1.5 * max(near)
    assert min(near) > 3 * max(distant)
    assert sum(distant) > 0


def test_in_a_whole_backbone_tree_neighbours_are_probed_most_and_then_the_nearest() -> None:
    backbone = Backbone(40, nearest=6, probe_budget=150.0)
    backbone.world.run(200)
    backbone.forget()
    backbone.world.run(500)
    rates: dict[str, list[int]] = {"critical": [], "near": [], "other": []}
    for name in backbone.up:
        critical = set(backbone.tree(name).neighbours(name))
        near = backbone.hello(name).roster.nearest
        for other in backbone.up:
            rank = "critical" if other in critical else "near" if other in near else "other"
            if other != name:
                rates[rank].append(backbone.probes[name, other])
    mean = {rank: sum(each) / len(each) for rank, each in rates.items()}
    assert mean["critical"] > 1.5 * mean["near"]
    assert mean["near"] > 3 * mean["other"]
    assert mean["other"] > 0


def test_a_new_node_is_probed_soon_among_many_known_ones() -> None:
    prober = Prober(others(60), budget=200.0)
    prober.run(120)
    prober.far["new"] = 0.01
    prober.roster.hear("new", prober.ctx.now)
    prober.roster.tell(prober.ctx)
    prober.hello.on_container(prober.ctx, NODES, prober.ctx.containers[NODES])
    prober.run(3)
    assert prober.counts(121)["new"] >= 1


def test_a_node_that_becomes_critical_is_probed_more_often_from_then_on() -> None:
    prober = Prober(others(60), budget=200.0)
    prober.run(120)
    before = prober.counts(61)["c059"]
    prober.put_tree("a-c059")
    prober.run(60)
    assert prober.counts(121)["c059"] > 3 * max(1, before)


def test_few_nodes_have_peace_between_probes_however_large_the_budget() -> None:
    prober = Prober({"b": 0.01}, "a-b", budget=1e6, pause=2.0)
    prober.run(60)
    assert 25 <= prober.counts(1)["b"] <= 35


# distances


def test_the_distance_is_half_the_round_trip() -> None:
    prober = Prober({"b": 0.03, "c": 0.002}, budget=500.0)
    prober.run(20)
    assert prober.ctx.container(DISTANCES) == {"b": 30_000_000, "c": 2_000_000}


def test_one_slow_reply_moves_the_distance_by_an_eighth_at_most() -> None:
    prober = Prober({"b": 0.01}, budget=500.0)
    prober.run(20)
    prober.far["b"] = 0.2
    prober.run(1.3)
    prober.far["b"] = 0.01
    assert prober.roster.distances["b"] <= 0.01 * NANOSECONDS * 9 / 8 * 9 / 8
    prober.run(60)
    assert prober.ctx.container(DISTANCES)["b"] == pytest.approx(10_000_000, rel=0.15)


def test_a_lasting_change_is_followed() -> None:
    prober = Prober({"b": 0.01}, budget=500.0)
    prober.run(20)
    prober.far["b"] = 0.05
    prober.run(100)
    assert prober.ctx.container(DISTANCES)["b"] == pytest.approx(50_000_000, rel=0.15)


def test_loss_does_not_change_distances() -> None:
    backbone = Backbone(8, loss=0.5)
    backbone.world.run(200)
    for name in backbone.up:
        for other, distance in backbone.container(name, DISTANCES).items():
            assert distance == pytest.approx(backbone.field.latency(name, other) * NANOSECONDS, rel=0.01)


def test_a_reply_that_nobody_asked_for_measures_nothing() -> None:
    prober = Prober({"b": 0.01, "c": 0.01}, budget=500.0)
    prober.hello.replied(prober.ctx, ProbeReply(1), "b")
    prober.hello.replied(prober.ctx, ProbeReply(77), "zz")
    assert prober.roster.distances == {}
    assert "zz" not in prober.roster.live


# life and death


def test_a_contact_is_no_node_before_it_has_answered() -> None:
    prober = Prober({"b": 0.01, "c": 0.01}, budget=500.0)
    prober.silent = {"c"}
    prober.run(30)
    assert set(prober.ctx.container(NODES)) == {"a", "b"}
    prober.silent = set()
    prober.run(60)
    assert set(prober.ctx.container(NODES)) == {"a", "b", "c"}


def test_a_probe_is_answered_and_shows_that_the_prober_lives() -> None:
    prober = Prober({}, budget=500.0)
    prober.hello.probed(prober.ctx, Probe(5), "x")
    assert prober.ctx.sent() == [("x", ProbeReply(5))]
    assert "x" in prober.ctx.container(NODES)


def test_a_silent_critical_node_is_probed_again_at_once_and_soon_called_dead() -> None:
    prober = Prober(others(40) | {"y": 0.02}, "a-y", budget=300.0)
    prober.run(200)
    prober.silent = {"y"}
    before = len(prober.sent)
    prober.run(12)
    assert "y" not in prober.roster.live
    assert "y" not in prober.roster.distances
    mine = [to for _, to in prober.sent[before:]].count("y")
    assert 4 <= mine <= 8
    assert prober.roster.died == {"y"}


def test_a_dead_node_is_still_tried_now_and_then_and_taken_back_when_it_answers() -> None:
    prober = Prober(others(10) | {"y": 0.02}, "a-y", budget=300.0)
    prober.run(60)
    prober.silent = {"y"}
    prober.run(60)
    assert "y" not in prober.roster.live
    prober.silent = set()
    prober.run(60)
    assert "y" in prober.roster.live
    assert prober.roster.distances["y"] == pytest.approx(20_000_000, rel=0.01)


def test_a_node_that_others_have_heard_since_is_out_of_reach_but_not_dead() -> None:
    prober = Prober(others(10) | {"y": 0.02}, "a-y", budget=300.0)
    prober.run(60)
    prober.silent = {"y"}
    for _ in range(60):
        prober.run(1)
        prober.roster.hear("y", prober.ctx.now)
    assert "y" in prober.roster.live
    assert "y" not in prober.roster.distances


def test_a_client_neither_probes_nor_answers() -> None:
    ctx = FakeContext("a", role=Role.CLIENT)
    hello = Hello(HelloSettings(), Roster())
    hello.on_open(ctx)
    hello.on_container(ctx, CONTACTS, {"b": ()})
    hello.probed(ctx, Probe(1), "b")
    assert ctx.effects == []


def test_a_node_whose_link_breaks_is_known_to_be_dead_within_two_seconds() -> None:
    prober = Prober({"b": 0.01, "c": 0.01}, "a-b a-c")
    prober.run(20)
    assert prober.roster.live == {"a", "b", "c"}
    prober.silent.add("b")
    prober.hello.on_membership(prober.ctx, Membership("down", "b"))
    prober.run(2)
    assert prober.roster.live == {"a", "c"}


def test_a_late_sign_of_life_does_not_spare_a_node_whose_link_broke() -> None:
    prober = Prober({"b": 0.01, "c": 0.01}, "a-b a-c")
    prober.run(20)
    prober.silent.add("b")
    prober.hello.on_membership(prober.ctx, Membership("down", "b"))
    prober.run(0.4)
    prober.roster.hear("b", prober.ctx.now)  # its last word, by way of c
    prober.run(3)
    assert prober.roster.live == {"a", "c"}


def test_a_node_whose_link_breaks_and_that_answers_lives_on() -> None:
    prober = Prober({"b": 0.01, "c": 0.01}, "a-b a-c")
    prober.run(20)
    prober.hello.on_membership(prober.ctx, Membership("down", "b"))
    prober.run(5)
    assert prober.roster.live == {"a", "b", "c"}


def test_a_node_that_comes_back_and_stops_again_at_once_is_known_to_be_dead_within_two_seconds() -> None:
    """It was called dead a moment ago, has greeted since, and has not answered a probe before it went."""
    prober = Prober({"b": 0.01, "c": 0.01}, "a-b a-c")
    prober.run(20)
    prober.silent.add("b")
    for _ in range(3):
        prober.hello.on_membership(prober.ctx, Membership("down", "b"))
        prober.run(2)
        assert prober.roster.live == {"a", "c"}
        prober.hello.on_membership(prober.ctx, Membership("up", "b"))
        assert prober.roster.live == {"a", "b", "c"}
        prober.run(0.2)


def test_a_node_lives_as_soon_as_it_has_a_link_but_one_below_the_backbone_is_no_node_of_it() -> None:
    prober = Prober({"b": 0.01}, budget=0.1)
    for name in ("b", "client"):
        prober.hello.on_membership(prober.ctx, Membership("up", name))
    assert prober.roster.live == {"a", "b"}


def test_a_node_that_a_late_word_revives_is_called_dead_again_soon_and_later_each_time() -> None:
    prober = Prober({"b": 0.01, "c": 0.01}, "a-b a-c")
    prober.run(20)
    prober.silent.add("b")
    prober.hello.on_membership(prober.ctx, Membership("down", "b"))
    prober.run(2)
    spans = []
    for _ in range(6):
        begun = prober.ctx.now
        prober.roster.hear("b", begun)
        while "b" in prober.roster.live:
            prober.run(1)
        spans.append((prober.ctx.now - begun) // NANOSECONDS)
    assert spans[0] <= 8
    assert spans == sorted(spans)
    assert spans[-1] >= 60


def test_a_dead_node_whose_link_broke_takes_no_more_of_the_budget_than_others() -> None:
    prober = Prober(others(10) | {"y": 0.02}, "a-y", budget=300.0)
    prober.run(60)
    prober.silent = {"y"}
    prober.hello.on_membership(prober.ctx, Membership("down", "y"))
    prober.run(10)
    assert "y" not in prober.roster.live
    before = len(prober.sent)
    prober.run(60)
    later = [to for _, to in prober.sent[before:]]
    assert later.count("y") < len(later) / 4
