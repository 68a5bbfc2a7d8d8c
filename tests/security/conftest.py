"""No test finds what another one has imported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.sources import forget


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget()
