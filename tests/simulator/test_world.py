"""The world: effects carried out, lives of nodes, and a trace that accounts for every item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from gossamer.core.effect import Reply
from gossamer.core.errors import ChannelExists, Closed, ConfigError, UnknownChannel, UnknownTemplate
from gossamer.core.event import Criteria, Envelope
from gossamer.core.parcel import Parcel
from gossamer.core.template import Template
from gossamer.core.wire import encode
from gossamer.overlay.directory.service import Answered, Clone, Directory, Entry, Lookup
from gossamer.overlay.registry.service import Registry
from gossamer.simulator.network.link_models import LinkModel, NodeModel
from gossamer.simulator.network.rules import Crash, Echo, Loss, Pause, Restart
from gossamer.simulator.workload.observers import Witness
from gossamer.simulator.world import World
from gossamer.templates.loop import Loop

MS = 1_000_000
S = 1_000_000_000


class Onlooker(Witness):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def started(self, world: World, node: str, life: int) -> None:
        self.told.append(("started", world.now, node, life))

    def stopped(self, world: World, node: str, life: int) -> None:
        self.told.append(("stopped", world.now, node, life))

    def delivered(
        self, world: World, node: str, life: int, channel: str, subscription: int, *rest: Any
    ) -> None:
        self.told.append(("delivered", world.now, node, channel, subscription))

    def feedback(self, world: World, node: str, life: int, channel: str, parcel: Parcel) -> None:
        self.told.append(("feedback", world.now, node, parcel.stamp.node, parcel.payloads))


# sending and delivering


def test_an_event_reaches_the_subscriber_next_door_after_the_latency(bench):
    it, onlooker = bench(link=LinkModel(latency=0.03)), Onlooker()
    it.world.add_witness(onlooker)
    number = it.world.subscribe("b", "c")
    it.world.publish("a", "c", b"hello")
    it.world.run(1)
    assert onlooker.told == [("delivered", 0.03, "b", "c", number)]


def test_only_events_that_meet_the_criteria_are_delivered(bench):
    it, onlooker = bench(), Onlooker()
    it.world.add_witness(onlooker)
    it.world.subscribe("b", "c", Criteria(colour="red"))
    it.world.publish("a", "c", b"", Envelope({"colour": "blue"}))
    it.world.publish("a", "c", b"", Envelope({"colour": "red"}))
    it.world.run(1)
    assert len(onlooker.told) == 1


def test_after_unsubscribing_nothing_comes(bench):
    it, onlooker = bench(), Onlooker()
    it.world.add_witness(onlooker)
    number = it.world.subscribe("b", "c")
    it.world.unsubscribe("b", "c", number)
    it.world.publish("a", "c")
    it.world.run(1)
    assert onlooker.told == []


def test_feedback_reaches_the_source(bench):
    it, onlooker = bench(), Onlooker()

    class Answerer(Witness):
        def delivered(self, world, node, life, channel, subscription, parcel, picks):
            world.feedback(node, channel, world.receipt(node, channel, parcel, 1), b"thanks")

    it.world.add_witness(Answerer(), "b")
    it.world.add_witness(onlooker)
    it.world.subscribe("b", "c")
    it.world.publish("a", "c", b"hello")
    it.world.run(1)
    assert ("feedback", 0.02, "a", "b", [b"thanks"]) in onlooker.told


def test_what_a_witness_does_happens_after_all_effects_of_what_it_saw(bench):
    """A wake asked for by the answer must not be replaced by an earlier one that is still to be set."""
    it = bench()

    def deliver_then_wake(template, ctx, parcel, sender):
        ctx.deliver(parcel, sender)
        ctx.wake("soon", 1.0)

    it.probe.on_parcel = deliver_then_wake

    class Hurried(Witness):
        def delivered(self, world, *rest):
            it.wake("b", "soon", 5.0)

    it.world.add_witness(Hurried(), "b")
    it.world.subscribe("b", "c")
    it.world.publish("a", "c")
    it.world.run(10)
    assert [note[0] for note in it.noted("timer")] == [10 * MS + 5 * S]


def test_an_item_to_a_node_without_a_link_is_lost_and_traced(bench):
    it = bench("abc")
    it.hint("a", "c")
    it.world.run(1)
    (row,) = it.traced("dropped")
    assert (row["node"], row["peer"], row["detail"]) == ("a", "c", "no link")
    assert it.world.drops == {"no link": 1}


def test_after_unlink_both_are_told_and_nothing_passes(bench):
    it = bench()
    it.world.unlink("a", "b")
    assert [note[1:3] for note in it.noted("down")] == [("a", "b"), ("b", "a")]
    it.hint("a", "b")
    assert it.world.drops == {"no link": 1}


def test_a_link_made_again_follows_its_new_model(bench):
    it = bench()
    it.world.unlink("a", "b")
    it.world.link("a", "b", LinkModel(latency=3.0))
    it.hint("a", "b")
    it.world.run(5)
    assert it.noted("hint")[0][0] == 3 * S


def test_items_of_one_direction_arrive_in_the_order_of_sending(bench):
    it = bench(link=LinkModel(latency=0.01, jitter=0.05))
    for number in range(50):
        it.hint("a", "b", number)
    it.world.run(1)
    assert [note[3] for note in it.noted("hint")] == list(range(50))


def test_a_full_queue_drops_at_the_sender(bench):
    it = bench(link=LinkModel(bandwidth=1000, queue=1000))
    for _ in range(3):
        it.world.publish("a", "c", bytes(600))
    it.world.run(10)
    assert [row["detail"] for row in it.traced("dropped", node="a", peer="b")] == ["queue full"] * 2
    assert len(it.noted("parcel", "b")) == 1


def test_traffic_is_counted_by_kind_in_bytes_of_the_frame(bench):
    it = bench()
    it.world.add_tap(lambda sender, target, item: sizes.append(len(encode(item))))
    sizes: list[int] = []
    it.world.publish("a", "c", bytes(500))
    it.hint("a", "b")
    assert it.world.messages == {"parcel": 1, "control": 1}
    assert [it.world.tally.bytes["parcel"], it.world.tally.bytes["control"]] == sizes
    assert sizes[0] > 500


# timers


def test_a_wake_comes_when_it_was_asked_for(bench):
    it = bench()
    it.wake("a", "tea", 2.5)
    it.world.run(10)
    assert it.noted("timer") == [(2500 * MS, "a", "tea", 1)]


def test_a_later_wake_of_the_same_name_replaces_the_first_and_other_names_stay(bench):
    it = bench()
    it.wake("a", "tea", 1)
    it.wake("a", "milk", 1)
    it.wake("a", "tea", 2)
    it.wake("b", "tea", 3)
    it.world.run(10)
    assert [(note[0] // S, note[1], note[2]) for note in it.noted("timer")] == [
        (1, "a", "milk"),
        (2, "a", "tea"),
        (3, "b", "tea"),
    ]


def test_a_cancelled_wake_does_not_come(bench):
    it = bench()
    it.wake("a", "tea", 1)
    it.within("a", lambda ctx: ctx.cancel("tea"))
    it.world.run(10)
    assert it.noted("timer") == []


def test_actions_happen_at_their_instant(bench):
    it = bench()
    seen: list[float] = []
    it.world.at(2.0, lambda: seen.append(it.world.now))
    it.world.run(1.9)
    assert seen == []
    it.world.run(2)
    assert seen == [2.0]


# processing cost and the inbox


def test_handling_takes_its_time_one_item_after_the_other(bench):
    it = bench(link=LinkModel(latency=0), node=NodeModel(control=0.1, parcel=0.3))
    it.hint("a", "b", 1)
    it.world.publish("a", "c")
    it.hint("a", "b", 2)
    it.world.run(10)
    assert [note[0] // MS for note in it.noted("hint")] == [100, 500]
    assert [note[0] // MS for note in it.noted("parcel")] == [400]


def test_an_inbox_over_its_bound_drops_at_the_receiver(bench):
    it = bench(link=LinkModel(latency=0), node=NodeModel(control=0.1, inbox=2))
    for number in range(5):
        it.hint("a", "b", number)
    it.world.run(10)
    assert [note[3] for note in it.noted("hint")] == [0, 1, 2]
    assert [row["peer"] for row in it.traced("dropped", node="b", detail="inbox full")] == ["a", "a"]


# crash and restart


def test_a_crashed_node_hears_and_does_nothing(bench):
    it = bench()
    it.wake("b", "tea", 5)
    it.world.add_rule(Crash(node="b", at=1))
    it.world.run(2)
    it.hint("a", "b")
    it.world.run(10)
    assert it.noted("hint") == it.noted("timer") == []
    assert not it.world.running("b")
    assert it.world.engine("b") is None
    with pytest.raises(Closed):
        it.world.publish("b", "c")


def test_neighbours_notice_a_crash_after_the_detection_delay(bench):
    it = bench("abc", detection=2.0)
    it.world.add_rule(Crash(node="b", at=1))
    it.world.run(2.9)
    assert it.noted("down") == []
    it.world.run(10)
    assert it.noted("down") == [(3 * S, "a", "b", 1), (3 * S, "c", "b", 1)]


def test_before_they_notice_items_are_lost_at_the_dead_node_and_afterwards_there_is_no_link(bench):
    it = bench(link=LinkModel(latency=0.01), detection=1.0)
    it.world.add_rule(Crash(node="b", at=1))
    it.world.at(1.5, lambda: it.hint("a", "b"))
    it.world.at(2.5, lambda: it.hint("a", "b"))
    it.world.run(10)
    assert [(row["at"] // MS, row["peer"], row["detail"]) for row in it.traced("dropped", node="a")] == [
        (1510, "b", "node is down"),
        (2500, "b", "no link"),
    ]


def test_a_crash_drops_what_waits_in_the_inbox(bench):
    it = bench(link=LinkModel(latency=0), node=NodeModel(control=1.0))
    for number in range(3):
        it.hint("a", "b", number)
    it.world.add_rule(Crash(node="b", at=1.5))
    it.world.run(10)
    assert [note[3] for note in it.noted("hint")] == [0]
    assert [row["peer"] for row in it.traced("dropped", node="b", detail="node crashed")] == ["a"] * 2


def test_work_begun_before_a_crash_does_not_end_work_of_the_next_life(bench):
    it = bench(link=LinkModel(latency=0), node=NodeModel(control=1.0))
    it.hint("a", "b", 1)
    it.world.add_rule(Crash(node="b", at=0.5))
    it.world.add_rule(Restart(node="b", at=0.6))
    it.world.at(0.7, lambda: it.hint("a", "b", 2))
    it.world.run(10)
    assert it.noted("hint") == [(1700 * MS, "b", "a", 2)]


def test_a_restart_is_a_new_life_with_channels_containers_links_and_other_dice(bench):
    it, onlooker = bench("abc"), Onlooker()
    (tree,) = {it.world.engine("b").containers["tree"]}
    it.world.add_witness(onlooker)
    it.world.add_rule(Crash(node="b", at=1))
    it.world.add_rule(Restart(node="b", at=5))
    it.world.run(10)
    engine = it.world.engine("b")
    assert (engine.incarnation, engine.channels, engine.containers["tree"]) == (2, ("c",), tree)
    assert it.noted("up") == [
        (5 * S, "b", "a", 2),
        (5 * S, "a", "b", 1),
        (5 * S, "b", "c", 2),
        (5 * S, "c", "b", 1),
    ]
    assert onlooker.told == [("stopped", 1.0, "b", 1), ("started", 5.0, "b", 2)]
    it.hint("a", "b")
    it.world.run(11)
    assert len(it.noted("hint")) == 1


def test_a_quick_restart_tells_neighbours_of_the_break_first_and_only_once(bench):
    it = bench(detection=3.0)
    it.world.add_rule(Crash(node="b", at=1))
    it.world.add_rule(Restart(node="b", at=2))
    it.world.run(10)
    assert [(note[0], note[1] // S) for note in it.log if note[2] == "a"] == [("down", 2), ("up", 2)]


def test_crashes_of_the_dead_and_restarts_of_the_living_change_nothing(bench):
    it = bench()
    it.world.add_rule(Restart(node="a", at=1))
    it.world.add_rule(Crash(node="b", at=1))
    it.world.add_rule(Crash(node="b", at=2))
    it.world.run(3)
    assert it.world.engine("a").incarnation == 1
    assert it.world.engine("b") is None


def test_what_a_node_had_sent_before_it_crashed_arrives_and_its_loss_is_traced_by_that_life(bench):
    it = bench("abc", link=LinkModel(latency=1.0))
    it.hint("b", "a")
    it.hint("b", "c")
    it.world.add_rule(Crash(node="b", at=0.2))
    it.world.add_rule(Crash(node="c", at=0.5))
    it.world.add_rule(Restart(node="b", at=0.8))
    it.world.run(10)
    assert len(it.noted("hint", "a")) == 1
    (row,) = it.traced("dropped", detail="node is down")
    assert (row["node"], row["incarnation"], row["peer"]) == ("b", 1, "c")


# pause


def test_a_paused_node_handles_everything_afterwards_timers_and_items_alike(bench):
    it = bench(link=LinkModel(latency=0.01))
    it.wake("b", "tea", 2)
    it.world.add_rule(Pause(node="b", start=1, end=5))
    it.world.at(3, lambda: it.hint("a", "b"))
    it.world.at(3, lambda: it.world.set(None, "tree", None))
    it.world.run(4)
    assert [note for note in it.log if note[2] == "b"] == []
    with pytest.raises(Closed):
        it.world.publish("b", "c")
    it.world.run(5)
    assert [(note[0], note[1]) for note in it.log if note[2] == "b"] == [
        ("timer", 5 * S),
        ("tree", 5 * S),
        ("hint", 5 * S),
    ]


def test_the_inbox_of_a_paused_node_is_bounded(bench):
    it = bench(node=NodeModel(inbox=3))
    it.world.add_rule(Pause(node="b", start=0, end=5))
    for number in range(5):
        it.hint("a", "b", number)
    it.world.run(10)
    assert [note[3] for note in it.noted("hint")] == [0, 1, 2]
    assert it.world.drops == {"inbox full": 2}


def test_work_that_ends_during_a_pause_takes_effect_after_it(bench):
    it = bench(link=LinkModel(latency=0), node=NodeModel(control=2.0))
    it.hint("a", "b", 1)
    it.hint("a", "b", 2)
    it.world.add_rule(Pause(node="b", start=1, end=5))
    it.world.run(20)
    assert [(note[0] // S, note[3]) for note in it.noted("hint")] == [(5, 1), (7, 2)]


def test_a_crash_ends_a_pause(bench):
    it = bench()
    it.world.add_rule(Pause(node="b", start=1, end=10))
    it.world.add_rule(Crash(node="b", at=2))
    it.world.add_rule(Restart(node="b", at=3))
    it.world.run(4)
    assert it.world.running("b")
    it.world.run(20)
    assert it.world.running("b")


def test_the_end_of_an_earlier_lifes_pause_does_not_end_a_later_one(bench):
    it = bench()
    it.world.add_rule(Pause(node="b", start=1, end=10))
    it.world.add_rule(Crash(node="b", at=2))
    it.world.add_rule(Restart(node="b", at=3))
    it.world.add_rule(Pause(node="b", start=4, end=20))
    it.world.run(15)
    assert not it.world.running("b")
    it.world.run(20)
    assert it.world.running("b")


# building


def test_unknown_names_are_refused_by_name(bench):
    world = bench().world
    with pytest.raises(UnknownTemplate):
        world.open("d", "prob")
    with pytest.raises(UnknownChannel):
        world.publish("a", "nowhere")
    with pytest.raises(ConfigError, match="no node 'z'"):
        world.publish("z", "c")
    with pytest.raises(ConfigError):
        world.link("a", "b")
    with pytest.raises(ConfigError):
        world.link("a", "a")
    with pytest.raises(ConfigError):
        world.add_node("a")
    with pytest.raises(ChannelExists):
        world.open("c", "probe")


def test_a_node_that_comes_later_runs_all_channels_and_has_all_shared_containers(bench):
    it = bench()
    it.world.add_node("z")
    it.world.link("z", "a")
    assert it.world.engine("z").channels == ("c",)
    assert it.world.engine("z").containers.keys() == {"tree", "linked"}
    it.hint("z", "a")
    it.world.run(1)
    assert len(it.noted("hint", "a")) == 1


def services(stored: Mapping[str, bytes]) -> list[Template[Any]]:
    registry = Registry(stored)
    return [registry, Directory({"probe": Loop}, registry)]


def test_what_a_service_has_stored_is_there_in_the_next_life_of_its_node(bench):
    it = bench("ab", services=services)
    replies: list[Reply] = []
    it.world.call("a", Directory.name, Clone(Entry("news", "probe")), replies.append)
    it.world.run(1)
    for node in "ab":
        it.world.crash(node)
    it.world.restart("b")
    it.world.call("b", Directory.name, Lookup("news"), replies.append)
    assert [reply.value.entries[0].creator for reply in replies] == ["a", "a"]


def test_services_run_on_every_node_and_answer_calls(bench):
    it = bench("abc", services=services)
    replies: list[Answered] = []

    def keep(reply: Reply) -> None:
        replies.append(reply.value)

    it.world.call("a", Directory.name, Clone(Entry("news", "probe")), keep)
    it.world.run(1)
    it.world.call("c", Directory.name, Lookup("news"), keep)
    assert [reply.entries[0].creator for reply in replies] == ["a", "a"]


def test_an_error_inside_a_run_tells_the_seed_and_the_time(bench):
    it = bench(seed=42)

    def fail() -> None:
        raise ZeroDivisionError

    it.world.at(3, fail)
    with pytest.raises(ZeroDivisionError) as caught:
        it.world.run(10)
    assert "seed 42" in caught.value.__notes__[0]
    assert str(3 * S) in caught.value.__notes__[0]


def test_the_trace_accounts_for_every_item_that_was_sent(bench):
    """Sent plus copies equals received plus dropped, for each pair of nodes, once nothing is on its way."""
    it = bench(
        "abcde",
        link=LinkModel(jitter=0.01, loss=0.1, bandwidth=5_000, queue=1000, reorder=0.1),
        node=NodeModel(parcel=0.2, control=0.01, inbox=3),
    )
    it.world.add_rule(Loss(probability=0.3, senders=("a",), start=1, end=2))
    it.world.add_rule(Crash(node="c", at=2))
    it.world.add_rule(Restart(node="c", at=4.5))
    it.world.add_rule(Pause(node="d", start=1, end=6))

    def talk() -> None:
        for node in "abcde":
            if it.world.running(node):
                it.world.publish(node, "c", bytes(300))
                it.hint(node, "c")
        if it.world.now < 9:
            it.world.at(it.world.now + 0.05, talk)

    it.world.at(0, talk)
    it.world.run(30)
    balance: Counter[tuple[str, str]] = Counter()
    for row in it.traced("sent"):
        balance[row["node"], row["peer"]] += 1
    for row in it.traced("received"):
        balance[row["peer"], row["node"]] -= 1
    at_target = ("inbox full", "node crashed")
    for row in it.traced("dropped"):
        here, peer = row["node"], row["peer"]
        balance[(peer, here) if row["detail"] in at_target else (here, peer)] -= 1
    assert it.world.drops.keys() == {
        "lost on the way",
        "queue full",
        "inbox full",
        "node crashed",
        "node is down",
        "no link",
        "lost by rule",
    }
    assert set(balance.values()) == {0}


def test_positions_of_a_life_have_no_gaps(bench):
    it = bench("abc", link=LinkModel(latency=1, duplicate=0.5))
    it.world.add_rule(Echo(probability=0.5))
    it.world.add_rule(Crash(node="b", at=1.5))
    it.world.add_rule(Restart(node="b", at=2.5))
    for _ in range(20):
        it.world.publish("a", "c")
        it.world.publish("c", "c")
    it.world.run(20)
    positions: dict[tuple[str, int], list[int]] = {}
    for row in it.rows:
        positions.setdefault((row[2], row[3]), []).append(row[0])
    assert ("b", 2) in positions
    assert all(found == list(range(1, len(found) + 1)) for found in positions.values())
