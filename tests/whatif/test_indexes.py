"""Indexes from the reports of a few serve everybody better than as many dealt by lot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from gossamer.core.errors import ConfigError
from gossamer.pipeline import clusters
from gossamer.whatif.indexes import Crowd, compare, interest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CROWD = Crowd(listeners=300, threads=80, applications=4, communities=4, wants=8, reported=0.5)


def test_clustered_indexes_are_fewer_per_listener_at_the_same_count(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "ITERATIONS", 2)  # enough for so few listeners
    found = compare(spark, CROWD, 8)
    assert found.indexes <= 9, "those asked for, and one for what nobody reported"
    assert found.reports < 200
    assert found.clustered < 0.75 * found.by_lot
    assert found.clustered_bytes < 0.75 * found.by_lot_bytes
    assert found.applications_per_index > 2, "applications that do not know each other share indexes"


def test_the_same_seed_makes_the_same_crowd() -> None:
    assert interest(CROWD) == interest(CROWD)
    assert len(interest(CROWD)) == 300
    assert interest(CROWD) != interest(msgspec.structs.replace(CROWD, seed=2))


@pytest.mark.parametrize("change", [{"listeners": 0}, {"communities": 100}, {"reported": 0.0}])
def test_a_crowd_that_cannot_be_names_its_key(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError) as caught:
        msgspec.structs.replace(CROWD, **change).check()
    assert [caught.value.key] == list(change)
