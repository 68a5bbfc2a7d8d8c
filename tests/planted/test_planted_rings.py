"""Bugs planted into rings, and caught by the looks that tests of groups take."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.simulator.invariants.checks import Ledger
from gossamer.simulator.workload.agents import Publisher
from gossamer.simulator.world import World
from gossamer.templates.multiring.dissemination import Spreading
from gossamer.templates.multiring.repair import Upkeep
from tests.templates.multiring.groups import CHANNEL, group, wrong


def crashed(seed: int) -> tuple[World, Ledger]:
    """A ring under traffic in which a peer has crashed two seconds ago."""
    world = group(seed, 20, settings={"survey": 0})
    ledger = Ledger()
    world.add_witness(ledger)
    world.run(10.0)
    Publisher(world, "p01", CHANNEL, rate=20.0, start=10.0, end=16.0)
    world.run(11.0)
    world.crash("p10")
    world.run(13.0)
    return world, ledger


def test_without_bugs_the_ring_is_whole_and_nothing_is_missing() -> None:
    world, ledger = crashed(1)
    assert not wrong(world)
    world.run(20.0)
    stayed = ledger.channels[CHANNEL].stayed
    assert stayed.delivered == stayed.expected > 0


def test_a_ring_that_is_not_mended_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Upkeep, "lose", lambda *_: None)
    world, _ = crashed(1)
    assert wrong(world)


def test_announcements_that_nobody_follows_up_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: Spreading, *_: Any) -> None:
        """Requests are never made."""

    monkeypatch.setattr(Spreading, "_request", silent)
    world, ledger = crashed(1)
    world.run(20.0)
    stayed = ledger.channels[CHANNEL].stayed
    assert stayed.delivered < stayed.expected
