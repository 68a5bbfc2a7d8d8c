"""What several queries ask of the rows of a trace."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from gossamer.core import trace
from gossamer.pipeline.schema import VIOLATION

SEAT = ("run", "node", "incarnation", "channel", "peer")
"""What tells one subscription from another."""
STREAM = (*SEAT, "source", "source_incarnation")
"""What one subscription gets of one life of a source."""
PARCEL = ("run", "channel", "source", "source_incarnation", "sequence")
"""What tells one parcel from another."""


def stretched(rows: DataFrame, whole: bool) -> DataFrame:
    """Rows with a number for each run of them without a hole; whole traces have one such run per life."""
    if whole:
        return rows.withColumn("stretch", sf.lit(0))
    life = Window.partitionBy("run", "node", "incarnation").orderBy("position")
    jump = sf.col("position") != sf.lag("position", 1, 0).over(life) + 1
    return rows.withColumn("jump", sf.when(jump, 1).otherwise(0)).withColumn(
        "stretch", sf.sum("jump").over(life.rowsBetween(Window.unboundedPreceding, 0))
    )


def promised(rows: DataFrame, promise: str) -> DataFrame:
    """Channels of runs that promise something."""
    words = sf.slice(sf.split("detail", " "), 2, 100)
    return (
        rows.where((sf.col("kind") == trace.CHANNEL) & (sf.col("action") == trace.OPENED))
        .where(sf.array_contains(words, promise))
        .select("run", "channel")
        .distinct()
    )


def of(rows: DataFrame, kind: str, *actions: str) -> DataFrame:
    """Rows of a kind with some actions."""
    return rows.where((sf.col("kind") == kind) & sf.col("action").isin(*actions))


def deliveries(rows: DataFrame, promise: str | None = None) -> DataFrame:
    """Rows that deliver events, on channels that promise something or on all."""
    given = of(rows, trace.PARCEL, trace.DELIVERED).where(sf.col("count") > 0)
    if promise is None:
        return given
    return given.join(sf.broadcast(promised(rows, promise)), ["run", "channel"], "left_semi")


def choosy(rows: DataFrame) -> DataFrame:
    """Subscriptions with criteria."""
    subscribed = of(rows, trace.MEMBER, trace.SUBSCRIBED)
    return subscribed.where(sf.col("detail") != "").select(*SEAT).distinct()


def without_excused(wrong: DataFrame, rows: DataFrame) -> DataFrame:
    """Deliveries where numbers from ``wanted`` on are missing, but for those that have a reason.

    ``after`` is the position of the delivery before. Reasons: the subscription has criteria; it was told of a
    gap in between; all that is missing expired there.
    """
    wrong = wrong.join(choosy(rows), [*SEAT], "left_anti")
    place = ["run", "node", "incarnation", "channel", "source"]
    told = of(rows, trace.MEMBER, trace.MISSED).select(*place, sf.col("position").alias("told"))
    between = (sf.col("told") > sf.col("after")) & (sf.col("told") < sf.col("position"))
    same = [sf.col(f"wrong.{name}") == sf.col(f"told.{name}") for name in place]
    wrong = wrong.alias("wrong").join(told.alias("told"), [*same, between], "left_anti")
    ended = of(rows, trace.PARCEL, trace.DROPPED).where(sf.col("detail") == trace.EXPIRED)
    ended = ended.select(
        *place, "source_incarnation", sf.col("first").alias("start"), sf.col("count").alias("many")
    )
    stream = [*STREAM, "position"]
    inside = (sf.col("start") >= sf.col("wanted")) & (sf.col("start") + sf.col("many") <= sf.col("first"))
    expired = (
        wrong.join(ended, [*place, "source_incarnation"])
        .where(inside)
        .groupBy(*stream, "first", "wanted")
        .agg(sf.sum("many").alias("expired"))
        .where(sf.col("expired") == sf.col("first") - sf.col("wanted"))
    )
    return wrong.join(expired, stream, "left_anti")


def violations(wrong: DataFrame, promise: str, number: str, expected: Column) -> DataFrame:
    """Rows that break a promise, in the form that all audits give."""
    return wrong.select(
        "run",
        sf.lit(promise).alias("promise"),
        "channel",
        "node",
        "incarnation",
        sf.col("peer").alias("subscription"),
        "source",
        "source_incarnation",
        sf.col(number).alias("number"),
        "at",
        expected.alias("expected"),
    ).select(*VIOLATION.names)
