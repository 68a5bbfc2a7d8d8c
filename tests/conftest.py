"""Every run of the tests is the same run: hypothesis draws the same examples and never looks at a clock.
``HYPOTHESIS_PROFILE=fresh`` draws others, and more of them; ``make proof`` does so.

Spark starts with the first test that needs it, in one Java for all of them. Where tests run in several
processes, those that need Spark are two groups with a Java each, which take about as long, and come first:
those that audit, which say so (``xdist_group("audits")``), and all others. A Java takes three times as long
for its first audit as for the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.cluster import Cluster

settings.register_profile(
    "same-every-time",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fresh",
    deadline=None,
    database=None,
    max_examples=500,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same-every-time"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "xdist_group(name): tests that run in one process")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on a cluster come last: a Java has one session at a time, and they end that of the others."""
    for item in items:
        if _group(item) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=lambda item: ("far" in _fixtures(item), not _group(item), _group(item)))


def _group(item: pytest.Item) -> str:
    said = item.get_closest_marker("xdist_group")
    if said is not None:
        return str(said.args[0])
    return "spark" if "spark" in _fixtures(item) else ""


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers."""
    from tests.pipeline.cluster import Cluster

    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The session that runs, or a new one: a test may stop it, and Java goes on."""
    from gossamer.pipeline.session import session

    return session("local[2]", quick=True, settings={"spark.sql.shuffle.partitions": "1"})
