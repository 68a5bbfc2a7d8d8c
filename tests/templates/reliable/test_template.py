"""Reliable: gap-free and in order to whoever keeps up, repaired by the nearest node that can."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from gossamer.core.context import BELOW, SERVER
from gossamer.core.effect import Acknowledged
from gossamer.core.errors import ConfigError
from gossamer.core.event import Envelope, QoS
from gossamer.core.template import Membership
from gossamer.overlay.groups.interest import Interest
from gossamer.overlay.groups.messages import LISTENS, PUBLISHES, TreeUpdate
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.rules import ClockSkew, Loss, Pause
from gossamer.simulator.network.topology import Network
from gossamer.simulator.scenario.run import Channel, Publish, Result, Scenario, Subscribe, build, run
from gossamer.simulator.workload.observers import Witness
from gossamer.templates.reliable import template as reliable
from gossamer.templates.reliable.messages import Acks, Gone, Have, Missing
from gossamer.templates.reliable.sources import ReliableSettings
from gossamer.templates.reliable.template import Reliable
from gossamer.testing.fake import FakeContext, parcel
from tests.templates.worlds import CHANNEL, Net

TEMPLATES = {"reliable": Reliable}


def line(names: str = "abcd", settings: dict[str, Any] | None = None, **more: Any) -> Net:
    return Net(Reliable, pairwise(names), settings, **more)


def settled(names: str = "abcd", settings: dict[str, Any] | None = None, **more: Any) -> Net:
    """A line of nodes that all subscribe, with the first about to publish, after ten quiet seconds."""
    net = line(names, settings, **more)
    net.subscribe(names)
    net.publish(names[0], start=5.0)
    net.world.run(10)
    assert all(net.got[node, names[0]] == [1] for node in names)
    net.said.clear()
    return net


def whole(numbers: list[int]) -> bool:
    """Whether numbers follow each other, whatever the first is."""
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


# loss


def lossy(kind: str, seed: int, nodes: int = 7) -> Result:
    scenario = Scenario(
        name="half",
        network=Network(kind=kind, nodes=nodes),  # type: ignore[arg-type]
        duration=60.0,
        link=LinkModel(loss=0.5),
        channel=(Channel(CHANNEL, "reliable"),),
        publish=(Publish(CHANNEL, 5.0, pick=2, poisson=True, size=1000, start=10.0, end=25.0),),
        subscribe=(Subscribe(CHANNEL),),
    )
    return run(scenario, seed, templates=TEMPLATES)


@pytest.mark.parametrize("kind", ["tree", "line", "random", "star"])
@pytest.mark.parametrize("seed", range(1, 11))
def test_at_half_of_all_items_lost_everybody_gets_everything_in_order(kind: str, seed: int) -> None:
    result = lossy(kind, seed)
    assert result.drops["lost on the way"] > 500
    assert result.expected > 500
    assert (result.delivered, result.violations, result.missed) == (result.expected, 0, 0)
    assert result.control_bytes < result.data_bytes


def test_a_lossy_link_near_a_leaf_is_repaired_by_the_node_before_it_and_never_by_the_source() -> None:
    net = line("abcd", lossy={("c", "d"): LinkModel(loss=0.5)})
    net.subscribe("abcd")
    net.publish("a", 200, start=10.0, every=0.05)
    net.world.run(40)
    assert net.got["d", "a"] == list(range(1, 201))
    assert net.at("c").repaired > 50
    assert (net.at("a").repaired, net.at("b").repaired) == (0, 0)
    assert net.said["a", "b", "Parcel"] == 200, "each parcel once"


def test_a_hole_is_asked_for_one_hop_up_only() -> None:
    net = settled()
    net.world.add_rule(Loss(senders=("c",), receivers=("d",), items=("parcel",), start=10.0, end=10.5))
    net.publish("a", 10, start=10.0)
    net.world.run(20)
    asked = {(a, b) for a, b, kind in net.said if kind == "Missing"}
    assert asked == {("d", "c")}
    assert net.got["d", "a"] == list(range(1, 12))


def test_a_middle_node_that_lacks_a_parcel_too_asks_for_it_itself_and_passes_it_on() -> None:
    net = settled()
    net.world.add_rule(Loss(senders=("a",), receivers=("b",), items=("parcel",), start=10.0, end=10.5))
    net.publish("a", 10, start=10.0)
    net.world.run(20)
    assert net.at("a").repaired == net.at("b").repaired + net.at("a").repaired == 5
    assert all(net.got[node, "a"] == list(range(1, 12)) for node in "abcd")


def test_what_a_latecomer_lacks_is_kept_by_each_node_on_its_way() -> None:
    """Nobody on the way kept it, so over six lossy hops each try began at the source again: one in sixty-four
    came through.

    Replay: python benchmarks/proof.py reliable --first 4 --seeds 4 --nodes 20 --duration 900
    """
    net = line("abcdefg", {"laggard": 3600.0}, below={"h": "g", "i": "a"}, seed=3)
    net.subscribe("abcdefghi")
    net.world.run(10)
    net.world.add_rule(Loss(receivers=("i",), start=10))  # so that the source may forget nothing
    net.publish("a", 30, start=11.0)
    net.world.run(30)
    assert net.got["h", "a"] == list(range(1, 31))
    net.world.add_rule(Loss(probability=0.5, senders=tuple("abcdefgh"), receivers=tuple("abcdefgh")))
    net.world.crash("h")
    net.world.restart("h")
    net.subscribe("h")
    net.got.clear()
    net.publish("a", start=40.0)
    net.world.run(80)
    assert net.got["h", "a"] == list(range(1, 32))


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.5, 2.0])
def test_what_a_client_publishes_before_its_server_has_spoken_is_not_forgotten(pause: float) -> None:
    """A client that was back and published at once thought that nobody listened, and kept nothing.

    Replay: python benchmarks/proof.py reliable --first 19 --seeds 19 --nodes 20 --duration 900
    """
    net = line("abcd", below={"h": "d", "i": "d"})
    net.subscribe("abcdi")
    net.world.run(20)
    for node in "hd":
        net.world.crash(node)
        net.world.run(net.world.now + 1)
        net.world.restart(node)
    net.world.run(net.world.now + pause)
    net.world.publish("h", CHANNEL)
    net.world.run(60)
    assert {node: net.got[node, "h"] for node in "abci"} == {node: [1] for node in "abci"}


def test_the_last_parcel_of_all_is_repaired_though_nothing_follows_it() -> None:
    net = settled()
    net.world.add_rule(Loss(items=("parcel",), start=10.0, end=10.05))
    net.publish("a", 1, start=10.0)
    net.world.run(20)
    assert net.got["d", "a"] == [1, 2]


def test_when_all_have_everything_nothing_is_said_any_more() -> None:
    net = settled("abcd", {"refresh": 1000.0})
    net.publish("a", 10, start=10.0)
    net.world.run(20)
    net.said.clear()
    net.world.run(200)
    assert not net.said


# acknowledgements


def test_acknowledgements_merge_so_that_the_source_hears_its_tree_neighbours_only() -> None:
    edges = [("s", "l"), ("s", "r"), ("l", "l1"), ("l", "l2"), ("r", "r1"), ("r", "r2")]
    net = Net(Reliable, edges)
    nodes = [*"slr", "l1", "l2", "r1", "r2"]
    net.subscribe(nodes)
    net.publish("s", 100, start=10.0, every=0.1)
    net.world.run(10)
    net.said.clear()
    net.world.run(30)
    heard = net.heard("s", "Acks")
    assert heard.keys() == {"l", "r"}
    beats = 10 / min(ReliableSettings().ack, ReliableSettings().repair)
    assert all(count <= beats + 3 for count in heard.values()), "one per beat, however many are behind"
    assert not net.at("s").streams["s", 1].held


@pytest.mark.parametrize("heavy", [False, True])
def test_a_fast_source_does_not_wait_for_the_beat_of_those_far_behind(
    heavy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is a good part of the window is said at once, by number or by weight."""
    if heavy:
        monkeypatch.setattr(reliable, "WINDOW_BYTES", 40)
    net = Net(Reliable, [("a", "b"), ("b", "c")], {"send_window": 256 if heavy else 8})
    net.subscribe("abc")
    net.publish("a", start=5.0)
    net.publish("a", 100, start=10.0, every=0.002)
    net.world.run(9.9)
    net.said.clear()
    net.world.run(10.3)
    beats = 0.4 / min(ReliableSettings().ack, ReliableSettings().repair)
    assert all(count > 5 * beats for each in "ab" for count in net.heard(each, "Acks").values())
    net.world.run(11)
    assert net.got["c", "a"] == list(range(1, 102))


