"""Where clocks are wrong, links find out: send times, ages and expiry are right at every hop."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from gossamer.core.context import TREE
from gossamer.core.event import Envelope, QoS
from gossamer.core.names import Role
from gossamer.core.parcel import Parcel
from gossamer.core.trace import DELIVERED, ORDERED, PARCEL, STORED, Row
from gossamer.core.tree import Tree
from gossamer.simulator.clock import Clock
from gossamer.simulator.host import Host
from gossamer.simulator.network.link_models import LinkModel, NodeModel, Skew
from gossamer.simulator.network.rules import ClockSkew
from gossamer.simulator.supervision import Supervision
from gossamer.simulator.workload.observers import Witness
from gossamer.simulator.world import World

LINE = [("a", "b"), ("b", "c"), ("c", "d")]
LINK = LinkModel(latency=0.05, jitter=0.01)


class Ages(Witness):
    """How old events seem to be where they are delivered, in seconds, and how old they are, all published at
    whole seconds.
    """

    def __init__(self) -> None:
        self.seem: dict[str, list[float]] = {}
        self.are: dict[str, list[float]] = {}

    def delivered(
        self, world: World, node: str, life: int, channel: str, subscription: int, parcel: Parcel, *_: Any
    ) -> None:
        now = world._host(node).time()
        self.seem.setdefault(node, []).append((now - parcel.header.sent) / 1e9)
        self.are.setdefault(node, []).append(world.now % 1)


def line(*skews: ClockSkew, **qos: Any) -> tuple[World, Ages]:
    """Four nodes in a row; the first publishes once a second, all listen."""
    world, ages = World(3, link=LINK), Ages()
    for node in "abcd":
        world.add_node(node)
    for edge in LINE:
        world.link(*edge)
    world.set(None, TREE, Tree(LINE))
    world.open("c", "multicast")
    world.add_witness(ages)
    for node in "abcd":
        world.subscribe(node, "c")
    for skew in skews:
        world.add_rule(skew)
    publish = partial(world.publish, "a", "c", b"x", Envelope(qos=QoS(**qos)))
    for second in range(10, 30):
        world.at(second, publish)  # type: ignore[arg-type]
    world.run(40)
    return world, ages


WRONG = (
    ClockSkew(node="a", offset=5000.0, start=1.0),
    ClockSkew(node="b", offset=3600.0, start=1.0),
    ClockSkew(node="d", offset=86400.0, drift=0.001, start=1.0),
)


def test_ages_are_true_to_the_error_of_the_measurement_whatever_clocks_say() -> None:
    _, ages = line(*WRONG)
    for hops, node in enumerate("bcd", 1):
        assert len(ages.seem[node]) == 20
        for seems, truly in zip(ages.seem[node], ages.are[node], strict=True):
            assert truly >= hops * 0.05
            assert abs(seems - truly) < hops * 0.01


def test_what_expires_in_a_second_is_delivered_by_nodes_whose_clocks_are_hours_ahead() -> None:
    world, ages = line(*WRONG, expiry=1.0)
    assert [len(ages.seem[node]) for node in "bcd"] == [20, 20, 20]
    assert world.drops["expired"] == 0


def test_what_expires_on_the_way_is_dropped_also_by_nodes_whose_clocks_are_hours_behind() -> None:
    ahead = [ClockSkew(node=node, offset=3600.0, start=1.0) for node in "ab"]
    world, ages = line(*ahead, expiry=0.12)
    assert len(ages.seem["b"]) == 20
    assert "d" not in ages.seem
    assert world.drops["expired"] == 20


def test_without_it_they_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Supervision, "corrected", lambda self, way, sender, parcel: parcel)
    world, ages = line(*WRONG, expiry=1.0)
    assert "d" not in ages.seem
    assert world.drops["expired"] > 0


def test_where_clocks_are_right_parcels_pass_as_the_very_bytes_they_were() -> None:
    world, _ = line()
    frames: list[object] = []
    world.add_tap(lambda sender, receiver, item: frames.append(item) if isinstance(item, Parcel) else None)
    world.publish("a", "c", b"y")
    world.run(50)
    assert len(frames) == 3
    assert all(each is frames[0] for each in frames)


def test_deadlines_are_traced_in_true_time_and_places_stay_what_they_are() -> None:
    rows: list[Row] = []
    host = Host("a", Role.PEER, NodeModel(), Clock(), rows.append)
    host.skew = Skew(3600 * 10**9, 0, 0.0)
    who = ("a", 1, 1, 1, 1, "", 0, "")
    for action, value in ((DELIVERED, 3605 * 10**9), (DELIVERED, 0), (STORED, 7), (ORDERED, 7)):
        host.record((1, host.time(), "a", 1, PARCEL, action, "c", *who, value))
    assert [row[1] for row in rows] == [0, 0, 0, 0]
    assert [row[-1] for row in rows] == [5 * 10**9, 0, 7, 7]
