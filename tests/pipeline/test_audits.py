"""Queries find each planted violation, just as kernels do, and none in what the simulator leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from gossamer.pipeline.audit.catalogue import AUDITS
from gossamer.pipeline.audit.kernels import check, check_whole
from gossamer.pipeline.audit.relations import ask, stretched, union
from gossamer.pipeline.audit.segment import Segment
from gossamer.pipeline.schema import VIOLATION

from .stories import NOISE, STORIES, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("audits")

Whole = tuple[object, ...]


@pytest.fixture(scope="module")
def planted(spark: SparkSession) -> DataFrame:
    rows = spark.createDataFrame(told([*STORIES.values(), *NOISE])).coalesce(1)
    return stretched(rows, whole=True).localCheckpoint()


@pytest.fixture(scope="module")
def found(planted: DataFrame) -> dict[str, list[Whole]]:
    """Violations by promise: all queries in one job, over all stories and noise together."""
    rows = sorted(map(tuple, ask(planted, union(audit.query for audit in AUDITS.values())).collect()))
    place = VIOLATION.get_field_index("promise")
    return {name: [row for row in rows if row[place] == name] for name in AUDITS}


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


@pytest.mark.parametrize("promise", AUDITS)
def test_kernel_and_query_agree_on_every_story_and_on_noise(
    promise: str, found: dict[str, list[Whole]]
) -> None:
    by_kernel = []
    for story in [*STORIES.values(), *NOISE]:
        said = [
            check(story.run, [story.table()], [promise]),
            check_whole(story.run, [Segment(story.table())]),
        ]
        rows = pa.concat_tables(said).to_pylist()
        by_kernel += [tuple(row.values()) for row in rows if row["promise"] == promise]
    assert sorted(by_kernel) == found[promise]