def test_one_acknowledgement_covers_all_sources_behind_a_neighbour() -> None:
    net = line("abcd")
    net.subscribe("abcd")
    for source in "ab":
        net.publish(source, 50, start=10.0)
    net.world.run(10)
    net.said.clear()
    net.world.run(20)
    (messages,) = net.heard("c", "Acks").values()
    assert messages <= 5.0 / 0.2 + 5, "not one for each of two sources"


def test_an_acknowledgement_about_another_tree_does_not_count() -> None:
    net = settled("ab")
    net.world.add_rule(Loss(senders=("b",), items=("control",), start=10.0))
    net.publish("a", 3, start=10.0)
    net.world.run(11)
    template, stream = net.at("a"), net.at("a").streams["a", 1]
    before = dict(stream.behind)
    epoch, counter = template.group.version
    template.acks(net.ctx("a"), Acks(epoch, counter - 1, (("a", 1, 4, 4, 4),)), "b")
    assert stream.behind == before
    template.acks(net.ctx("a"), Acks(epoch, counter, (("a", 1, 4, 4, 4),)), "b")
    assert stream.behind == {"b": 4}


def test_after_the_tree_has_changed_a_source_waits_for_what_everybody_says_about_the_new_one() -> None:
    net = settled("abc")
    net.publish("a", 5, start=10.0)
    net.world.run(12)
    stream = net.at("a").streams["a", 1]
    assert stream.complete == 6
    stream.unsure()
    assert stream.complete is None


