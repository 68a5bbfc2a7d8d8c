"""Rules: verdicts, windows, order, and what makes no sense."""

from __future__ import annotations

import msgspec
import pytest

from gossamer.core.errors import ConfigError
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.rules import (
    DUPLICATE,
    PASS,
    AnyRule,
    ClockSkew,
    Crash,
    Delay,
    Drop,
    Echo,
    Lag,
    Loss,
    Partition,
    Pause,
    Restart,
)

S = 1_000_000_000
NODES = ("a", "b", "c")


def verdicts(rule, times=1, sender="a", receiver="b", kind="parcel"):
    judge, dice = rule.judge(), SeededDice(1)
    return [judge(sender, receiver, kind, dice) for _ in range(times)]


# verdicts


def test_loss_drops_with_its_probability():
    dropped = verdicts(Loss(probability=0.3), 10_000).count(Drop("lost by rule"))
    assert 2800 < dropped < 3200


def test_loss_looks_at_sender_receiver_and_kind():
    rule = Loss(senders=("a",), receivers=("b",), items=("control",))
    assert verdicts(rule, kind="control") == [Drop("lost by rule")]
    assert verdicts(rule, kind="parcel") == [PASS]
    assert verdicts(rule, sender="c", kind="control") == [PASS]
    assert verdicts(rule, receiver="c", kind="control") == [PASS]


def test_a_partition_drops_between_parts_and_passes_within():
    rule = Partition(parts=(("a",), ("b",)))
    assert verdicts(rule) == [Drop("partition")]
    assert verdicts(rule, receiver="c") == [Drop("partition")]
    assert verdicts(rule, sender="c", receiver="d") == [PASS]
    assert verdicts(Partition(parts=(("a", "b"),))) == [PASS]


