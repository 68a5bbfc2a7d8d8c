"""The Spark session that all tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gossamer.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return session("local[2]", quick=True, settings={"spark.sql.shuffle.partitions": "2"})
