"""From a table of subscriptions to groups, their rings and their trees.

Who subscribes to the same and lives in the same region is one group. Its members have slots in the order in
which they came. The first m = log2(publishers) are the ring that publishers know; behind it every ring is
twice as large as the one before, and place p has the children 2p and 2p + 1 in the next. So nobody forwards
to more than two, and a group of n is about log2(n / m) rings deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from gossamer.analysis.reach import entry_points

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BY = ("event", "region")
"""What makes a group, if nothing else is said."""


def ring_size(publishers: int) -> int:
    """How many subscribers the publishers of a group know: m = log2(n), rounded up, at least 1."""
    return entry_points(max(1, publishers))


def slots(subscriptions: DataFrame, by: Sequence[str] = BY) -> DataFrame:
    """``slot`` and ``node`` in each group, in the order of ``joined`` if there is one, then by name.

    Who subscribed twice has one slot, the first.
    """
    joined = f.col("joined") if "joined" in subscriptions.columns else f.lit(0)
    first = subscriptions.groupBy(*by, "node").agg(f.min(joined).alias("joined"))
    slot = f.row_number().over(Window.partitionBy(*by).orderBy("joined", "node")) - 1
    return first.select(*by, slot.cast("bigint").alias("slot"), "node")


def rings(subscriptions: DataFrame, publishers: DataFrame, by: Sequence[str] = BY) -> DataFrame:
    """The place of every member of every group.

    ring, place
        0 is the ring that publishers know; places begin with 0 in each ring.
    parent
        Who forwards to it; null in ring 0.
    ready
        Whether the group has more members than the ring needs, so that publishers may be told.

    A group without publishers has a ring of one.
    """
    counts = publishers.select(*by, "node").distinct().groupBy(*by).count()
    sizes = f.when(f.col("count") > 1, f.ceil(f.log2("count"))).otherwise(1).cast("bigint")
    placed = slots(subscriptions, by).join(counts, list(by), "left").withColumn("m", sizes)
    ring = f.floor(f.log2(f.col("slot") / f.col("m") + 1)).cast("bigint")
    # logarithms are not exact: put right what fell on the wrong side of a border
    begins = f.expr("m * (shiftleft(1L, int(ring)) - 1)")
    placed = placed.withColumn("ring", ring)
    placed = placed.withColumn(
        "ring", f.when(f.col("slot") < begins, f.col("ring") - 1).otherwise(f.col("ring"))
    )
    next_begins = f.expr("m * (shiftleft(1L, int(ring) + 1) - 1)")
    placed = placed.withColumn(
        "ring", f.when(f.col("slot") >= next_begins, f.col("ring") + 1).otherwise(f.col("ring"))
    )
    placed = placed.withColumn("place", f.col("slot") - begins)
    above = f.expr("m * (shiftleft(1L, int(ring) - 1) - 1) + shiftright(place, 1)")
    placed = placed.withColumn("above", f.when(f.col("ring") > 0, above))
    parents = placed.select(*by, f.col("slot").alias("above"), f.col("node").alias("parent"))
    members = f.count("*").over(Window.partitionBy(*by))
    return (
        placed.withColumn("ready", members > f.col("m"))
        .join(parents, [*by, "above"], "left")
        .select(*by, "slot", "node", "ring", "place", "parent", "ready")
    )
