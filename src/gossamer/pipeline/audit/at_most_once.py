"""At most once: no subscription gets an event twice.

A violation is a delivery that repeats events; its number is the first of them that had come before.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from gossamer.pipeline.audit.promise import Audit, Found
from gossamer.pipeline.audit.relations import STREAM, deliveries, violations
from gossamer.pipeline.audit.segment import Known, Segment
from gossamer.pipeline.audit.spans import Coverage

PROMISE = "at-most-once"
EXPECTED = "delivered once to this subscription"


def repeated(rows: DataFrame, promise: str) -> DataFrame:
    """Deliveries of events that the same subscription had before."""
    each = deliveries(rows, promise).withColumn(
        "number", sf.explode(sf.sequence(sf.col("first"), sf.col("first") + sf.col("count") - 1))
    )
    before = Window.partitionBy(*STREAM, "number").orderBy("position")
    again = each.withColumn("copy", sf.row_number().over(before)).where(sf.col("copy") > 1)
    by_row = again.groupBy(*STREAM, "position", "at").agg(sf.min("number").alias("number"))
    return violations(by_row, promise, "number", sf.lit(EXPECTED))


def query(rows: DataFrame) -> DataFrame:
    """No number twice in a stream."""
    return repeated(rows, PROMISE)


class AtMostOnce:
    """Remembers which numbers each stream has had."""

    def __init__(self, promise: str = PROMISE) -> None:
        self._promise = promise
        self.coverage = Coverage()

    def take(self, known: Known, segment: Segment) -> list[Found]:
        found: list[Found] = []
        for stream, number, row in self.coverage.take(segment, known.promising(self._promise)):
            found.append(_twice(stream, number, segment.value("at", row)))
        return found

    def end(self, known: Known) -> list[Found]:
        return []


def _twice(stream: tuple[Any, ...], number: int, at: int) -> Found:
    node, incarnation, channel, peer, source, life = stream
    return (channel, node, incarnation, peer, source, life, number, at, EXPECTED)


AUDIT = Audit(PROMISE, query, AtMostOnce)
