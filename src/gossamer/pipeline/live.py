"""Follows the traces of a running overlay: a streaming job that keeps scorecards and violations current.

Every segment is taken once, when it is complete. Kernels go on from where they were, so that a violation is
known as soon as the segment that shows it is there; what needs rows of several nodes is left to the audit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from gossamer.core import trace
from gossamer.core.errors import ConfigError
from gossamer.pipeline import tables
from gossamer.pipeline.audit.auditing import MAX_LISTED, Violation
from gossamer.pipeline.audit.catalogue import LOCAL
from gossamer.pipeline.audit.kernels import Check, read
from gossamer.pipeline.schema import ROWS

MAX_FILES = 200
"""Segments that one batch takes."""
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
    """What has been seen so far."""

    rows: int = 0
    segments: int = 0
    gaps: int = 0
    cards: dict[tuple[str, str], Card] = msgspec.field(default_factory=dict)
    violations: list[Violation] = msgspec.field(default_factory=list)

    def card(self, run: str, channel: str) -> Card:
        return self.cards.setdefault((run, channel), Card(run, channel))


class Follower:
    """Takes batches of rows, each with the file it is from, and keeps a state."""

    def __init__(self, told: Callable[[State], None] = lambda state: None) -> None:
        self.state = State()
        self._told = told
        self._checks: dict[tuple[str, str], Check] = {}
        self._next: dict[tuple[str, str], int] = {}
        self._waiting: dict[tuple[str, str], dict[int, str]] = {}

    def __call__(self, batch: DataFrame, _: int) -> None:
        """One micro-batch."""
        batch = batch.persist()
        try:
            self._count(batch)
            for row in batch.select("file").distinct().collect():
                self._arrived(row.file)
        finally:
            batch.unpersist()
        for writer in sorted(self._waiting):
            self._check(writer)
        self._told(self.state)

    def _count(self, batch: DataFrame) -> None:
        named = batch.where(~sf.col("channel").startswith("#"))
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

    def _arrived(self, file: str) -> None:
        path = unquote(urlsplit(file).path) if file.startswith("file:") else file
        found = _SEGMENT.search(path)
        if found:
            writer = (found["run"], found["name"])
            self._waiting.setdefault(writer, {})[int(found["number"])] = path

    def _check(self, writer: tuple[str, str]) -> None:
        """Give kernels the segments that are next; one that came early waits."""
        waiting = self._waiting[writer]
        check = self._checks.setdefault(writer, Check(writer[0], LOCAL))
        number = self._next.get(writer, 1)
        while number in waiting:
            segment = read(waiting.pop(number))
            number += 1
            self.state.segments += 1
            self.state.rows += segment.rows
            gaps = len(check.known.gaps)
            found = check.take(segment).to_pylist()
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
    rows = spark.readStream.schema(ROWS).option("pathGlobFilter", "*.parquet")
    stream = rows.option("maxFilesPerTrigger", MAX_FILES).parquet(folder)
    named = stream.withColumn("file", sf.col("_metadata.file_path"))
    when: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{interval} seconds"}
    with TemporaryDirectory(prefix="gossamer-watch-") as kept:
        job = (
            named.writeStream.foreachBatch(follower)
            .option("checkpointLocation", kept)
            .trigger(**when)
            .start()
        )
        try:
            job.awaitTermination()
        finally:
            job.stop()