# the window


@pytest.mark.parametrize("heavy", [False, True])
def test_publishers_wait_for_the_slowest_member_and_go_on_when_it_has_caught_up(
    heavy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if heavy:
        monkeypatch.setattr(reliable, "WINDOW_BYTES", 16)
    net = settled("abc", {"send_window": 256 if heavy else 8})
    net.world.add_rule(Loss(senders=("b",), receivers=("c",), start=10.0, end=20.0))
    net.publish("a", 8, start=10.0, every=0.01)
    net.world.run(11)
    assert net.obstacle("a") == f"the slowest member of {CHANNEL!r}"
    assert net.obstacle("b") is None
    net.world.run(19)
    assert net.obstacle("a") is not None
    net.world.run(25)
    assert net.obstacle("a") is None
    assert net.got["c", "a"] == list(range(1, 10))


def test_no_node_keeps_more_than_the_window() -> None:
    scenario = Scenario(
        name="window",
        network=Network(kind="line", nodes=5),
        duration=60.0,
        link=LinkModel(loss=0.5),
        channel=(Channel(CHANNEL, "reliable", {"send_window": 16}),),
        publish=(Publish(CHANNEL, 50.0, nodes=("n1",), start=10.0, end=30.0),),
        subscribe=(Subscribe(CHANNEL),),
    )
    result = run(scenario, 1, templates={"reliable": Watched})
    assert (result.delivered, result.violations) == (result.expected, 0)
    assert 8 < Watched.most <= 16


class Watched(Reliable[ReliableSettings]):
    """Reliable that notes how much it has ever kept of one source."""

    most = 0

    def advance(self, ctx: Any, stream: Any, sender: str | None) -> None:
        super().advance(ctx, stream, sender)
        Watched.most = max(Watched.most, len(stream.held))


# laggards


def test_a_member_that_does_not_advance_is_dropped_and_learns_it() -> None:
    net = settled("abc", {"laggard": 5.0, "send_window": 16})
    net.world.add_rule(Loss(receivers=("c",), start=10.0, end=30.0))
    net.publish("a", 100, start=10.0, every=0.2)
    net.world.run(29)
    assert net.gaps == {}, "it has no way to learn it yet"
    assert net.obstacle("a") is None
    assert net.got["b", "a"][-1] > 90, "the others went on without it"
    net.publish("a", 50, start=31.0, every=0.2)
    net.world.run(60)
    assert net.gaps == {"c": ["a"]}
    assert net.ledger.counts.violations == 0
    assert net.got["c", "a"][-1] == net.got["b", "a"][-1] == 151


def test_a_member_that_was_dropped_learns_it_though_nothing_follows() -> None:
    net = settled("abc", {"laggard": 5.0})
    net.world.add_rule(Loss(receivers=("c",), start=10.0, end=30.0))
    net.world.add_rule(Loss(senders=("b",), receivers=("c",), probability=0.8, start=30.0))
    net.publish("a", 10, start=10.0, every=0.2)
    net.world.run(29)
    assert net.gaps == {}
    net.world.run(120)
    assert net.gaps == {"c": ["a"]}
    assert net.at("b").streams.get(("a", 1)) is None or not net.at("b").streams["a", 1].expelled


def test_who_had_nothing_to_get_for_long_is_no_laggard_when_there_is_something() -> None:
    net = settled("abc", {"laggard": 5.0, "send_window": 16})
    net.publish("a", 1, start=10.0)
    net.publish("b", 300, start=10.0, every=0.1)  # so that nobody sleeps
    net.world.add_rule(Loss(senders=("b",), receivers=("c",), start=30.0, end=32.0))
    net.publish("a", 1, start=30.5)
    net.world.run(60)
    assert net.gaps == {}
    assert net.got["c", "a"][-1] == net.got["b", "a"][-1]


def test_a_member_that_is_slow_but_advances_is_not_dropped() -> None:
    net = settled("abc", {"laggard": 5.0, "send_window": 16})
    net.world.add_rule(Loss(senders=("b",), receivers=("c",), probability=0.8, start=10.0))
    net.publish("a", 16, start=10.0, every=0.01)
    net.world.run(120)
    assert net.gaps == {}
    assert net.got["c", "a"] == list(range(1, 18))


def test_who_was_paused_or_has_a_wrong_clock_drops_nobody() -> None:
    net = settled("abc", {"laggard": 5.0})
    net.world.add_rule(Pause(node="b", start=10.5, end=14.0))
    net.world.add_rule(ClockSkew(node="a", offset=3600.0, start=12.0))
    net.world.add_rule(ClockSkew(node="b", offset=-3600.0, start=13.0))
    net.publish("a", 100, start=10.0, every=0.1)
    net.world.run(60)
    assert net.gaps == {}
    assert all(net.got[node, "a"] == list(range(1, 102)) for node in "abc")


# deadlines


def test_an_expired_parcel_closes_its_gap_and_is_not_delivered() -> None:
    net = settled("abc")
    net.world.add_rule(Loss(senders=("b",), receivers=("c",), items=("parcel",), start=10.0, end=11.0))
    brief = Envelope(qos=QoS(expiry=0.5))
    net.world.publish("a", CHANNEL, b"brief", brief)
    net.world.publish("a", CHANNEL, b"lasting")
    net.world.run(20)
    assert net.got["b", "a"] == [1, 2, 3]
    assert net.got["c", "a"] == [1, 3]
    assert net.gaps == {}
    assert net.world.drops["expired"] == 1
    assert not net.at("a").streams["a", 1].held


# nodes below


def test_nodes_below_a_server_get_everything_too_whatever_is_lost() -> None:
    net = Net(
        Reliable, [("a", "b"), ("b", "c")], below={"x": "c", "y": "c"}, link=LinkModel(loss=0.3), seed=5
    )
    net.subscribe("axy")
    net.world.run(10)
    net.publish("a", 50, start=15.0)
    net.publish("x", 50, start=15.0)
    net.world.run(60)
    for node in "axy":
        for source in "ax":
            numbers = net.got[node, source]
            assert numbers == list(range(1, 51)), (node, source, numbers)
    assert net.ledger.counts.violations == 0


def test_a_node_below_that_does_not_listen_gets_nothing() -> None:
    net = Net(Reliable, [("a", "b")], below={"x": "b", "y": "b"})
    net.subscribe("x")
    net.world.run(5)
    net.publish("a", 10)
    net.world.run(20)
    assert net.got["x", "a"] == list(range(1, 11))
    assert net.heard("y", "Parcel") == {}


def test_a_node_that_moves_to_another_server_misses_nothing_that_the_source_still_keeps() -> None:
    net = Net(Reliable, [("a", "b"), ("a", "c")], below={"x": "b"})
    net.world.link("x", "c")
    net.subscribe("abcx")
    net.world.run(5)
    net.publish("a", 50, start=5.0)
    net.world.at(7.0, lambda: _move(net))
    net.world.run(30)
    assert net.got["x", "a"] == list(range(1, 51))


def _move(net: Net) -> None:
    net.world.unlink("x", "b")
    net.world.set("b", "below", ())
    net.world.set("c", "below", ("x",))
    net.world.set("x", SERVER, "c")


# coming and going


def test_who_joins_late_begins_somewhere_and_then_misses_nothing() -> None:
    net = line("abcd", link=LinkModel(loss=0.2))
    net.subscribe("abc")
    net.publish("a", 200, start=5.0)
    net.world.run(12)
    net.subscribe("d")
    net.world.run(60)
    assert whole(net.got["d", "a"])
    assert net.got["d", "a"][-1] == 200
    assert net.got["d", "a"][0] > 50
    assert net.gaps == {}


@pytest.mark.parametrize("loss", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("away", [0.5, 4.0, 12.0])
def test_when_a_middle_node_crashes_and_comes_back_the_others_miss_nothing(
    seed: int, loss: float, away: float
) -> None:
    net = Net(
        Reliable,
        [("a", "b"), ("b", "c"), ("c", "d"), ("b", "e")],
        {"refresh": 5.0},
        seed=seed,
        link=LinkModel(loss=loss),
    )
    net.subscribe("abcde")
    net.publish("a", 200, start=10.0)
    net.publish("d", 200, start=10.0)
    net.world.run(15)
    net.world.crash("b")
    net.world.run(15 + away)
    net.world.restart("b")
    net.subscribe("b")
    net.world.run(120)
    assert net.gaps == {}
    assert net.ledger.counts.violations == 0
    for node in "acde":
        for source in "ad":
            assert net.got[node, source] == list(range(1, 201)), (node, source, net.got[node, source])


def test_who_was_cut_off_for_longer_than_a_membership_lasts_learns_it() -> None:
    net = Net(Reliable, [("a", "b"), ("b", "c")], {"refresh": 2.0})
    net.subscribe("abc")
    assert net.at("a").group.root(net.ctx("a")) == "a"
    net.publish("a", 300, start=5.0)
    net.world.run(10)
    net.world.add_rule(Loss(senders=("b",), receivers=("c",), start=10.0, end=30.0))
    net.world.add_rule(Loss(senders=("c",), receivers=("b",), start=10.0, end=30.0))
    net.world.run(60)
    assert net.gaps == {"c": ["a"]}
    assert net.ledger.counts.violations == 0
    assert net.got["c", "a"][-1] == 300


def test_a_source_that_comes_back_begins_a_stream_of_its_own() -> None:
    net = settled("abc", {"refresh": 5.0})
    net.world.crash("a")
    net.world.run(15)
    net.world.restart("a")
    net.world.run(25)
    net.publish("a", 10, start=25.0)
    net.world.run(40)
    assert net.got["c", "a"] == [1, *range(1, 11)]
    assert net.at("c").streams.keys() >= {("a", 2)}


# sources that are silent, or have gone, or are too many


def forgotten(settings: dict[str, Any] | None = None) -> Net:
    """A line in which everybody has forgotten the source but its number."""
    net = settled("abc", {"laggard": 5.0, "refresh": 1000.0, **(settings or {})})
    net.world.run(40)
    for node in "bc":
        assert ("a", 1) not in net.at(node).streams
    return net


def test_a_source_that_is_silent_and_complete_shrinks_to_a_number_and_goes_on() -> None:
    net = forgotten()
    assert net.at("c").streams.ended == {("a", 1): 2}
    net.at("c").on_parcel(net.ctx("c"), parcel("a", 1, channel=CHANNEL), "b")
    net.publish("a", 3)
    net.world.run(60)
    assert net.got["c", "a"] == [1, 2, 3, 4]
    assert net.gaps == {}


def test_a_source_of_which_not_even_a_number_is_known_goes_on_without_a_second_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gossamer.templates.reliable.windows.MAX_ENDED", 0)
    net = forgotten()
    assert net.at("c").streams.ended == {}
    net.publish("a", 3)
    net.world.run(60)
    assert net.got["c", "a"] == [1, 2, 3, 4]


def dying(seed: int, lost: float, back: bool) -> tuple[Any, dict[str, list[int]], list[str]]:
    """A source publishes and dies at once, on a backbone that finds itself; who got what, and what is said at
    the end.
    """
    scenario = Scenario(
        name="dying",
        network=Network(kind="field", nodes=8),
        duration=200.0,
        monitor=True,
        link=LinkModel(loss=lost),
        channel=(Channel(CHANNEL, "reliable", {"refresh": 5.0, "laggard": 10.0}),),
        subscribe=(Subscribe(CHANNEL),),
    )
    world = build(scenario, seed, templates=TEMPLATES)
    heard = Heard()
    world.add_witness(heard)
    world.run(30)
    source = "n5"
    world.publish(source, CHANNEL)
    world.run(40)
    for _ in range(5):
        world.publish(source, CHANNEL)
        world.run(world.now + 0.02)
    world.crash(source)
    if back:
        world.at(60.0, lambda: world.restart(source))
    world.run(160)
    said: list[str] = []
    world.add_tap(lambda sender, to, item: said.append(type(getattr(item, "message", item)).__name__))
    world.run(210)
    return world, {node: heard.got[node] for node in world.nodes if node != source}, said


class Heard(Witness):
    """Numbers that came, by node, whoever published them."""

    def __init__(self) -> None:
        self.got: dict[str, list[int]] = defaultdict(list)

    def delivered(
        self,
        world: Any,
        node: str,
        life: int,
        channel: str,
        subscription: int,
        parcel: Any,
        picks: tuple[int, ...] | None,
    ) -> None:
        self.got[node].append(parcel.stamp.first)


@pytest.mark.parametrize("back", [False, True], ids=["for good", "and comes back"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_when_a_source_dies_what_the_root_has_reaches_everybody_and_then_all_is_quiet(
    seed: int, back: bool
) -> None:
    world, got, said = dying(seed, 0.3, back)
    root = world.engine("n1").instance(CHANNEL).template.group.tree.root
    for node, numbers in got.items():
        assert numbers == list(range(1, len(numbers) + 1)), node
        assert root == "n5" or len(numbers) >= len(got[root]), (node, root)
    assert not {"Missing", "Have", "Parcel", "Gone"}.intersection(said), "nobody asks for ever"


def test_more_sources_than_fit_are_refused_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.templates.reliable.template.MAX_STREAMS", 2)
    ctx = FakeContext("m", neighbours="a")
    template = Reliable(ReliableSettings())
    for source in "xyz":
        template.on_parcel(ctx, parcel(source), "a")
    assert [(each.stamp.node, why) for each, why in ctx.dropped()] == [("z", "too many sources")]  # type: ignore[union-attr]
    assert template.streams.keys() == {("x", 1), ("y", 1)}
    ctx.clear()
    template.on_parcel(ctx, parcel("x", 2), "a")
    assert ctx.dropped() == [], "those that are here go on"


def test_a_source_that_was_only_not_seen_for_a_while_is_asked_again_once_it_is_in_the_tree() -> None:
    ctx = FakeContext("m", neighbours="ax")
    template = Reliable(ReliableSettings())
    template.on_open(ctx)
    template.group.update(ctx, TreeUpdate(1, 1, ("a", "m"), (0, 0), (3, 1)), "a")
    template.have(ctx, Have("x", 1, 1, 1), "a")
    template.source_gone(ctx, Gone("x", 1, True), "a")
    assert template.streams["x", 1].over == 2
    template.group.update(ctx, TreeUpdate(1, 2, ("a", "m", "x"), (0, 0, 1), (3, 3, 1)), "a")
    template.have(ctx, Have("x", 1, 1, 1), "x")
    ctx.clear()
    for _ in range(2):
        template.on_timer(ctx, "beat")
    assert ("x", Missing("x", 1, ((1, 1),))) in ctx.sent()


def test_what_a_source_that_lives_anew_has_forgotten_is_asked_of_who_stands_in_for_it() -> None:
    """It would only ask back: somebody who came late waited ten minutes for every number.

    Replay: python benchmarks/proof.py persistent --first 20 --seeds 20
    """
    ctx = FakeContext("m", neighbours="axc")
    template = Reliable(ReliableSettings())
    template.on_open(ctx)
    tree = TreeUpdate(1, 1, ("a", "m", "x", "c"), (0, 0, 1, 1), (3, 3, 3, 3))
    template.group.update(ctx, tree, "a")
    template.have(ctx, Have("x", 1, 1, 2), "x")
    for number in (1, 2):
        template.on_parcel(ctx, parcel("x", number), "x")
    template.acks(ctx, Acks(1, 1, (("x", 1, 2, 2, 2),)), "a")
    template.acks(ctx, Acks(1, 1, (("x", 1, 2, 2, 2),)), "c")
    assert not template.streams["x", 1].held
    template.streams["x", 1].tail.clear()
    asked = Missing("x", 1, ((1, 1),))
    for life, whom in ((1, ["x"]), (2, ["x", "a"])):
        template.have(ctx, Have("x", life, 1, 0), "x")
        template.missing(ctx, asked, "c")
        ctx.clear()
        for _ in range(6):
            template.on_timer(ctx, "beat")
        assert list(dict.fromkeys(to for to, item in ctx.sent() if item == asked)) == whom
    found = parcel("x", 1)
    template.on_parcel(ctx, found, "a")
    assert ("c", found) in ctx.sent()


def test_acknowledgements_of_very_many_sources_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = FakeContext("m", neighbours="a")
    template = Reliable(ReliableSettings())
    template.on_open(ctx)
    template.group.update(ctx, TreeUpdate(1, 1, ("a", "m"), (0, 0), (3, 1)), "a")
    for source in "stuvx":
        template.on_parcel(ctx, parcel(source), "a")
    monkeypatch.setattr("gossamer.templates.reliable.template.MAX_STREAMS", 2)
    for source in "stuvx":
        template.streams[source, 1].begin(1)
        template.advance(ctx, template.streams[source, 1], "a")
    ctx.clear()
    template.on_timer(ctx, "beat")
    acks = [message for _, message in ctx.sent() if isinstance(message, Acks)]
    assert [len(each.positions) for each in acks] == [2, 2, 1]
    assert {position for each in acks for position in each.positions} == {
        (source, 1, 1, 1, 1) for source in "stuvx"
    }


# one node at a time


def test_a_second_copy_and_an_own_parcel_are_dropped() -> None:
    ctx = FakeContext("m", neighbours="ab")
    template = Reliable(ReliableSettings())
    template.on_parcel(ctx, parcel("a"), "a")
    ctx.clear()
    for copy in (parcel("a"), parcel("m")):
        template.on_parcel(ctx, copy, "a")
    assert [reason for _, reason in ctx.dropped()] == ["seen before", "seen before"]
    assert ctx.delivered() == []


def test_nothing_is_delivered_before_its_beginning_is_known() -> None:
    ctx = FakeContext("m", neighbours="ab")
    template = Reliable(ReliableSettings())
    template.on_open(ctx)
    template.on_parcel(ctx, parcel("a", 4), "a")
    assert ctx.delivered() == []


def test_a_stranger_cannot_say_where_a_stream_begins() -> None:
    net = settled("abc")
    net.at("b").have(net.ctx("b"), Have("a", 1, 100, 100), "c")
    assert net.at("b").streams["a", 1].next == 2


def test_a_request_about_an_unknown_source_is_ignored() -> None:
    ctx = FakeContext("m", neighbours="ab")
    Reliable(ReliableSettings()).missing(ctx, Missing("z", 1, ((1, 5),)), "a")
    assert ctx.effects == []


def test_a_client_that_lives_anew_is_told_what_is_left_of_its_earlier_life_and_asked_for_nothing() -> None:
    ctx = FakeContext("m", neighbours="a", below="x")
    template = Reliable(ReliableSettings())
    template.on_open(ctx)
    template.group.complete = lambda ctx: True  # type: ignore[method-assign]
    template.missing(ctx, Missing("m/x", 1, ()), "x")
    assert ctx.sent() == [("x", Gone("m/x", 1, True))]
    template.have(ctx, Have("m/x", 1, 1, 0), "x")
    for number in (1, 2, 3):
        template.on_parcel(ctx, parcel("m/x", number), "x")
    template.streams["x", 1].tail.clear()
    ctx.clear()
    template.missing(ctx, Missing("m/x", 1, ((1, 3),)), "x")
    template.missing(ctx, Missing("m/x", 1, ((4, 1),)), "x")
    assert ctx.sent() == [("x", Have("m/x", 1, 4, 3, floor=4)), ("x", Gone("m/x", 1, True))]
    assert not template.streams["x", 1].wanted


def test_a_request_for_very_many_parcels_is_cut() -> None:
    net = settled("ab", {"refresh": 1000.0})
    net.at("a").missing(net.ctx("a"), Missing("a", 1, ((1, 2**63 - 1),)), "b")
    assert len(net.at("a").streams["a", 1].wanted) <= 64


@pytest.mark.parametrize(
    ("settings", "key"),
    [({"send_window": 1}, "send_window"), ({"repair": 0}, "repair"), ({"laggard": -1}, "laggard")],
)
def test_settings_out_of_range_name_their_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Reliable.parse(settings)
    assert caught.value.key == key


# numbers from outside


def stranger_beside() -> tuple[FakeContext, Reliable[Any]]:
    ctx = FakeContext("m", neighbours="a")
    template = Reliable(ReliableSettings())
    template.on_open(ctx)
    template.group.update(ctx, TreeUpdate(1, 1, ("a", "m"), (0, 0), (3, 1)), "a")
    return ctx, template


def test_the_greatest_number_there_is_asks_for_no_more_than_a_window() -> None:
    ctx, template = stranger_beside()
    template.have(ctx, Have("x", 1, 1, 2**62), "a")
    assert template.streams["x", 1].high < 2**20
    template.on_timer(ctx, "beat")
    asked = [message for _, message in ctx.sent() if isinstance(message, Missing)]
    assert sum(count for each in asked for _, count in each.numbers) <= 64


def test_a_parcel_far_beyond_the_window_is_dropped_and_the_next_one_is_delivered() -> None:
    ctx, template = stranger_beside()
    template.have(ctx, Have("x", 1, 1, 0), "a")
    template.on_parcel(ctx, parcel("x", 2**62, 2**62), "a")
    assert template.streams["x", 1].held == {}
    template.on_parcel(ctx, parcel("x", 1, 1), "a")
    assert [each.stamp.sequence for each in ctx.delivered()] == [1]


def test_a_beginning_behind_the_end_makes_no_sense() -> None:
    ctx, template = stranger_beside()
    template.have(ctx, Have("x", 1, 2**62, 5), "a")
    assert template.streams["x", 1].next == 0


# sources that move and leave


def test_a_server_tells_its_client_what_it_has_and_answers_for_it_when_the_client_has_left() -> None:
    net = Net(Reliable, [("b1", "b2")], below={"c": "b1"}, lossy={("b1", "b2"): LinkModel(loss=0.7)})
    net.subscribe(["b2"])
    net.world.run(10)
    net.publish("c", 5, start=10.0, every=0.01)
    net.world.run(10.1)
    while net.at("c").unconfirmed(net.ctx("c")):
        net.world.run(net.world.now + 0.05)
    assert net.got["b2", "c"] != [1, 2, 3, 4, 5]
    net.world.crash("c")
    net.world.set("b1", BELOW, ())
    net.world.run(60)
    assert net.got["b2", "c"] == [1, 2, 3, 4, 5]
    assert net.at("b1").stays(net.ctx("b1")) is False


def test_a_server_that_is_not_in_the_tree_lets_nothing_go_that_a_client_handed_over() -> None:
    """It had left the group after an earlier client, and the tree without it came just after the next parcel:
    with nobody behind it, it took the parcel for delivered.
    """
    ctx = FakeContext("m", neighbours="a", below=("c",))
    template = Reliable(ReliableSettings())
    template.on_open(ctx)
    template.group.update(ctx, TreeUpdate(1, 1, ("a", "m"), (0, 0), (LISTENS, PUBLISHES)), "a")
    template.hear(ctx, Interest(1, False, True), "c")
    template.have(ctx, Have("m/c", 1, 1, 0), "c")
    template.on_parcel(ctx, parcel("m/c", 1), "c")
    template.group.update(ctx, TreeUpdate(1, 2, ("a",), (0,), (LISTENS,)), "a")
    template.on_timer(ctx, "beat")
    ctx.containers[BELOW] = ()
    template.on_membership(ctx, Membership("down", "c"))
    ctx.clear()
    template.group.update(ctx, TreeUpdate(1, 3, ("a", "m"), (0, 0), (LISTENS, PUBLISHES)), "a")
    bases = [message.base for to, message in ctx.sent() if isinstance(message, Have) and to == "a"]
    assert bases == [1]
    assert template.streams["c", 1].find(1) is not None


def test_a_changed_tree_keeps_what_a_neighbour_said_unless_others_stand_behind_it_now() -> None:
    """Members that come and go changed the tree more often than acknowledgements climb it where half of all
    messages are lost: for minutes nothing was acknowledged, though every member had everything.
    """
    ctx = FakeContext("m", neighbours=("a", "b"))
    template = Reliable(ReliableSettings())
    template.on_open(ctx)
    marks = (PUBLISHES, LISTENS, LISTENS, LISTENS)
    template.group.update(ctx, TreeUpdate(1, 1, ("m", "a", "b", "c"), (0, 0, 0, 2), marks), "a")
    template.publishing = True
    template.on_publish(ctx, parcel("m", 1))
    template.acks(ctx, Acks(1, 1, (("m", 1, 1, 1, 0),)), "b")
    stream = template.streams["m", 1]
    assert stream.behind == {"a": None, "b": 1}
    template.group.update(ctx, TreeUpdate(1, 2, ("m", "a", "b", "d"), (0, 0, 0, 1), marks), "a")
    assert stream.behind == {"a": None, "b": 1}, "c has left, and d stands behind a"
    template.group.update(ctx, TreeUpdate(1, 3, ("m", "a", "b", "e"), (0, 0, 0, 2), marks), "a")
    assert stream.behind == {"a": None, "b": None}, "b has not spoken for e"


def test_a_neighbour_that_goes_forward_is_no_laggard_though_it_answers_about_another_tree() -> None:
    """The tree changed every few seconds, and a neighbour was always one change ahead: it was expelled though
    it had everything, and events were acknowledged that hardly any member behind it had.

    Replay: python benchmarks/proof.py causal --first 1 --seeds 1 --nodes 20 --duration 900
    """
    ctx = FakeContext("m", neighbours="a")
    template = Reliable(ReliableSettings(laggard=10.0))
    template.on_open(ctx)
    template.group.update(ctx, TreeUpdate(1, 1, ("a", "m"), (0, 0), (LISTENS, PUBLISHES)), "a")
    template.publishing = True
    for number in range(1, 101):  # twenty seconds
        template.on_publish(ctx, parcel("m", number))
        template.acks(ctx, Acks(1, 2, (("m", 1, number, number, 0),)), "a")
        template.on_timer(ctx, "beat")
    stream = template.streams["m", 1]
    assert stream.behind == {"a": None}
    assert not stream.expelled
    assert not [each for each in ctx.effects if isinstance(each, Acknowledged)]
    template.on_publish(ctx, parcel("m", 101))
    for _ in range(52):
        template.acks(ctx, Acks(1, 2, (("m", 1, 100, 100, 0),)), "a")
        template.on_timer(ctx, "beat")
    assert stream.expelled == {"a"}, "it lags behind"


def test_a_stream_follows_its_source_to_another_server_and_nothing_is_missing_or_comes_twice() -> None:
    net = Net(Reliable, pairwise(["b1", "b2", "b3"]), below={"c": "b1"})
    net.subscribe(["b2", "b3"])
    net.world.run(10)
    net.publish("c", 40, start=10.0, every=0.05)
    net.world.run(11)
    net.world.relocate("c", "b3")
    net.world.run(30)
    for node in ("b2", "b3"):
        assert net.got[node, "c"] == list(range(1, 41))
        assert net.at(node).streams["c", 1].address == "b3/c"
    assert not net.at("c").streams["c", 1].held
    assert net.gaps == {}


def test_an_old_address_never_wins_over_a_later_one() -> None:
    ctx, template = stranger_beside()
    template.have(ctx, Have("a/c", 1, 1, 0, False, 2), "a")
    template.have(ctx, Have("z/c", 1, 1, 0, False, 1), "a")
    assert template.streams["c", 1].address == "a/c"


def test_a_reader_that_moves_gets_what_it_missed_from_the_tail_of_its_new_server() -> None:
    net = Net(Reliable, pairwise(["b1", "b2", "b3"]), below={"c": "b2"})
    net.subscribe(["b3", "c"])
    net.world.run(10)
    net.publish("b1", 60, start=10.0, every=0.05)
    net.world.run(11)
    net.world.unlink("b2", "c")
    net.world.set("b2", BELOW, ())
    net.world.run(12.5)
    net.world.link("b2", "c")
    net.world.relocate("c", "b3")
    net.world.run(30)
    assert net.got["c", "b1"] == list(range(1, 61))
    assert net.gaps == {}


@pytest.mark.parametrize(("moves", "sender"), [(1, "b"), (2**31, "x"), (1, "a")])
def test_a_move_is_believed_only_from_the_way_to_the_new_address(moves: int, sender: str) -> None:
    ctx = FakeContext("m", neighbours="a", below=("x", "b"))
    template = Reliable(ReliableSettings())
    template.on_open(ctx)
    template.have(ctx, Have("m/b", 1, 1, 0), "b")
    template.have(ctx, Have("m/x/b", 1, 1, 0, moves=moves), sender)
    assert template.streams["b", 1].address == "m/b"


def test_what_all_have_is_acknowledged_once_the_tree_is_whole_though_nothing_else_happens() -> None:
    ctx = FakeContext("m", neighbours="a")
    template = Reliable(ReliableSettings())
    template.on_open(ctx)
    tree = TreeUpdate(1, 1, ("a", "m"), (0, 0), (3, 3))
    template.group.update(ctx, tree, "a")
    whole = False
    template.group.complete = lambda ctx: whole  # type: ignore[method-assign]
    template.on_publish(ctx, parcel("m", 1))
    template.acks(ctx, Acks(1, 1, (("m", 1, 1, 1, 1),)), "a")
    for _ in range(5):
        template.on_timer(ctx, "beat")
    assert not [each for each in ctx.effects if isinstance(each, Acknowledged)]
    whole = True
    ctx.clear()
    assert template._ticking
    template.on_timer(ctx, "beat")
    assert [each for each in ctx.effects if isinstance(each, Acknowledged)]
