"""Progress: clients that move, clients that only publish or only listen, servers restarted in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gossamer.core.context import Context
from gossamer.core.errors import ConfigError
from gossamer.overlay.replay import HistoryWish
from gossamer.overlay.stream import Stream
from gossamer.overlay.streamwords import Have
from gossamer.simulator.scenario import Result, load, run
from gossamer.templates.persistent import Persistent
from gossamer.templates.reliable import Reliable
from gossamer.templates.total_order import TotalOrder

PLAIN = Path(__file__).parents[2] / "scenarios" / "plain"
TEMPLATES = ("reliable", "causal", "total-order", "persistent")


def moving(template: str, seed: int, **changed: Any) -> Result:
    scenario = msgspec.structs.replace(load(PLAIN / f"{template}.toml"), **changed)
    return run(scenario, seed, traced=False)


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_moving_clients_publish_arrives_and_is_acknowledged_through_a_rolling_restart(
    template: str,
) -> None:
    result = moving(template, 1)
    assert result.violations == 0, result.examples
    assert result.published == 1840
    assert result.delivered - result.earlier >= result.expected - 8  # of those that have just subscribed


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


def test_a_history_that_lacks_its_beginning_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Persistent.on_call

    def later(self: Persistent[Any], ctx: Context, call: int, request: Any) -> None:
        wish = HistoryWish(request.subscription, 5) if isinstance(request, HistoryWish) else request
        asked(self, ctx, call, wish)

    monkeypatch.setattr(Persistent, "on_call", later)
    assert "progress" in caught("persistent")


def test_a_history_that_nobody_keeps_is_refused() -> None:
    scenario = load(PLAIN / "reliable.toml")
    wanted = msgspec.structs.replace(scenario.subscribe[0], history=True)
    with pytest.raises(ConfigError, match="keeps no history"):
        run(msgspec.structs.replace(scenario, subscribe=(wanted,)), 1, traced=False)
