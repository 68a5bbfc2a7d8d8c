"""No test finds what another one has imported."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator

import pytest

from gossamer.runtime.loading import NAMESPACE

from .sources import SENTINEL


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for name in [each for each in sys.modules if each.startswith(NAMESPACE)]:
        del sys.modules[name]
    sys.meta_path[:] = [each for each in sys.meta_path if "loading" not in type(each).__module__]
    vars(builtins).pop(SENTINEL, None)
