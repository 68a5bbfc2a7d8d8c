"""A real cluster on loopback: Spark's own master and workers, started from the installed package."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from gossamer.pipeline import java

HOST = "127.0.0.1"


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """A master and workers of one core each; the master's URL, once it answers."""
    port = _free_port()
    url = f"spark://{HOST}:{port}"
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start(folder, "master", "Master", "--port", str(port)))
        _until_it_answers(port, started[0])
        for number in range(workers):
            work = str(folder / f"work{number}")
            options = ("--cores", "1", "--memory", "1g", "--work-dir", work)
            started.append(_start(folder, "worker", "Worker", *options, url))
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait()


def environment() -> dict[str, str]:
    """What programs of the cluster need to find Java, Python and each other."""
    found = java.find(os.environ)
    assert found is not None, "there is no Java"
    home = java.wrapped(found, java.cache(os.environ))
    return {
        **os.environ,
        "JAVA_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": quick_flags(),
    }


def quick_flags() -> str:
    """What makes a Java start fast; the archive of classes only if there is one."""
    found = java.find(os.environ)
    assert found is not None, "there is no Java"
    flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    flags += java.archive_flags(found, java.cache(os.environ))
    return " ".join(flag for flag in flags if "AtExit" not in flag)


def _start(folder: Path, package: str, name: str, *options: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    kind = f"org.apache.spark.deploy.{package}.{name}"
    command = [str(home / "bin" / "spark-class"), kind, "--host", HOST, "--webui-port", "0", *options]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{package}.log").open("ab") as log:
        return subprocess.Popen(
            command, env={**environment(), "SPARK_HOME": str(home)}, stdout=log, stderr=log, cwd=folder
        )


def _until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        try:
            socket.create_connection((HOST, port), timeout=1.0).close()
            return
        except OSError:
            if process.poll() is not None:
                raise RuntimeError(f"the master ended with {process.returncode}") from None
            threading.Event().wait(0.05)


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])
