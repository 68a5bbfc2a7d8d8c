"""Audits of whole folders: what the simulator leaves passes, what is planted fails, what is torn neither."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq
import pytest

from gossamer.pipeline.audit import auditing
from gossamer.pipeline.audit.auditing import Outcome, audit
from gossamer.pipeline.audit.kernels import check
from gossamer.pipeline.reading import Survey, survey
from gossamer.pipeline.schema import ARROW
from gossamer.simulator.scenario.run import load, run
from gossamer.traces.writer import TraceWriter
from tests.pipeline.stories import STORIES, Story

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("audits")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of every template that promises something."""
    folder = tmp_path_factory.mktemp("simulated")
    result = run(load(Path(__file__).with_name("clean.toml")), 1, folder)
    assert not result.violations
    return folder


def written(folder: Path, story: Story, segment: int = 5) -> None:
    writer = TraceWriter(folder, story.run, "world", segment_rows=segment)
    for row in story.rows:
        writer(row)
    writer.close()


@pytest.fixture(scope="module")
def audited(spark: SparkSession, simulated: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One audit of many runs: the simulated one, some with violations, one that nobody can judge."""
    folder = tmp_path_factory.mktemp("audited")
    shutil.copytree(simulated, folder, dirs_exist_ok=True)
    for name in ("gap", "excused", "books", "silence"):
        written(folder, STORIES[name])
    written(folder, Story("odd", "telepathy").opened("a"))
    return audit(spark, survey(str(folder)))


def test_a_clean_run_of_the_simulator_keeps_every_promise(audited: Outcome) -> None:
    assert audited.complete
    assert audited.checked.rows > 5_000
    assert audited.checked.events > 200
    verdicts = [each for each in audited.verdicts if each.run == "clean-1"]
    promised = {
        ("sure", "gap-free"),
        ("sure", "progress"),
        ("one-order", "total-order"),
        ("talk", "causal"),
        ("loose", "at-most-once"),
    }
    always = {
        (channel, each) for channel in ("loose", "talk") for each in ("deadline", "feedback", "accounting")
    }
    assert promised | always <= {(each.channel, each.promise) for each in verdicts}
    assert all(each.judged and not each.violations for each in verdicts)


def test_violations_are_listed_and_counted_and_other_runs_are_not_blamed(audited: Outcome) -> None:
    assert (audited.word, audited.code, audited.complete) == ("violated", 1, True)
    found = sorted(
        (each.run, each.promise, each.node, each.source, each.number) for each in audited.violations
    )
    planted = [(name, *each[:4]) for name in ("gap", "books", "silence") for each in STORIES[name].found]
    assert found == sorted(planted)
    assert audited.total == len(planted)
    by_run = {(each.run, each.promise): each.violations for each in audited.verdicts}
    assert by_run["excused", "gap-free"] == 0
    assert by_run["gap", "gap-free"] == 3


def test_a_promise_that_nobody_can_check_is_not_said_to_be_kept(audited: Outcome) -> None:
    assert [(each.run, each.promise) for each in audited.verdicts if not each.judged] == [
        ("odd", "telepathy")
    ]
    alone = msgspec.structs.replace(audited, total=0, violations=())
    assert (alone.complete, alone.code) == (True, 2)


def torn(folder: Path, run: str) -> None:
    """Node c's rows 2 and 3 are gone."""
    written(folder, replace(STORIES["excused"], run=run), segment=4)
    (folder / f"run={run}" / "world-000002.parquet").unlink()


def test_torn_traces_are_incomplete_and_never_passed(spark: SparkSession, tmp_path: Path) -> None:
    """Nobody is blamed, but nothing is said to hold either."""
    torn(tmp_path, "torn")
    outcome = audit(spark, survey(str(tmp_path)))
    assert (outcome.word, outcome.code, outcome.complete) == ("incomplete", 2, False)
    assert not outcome.violations
    judged = {each.promise: each.judged for each in outcome.verdicts}
    assert judged["gap-free"]
    assert not judged["accounting"], "it needs all rows of all nodes"
    assert any("rows of" in fault.reason for fault in outcome.faults)


def test_of_many_violations_the_first_are_listed_and_all_are_counted(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story("r", "gap-free").opened("b")
    for number in range(1, 20, 2):
        story.delivered("b", "a", number)
    found = spark.createDataFrame(check("r", [story.table()], ["gap-free"]))
    said, listed, counts = auditing._collected(found, Survey("", (), ()))
    assert (len(listed), counts) == (9, {("r", "news", "gap-free"): 9})
    monkeypatch.setattr(auditing, "MAX_LISTED", 4)
    monkeypatch.setattr(auditing, "SMALL", -1)
    also, first, counted = auditing._collected(found, Survey("", (), ()))
    assert (first, counted) == (listed[:4], counts)
    assert {row.promise for row in also} == {row.promise for row in said}


@pytest.mark.parametrize(("few", "name"), [(auditing.FEW, "position"), (0, "sequence")])
def test_a_damaged_page_is_quarantined_with_a_count(
    spark: SparkSession, simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, name: str
) -> None:
    """Also one that only queries read, which are asked only where there are many rows."""
    monkeypatch.setattr(auditing, "FEW", few)
    shutil.copytree(simulated, tmp_path / "copy")
    written(tmp_path / "copy", STORIES["gap"])
    file = sorted((tmp_path / "copy").rglob("world-000001.parquet"))[0]
    column = pq.read_metadata(file).row_group(0).column(ARROW.get_field_index(name))
    damaged = bytearray(file.read_bytes())
    damaged[column.data_page_offset + column.total_compressed_size - 2] ^= 255
    file.write_bytes(damaged)
    outcome = audit(spark, survey(str(tmp_path / "copy")).only(["clean-1"]))
    assert outcome.word == "incomplete"
    assert [fault.file for fault in outcome.faults if fault.quarantined] == [str(file)]
