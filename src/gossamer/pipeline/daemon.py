"""Spark's daemon of Python workers, but for one thing: a worker whose Spark has gone ends without a word.

Over unix domain sockets a worker that is idle when Spark stops would print a traceback.
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

_worker = daemon.worker


def _quiet(sock: socket.socket, authenticated: bool) -> int:
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    daemon.worker = _quiet
    daemon.manager()
