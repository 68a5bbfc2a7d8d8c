"""Lines of a file, pipe or terminal, without holding up the event loop.

A thread of its own reads, because no event loop can wait on every kind of standard input. It is a daemon:
a terminal that never sends another line does not keep the program alive.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError

CHUNK = 65536
CHUNKS_AHEAD = 16


async def lines(descriptor: int) -> AsyncIterator[bytes]:
    """Each line, without its end; the thread reads at most a few chunks ahead."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(CHUNKS_AHEAD)

    def read() -> None:
        try:
            while True:
                chunk = os.read(descriptor, CHUNK)
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
                if not chunk:
                    return
        except (OSError, RuntimeError, CancelledError):  # the input or the loop is gone
            return

    threading.Thread(target=read, daemon=True, name="lines").start()
    rest = b""
    while chunk := await chunks.get():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest
