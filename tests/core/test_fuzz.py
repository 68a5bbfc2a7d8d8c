"""A stranger that listens and speaks the protocol: bounded time and memory per input, and honest nodes go on.

Every run of the suite has the same seed. ``HYPOTHESIS_PROFILE=fresh`` draws another one, which a failure
names; ``HOSTILE_SEED`` repeats it.
"""

from __future__ import annotations

import os
import random
import signal
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import pytest

from gossamer.catalog import templates
from gossamer.core.control import Control, handlers_of
from gossamer.core.effect import Send
from gossamer.core.names import NANOSECONDS, channel_id
from gossamer.core.wire import Item
from gossamer.overlay.groups.messages import TreeUpdate
from gossamer.templates.reliable.window import Stream
from gossamer.testing.hostile import Stranger
from tests.core.neighbours import Neighbours

SECONDS = 1.0
"""Of the processor, for one input and what it causes: a hundred times what it takes, traced as it is."""
MEMORY = 16 * 1024 * 1024
"""Bytes above what was there before that one input may take at any moment."""
KEPT = 64 * 1024 * 1024
"""Bytes that the nodes may keep of all inputs."""
INPUTS, PARCELS = 100, 60
SENDERS = ("stranger", "a", "client")

BELIEVING = ("persistent", "single-source", "total-order")
"""A stranger that speaks in the name of a voter or of the source is believed there: it may lead. No number
says whether a node is what it says it is; keys are another matter."""

QUIET: dict[str, str] = {
    "heard": "acknowledges what is seldom open for the moment that it takes",
    "update_heard": "acknowledges a tree that is seldom untold",
    "relayed": "acknowledges a letter that is seldom on its way through another node",
    "told": "acknowledges filters that are seldom untold",
    "cut": "answers a question of a node that lacks the past of a parcel",
    "ask_cut": "is answered only by a node that knows all sources of the question",
    "activate": "needs a newcomer between its first and its last message",
    "ready": "needs a newcomer between its first and its last message",
    "close_acknowledged": "needs a node that leaves",
    "seated": "needs the registration service, which is another node",
    "unseated": "needs the registration service, which is another node",
    "registered": "needs the registration service, which is another node",
    "elsewhere": "needs the registration service, which is another node",
    "acks": "counts for the tree of that moment only",
    "source_gone": "needs a source that has gone",
}
"""Handlers that the stranger need not get past the first guard of, and why."""


def seed() -> str:
    fresh = os.environ.get("HYPOTHESIS_PROFILE") == "fresh"
    return os.environ.get("HOSTILE_SEED") or (str(random.SystemRandom().getrandbits(32)) if fresh else "1")


