"""Total order: all subscriptions get parcels in the one order that the sequencer decided.

It is held against what the sequencer noted (``ordered`` rows), not against some node that was first. No place
is given twice, no parcel has two places in one order, nothing is delivered without a place, and places only
grow. Where a channel began a new order, each is looked at by itself.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import PARCEL, SEAT, deliveries, of, promised, violations

PROMISE = "total-order"


def query(rows: DataFrame) -> DataFrame:
    """The stamps agree with each other, and deliveries with the stamps."""
    stamps = noted(rows, trace.ORDERED, PROMISE)
    given = deliveries(rows, PROMISE)
    got = given.groupBy(*SEAT, "source", "source_incarnation", "sequence").agg(
        sf.min("position").alias("position"),
        sf.min("first").alias("first"),
        sf.min_by("at", "position").alias("at"),
    )
    unplaced = got.join(stamps, [*PARCEL], "left_anti")
    before = Window.partitionBy(*SEAT, "order").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    places = stamps.select(*PARCEL, "order", "place").distinct()
    placed = got.join(places, [*PARCEL]).withColumn("highest", sf.max("place").over(before))
    wrong = placed.where(sf.col("place") < sf.col("highest"))
    expected = sf.format_string("place %d after place %d", "highest", "place")
    return (
        contradictions(stamps, PROMISE)
        .unionByName(violations(unplaced, PROMISE, "first", sf.lit("a place given by the sequencer")))
        .unionByName(violations(wrong, PROMISE, "first", expected))
    )


def noted(rows: DataFrame, action: str, promise: str) -> DataFrame:
    """Places that templates noted, on channels that promise something."""
    notes = of(rows, trace.PARCEL, action).withColumnsRenamed({"detail": "order", "value": "place"})
    return notes.join(sf.broadcast(promised(rows, promise)), ["run", "channel"], "left_semi")


def contradictions(notes: DataFrame, promise: str) -> DataFrame:
    """Places given to two parcels, and parcels with two places in one order: the later note of each."""
    parcel = sf.struct("source", "source_incarnation", "sequence")
    note = sf.struct("at", "node", "incarnation", "position", "peer", "place", parcel.alias("parcel"))
    columns = ["run", "channel", "last.*", "last.parcel.*"]
    shared = (
        notes.groupBy("run", "channel", "order", "place")
        .agg(sf.min(parcel).alias("one"), sf.max(parcel).alias("other"), sf.max(note).alias("last"))
        .where(sf.col("one") != sf.col("other"))
        .select(*columns)
    )
    moved = (
        notes.groupBy(*PARCEL, "order")
        .agg(sf.min("place").alias("one"), sf.max("place").alias("other"), sf.max(note).alias("last"))
        .where(sf.col("one") != sf.col("other"))
        .select(*columns)
    )
    one_parcel = sf.format_string("one parcel at place %d", "place")
    return violations(shared, promise, "sequence", one_parcel).unionByName(
        violations(moved, promise, "sequence", sf.lit("one place for this parcel"))
    )


AUDIT = Audit(PROMISE, query)
