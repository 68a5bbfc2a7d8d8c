"""A test that waits for what never comes fails, instead of standing still."""

from __future__ import annotations

import asyncio
import functools
import inspect
from pathlib import Path

import pytest

SECONDS = 10


def limited(test):
    @functools.wraps(test)
    async def run(*args, **kwargs):
        async with asyncio.timeout(SECONDS):
            await test(*args, **kwargs)

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        ours = item.path.is_relative_to(Path(__file__).parent)
        if ours and isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = limited(item.obj)