@contextmanager
def bounded(what: object) -> Iterator[None]:
    """An input that takes too much time is interrupted and fails, and so does one that takes memory."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still busy after {SECONDS} s with {str(what)[:500]}")

    before = signal.signal(signal.SIGPROF, late)
    tracemalloc.reset_peak()
    kept = tracemalloc.get_traced_memory()[0]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    taken = tracemalloc.get_traced_memory()[1] - kept
    assert taken < MEMORY, f"{taken} bytes for {str(what)[:500]}"


class Attack:
    """Four honest nodes, and a stranger that speaks to m and its client in the names of their neighbours."""

    def __init__(
        self, template: str, name: str, watched: bool = False, skews: Mapping[str, int] | None = None
    ) -> None:
        self.dice = random.Random(f"attack {name}")
        self.stranger = Stranger(name, ("m", "a", "client", "m/client", "news", "orders", "m/!m", "a/!a"))
        self.nodes = Neighbours(template, self.stranger, watched, skews)
        for _ in range(5):
            for each in ("m", "a", "client"):
                self.nodes.publish(each)
            self.nodes.wait(2)
        assert self.nodes.neighbour(), "the stranger is no neighbour: nothing that it says is heard"
        assert self.nodes.delivered["m"] >= 5, "the honest nodes do not work"

    def channel(self, to: str, services: bool = False) -> None:
        """Messages to every service, or to the channel."""
        for channel, kind in self.nodes.subjects(to):
            if not kind.vocabulary() or (channel == "news") is services:
                continue
            for number, message in enumerate(self.stranger.messages(kind, INPUTS)):
                self._say(number, to, channel, Control(channel_id(channel), message))
            self._kept(channel)

    def parcels(self, to: str) -> None:
        for number, parcel in enumerate(self.stranger.parcels("news", PARCELS)):
            self._say(number, to, "news", parcel)
        self._kept("news")

    def _say(self, number: int, to: str, channel: str, item: Item) -> None:
        sender = self.dice.choice(SENDERS) if to == "m" else "m"
        with bounded(item):
            self.nodes.hear(to, sender, channel, item)
            self.nodes.settle()
        if number % 20 == 0:
            with bounded("an honest event, and half a second"):
                self.nodes.publish(self.dice.choice(("m", "a", "client")))
                self.nodes.wait(0.5, 40)

    def _kept(self, what: str) -> None:
        kept = tracemalloc.get_traced_memory()[0]
        assert kept < KEPT, f"{what}: {kept} bytes are kept of what a stranger said"

    def goes_on(self) -> bool:
        """Whether an event that is published at m reaches a subscriber there, once the stranger is silent."""
        self.nodes.wait(30, 600)
        before = self.nodes.delivered["m"]
        self.nodes.publish("m")
        self.nodes.wait(20, 600)
        return self.nodes.delivered["m"] > before


@contextmanager
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("template", sorted(templates()))
def test_hostile_values_cost_bounded_time_and_memory_and_honest_nodes_go_on(template: str) -> None:
    name = f"{seed()} {template}"
    with traced():
        attack = Attack(template, name)
        for to in ("m", "client"):
            attack.channel(to)
            attack.parcels(to)
    assert attack.goes_on() or template in BELIEVING, f"seed {name}"
    kinds = {type(attack.nodes.engines[each].instance("news").template) for each in ("m", "client")}
    handlers = {(kind.__name__, handler) for kind in kinds for handler in handlers_of(kind).values()}
    missed = {handler for _, handler in handlers - attack.nodes.entered.keys()}
    assert missed <= QUIET.keys(), f"the stranger gets past no guard of these; seed {name}"


def test_hostile_values_cost_services_bounded_time_and_memory() -> None:
    name = f"{seed()} services"
    with traced():
        attack = Attack("multicast", name, watched=True)
        attack.channel("m", services=True)
        attack.channel("client", services=True)
    assert attack.goes_on(), f"seed {name}"


@pytest.mark.parametrize("template", [*sorted(templates()), "services"])
def test_honest_nodes_whose_clocks_differ_go_on_hearing_each_other_whatever_a_stranger_says(
    template: str,
) -> None:
    """What one of them can just believe the other cannot yet; that costs the message and not the link."""
    name, services = f"{seed()} skewed {template}", template == "services"
    skews = {"a": -2 * NANOSECONDS, "client": 2 * NANOSECONDS}
    attack = Attack("multicast" if services else template, name, services, skews)
    for to in ("m", "client"):
        attack.channel(to, services)
        if not services:
            attack.parcels(to)
    assert attack.goes_on() or template in BELIEVING, f"seed {name}"


@pytest.mark.parametrize(
    ("item", "found"),
    [
        (Control(channel_id("news"), TreeUpdate(2**62, 1, ("m",), (0,), (1,))), "makes no sense"),
        (Control(channel_id("news"), body=b"\xc1"), "cannot read"),
    ],
    ids=["senseless", "unreadable"],
)
def test_an_honest_node_that_another_one_refuses_is_found(item: Control, found: str) -> None:
    """Planted: what a node says does not fit what its neighbour takes."""
    nodes = Neighbours("multicast", Stranger("planted", ()))
    nodes.wait(1)
    nodes.do("m", [Send(("a",), item)])
    with pytest.raises(AssertionError, match=found):
        nodes.settle()


@pytest.mark.parametrize("template", ["reliable", "causal"])
def test_windows_without_bounds_are_found(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: any number fits a window."""
    monkeypatch.setattr(Stream, "limit", property(lambda self: 2**63, lambda self, limit: None))
    with traced(), pytest.raises((TimeoutError, AssertionError), match=r"still busy|bytes"):
        planted(template)


def planted(template: str) -> None:
    for number in range(30):  # as many as it takes
        attack = Attack(template, f"planted {number}")
        attack.channel("m")
        attack.parcels("m")
