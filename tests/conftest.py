"""Every run of the tests is the same run: hypothesis draws the same examples and never looks at a clock.

Spark starts with the first test that needs it, in one Java for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile(
    "same-every-time",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same-every-time")


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The session that runs, or a new one: a test may stop it, and Java goes on."""
    from gossamer.pipeline.session import session

    return session("local[2]", quick=True, settings={"spark.sql.shuffle.partitions": "1"})
