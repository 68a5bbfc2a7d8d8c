"""One Spark session for all tests of the pipeline; tests that need none do not start it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from gossamer.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    running = session("local[2]", quick=True, settings={"spark.sql.shuffle.partitions": "1"})
    yield running
    running.stop()
