"""Durable replay: what a log has on disk reaches every subscription that reads past it, in the log's order.

Held against what keepers of logs noted (``stored`` rows). No place of a log holds two parcels, which is what
forgetting something acknowledged looks like; and between the lowest and the highest place that a subscription
gets, it gets every place, each after those before it. One with criteria is asked for order only; what expired
or what a subscription was told of as missing is not asked for.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import PARCEL, SEAT, choosy, deliveries, of, violations
from gossamer.pipeline.audit.total_order import contradictions, noted

PROMISE = "durable"


def query(rows: DataFrame) -> DataFrame:
    """Logs contradict neither themselves nor what was delivered."""
    stored = noted(rows, trace.STORED, PROMISE)
    one_log = stored.withColumn("order", sf.concat_ws(" ", "node", "order"))
    logs = stored.select(*PARCEL, "order", "place").distinct()
    got = (
        deliveries(rows, PROMISE)
        .groupBy(*SEAT, "source", "source_incarnation", "sequence")
        .agg(
            sf.min("position").alias("position"),
            sf.min("first").alias("first"),
            sf.min_by("at", "position").alias("at"),
        )
    )
    placed = got.join(logs, [*PARCEL])
    before = Window.partitionBy(*SEAT, "order").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    back = placed.withColumn("highest", sf.max("place").over(before)).where(
        sf.col("place") < sf.col("highest")
    )
    return (
        contradictions(one_log, PROMISE)
        .unionByName(
            violations(
                back, PROMISE, "first", sf.format_string("place %d after place %d", "highest", "place")
            )
        )
        .unionByName(_skipped(rows, logs, placed))
    )


def _skipped(rows: DataFrame, logs: DataFrame, placed: DataFrame) -> DataFrame:
    """Places of a log inside what a subscription got that never came to it."""
    ranges = (
        placed.groupBy(*SEAT, "order")
        .agg(sf.min("place").alias("low"), sf.max("place").alias("high"), sf.max("at").alias("at"))
        .join(choosy(rows), [*SEAT], "left_anti")
    )
    due = ranges.join(logs, ["run", "channel", "order"]).where(
        sf.col("place").between(sf.col("low"), sf.col("high"))
    )
    missing = due.join(placed, [*SEAT, "order", "place"], "left_anti")
    node = ["run", "node", "incarnation", "channel", "source"]
    told = of(rows, trace.MEMBER, trace.MISSED).select(*node).distinct()
    ended = of(rows, trace.PARCEL, trace.DROPPED).where(sf.col("detail") == trace.EXPIRED)
    expired = ended.select(*PARCEL, "node", "incarnation").distinct()
    missing = missing.join(told, node, "left_anti").join(
        expired, [*PARCEL, "node", "incarnation"], "left_anti"
    )
    blank = of(rows, trace.PARCEL, trace.PUBLISHED).where(sf.col("count") == 0).select(*PARCEL)
    missing = missing.join(blank, [*PARCEL], "left_anti")
    return violations(missing, PROMISE, "sequence", sf.format_string("the parcel at place %d too", "place"))


AUDIT = Audit(PROMISE, query)
