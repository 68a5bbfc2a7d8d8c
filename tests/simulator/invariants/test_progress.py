"""Progress: clients that move, clients that only publish or only listen, servers restarted in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gossamer import catalog
from gossamer.core.context import Context
from gossamer.core.errors import ConfigError
from gossamer.core.names import nanoseconds
from gossamer.core.operations import ReadHistory
from gossamer.core.parcel import Parcel
from gossamer.simulator.scenario.file import Rolling
from gossamer.simulator.scenario.run import Result, load, run
from gossamer.templates.persistent.template import Persistent
from gossamer.templates.reliable.messages import Have
from gossamer.templates.reliable.template import Reliable
from gossamer.templates.reliable.window import Stream
from gossamer.templates.total_order.template import TotalOrder

PLAIN = Path(__file__).parents[3] / "scenarios" / "plain"
TEMPLATES = ("reliable", "causal", "total-order", "persistent")


def moving(template: str, seed: int, **changed: Any) -> Result:
    scenario = msgspec.structs.replace(load(PLAIN / f"{template}.toml"), **changed)
    return run(scenario, seed, traced=False)


@pytest.mark.parametrize(
    ("template", "seed"), [*((name, 1) for name in TEMPLATES), *(("persistent", seed) for seed in (2, 5, 8))]
)
def test_what_moving_clients_publish_arrives_and_is_acknowledged_through_a_rolling_restart(
    template: str, seed: int
) -> None:
    result = moving(template, seed)
    assert result.violations == 0, result.examples
    assert not result.unjudged
    assert result.published == 1840
    assert result.missed == 0
    stayed = result.channels["orders"].stayed
    assert (stayed.seats, stayed.delivered) == (5, stayed.expected)
    assert result.delivered - result.earlier >= 0.99 * result.expected  # one that restarts has to join again


@pytest.mark.parametrize("template", ["reliable", "causal", "total-order"])
def test_a_client_that_listens_again_is_told_of_no_gap_for_the_time_that_it_did_not(template: str) -> None:
    scenario = load(PLAIN / f"{template}.toml")
    again = msgspec.structs.replace(
        scenario.subscribe[0], nodes=("n4-c2", "n6-c1", "n5"), join=70.0, stay=30.0, away=25.0, leave=450.0
    )
    result = moving(template, 3, subscribe=(*scenario.subscribe, again), rolling=(), move=())
    assert result.violations == 0, result.examples
    assert result.missed == 0


LEFT_OUT = {
    "loop": "its events never leave their node",
    "direct": "publisher and subscribers have no server between them",
    "multiring": "its peers have no server",
}
"""Templates without a scenario of plain use."""


@pytest.mark.parametrize("template", sorted(catalog.templates().keys() - LEFT_OUT.keys()))
def test_every_template_with_servers_has_a_scenario_of_plain_use(template: str) -> None:
    scenario = load(PLAIN / f"{template}.toml")
    publish, listen = (
        {n for each in kind for n in each.nodes} for kind in (scenario.publish, scenario.subscribe)
    )
    moves = {name for each in scenario.move for name in each.nodes}
    clients = {name for name in publish | listen if "-c" in name}
    assert clients & publish - listen, "a client that only publishes"
    assert clients & listen - publish, "a client that only listens"
    assert clients & moves & publish
    assert clients & moves & listen
    assert [(each.role, each.nodes) for each in scenario.rolling] == [("backbone", ())], (
        "every server in turn"
    )
    durable = "durable" in catalog.templates()[template].promises
    assert any(each.history for each in scenario.subscribe) == durable


@pytest.mark.parametrize("template", sorted(catalog.templates().keys() - LEFT_OUT.keys() - set(TEMPLATES)))
def test_templates_without_repair_keep_their_promises_in_plain_use(template: str) -> None:
    result = moving(template, 1)
    assert result.violations == 0, result.examples
    assert result.delivered - result.earlier > 0.85 * result.expected


# what the check is for: each bug is planted, and caught


def caught(template: str, seed: int = 1) -> set[str]:
    return {each.promise for each in moving(template, seed).examples}


def test_a_client_that_is_never_acknowledged_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TotalOrder, "heard_confirmed", lambda self, ctx, key, stream: None)
    assert "progress" in caught("total-order")


def test_a_stream_that_keeps_the_old_address_of_its_source_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def stays(self: Reliable[Any], ctx: Context, key: Any, have: Have, sender: str) -> Stream | None:
        return self.streams.get(key) or self.open(ctx, key, have.source)

    monkeypatch.setattr(Reliable, "located", stays)
    assert "progress" in caught("reliable")


@pytest.mark.parametrize(("template", "promise"), [("reliable", "progress"), ("persistent", "durable")])
def test_an_acknowledgement_before_the_event_is_safe_is_caught(
    template: str, promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(self: Reliable[Any], ctx: Context, parcel: Parcel) -> None:
        launched(self, ctx, parcel)
        if parcel.stamp.key == (ctx.node, ctx.incarnation):
            ctx.acknowledge(parcel.stamp.first + parcel.stamp.count - 1)

    launched = Reliable.launch
    monkeypatch.setattr(Reliable, "launch", launch)
    assert promise in caught(template)


def test_an_acknowledged_event_that_all_members_are_told_they_miss_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def in_order(self: Reliable[Any], ctx: Context, parcel: Parcel, sender: str | None) -> None:
        if parcel.stamp.node == "n4-c1" and 51 <= parcel.stamp.sequence < 700:
            ctx.gap(parcel.stamp.node)
        else:
            delivered(self, ctx, parcel, sender)

    delivered = Reliable.in_order
    monkeypatch.setattr(Reliable, "in_order", in_order)
    assert "progress" in caught("reliable")


def test_a_standstill_between_two_faults_is_caught_though_all_is_well_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The faults are farther apart than the template says that it needs; the last one mends everything."""
    stands = nanoseconds(200), nanoseconds(395)

    def ready(self: Reliable[Any], ctx: Context) -> bool:
        return not stands[0] <= ctx.now < stands[1] and was(self, ctx)

    def on_parcel(self: Reliable[Any], ctx: Context, parcel: Parcel, sender: str) -> None:
        if not stands[0] <= ctx.now < stands[1]:
            received(self, ctx, parcel, sender)

    was, received = Reliable.ready, Reliable.on_parcel
    rolling = (Rolling(start=150.0, every=250.0, down=8.0, nodes=("n6", "n7")),)
    assert moving("reliable", 1, rolling=rolling).violations == 0
    monkeypatch.setattr(Reliable, "ready", ready)
    monkeypatch.setattr(Reliable, "on_parcel", on_parcel)
    result = moving("reliable", 1, rolling=rolling)
    assert {each.promise for each in result.examples} == {"progress", "gap-free"}
    assert all(each.at == nanoseconds(400) for each in result.examples)


def test_a_history_that_lacks_its_beginning_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Persistent.on_call

    def later(self: Persistent[Any], ctx: Context, call: int, request: Any) -> None:
        wish = ReadHistory(request.subscription, 5) if isinstance(request, ReadHistory) else request
        asked(self, ctx, call, wish)

    monkeypatch.setattr(Persistent, "on_call", later)
    assert "progress" in caught("persistent")


def test_a_history_that_nobody_keeps_is_refused() -> None:
    scenario = load(PLAIN / "reliable.toml")
    wanted = msgspec.structs.replace(scenario.subscribe[0], history=True)
    with pytest.raises(ConfigError, match="keeps no history"):
        run(msgspec.structs.replace(scenario, subscribe=(wanted,)), 1, traced=False)