def test_lag_delays_and_echo_duplicates():
    assert verdicts(Lag(by=0.5)) == [Delay(S // 2)]
    assert verdicts(Echo()) == [DUPLICATE]
    assert verdicts(Echo(probability=0.0)) == [PASS]


# in a world


def test_a_rule_is_in_force_from_its_start_and_before_its_end(bench):
    it = bench(link=LinkModel(latency=0))
    it.world.add_rule(Loss(start=1, end=3))
    for second in range(5):
        it.world.at(second, lambda second=second: it.hint("a", "b", second))
    it.world.run(10)
    assert [note[3] for note in it.noted("hint")] == [0, 3, 4]
    assert [row["detail"] for row in it.traced("dropped", node="a", peer="b")] == ["lost by rule"] * 2


def test_a_rule_that_has_begun_already_counts_at_once(bench):
    it = bench()
    it.world.add_rule(Loss())
    it.hint("a", "b")
    it.world.run(1)
    assert it.noted("hint") == []


def test_delays_add_up_and_keep_the_order(bench):
    it = bench(link=LinkModel(latency=0.1))
    it.world.add_rule(Lag(by=1.0, end=0.5))
    it.world.add_rule(Lag(by=0.5, end=0.5))
    it.hint("a", "b", 1)
    it.world.at(1.0, lambda: it.hint("a", "b", 2))
    it.world.run(10)
    assert [(note[0], note[3]) for note in it.noted("hint")] == [(1.6 * S, 1), (1.6 * S, 2)]


def test_an_echo_brings_the_same_item_twice(bench):
    it = bench()
    it.world.add_rule(Echo(items=("control",)))
    it.hint("a", "b", 1)
    it.world.publish("a", "c")
    it.world.run(1)
    assert [note[3] for note in it.noted("hint")] == [1, 1]
    assert len(it.noted("parcel")) == 1


def test_the_first_drop_decides(bench):
    it = bench()
    it.world.add_rule(Partition(parts=(("a",),)))
    it.world.add_rule(Loss())
    it.hint("a", "b")
    assert it.world.drops == {"partition": 1}


def test_rules_keep_their_order_whenever_they_begin(bench):
    it = bench()
    it.world.add_rule(Partition(parts=(("a",),), start=2))
    it.world.add_rule(Loss(start=1))
    it.world.at(3, lambda: it.hint("a", "b"))
    it.world.run(5)
    assert it.world.drops == {"partition": 1}


def test_a_healed_partition_lets_everything_through(bench):
    it = bench("abc")
    it.world.add_rule(Partition(parts=(("a",),), end=5))
    it.hint("a", "b", 1)
    it.hint("b", "c", 2)
    it.world.at(5, lambda: it.hint("a", "b", 3))
    it.world.run(10)
    assert [note[3] for note in it.noted("hint")] == [2, 3]


# clocks


def test_a_skewed_node_sees_its_own_time_and_the_trace_keeps_true_time(bench):
    it = bench(link=LinkModel(latency=0))
    it.world.add_rule(ClockSkew(node="b", offset=100.0, start=1))
    it.world.at(2, lambda: it.hint("a", "b"))
    it.world.run(5)
    assert it.noted("hint") == [(102 * S, "b", "a", 1)]
    assert [row["at"] for row in it.traced("received", node="b")] == [2 * S]


def test_a_fast_clock_wakes_its_node_early(bench):
    it = bench()
    it.world.add_rule(ClockSkew(node="b", drift=0.25))
    it.wake("a", "tea", 10)
    it.wake("b", "tea", 10)
    it.world.at(8, lambda: it.hint("b", "a"))
    it.world.run(20)
    assert [(note[1], note[0] // S) for note in it.noted("timer")] == [("b", 10), ("a", 10)]
    (hint,) = it.traced("sent", node="b")
    assert hint["at"] == 8 * S
    assert it.log[0][:3] == ("timer", 10 * S, "b")


def test_a_clock_put_right_shows_true_time_again(bench):
    it = bench(link=LinkModel(latency=0))
    it.world.add_rule(ClockSkew(node="b", offset=100.0, end=3))
    it.world.at(4, lambda: it.hint("a", "b"))
    it.world.run(5)
    assert it.noted("hint")[0][0] == 4 * S


def test_a_clock_far_behind_shows_zero(bench):
    it = bench(link=LinkModel(latency=0))
    it.world.add_rule(ClockSkew(node="b", offset=-100.0))
    it.world.at(4, lambda: it.hint("a", "b"))
    it.world.run(5)
    assert it.noted("hint")[0][0] == 0


# what makes no sense


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        (Loss(senders=("x",)), "rule.senders"),
        (Loss(receivers=("x",)), "rule.receivers"),
        (Loss(probability=1.5), "rule.probability"),
        (Loss(start=2, end=2), "rule.end"),
        (Echo(probability=-0.5), "rule.probability"),
        (Lag(by=-1), "rule.by"),
        (Partition(parts=(("x",),)), "rule.parts"),
        (Partition(parts=(("a",), ("a", "b"))), "rule.parts"),
        (Partition(parts=((),)), "rule.parts"),
        (Crash(node="x", at=1), "rule.node"),
        (Restart(node="x", at=1), "rule.node"),
        (Pause(node="x", start=1, end=2), "rule.node"),
        (Pause(node="a", start=3, end=2), "rule.end"),
        (ClockSkew(node="x"), "rule.node"),
        (ClockSkew(node="a", drift=-1.0), "rule.drift"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_its_key(bench, rule, key):
    with pytest.raises(ConfigError) as caught:
        bench("abc").world.add_rule(rule)
    assert caught.value.key == key


@pytest.mark.parametrize(
    "table",
    [
        {"kind": "loss", "probability": 2},
        {"kind": "crash", "node": "a"},
        {"kind": "earthquake"},
        {"kind": "pause", "node": "a", "start": 1, "end": 2, "why": "lunch"},
    ],
)
def test_a_table_that_is_no_rule_is_refused(table):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(table, AnyRule)
