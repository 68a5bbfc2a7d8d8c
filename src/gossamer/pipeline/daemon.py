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

from pyspark import daemon

WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Makes numpy and the allocator of Arrow start no threads."""
_THREADS = "/proc/self/task"
_worker = daemon.worker


def prepare() -> bool:
    """Import what workers need; whether this process may fork then."""
    if not os.path.isdir(_THREADS):
        return False
    os.environ.update(WITHOUT_THREADS)
    import pyarrow.compute
    import pyarrow.parquet
    import pyspark.worker  # noqa: F401

    import gossamer.pipeline.audit.kernels
    import gossamer.pipeline.simulations  # noqa: F401

    pyarrow.array([])  # imports pandas, if there is one, as soon as it makes or shows any array
    gc.collect()
    gc.freeze()  # workers look for garbage after every task, but not among what was there before them
    return len(os.listdir(_THREADS)) == 1


def _quiet(sock: socket.socket, authenticated: bool) -> int:
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        os._exit(0)


def main() -> None:
    if not prepare():
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    daemon.worker = _quiet
    daemon.manager()


if __name__ == "__main__":
    main()
