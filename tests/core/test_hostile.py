"""A stranger with valid frames and hostile numbers: bounded time, bounded memory, and honest nodes go on."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from gossamer.catalog import templates
from gossamer.core.context import BELOW, CONTACTS, SERVER, TREE
from gossamer.core.control import Control, Message
from gossamer.core.effect import SENSELESS, Deliver, Drop, Effect, Send, Wake
from gossamer.core.engine import Engine
from gossamer.core.event import Criteria
from gossamer.core.names import NANOSECONDS, Role, channel_id
from gossamer.core.operations import ReadHistory
from gossamer.core.parcel import Parcel
from gossamer.core.tree import Tree
from gossamer.overlay.backbone.setup import MonitorSettings, monitor
from gossamer.overlay.directory.service import Directory, Entry
from gossamer.overlay.groups.messages import TreeUpdate
from gossamer.overlay.registry.items import Item
from gossamer.overlay.registry.replication import Feed
from gossamer.overlay.registry.service import Registry
from gossamer.templates.persistent.replay import Replayed
from gossamer.templates.reliable.messages import Gone, Have, Missing
from gossamer.testing.fake import parcel

SECONDS = 2.0
"""What one input may take; a thousand times what it needs."""
BELIEVING = ("total-order", "persistent")
"""One node of two makes no majority."""
START = 1_700_000_000 * NANOSECONDS


@contextmanager
def in_time(what: object) -> Iterator[None]:
    """Whatever takes too long is interrupted and fails."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still busy after {SECONDS} s with {str(what)[:500]}")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Node:
    """A backbone node m beside the honest a and a stranger, with all services and one channel."""

    def __init__(self, template: str, role: Role = Role.BACKBONE) -> None:
        self.now = START
        registry = Registry({})
        watching = monitor(MonitorSettings()) if role is Role.BACKBONE else []
        self.engine = Engine(
            "m",
            templates=templates(),
            dice=lambda label: random.Random(label),
            secret=bytes(32),
            role=role,
            incarnation=START // 1_000_000,
            services=[*watching, registry, Directory(templates(), registry)],
        )
        self.wakes: dict[tuple[int, str], int] = {}
        self.sent = self.delivered = 0
        self.do(self.engine.set(self.now, CONTACTS, {"m": (), "a": (), "stranger": ()}))
        self.do(self.engine.set(self.now, TREE, Tree([("m", "a"), ("m", "stranger")])))
        self.do(self.engine.set(self.now, BELOW, ("client",)))
        self.do(self.engine.set(self.now, SERVER, None))
        for peer in ("a", "stranger", "client"):
            self.do(self.engine.linked(self.now, peer))
        self.do(self.engine.run(self.now, Entry("news", template, {})))
        self.do(self.engine.subscribe(self.now, "news", Criteria())[1])

    def do(self, effects: list[Effect]) -> None:
        assert len(effects) < 20_000, "one input makes any number of effects"
        for effect in effects:
            if isinstance(effect, Wake):
                key = (effect.channel, effect.name)
                self.wakes.pop(key, None)
                if effect.at is not None:
                    self.wakes[key] = effect.at
            self.sent += isinstance(effect, Send)
            self.delivered += isinstance(effect, Deliver)

    def hear(self, sender: str, item: Control | Parcel) -> None:
        self.do(self.engine.receive(self.now, sender, item))

    def wait(self, seconds: float) -> None:
        """Let time pass, and the timers of the node with it."""
        end = self.now + round(seconds * NANOSECONDS)
        for _ in range(200):
            due = sorted((at, key) for key, at in self.wakes.items() if at <= end)
            if not due:
                break
            at, key = due[0]
            del self.wakes[key]
            self.now = max(self.now, at)
            self.do(self.engine.wake(self.now, *key))
        self.now = max(self.now, end)

    def publish(self) -> None:
        self.engine.publish("news", b"honest")
        self.do(self.engine.seal(self.now, "news"))


@pytest.mark.parametrize(
    "message",
    [
        Have("a", 2**62, 1, 1),
        Missing("a", 2**62, ((1, 1),)),
        Gone("a", 2**62, True),
        TreeUpdate(2**62, 1, ("m",), (0,), (3,)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_an_instant_that_no_clock_can_show_is_refused_before_a_handler_sees_it(message: Message) -> None:
    node = Node("reliable")
    (drop,) = node.engine.receive(node.now, "a", Control(channel_id("news"), message))
    assert isinstance(drop, Drop)
    assert drop.reason.endswith(SENSELESS)


def test_a_registry_entry_with_the_greatest_counter_pins_nothing() -> None:
    node = Node("reliable")
    pinned = Item("colour", 2**63 - 1, "stranger", b"black")
    node.engine.receive(node.now, "stranger", Control(channel_id(Registry.name), Feed((pinned,))))
    assert dict(node.engine.drops) == {"item.counter makes no sense": 1}
    registry = node.engine.instance(Registry.name).template
    assert isinstance(registry, Registry)
    assert len(registry.shelf) == 0


RELIABLE = ["reliable", "causal", "total-order", "persistent"]


@pytest.mark.parametrize("template", RELIABLE)
def test_a_parcel_far_away_before_a_stream_begins_is_no_window_to_look_through(template: str) -> None:
    node = Node(template)
    life = START // 1_000_000
    node.hear("client", parcel("m/client", 2**62, channel="news", incarnation=life))
    node.hear("client", Control(channel_id("news"), Have("m/client", life, 1, 1)))
    with in_time("the next beats"):
        node.wait(1)


@pytest.mark.parametrize("template", RELIABLE)
def test_a_source_without_a_name_stops_nobody(template: str) -> None:
    node = Node(template)
    node.hear("client", Control(channel_id("news"), Have("m/", START // 1_000_000, 1, 1)))
    before = node.delivered
    node.publish()
    node.wait(30)
    assert node.delivered > before or template in BELIEVING


@pytest.mark.parametrize("template", ["multicast", "single-source", "direct", "multiring", "ringtree"])
def test_one_parcel_of_a_stranger_silences_no_source(template: str) -> None:
    node, life = Node(template), START // 1_000_000
    node.hear("a", parcel("a", 1, channel="news", incarnation=life))
    node.hear("stranger", parcel("a", 2**62, channel="news", incarnation=life))
    dropped = node.engine.drops["seen before"]
    for number in range(2, 12):
        node.hear("a", parcel("a", number, channel="news", incarnation=life))
    assert node.engine.drops["seen before"] == dropped


@pytest.mark.parametrize(
    ("sender", "following", "end", "taken"),
    [
        ("stranger", 0, 0, False),  # no server of this client
        ("s", 2**62, 2**62, False),  # further than an answer reaches
        ("s", 3, 2**62, True),
    ],
)
def test_an_answer_about_history_is_believed_from_the_server_and_within_its_reach(
    sender: str, following: int, end: int, taken: bool
) -> None:
    node = Node("persistent", Role.CLIENT)
    node.do(node.engine.set(node.now, SERVER, "s"))
    template: Any = node.engine.instance("news").template
    node.do(node.engine.call(node.now, "news", 7, ReadHistory(1, 0)))
    node.hear(sender, Control(channel_id("news"), Replayed("m", "a", 1, 0, 0, (), following, end)))
    assert template.wishes[1].next == (following if taken else 0)
    assert not template.wishes[1].done
