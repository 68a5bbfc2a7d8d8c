"""No test of the runtime may hang: each coroutine gets a safety net, far above what it needs."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import Any

import pytest

SAFETY_NET = 30.0
"""Seconds."""


def limited(test: Any) -> Any:
    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(SAFETY_NET):
            await test(*args, **kwargs)

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        here = isinstance(item, pytest.Function) and "tests/runtime" in item.path.as_posix()
        if here and inspect.iscoroutinefunction(item.obj):
            item.obj = limited(item.obj)
