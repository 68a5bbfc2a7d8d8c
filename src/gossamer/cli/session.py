"""Runs a command's coroutine so that Ctrl-C and termination drain and end it cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gossamer.runtime.api.node import run

T = TypeVar("T")

DEFAULT_LISTEN = "tcp://127.0.0.1:7400"


def until_stopped(main: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
    """Run to the end, or until Ctrl-C or a termination signal; None if it was stopped.

    It also stops when whoever reads the output has gone, as ``head`` does. The coroutine is cancelled, so
    every ``async with`` in it drains and closes.
    """

    async def stoppable() -> T | None:
        task = asyncio.ensure_future(main())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            return None
        except BrokenPipeError:
            # what is still buffered must go somewhere, or Python complains at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None

    return run(stoppable())
