"""Queries find each planted violation, just as kernels do, and none in what the simulator leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame

from gossamer.pipeline.audit.catalogue import AUDITS
from gossamer.pipeline.audit.kernels import check
from gossamer.pipeline.audit.relations import ask, stretched, union
from gossamer.pipeline.schema import VIOLATION

from .stories import STORIES, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("audits")

Whole = tuple[object, ...]


@pytest.fixture(scope="module")
def planted(spark: SparkSession) -> DataFrame:
    rows = spark.createDataFrame(told(STORIES.values())).coalesce(1)
    return stretched(rows, whole=True).localCheckpoint()


@pytest.fixture(scope="module")
def found(planted: DataFrame) -> dict[str, list[Whole]]:
    """Violations by promise: all queries in one job, over all stories together."""
    rows = sorted(map(tuple, ask(planted, union(audit.query for audit in AUDITS.values())).collect()))
    place = VIOLATION.get_field_index("promise")
    return {name: [row for row in rows if row[place] == name] for name in AUDITS}


@pytest.mark.parametrize("promise", AUDITS)
def test_every_audit_catches_its_planted_violation_and_nothing_else(
    promise: str, found: dict[str, list[Whole]]
) -> None:
    index = VIOLATION.get_field_index
    wanted = ("run", "node", "source", "number", "expected")
    seen = [tuple(row[index(name)] for name in wanted) for row in found[promise]]
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


@pytest.mark.parametrize("promise", [name for name, audit in AUDITS.items() if audit.local])
def test_kernel_and_query_agree_on_every_story(promise: str, found: dict[str, list[Whole]]) -> None:
    by_kernel = [
        tuple(row.values())
        for story in STORIES.values()
        for row in check(story.run, [story.table()], [promise]).to_pylist()
        if row["promise"] == promise
    ]
    assert sorted(by_kernel) == found[promise]  # type: ignore[type-var]
