"""Queries find each planted violation, just as kernels do, and none in what the simulator leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest

from gossamer.pipeline.audit import auditing
from gossamer.pipeline.audit.auditing import Outcome, audit
from gossamer.pipeline.audit.catalogue import AUDITS
from gossamer.pipeline.audit.kernels import check, check_whole
from gossamer.pipeline.audit.segment import Segment
from gossamer.pipeline.reading import Survey, survey
from gossamer.pipeline.schema import VIOLATION
from tests.pipeline.stories import NOISE, STORIES
from tests.pipeline.test_auditing import torn, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("audits")

Whole = tuple[object, ...]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """All stories, some noise, and a run of which rows are missing."""
    folder = tmp_path_factory.mktemp("stories")
    for story in [*STORIES.values(), *NOISE]:
        written(folder, story, segment=100)
    torn(folder, "torn")
    return survey(str(folder))


@pytest.fixture(scope="module")
def plain(spark: SparkSession, traces: Survey) -> Outcome:
    """What all queries say of them, in two jobs."""
    return audit(spark, traces, plain=True)


@pytest.fixture(scope="module")
def found(plain: Outcome) -> dict[str, list[Whole]]:
    """Violations by promise."""
    assert len(plain.violations) == plain.total
    rows = sorted(map(msgspec.structs.astuple, plain.violations))
    place = VIOLATION.get_field_index("promise")
    return {name: [row for row in rows if row[place] == name] for name in AUDITS}


def test_few_rows_are_looked_at_run_by_run_with_the_same_outcome(
    spark: SparkSession, traces: Survey, plain: Outcome
) -> None:
    outcome = audit(spark, traces)
    assert outcome.faults
    assert outcome == plain


def test_many_rows_are_looked_at_writer_by_writer_and_then_by_queries_with_the_same_outcome(
    spark: SparkSession, traces: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = traces.only(["gap", "answers", "books", "torn"])
    few = audit(spark, some)
    monkeypatch.setattr(auditing, "FEW", 0)
    assert audit(spark, some) == few
    assert {each.run for each in few.violations} == {"gap", "answers", "books"}


@pytest.mark.parametrize("promise", AUDITS)
def test_every_audit_catches_its_planted_violation_and_nothing_else(
    promise: str, found: dict[str, list[Whole]]
) -> None:
    index = VIOLATION.get_field_index
    wanted = ("run", "node", "source", "number", "expected")
    told = [row for row in found[promise] if row[index("run")] in STORIES]
    seen = [tuple(row[index(name)] for name in wanted) for row in told]
    expected = [
        (story.run, *each[1:]) for story in STORIES.values() for each in story.found if each[0] == promise
    ]
    assert sorted(seen) == sorted(expected)
    assert expected, "a promise without a planted violation is not tested"


@pytest.mark.parametrize("promise", AUDITS)
def test_every_audit_passes_on_a_clean_trace(promise: str, found: dict[str, list[Whole]]) -> None:
    story = STORIES["flawless"]
    assert AUDITS[promise].always or promise in story.promises.split()
    runs = {row[VIOLATION.get_field_index("run")] for row in found[promise]}
    assert story.run not in runs
    assert runs, "it does find something elsewhere"


@pytest.fixture(scope="module")
def by_kernels() -> dict[str, list[Whole]]:
    """Violations by promise, without Spark."""
    rows: list[dict[str, object]] = []
    for story in [*STORIES.values(), *NOISE]:
        table = story.table()
        said = [check(story.run, [table], list(AUDITS)), check_whole(story.run, [Segment(table)])]
        rows += pa.concat_tables(said).to_pylist()
    return {name: [tuple(row.values()) for row in rows if row["promise"] == name] for name in AUDITS}


@pytest.mark.parametrize("promise", AUDITS)
def test_kernel_and_query_agree_on_every_story_and_on_noise(
    promise: str, found: dict[str, list[Whole]], by_kernels: dict[str, list[Whole]]
) -> None:
    assert sorted(by_kernels[promise]) == found[promise]  # type: ignore[type-var]
