"""A query whose processes die in the middle: nothing lost, nothing twice. ``kills`` kills Spark itself."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException

from gossamer.storage.log import Log
from tests.pyspark_gossamer.frames import Source, folder_of
from tests.pyspark_gossamer.station import CHANNEL, Station

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

KILLS = 1
"""Here; ``make proof-kills`` has twenty."""
EVENTS = 120
ROWS = 60
"""Per micro-batch."""


def workers(process: int) -> list[int]:
    """Every process below one that has none below itself: whoever reads, publishes or waits to."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))

    def leaves(parent: int) -> list[int]:
        return [each for child in children.get(parent, ()) for each in leaves(child) or [child]]

    return leaves(process)


def until(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it never came to that")


def ended(query: StreamingQuery) -> bool:
    """Let a query do all there is; whether it could."""
    try:
        query.processAllAvailable()
    except StreamingQueryException:
        return False
    query.stop()
    return True


@pytest.fixture
def quiet(spark: SparkSession) -> Iterator[None]:
    """Spark has much to say about processes that died."""
    spark.sparkContext.setLogLevel("OFF")
    yield
    spark.sparkContext.setLogLevel("WARN")


def test_processes_of_a_query_die_and_every_event_arrives_once(
    spark: SparkSession, tmp_path: Path, quiet: None
) -> None:
    folder = folder_of(tmp_path)
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    dice = random.Random(4)

    def started(station: Station) -> StreamingQuery:
        """Spark notices only when it uses them that idle workers have died too."""
        for _ in range(10):
            with suppress(Py4JJavaError, PySparkException):
                return start(station)
        raise AssertionError("the query cannot be started any more")

    def start(station: Station) -> StreamingQuery:
        events = spark.readStream.format("gossamer").option("maxRows", str(ROWS)).load(str(folder))
        writer = events.select("payload").writeStream.format("gossamer").option("address", station.address)
        writer = writer.option("channel", CHANNEL).option("history", str(station.folder))
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).option("chunk", "20").start()

    with Log(folder) as log, Station(tmp_path / "station") as station:
        source = Source()
        for _ in range(2):
            log.append(source.parcels(EVENTS // 10, events=5))
            log.seal()
        for _ in range(KILLS):
            query = started(station)
            wanted = len(station.heard()) + dice.randrange(1, ROWS)
            until(lambda wanted=wanted, query=query: len(station.heard()) >= wanted or not query.isActive)  # type: ignore[misc]
            for process in workers(java):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            with suppress(StreamingQueryException):
                query.awaitTermination()
        until(lambda: ended(started(station)))
        heard = station.heard()
    assert Counter(int(payload) for _, payload in heard) == Counter(range(1, EVENTS + 1))
    query_id = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    assert {query for (query, *_), _ in heard} == {query_id}, "the same query, whoever goes on with it"
    assert {batch for (_, batch, *_), _ in heard} == set(range(EVENTS // ROWS))
