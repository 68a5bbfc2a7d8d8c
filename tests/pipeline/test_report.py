"""The page has everything in it, and fetches nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.pipeline import pictures
from gossamer.pipeline.reading import survey
from gossamer.pipeline.report import report
from gossamer.traces.writer import TraceWriter

from .stories import STORIES
from .test_tables import line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_page_shows_topology_latency_load_use_and_promises(spark: SparkSession, tmp_path: Path) -> None:
    for story in (line("<lossy>", True), STORIES["gap"]):
        writer = TraceWriter(tmp_path, story.run, "world")
        for row in story.rows:
            writer(row)
        writer.close()
    page, outcome = report(spark, survey(str(tmp_path)))
    assert outcome.word == "violated"
    assert page.count("<svg") == page.count("</svg>") == 8, "four pictures a run"
    for word in ("Topology", "Latency", "Load of nodes", "Use of links", "delivery ratio", "number 2 next"):
        assert word in page
    assert "&lt;lossy&gt;" in page
    assert "<lossy>" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page), "nothing is fetched"
    assert "<script" not in page


def test_a_picture_of_nothing_and_of_much_can_be_drawn() -> None:
    assert pictures.topology({}, {}).startswith("<svg")
    assert pictures.over_time({}, "x").startswith("<svg")
    many = {(f"n{n}", f"n{n // 3}"): float(n) for n in range(1, 100)}
    drawn = pictures.topology({**many, ("x", "y"): 1.0}, {"lonely": 2.0})
    assert drawn.count("<path") > 100


def test_the_same_numbers_give_the_same_picture() -> None:
    lines = {"a": [(0.0, 1.0), (1.0, 2.0)]}
    assert pictures.over_time(lines, "x") == pictures.over_time(lines, "x")
