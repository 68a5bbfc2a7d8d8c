"""Kernels find each planted violation, wherever segments are cut, and need no Spark for it."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.pipeline.audit.catalogue import LOCAL
from gossamer.pipeline.audit.kernels import EVENTS, GAP, OPENED, check, check_whole
from gossamer.pipeline.audit.segment import Segment
from gossamer.pipeline.audit.spans import Spans
from tests.pipeline.stories import NOISE, SECOND, STORIES, Finding, Story, begin


def findings(found: pa.Table) -> list[Finding]:
    rows = found.to_pylist()
    names = ("promise", "node", "source", "number", "expected")
    return sorted(tuple(row[name] for name in names) for row in rows if row["promise"][0] != "#")


def cut(table: pa.Table, places: list[int]) -> list[pa.Table]:
    edges = [0, *sorted(place % (table.num_rows + 1) for place in places), table.num_rows]
    return [table.slice(low, high - low) for low, high in pairwise(edges)]


@pytest.mark.parametrize("name", STORIES)
def test_kernels_find_what_was_planted_and_nothing_else(name: str) -> None:
    story = STORIES[name]
    said = [check(name, [story.table()], LOCAL), check_whole(name, [Segment(story.table())])]
    assert findings(pa.concat_tables(said)) == sorted(story.found)


def test_a_whole_run_may_be_in_many_segments_of_many_writers() -> None:
    for story in [*STORIES.values(), *NOISE]:
        table = story.table()
        by_node = [table.filter(pc.field("node") == node) for node in sorted(set(table["node"].to_pylist()))]
        halves = [part for each in by_node for part in cut(each, [0, len(each) // 2])]
        assert findings(check_whole(story.run, map(Segment, halves))) == findings(
            check_whole(story.run, [Segment(table)])
        )


WHOLE = {name: findings(check(name, [story.table()], LOCAL)) for name, story in STORIES.items()}


@settings(max_examples=15)
@given(st.lists(st.integers(0, 40), max_size=4))
def test_it_does_not_matter_where_segments_are_cut(places: list[int]) -> None:
    for name, story in STORIES.items():
        assert findings(check(name, cut(story.table(), places), LOCAL)) == WHOLE[name]


def test_kernels_also_tell_events_promises_and_rows_that_are_missing() -> None:
    story = begin("r", "gap-free").published("a", 1, 5).delivered("b", "a", 1, 5)
    rows = check("r", [story.table()], LOCAL).to_pylist()
    assert [row["number"] for row in rows if row["promise"] == EVENTS] == [5]
    assert [row["expected"] for row in rows if row["promise"] == OPENED] == ["made-up gap-free"]
    assert not [row for row in rows if row["promise"] == GAP]
    torn = pa.concat_tables([story.table().slice(0, 2), story.table().slice(3)])
    gaps = [row for row in check("r", [torn], LOCAL).to_pylist() if row["promise"] == GAP]
    assert [(gap["node"], gap["expected"], gap["number"]) for gap in gaps] == [("c", "row 1", 2)]


def test_behind_a_hole_in_the_trace_a_stream_begins_anew() -> None:
    story = begin("r", "gap-free exactly-once")
    for number in (1, 2, 3):
        story.delivered("b", "a", number)
    whole = story.table()
    torn = pa.concat_tables([whole.slice(0, 6), whole.slice(7)])
    assert findings(check("r", [torn], LOCAL)) == []


def test_a_violation_says_run_channel_subscription_and_instant() -> None:
    story = STORIES["gap"]
    first = next(
        row for row in check("gap", [story.table()], ["gap-free"]).to_pylist() if row["promise"][0] != "#"
    )
    assert first["run"] == "gap"
    assert first["channel"] == "news"
    assert first["subscription"] == "1"
    assert first["at"] == 10 * SECOND
    assert (first["incarnation"], first["source_incarnation"]) == (1, 1)


def test_many_streams_in_one_segment_are_kept_apart() -> None:
    story = Story("r", "gap-free at-most-once").opened("b")
    for number in range(1, 40):
        for source in (f"s{n}" for n in range(30)):
            story.delivered("b", source, number, to=number % 3)
    wrong = {
        row["expected"] for row in check("r", [story.table()], LOCAL).to_pylist() if row["promise"][0] != "#"
    }
    assert wrong == {f"number {n} next" for n in range(2, 38)}


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 6)), max_size=25))
def test_spans_know_just_what_was_added(added: list[tuple[int, int]]) -> None:
    spans, seen = Spans(), set[int]()
    for start, count in added:
        numbers = set(range(start, start + count))
        assert spans.add(start, start + count, 0) == min(numbers & seen, default=None)
        seen |= numbers
    covered = [n for low, high in zip(spans.starts, spans.ends, strict=True) for n in range(low, high)]
    assert covered == sorted(seen)
    assert all(high < low for high, low in zip(spans.ends, spans.starts[1:], strict=False)), (
        "spans are merged"
    )
