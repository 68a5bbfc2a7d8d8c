"""Causal: no subscription gets an event before one that it depends on.

A parcel depends on those that were published or delivered earlier where it was published. Only parcels that a
subscription gets at all are compared: what never came did not come too late.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import PARCEL, SEAT, deliveries, of, promised, violations

PROMISE = "causal"


def query(rows: DataFrame) -> DataFrame:
    """At the publisher's: what had come before. At the subscriber's: whether it comes before there too."""
    given = deliveries(rows, PROMISE)
    published = of(rows, trace.PARCEL, trace.PUBLISHED).join(
        sf.broadcast(promised(rows, PROMISE)), ["run", "channel"], "left_semi"
    )
    publishers = published.select("run", "channel", "node", "incarnation").distinct()
    seen = given.join(sf.broadcast(publishers), ["run", "channel", "node", "incarnation"], "left_semi")
    past = (
        seen.withColumn("own", sf.lit(False))
        .unionByName(published.withColumn("own", sf.lit(True)))
        .groupBy(*PARCEL, sf.col("node").alias("publisher"), sf.col("incarnation").alias("life"))
        .agg(sf.min("position").alias("then"), sf.max("own").alias("own"))
    )
    got = given.groupBy(*SEAT, "source", "source_incarnation", "sequence").agg(
        sf.min("position").alias("position"),
        sf.min("first").alias("first"),
        sf.min_by("at", "position").alias("at"),
    )
    earlier = (
        Window.partitionBy(*SEAT, "publisher", "life")
        .orderBy("then")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    )
    both = past.join(got, [*PARCEL])
    latest = sf.max_by(sf.struct("position", "source", "first"), "position").over(earlier)
    wrong = both.withColumn("latest", latest).where(
        sf.col("own") & (sf.col("latest.position") > sf.col("position"))
    )
    expected = sf.format_string("number %d of %s first", sf.col("latest.first"), sf.col("latest.source"))
    return violations(wrong, PROMISE, "first", expected)


AUDIT = Audit(PROMISE, query)
