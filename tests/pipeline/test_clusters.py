"""Indexes made from interest beat indexes made by lot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from gossamer.pipeline import clusters
from gossamer.pipeline.clusters import (
    ENTRY_BYTES,
    INDEX_BYTES,
    Cost,
    assign,
    by_lot,
    cluster_listeners,
    cost,
    hierarchy,
    interest_of,
    purity,
    replaced,
)
from tests.pipeline.interests import planted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> DataFrame:
    wants = [("ann", "a"), ("ann", "b"), ("bob", "a"), ("bob", "b"), ("cyd", "c"), ("cyd", "b")]
    return interest_of(spark, wants)


def test_the_lot_keeps_threads_and_sizes() -> None:
    members = {f"t{number}": f"1-{number % 3}" for number in range(30)}
    drawn = by_lot(members, 5)
    assert drawn != members
    assert list(drawn) == list(members)
    assert sorted(drawn.values()) == sorted(members.values())
    assert drawn == by_lot(members, 5)


def test_a_thread_goes_where_most_of_its_listeners_are(spark: SparkSession, small: DataFrame) -> None:
    found = spark.createDataFrame(pa.table({"listener": ["ann", "bob", "cyd"], "cluster": [0, 0, 1]}))
    assert assign(small, found) == {"a": 0, "b": 0, "c": 1}


def test_what_listeners_pay_is_counted_by_hand(small: DataFrame) -> None:
    members = {"a": "1-0", "b": "1-0", "c": "1-1"}
    two, one = INDEX_BYTES + 2 * ENTRY_BYTES, INDEX_BYTES + ENTRY_BYTES
    assert cost(small, members) == Cost(2, 3, 4 / 3, (two + two + two + one) / 3)
    assert sorted(tuple(row) for row in replaced(small, members).collect()) == [
        ("ann", "1-0"),
        ("bob", "1-0"),
        ("cyd", "1-0"),
        ("cyd", "1-1"),
    ]


def test_purity_is_the_share_of_the_largest_community(spark: SparkSession) -> None:
    everybody = range(8)
    found = spark.createDataFrame(pa.table({"listener": everybody, "cluster": [n // 4 for n in everybody]}))
    known = spark.createDataFrame(
        pa.table({"listener": everybody, "community": [int(n >= 3) for n in everybody]})
    )
    assert purity(found, known) == 7 / 8


def test_planted_communities_are_found_and_their_indexes_are_fewer_per_listener(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "ITERATIONS", 2)  # enough for so few listeners
    wants, known = planted(listeners=120, threads=42, communities=3, wants=10, noise=0.1)
    found: list[DataFrame] = []

    def clustered(*given: Any) -> DataFrame:
        found.append(cluster_listeners(*given))
        return found[-1]

    monkeypatch.setattr(clusters, "cluster_listeners", clustered)
    # with no more clusters than communities, one split through a community costs a fifth of the purity
    first, *above = hierarchy(spark.createDataFrame(wants), indexes=4, fanout=2)
    assert purity(found[0], spark.createDataFrame(known)) >= 0.85
    assert first.cost.threads == 42
    assert first.cost.per_listener < 0.7 * first.random.per_listener
    assert first.cost.bytes_per_listener < 0.7 * first.random.bytes_per_listener
    assert [level.number for level in above] == [2]
    assert set(above[0].members) == set(first.members.values())
    assert above[0].cost.indexes <= 2
