"""Clients that move and servers restarted in turn, simulated: planted bugs are caught, the rest passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from gossamer.core.context import Context
from gossamer.core.parcel import Parcel
from gossamer.pipeline.audit.auditing import Outcome, audit
from gossamer.pipeline.reading import survey
from gossamer.simulator.scenario.file import Scenario
from gossamer.simulator.scenario.run import load, run
from gossamer.templates.reliable.template import Reliable
from tests.pipeline.stories import ANSWERED, DELIVERED, FIRST, SECOND, STORED_FIRST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("audits")

TEMPLATES = ("reliable", "persistent")
PLAIN = Path(__file__).parents[2] / "scenarios" / "plain"
Publishing = Callable[[Reliable[Any], Context, Parcel], None]

publishing = Reliable.on_publish


def silent(self: Reliable[Any], ctx: Context, parcel: Parcel) -> None:
    """After a while nothing of one source leaves it any more."""
    if ctx.node != "n4-c1" or ctx.now < 70 * SECOND:
        publishing(self, ctx, parcel)


def hasty(self: Reliable[Any], ctx: Context, parcel: Parcel) -> None:
    """Everything is acknowledged as soon as it is published."""
    ctx.acknowledge(parcel.stamp.first + parcel.stamp.count - 1)
    publishing(self, ctx, parcel)


def shortened(template: str, name: str) -> Scenario:
    """A scenario of plain use in a quarter of its time, calm at its end: the channel recovers within 40 s.

    What was lost is asked for again after two seconds, so that an early acknowledgement shows.
    """
    plain = load(PLAIN / f"{template}.toml")
    return replace(
        plain,
        name=name,
        duration=170.0,
        patience=40.0,
        channel=tuple(replace(each, settings={"laggard": 20.0, "repair": 2.0}) for each in plain.channel),
        publish=tuple(replace(each, start=35.0, end=110.0) for each in plain.publish),
        subscribe=plain.subscribe[:1],
        move=tuple(replace(each, every=20.0, start=50.0, end=110.0) for each in plain.move),
        rolling=tuple(
            replace(each, start=60.0, every=14.0, down=5.0, nodes=("n2", "n4", "n6"))
            for each in plain.rolling
        ),
    )


RUNS: dict[str, tuple[str, Publishing, bool]] = {
    "reliable": ("reliable", publishing, True),
    "persistent": ("persistent", publishing, True),
    "silent": ("reliable", silent, False),
    "hasty": ("reliable", hasty, False),
    "hasty-persistent": ("persistent", hasty, False),
}
"""Template, what it does with what is published, and whether the simulator's own check is content."""


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """By template, each few enough rows for kernels; queries are held against kernels in ``test_audits``."""
    folder = tmp_path_factory.mktemp("plain")
    for name, (template, bug, content) in RUNS.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Reliable, "on_publish", bug)
            result = run(shortened(template, name), 1, folder)
        assert (result.violations == 0) == content, name
    traces = survey(str(folder))
    runs = {each: [f"{name}-1" for name in RUNS if RUNS[name][0] == each] for each in TEMPLATES}
    return {each: audit(spark, traces.only(runs[each])) for each in TEMPLATES}


def found(outcome: Outcome, name: str) -> set[tuple[str, str]]:
    return {(each.promise, each.expected) for each in outcome.violations if each.run == f"{name}-1"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_moves_and_a_rolling_restart_break_no_promise(audited: dict[str, Outcome], template: str) -> None:
    assert audited[template].complete
    verdicts = [each for each in audited[template].verdicts if each.run == f"{template}-1"]
    assert "progress" in {each.promise for each in verdicts}
    assert all(each.judged and not each.violations for each in verdicts)


def test_a_source_whose_events_never_leave_it_is_caught(audited: dict[str, Outcome]) -> None:
    assert {("progress", DELIVERED), ("progress", ANSWERED)} <= found(audited["reliable"], "silent")
    blamed = {each.source for each in audited["reliable"].violations if each.run == "silent-1"}
    assert blamed == {"n4-c1"}


def test_what_is_acknowledged_before_members_have_it_is_caught(audited: dict[str, Outcome]) -> None:
    assert found(audited["reliable"], "hasty") == {("progress", FIRST)}


def test_what_is_acknowledged_before_a_log_has_it_is_caught(audited: dict[str, Outcome]) -> None:
    assert found(audited["persistent"], "hasty-persistent") == {("durable", STORED_FIRST)}
