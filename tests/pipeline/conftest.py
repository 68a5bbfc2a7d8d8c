"""A cluster that starts while other tests run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from .cluster import Cluster


@pytest.fixture(scope="session", autouse=True)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Started only if a test that is chosen wants it."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    wanted = any("test_cluster.py" in item.nodeid for item in request.session.items)
    with made if wanted else nullcontext():
        yield made
