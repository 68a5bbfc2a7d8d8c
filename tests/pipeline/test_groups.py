"""Groups, rings and trees out of a table of subscriptions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from gossamer.pipeline.groups import ring_size, rings, slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table(spark: SparkSession, *rows: tuple[str | int, ...]) -> DataFrame:
    """Who wants what where, and perhaps since when."""
    columns = zip(*rows, strict=True)
    names = ("node", "event", "region", "joined")
    return spark.createDataFrame(pa.table(dict(zip(names, columns, strict=False))))


@pytest.mark.parametrize(("publishers", "size"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (16, 4), (17, 5)])
def test_publishers_know_log2_of_their_number(publishers: int, size: int) -> None:
    assert ring_size(publishers) == size


def test_who_comes_first_has_the_first_slot_and_nobody_has_two(spark: SparkSession) -> None:
    qos = table(
        spark, ("b", "news", "eu", 1), ("a", "news", "eu", 2), ("b", "news", "eu", 9), ("a", "news", "us", 3)
    )
    found = {(row.region, row.slot, row.node) for row in slots(qos).collect()}
    assert found == {("eu", 0, "b"), ("eu", 1, "a"), ("us", 0, "a")}
    (alike,) = slots(qos, ("event",)).filter("slot = 0").collect()
    assert alike.node == "b"


def test_rings_double_and_nobody_forwards_to_more_than_two_and_small_groups_are_not_ready(
    spark: SparkSession,
) -> None:
    names = [f"n{number:04d}" for number in range(1000)]
    qos = [(name, "news", "eu") for name in names] + [(name, "sport", "eu") for name in names[:3]]
    qos += [(name, "few", "eu") for name in names[:2]]
    subscriptions = table(spark, *qos)
    told = [(f"p{number}", "news", "eu") for number in range(8)] + [(f"p{n}", "few", "eu") for n in range(4)]
    found = rings(subscriptions, table(spark, *told)).collect()
    news = {row.slot: row for row in found if row.event == "news"}
    assert len(news) == 1000
    slot, ring = 0, 0
    while slot < 1000:
        here = range(slot, min(slot + 3 * 2**ring, 1000))
        assert {(news[each].ring, news[each].place) for each in here} == {
            (ring, place) for place in range(len(here))
        }
        slot, ring = here.stop, ring + 1
    place_of = {row.node: (row.ring, row.place) for row in news.values()}
    for row in news.values():
        if row.ring == 0:
            assert row.parent is None
        else:
            assert place_of[row.parent] == (row.ring - 1, row.place // 2)
    assert max(Counter(row.parent for row in news.values() if row.parent).values()) == 2
    sport = [row for row in found if row.event == "sport"]
    assert sorted((row.slot, row.ring, row.ready) for row in sport) == [
        (0, 0, True),
        (1, 1, True),
        (2, 1, True),
    ]
    few = [row for row in found if row.event == "few"]
    assert [(row.ring, row.ready) for row in few] == [(0, False), (0, False)], "no larger than its ring"
