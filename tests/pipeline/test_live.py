"""A watch sees every segment once, and says what is broken as soon as it is there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from gossamer.cli.main import app
from gossamer.core.errors import ConfigError
from gossamer.pipeline.live import Follower, State, watch
from gossamer.traces.writer import TraceWriter
from tests.pipeline.stories import STORIES
from tests.pipeline.test_auditing import written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_cards_and_violations_grow_with_the_segments(spark: SparkSession, tmp_path: Path) -> None:
    story = STORIES["gap"]
    writer = TraceWriter(tmp_path, story.run, "b-17", segment_rows=9)
    for row in story.rows[:9]:
        writer(row)
    seen: list[tuple[int, int]] = []

    def told(state: State) -> None:
        seen.append((state.rows, len(state.violations)))
        if len(seen) == 1:  # the overlay goes on while somebody watches
            for row in story.rows[9:]:
                writer(row)
            writer.close()
        else:
            for query in spark.streams.active:
                query.stop()

    follower = Follower(told)
    watch(spark, str(tmp_path), follower, interval=0.1)
    assert seen[0] == (9, 0)
    assert seen[-1] == (len(story.rows), 3)
    card = follower.state.cards["gap", "news"]
    assert (card.published, card.delivered, card.violations) == (3, 5, 3)
    assert follower.state.gaps == 0


def test_the_command_tells_what_is_there_as_json_and_leaves_out_what_is_damaged(
    spark: SparkSession, tmp_path: Path
) -> None:
    written(tmp_path, STORIES["gap"])
    for run, segment in (("no Parquet", 4), ("gone", 5)):
        written(tmp_path, replace(STORIES["excused"], run=run), segment)
    (tmp_path / "run=no Parquet" / "world-000001.parquet").write_bytes(b"no Parquet")
    (tmp_path / "run=gone" / "world-000002.parquet").unlink()
    done = CliRunner().invoke(app, ["watch", str(tmp_path), "--once", "--json"], catch_exceptions=False)
    told = json.loads(done.stdout.splitlines()[-1])
    others = len(STORIES["excused"].rows)
    assert (done.exit_code, told["rows"], len(told["violations"])) == (0, 13 + others - 4 + 5, 3)
    assert (told["damaged"], told["waiting"]) == (1, -(-others // 5) - 2)
    assert told["gaps"] > 0


def test_a_folder_that_is_not_there_is_said_so(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        watch(spark, str(tmp_path / "nowhere"), Follower(), once=True)
