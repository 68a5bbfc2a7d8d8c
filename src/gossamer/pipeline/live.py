"""Follows the traces of a running overlay: a streaming job that keeps scorecards and violations current.

The job follows files, not their rows: every segment is taken once, when it is complete, and a damaged one is
left out and counted. Kernels go on from where they were, so that a violation is known as soon as the segment
that shows it is there; what needs rows of several nodes is left to the audit.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from gossamer.core import trace
from gossamer.core.errors import ConfigError
from gossamer.pipeline import tables
from gossamer.pipeline.audit.auditing import MAX_LISTED, Violation
from gossamer.pipeline.audit.catalogue import LOCAL
from gossamer.pipeline.audit.kernels import Check, read
from gossamer.pipeline.reading import Segment, Survey, Writer, rows, segment
from gossamer.pipeline.session import hush

MAX_FILES = 200
"""Segments that one batch takes."""
_THREADS = 8
_Name = tuple[str, str]
"""A run and a writer."""
_FILES = "path string, modificationTime timestamp, length bigint, content binary"
_SEGMENT = re.compile(r"run=(?P<run>[^/]+)/(?P<name>[^/]+)-(?P<number>\d{6,})\.parquet$")


class Card(msgspec.Struct):
    """What is known of one channel of one run so far; latencies (milliseconds) are of the last batch."""

    run: str
    channel: str
    published: int = 0
    delivered: int = 0
    dropped: int = 0
    messages: int = 0
    bytes: int = 0
    control_messages: int = 0
    latency_p50: float | None = None
    latency_p99: float | None = None
    violations: int = 0


class State(msgspec.Struct):
    """What has been seen so far.

    gaps
        Places where rows are missing.
    damaged
        Files that were left out.
    waiting
        Segments that have come, and are not checked because one before them has not.
    """

    rows: int = 0
    segments: int = 0
    gaps: int = 0
    damaged: int = 0
    waiting: int = 0
    cards: dict[tuple[str, str], Card] = msgspec.field(default_factory=dict)
    violations: list[Violation] = msgspec.field(default_factory=list)

    def card(self, run: str, channel: str) -> Card:
        return self.cards.setdefault((run, channel), Card(run, channel))


class Follower:
    """Takes batches of files and keeps a state."""

    def __init__(self, told: Callable[[State], None] = lambda state: None) -> None:
        self.state = State()
        self._told = told
        self._checks: dict[_Name, Check] = {}
        self._next: dict[_Name, int] = {}
        self._waiting: dict[_Name, dict[int, Segment | None]] = {}

    def __call__(self, batch: DataFrame, _: int) -> None:
        """One micro-batch."""
        readable = self._arrived([row.path for row in batch.select("path").collect()])
        if readable:
            self._counted(batch.sparkSession, readable)
        for writer in sorted(self._waiting):
            self._check(writer)
        self.state.waiting = sum(map(len, self._waiting.values()))
        self._told(self.state)

    def _arrived(self, paths: list[str]) -> dict[_Name, list[Segment]]:
        """Take note of files; those that can be read."""
        files = [found for path in paths if (found := _SEGMENT.search(path.removeprefix("file:")))]
        places, numbers = [each.string for each in files], [int(each["number"]) for each in files]
        with ThreadPoolExecutor(_THREADS) as pool:
            looks = list(pool.map(segment, places, numbers))
        readable: dict[_Name, list[Segment]] = {}
        for file, number, seen in zip(files, numbers, looks, strict=True):
            writer = (file["run"], file["name"])
            waiting = self._waiting.setdefault(writer, {})
            if isinstance(seen, Segment):
                waiting[number] = seen
                readable.setdefault(writer, []).append(seen)
            else:
                waiting[number] = None
                self.state.damaged += 1
        return readable

    def _counted(self, spark: SparkSession, readable: dict[_Name, list[Segment]]) -> None:
        writers = tuple(Writer(run, name, tuple(found)) for (run, name), found in readable.items())
        everything = rows(spark, Survey("", writers, ())).persist()
        try:
            self._count(everything)
        finally:
            everything.unpersist()

    def _count(self, everything: DataFrame) -> None:
        named = everything.where(~sf.col("channel").startswith("#"))
        sent = sf.col("action") == trace.SENT
        parcel = sf.col("kind") == trace.PARCEL
        columns = {
            "published": tables.sum_of(parcel & (sf.col("action") == trace.PUBLISHED), "count"),
            "delivered": tables.sum_of(parcel & (sf.col("action") == trace.DELIVERED), "count"),
            "dropped": sf.count_if(sf.col("action") == trace.DROPPED),
            "messages": sf.count_if(sent),
            "bytes": tables.sum_of(sent, "bytes"),
            "control_messages": sf.count_if(sent & (sf.col("kind") == trace.CONTROL)),
        }
        counted = named.groupBy("run", "channel").agg(*(each.alias(name) for name, each in columns.items()))
        for row in counted.collect():
            card = self.state.card(row.run, row.channel)
            for name in columns:
                setattr(card, name, getattr(card, name) + int(row[name]))
        shares = sf.percentile("latency", [0.5, 0.99], sf.col("count")).alias("shares")
        timed = tables.timed(named).where(sf.col("latency").isNotNull())
        for row in timed.groupBy("run", "channel").agg(shares).collect():
            card = self.state.card(row.run, row.channel)
            card.latency_p50, card.latency_p99 = (round(each / 10**6, 3) for each in row.shares)

    def _check(self, writer: _Name) -> None:
        """Give kernels the segments that are next; one that came early waits."""
        waiting = self._waiting[writer]
        check = self._checks.setdefault(writer, Check(writer[0], LOCAL))
        number = self._next.get(writer, 1)
        while number in waiting:
            whole = waiting.pop(number)
            number += 1
            if whole is None:
                continue  # kernels notice by the next position that rows are missing
            self.state.segments += 1
            self.state.rows += whole.rows
            gaps = len(check.known.gaps)
            found = check.take(read(whole.path)).to_pylist()
            self.state.gaps += len(check.known.gaps) - gaps
            for row in found:
                self.state.card(row["run"], row["channel"]).violations += 1
                if len(self.state.violations) < MAX_LISTED:
                    self.state.violations.append(Violation(**row))
        self._next[writer] = number


def watch(
    spark: SparkSession, folder: str, follower: Follower, *, interval: float = 2.0, once: bool = False
) -> None:
    """Follow a folder until the job is stopped, or with ``once`` until all that is there has been seen."""
    if "://" not in folder and not Path(folder).is_dir():
        raise ConfigError("there is no such folder; nodes make it when they trace", file=folder)
    files = spark.readStream.format("binaryFile").schema(_FILES).option("recursiveFileLookup", "true")
    named = files.option("pathGlobFilter", "*.parquet").option("maxFilesPerTrigger", MAX_FILES).load(folder)
    when: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{interval} seconds"}
    with TemporaryDirectory(prefix="gossamer-watch-") as kept:
        job = (
            named.select("path")
            .writeStream.foreachBatch(follower)
            .option("checkpointLocation", kept)
            .trigger(**when)
            .start()
        )
        ended = threading.Event()
        threading.Thread(target=_until_ended, args=(job, ended), name="watch", daemon=True).start()
        try:
            ended.wait()  # and not in the middle of a call: Ctrl-C leaves Java to be talked to
            job.awaitTermination()
        except KeyboardInterrupt:
            hush(spark)
            raise
        finally:
            job.stop()


def _until_ended(job: StreamingQuery, ended: threading.Event) -> None:
    with suppress(Exception):  # told to who asks next
        job.awaitTermination()
    ended.set()
