"""Spark's daemon of Python workers, with two changes.

Workers are forked when everything they need is imported. Spark's own daemon forks first, because no thread
may run while a process forks, and Arrow and numpy start some; so each of its workers imports for most of a
second. Here these threads are switched off. Where that cannot be made sure of, Spark's own daemon takes over.

A worker whose Spark has gone ends without a word: over unix domain sockets an idle one would print a
traceback.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from contextlib import suppress
from importlib import import_module

from pyspark import daemon

WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Makes numpy and the allocator of Arrow start no threads."""
IMPORTS = (
    "pandas",
    "pyarrow.parquet",
    "pyarrow.compute",
    "gossamer.pipeline.audit.kernels",
    "gossamer.pipeline.simulations",
    "pyspark_gossamer.sink",
    "pyspark_gossamer.source",
)
_THREADS = "/proc/self/task"
_worker = daemon.worker


def prepare(worker: str) -> bool:
    """Import what workers need; whether this process may fork then."""
    if not os.path.isdir(_THREADS):
        return False
    os.environ.update(WITHOUT_THREADS)
    for name in (worker, *IMPORTS):
        with suppress(ImportError):  # whoever needs it will say so
            import_module(name)
    gc.collect()
    gc.freeze()  # workers look for garbage after every task, but not among what was there before them
    return len(os.listdir(_THREADS)) == 1


def _quiet(sock: socket.socket, authenticated: bool) -> int:
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        os._exit(0)


def main(worker: str = "pyspark.worker") -> None:
    if not prepare(worker):
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    daemon.worker = _quiet
    daemon.manager()


if __name__ == "__main__":
    main(*sys.argv[1:2])
