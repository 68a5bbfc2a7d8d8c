"""A real cluster on loopback: Spark's own master and workers, started from the installed package."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pyspark

from gossamer.pipeline import java

HOST = "127.0.0.1"
LEADS, JOINED = b"I have been elected leader", b"Registering worker"
"""What a master says when it takes workers and applications, and of every worker that it takes."""
PATIENCE = 120.0
"""Seconds in which a cluster has started, on any machine."""


class Cluster:
    """A master and workers of one core each, that start while somebody does something else.

    url
        The master's.
    flags
        What makes the Java of an executor start fast.
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.flags = quick_flags()
        self._workers = workers
        self._port = _free_port()
        self.url = f"spark://{HOST}:{self._port}"
        self._started: list[subprocess.Popen[bytes]] = []
        self._starting = threading.Thread(target=self._start_all, name="cluster")

    def __enter__(self) -> Cluster:
        self._start("master", "Master", "--port", str(self._port))
        self._starting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._starting.join()
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            process.wait()

    def until_it_answers(self) -> None:
        """Wait for the master and all its workers."""
        self._starting.join()
        self._until_it_said(JOINED, self._workers)

    def _start_all(self) -> None:
        """Workers that come before the master leads would try again only after ten seconds."""
        with suppress(AssertionError):  # whoever waits is told
            self._until_it_said(LEADS)
            for number in range(self._workers):
                work = str(self.folder / f"work{number}")
                self._start(
                    "worker", "Worker", "--cores", "1", "--memory", "1g", "--work-dir", work, self.url
                )

    def _until_it_said(self, what: bytes, times: int = 1) -> None:
        """An open port is not enough: who asks before the master leads waits for 20 s."""
        end = time.monotonic() + PATIENCE
        log = self.folder / "master.log"
        while (said := log.read_bytes()).count(what) < times:
            told = f"a master that says {what.decode()!r} {times} times, not:\n{said.decode()}"
            assert self._started[0].poll() is None, f"the master has ended; wanted was {told}"
            assert time.monotonic() < end, f"after {PATIENCE} s there is not {told}"
            time.sleep(0.05)

    def _start(self, package: str, name: str, *options: str) -> None:
        home = Path(pyspark.__file__).parent
        kind = f"org.apache.spark.deploy.{package}.{name}"
        command = [str(home / "bin" / "spark-class"), kind, "--host", HOST, "--webui-port", "0", *options]
        with (self.folder / f"{package}.log").open("ab") as log:
            self._started.append(
                subprocess.Popen(command, env=_environment(home), stdout=log, stderr=log, cwd=self.folder)
            )


def quick_flags() -> str:
    """What makes a Java start fast; the archive of classes only if there is one."""
    found = java.find(os.environ)
    assert found is not None, "there is no Java"
    flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    flags += java.archive_flags(found, java.cache(os.environ))
    return " ".join(flag for flag in flags if "AtExit" not in flag)


def _environment(home: Path) -> dict[str, str]:
    """What programs of the cluster need to find Java, Python and each other."""
    found = java.find(os.environ)
    assert found is not None, "there is no Java"
    return {
        **os.environ,
        "JAVA_HOME": str(java.wrapped(found, java.cache(os.environ))),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
        "SPARK_DAEMON_JAVA_OPTS": quick_flags(),
        "PYSPARK_PYTHON": sys.executable,
    }


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])
