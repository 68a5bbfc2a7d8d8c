"""Kept subscriptions: only their owner says what is done, and only of what there is."""

from __future__ import annotations

import random

import msgspec
import pytest

from gossamer.catalog import templates
from gossamer.core.context import BELOW, TREE
from gossamer.core.control import Control, Message
from gossamer.core.effect import SENSELESS, Effect, Send
from gossamer.core.engine import Engine
from gossamer.core.event import Criteria
from gossamer.core.names import NANOSECONDS, Role, channel_id
from gossamer.core.parcel import Parcel
from gossamer.core.tree import Tree
from gossamer.filters.identity import identity
from gossamer.overlay.directory.service import Entry
from gossamer.templates.dispatch.hop_messages import Begin, Begun
from gossamer.templates.dispatch.session import Box, Taker
from gossamer.templates.dispatch.session_messages import (
    Attach,
    Claim,
    Detach,
    Done,
    Filled,
    Hosts,
    More,
    Passed,
    Settled,
    What,
)
from gossamer.templates.dispatch.template import Dispatch
from gossamer.testing.fake import parcel

NOW = 1_700_000_000 * NANOSECONDS
CHANNEL = channel_id("news")


class Dispatcher:
    """A dispatcher m with two clients; every message travels in the relay of its sender."""

    def __init__(self) -> None:
        self.engine = Engine(
            "m",
            templates=templates(),
            dice=random.Random,
            secret=bytes(32),
            role=Role.BACKBONE,
            incarnation=NOW // 1_000_000,
        )
        self.sent: list[tuple[str, object]] = []
        self.do(self.engine.set(NOW, TREE, Tree()))
        self.do(self.engine.set(NOW, BELOW, ("owner", "eve")))
        self.do(self.engine.run(NOW, Entry("news", "dispatch", {})))
        self.relays = {each: self._begin(each) for each in ("owner", "eve")}
        self.numbers = dict.fromkeys(self.relays, 0)

    def do(self, effects: list[Effect]) -> None:
        for each in effects:
            if isinstance(each, Send):
                what = each.item.message if isinstance(each.item, Control) else each.item
                self.sent += ((to, what) for to in each.to)
                if isinstance(what, Begin):
                    self.hear(each.to[0], Begun(what.life, what.serial, 99))

    def hear(self, sender: str, message: Message) -> None:
        self.do(self.engine.receive(NOW, sender, Control(CHANNEL, message)))

    def _begin(self, sender: str) -> int:
        self.sent.clear()
        self.hear(sender, Begin(NOW // 1_000_000, 1))
        (relay,) = (each.relay for _, each in self.sent if isinstance(each, Begun))
        return relay

    def say(self, sender: str, what: What) -> None:
        self.numbers[sender] += 1
        self.hear(sender, Passed(self.relays[sender], self.numbers[sender], what))

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.engine.publish("news", b"x")
            self.do(self.engine.seal(NOW, "news"))

    @property
    def box(self) -> Box:
        template = self.engine.instance("news").template
        assert isinstance(template, Dispatch)
        return template.keeping.boxes["orders"]


@pytest.fixture
def it() -> Dispatcher:
    """The owner has been there and left; five parcels are kept for it."""
    it = Dispatcher()
    it.say("owner", Attach("orders", 7, identity(Criteria()), 0))
    it.say("owner", Detach("orders", 7))
    it.publish(5)
    assert sorted(it.box.parcels) == [1, 2, 3, 4, 5]
    return it


def back(it: Dispatcher, after: int = 0) -> list[Parcel]:
    """The owner comes back; what it is sent."""
    it.sent.clear()
    it.say("owner", Attach("orders", 8, identity(Criteria()), after))
    return [each for to, each in it.sent if to == "owner" and isinstance(each, Parcel)]


@pytest.mark.parametrize("done", [(2**62, 0), (5, 0), (1, 0)])
def test_a_neighbour_does_not_say_what_is_done_for_another(it: Dispatcher, done: tuple[int, int]) -> None:
    it.say("eve", Done("orders", done))
    assert sorted(it.box.parcels) == [1, 2, 3, 4, 5]


def test_a_neighbour_does_not_forget_what_is_kept_for_another(it: Dispatcher) -> None:
    it.say("eve", Detach("orders", 0, forget=True))
    assert len(back(it)) == 5


def test_an_owner_cannot_have_done_what_never_was(it: Dispatcher) -> None:
    it.say("owner", Done("orders", (2**62, 0)))
    it.say("owner", Done("orders", (6, 0)))
    assert len(it.box.parcels) == 5
    it.say("owner", Done("orders", (3, 0)))
    assert sorted(it.box.parcels) == [4, 5]


def test_an_owner_that_says_it_has_more_than_ever_was_is_sent_what_comes(it: Dispatcher) -> None:
    back(it, after=2**62)
    it.sent.clear()
    it.publish(3)
    assert sum(isinstance(each, Parcel) and to == "owner" for to, each in it.sent) == 3


def test_an_owner_that_has_more_of_another_copy_is_sent_what_comes_at_later_places(it: Dispatcher) -> None:
    back(it, after=40)
    it.publish(1)
    assert sorted(it.box.parcels) == [41, 42, 43, 44, 45, 46], "also what was kept before"


def test_nothing_has_arrived_beyond_what_was_sent() -> None:
    taker = Taker("a", 1, "a")
    taker.sent = 3
    taker.land(2**62)
    assert taker.got == 3
    taker.again()
    assert taker.sent == 3


def test_what_was_done_elsewhere_beyond_what_is_kept_is_nonsense() -> None:
    box = Box("orders", Criteria(), NOW)
    box.claim = 1
    box.finish((2**61, 0))
    box.parcels = {1: parcel("a", 1), 2: parcel("a", 2)}
    box.fill(3, (1, 0), 0, ())
    assert (box.done, sorted(box.parcels), box.next) == ((1, 0), [2], 3)


@pytest.mark.parametrize(
    "what",
    [
        Claim("orders", "eve", 1, 2**63 - 1),
        Settled("orders", 1, 2**63 - 1),
        Hosts((("orders", 2**63 - 1),)),
    ],
    ids=lambda what: type(what).__name__,
)
def test_a_claim_from_the_future_is_refused(it: Dispatcher, what: What) -> None:
    it.say("eve", what)
    (reason,) = it.engine.drops
    assert reason.startswith("message.what.")
    assert reason.endswith(SENSELESS)


@pytest.mark.parametrize(
    "what",
    [
        Done("orders", (2**62 + 1, 0)),
        Done("orders", (1, 2**40)),
        Attach("orders", 1, b"", 2**61 + 1),
        More("m", 1, 2**62 + 1),
        Filled("m", 1, 2**62 + 1),
    ],
    ids=lambda what: type(what).__name__,
)
def test_places_leave_room_for_what_comes(it: Dispatcher, what: What) -> None:
    body = Passed(1, 1, what)
    template = it.engine.instance("news").template
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        template.decoder().decode(msgspec.msgpack.encode(body))
