"""Channels whose template is not here: they wait, within bounds, for whoever can get it."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.core.names import Role
from gossamer.overlay.directory.pending_templates import (
    MAX_WAITING,
    MAX_WANTED,
    PAUSE,
    TEMPLATES,
    Got,
    Wanted,
    Wants,
)
from gossamer.overlay.directory.service import Clone, Entry, Lookup, item_of
from gossamer.overlay.registry.api import Set
from gossamer.overlay.registry.service import Registry
from gossamer.templates.loop import Loop
from gossamer.templates.multicast import Multicast
from gossamer.testing.fake import FakeContext, parcel
from tests.overlay.pump import Pump

GETTER = 99
NEWS = Entry("news", "multicast")


@pytest.fixture
def pair() -> Pump:
    """A server that has only ``loop`` and can get others, and a client below it that has ``multicast``."""
    pump = Pump({"loop": Loop, "multicast": Multicast})
    pump.add("c", role=Role.CLIENT)
    pump.templates = {"loop": Loop}
    pump.add("b")
    pump.backbone()
    pump.hang("c", "b")
    pump.settle()
    return pump


def wanted(pump: Pump, node: str = "b") -> list[Any]:
    """What a node has said so far that it lacks."""
    return pump.told.get((node, GETTER), [])


def got(pump: Pump, call: int, refusal: str = "") -> None:
    if not refusal:
        pump.templates["multicast"] = Multicast
    pump.ask("b", call, Got("multicast", refusal))


def frames(pump: Pump, *sequences: int) -> None:
    """The client's parcels of a channel that the server does not run."""
    for sequence in sequences:
        sent = parcel("c", sequence=sequence, first=sequence, payloads=[b"x"], channel="news")
        pump.do("b", pump.engines["b"].receive(pump.now, "c", sent))


def known(pump: Pump) -> None:
    """The server has heard of the channel, from somewhere where its template is."""
    pump.registries["b"].learn(pump.now, item_of(Entry("news", "multicast", {}, pump.now, "z")))


def test_a_clone_waits_for_its_template_and_is_made_when_it_is_here(pair: Pump) -> None:
    pair.call("b", GETTER, Wants())
    assert pair.ask("c", 1, Clone(NEWS)) is None
    assert wanted(pair) == ["multicast"]
    got(pair, 7)
    assert pair.replies["b", 7].error is None
    assert pair.replies["c", 1].value.entries[0].template == "multicast"


def test_a_clone_that_is_asked_again_and_again_waits_once_and_is_answered_once(pair: Pump) -> None:
    pair.call("b", GETTER, Wants())
    pair.call("c", 1, Clone(NEWS))
    pair.passes(3)
    assert wanted(pair) == ["multicast"]
    got(pair, 7)
    pair.passes(3)
    assert pair.replies["c", 1].value.refusal == ""


def test_a_template_that_is_not_to_be_had_refuses_the_clone_with_the_reason(pair: Pump) -> None:
    pair.call("b", GETTER, Wants())
    pair.call("c", 1, Clone(NEWS))
    pair.settle()
    got(pair, 7, "signed by a stranger")
    assert pair.replies["c", 1].value.refusal == "signed by a stranger"
    pair.call("c", 2, Clone(NEWS))
    pair.settle()
    assert wanted(pair) == ["multicast"] * 2, "who asks again is heard again"


def test_settings_are_checked_once_the_template_is_here(pair: Pump) -> None:
    pair.call("b", GETTER, Wants())
    pair.call("c", 1, Clone(Entry("news", "multicast", {"window": 0})))
    pair.settle()
    got(pair, 7)
    assert "window" in pair.replies["c", 1].value.refusal


def test_where_nobody_can_get_templates_an_unknown_one_stays_unknown(pair: Pump) -> None:
    assert "no template 'multicast'" in pair.ask("c", 1, Clone(NEWS)).refusal


def test_held_parcels_are_released_when_the_template_is_here(pair: Pump) -> None:
    pair.call("b", GETTER, Wants())
    known(pair)
    frames(pair, 1, 2, 3)
    assert wanted(pair) == ["multicast"]
    assert pair.engines["b"].channels == ()
    got(pair, 7)
    assert pair.engines["b"].channels == ("news",)
    assert pair.engines["b"].drops["unknown channel"] == 0
    assert pair.engines["b"]._hold._items == {}


def test_frames_ask_again_after_a_pause_or_when_the_package_changes(pair: Pump) -> None:
    pair.call("b", GETTER, Wants())
    known(pair)
    frames(pair, 1)
    got(pair, 7, "no")
    frames(pair, 2)
    assert wanted(pair) == ["multicast"]
    pair.now += round((PAUSE + 0.1) * 1e9)
    frames(pair, 3)
    assert wanted(pair) == ["multicast"] * 2
    got(pair, 8, "no")
    pair.ask("b", 9, Set(f"{TEMPLATES}multicast", b"another"), Registry.name)
    assert wanted(pair) == ["multicast"] * 2, "nobody waits for it just now"
    frames(pair, 4)
    assert wanted(pair) == ["multicast"] * 3


def test_a_new_package_of_a_template_that_is_here_is_told(pair: Pump) -> None:
    pair.call("b", GETTER, Wants())
    pair.ask("b", 1, Set(f"{TEMPLATES}loop", b"another"), Registry.name)
    assert wanted(pair) == ["loop"]
    pair.ask("b", 2, Set(f"{TEMPLATES}unheard-of", b"another"), Registry.name)
    assert wanted(pair) == ["loop"]


def test_what_waits_is_bounded() -> None:
    ctx, wants = FakeContext("b"), Wanted()
    heard: list[str] = []
    wants.serve(GETTER)
    for number in range(MAX_WANTED):
        assert wants.want(ctx, f"t{number}", "x", heard.append)
    assert not wants.want(ctx, "one-more", "x", heard.append)
    for number in range(MAX_WAITING - 1):
        assert wants.want(ctx, "t0", number, heard.append)
    assert not wants.want(ctx, "t0", "one-more", heard.append)
    assert wants.want(ctx, "t0", 0, heard.append), "who waits already may say so again"
    wants.got(ctx, Got("t0", "no"))
    assert heard == ["no"] * MAX_WAITING
    for number in range(MAX_WANTED * 2):
        wants.got(ctx, Got(f"t{number}", "no"))
    assert len(wants._failed) == MAX_WANTED


def test_a_lookup_does_not_need_the_template(pair: Pump) -> None:
    known(pair)
    assert pair.ask("c", 1, Lookup("news")).entries[0].template == "multicast"
    assert "multicast" not in pair.templates
