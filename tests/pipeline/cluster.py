"""A real cluster on loopback: Spark's own master and workers, started from the installed package."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

import pyspark

from gossamer.pipeline import java

HOST = "127.0.0.1"


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
        """Wait for the master; workers are on their way then."""
        self._starting.join()
        assert self._started[0].poll() is None, "the master has ended"

    def _start_all(self) -> None:
        """Workers that come before the master would try again only after ten seconds."""
        while not self._answers():
            try:
                self._started[0].wait(0.05)
                return
            except subprocess.TimeoutExpired:
                continue
        for number in range(self._workers):
            work = str(self.folder / f"work{number}")
            self._start("worker", "Worker", "--cores", "1", "--memory", "1g", "--work-dir", work, self.url)

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self._port), timeout=1.0).close()
        except OSError:
            return False
        return True

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
