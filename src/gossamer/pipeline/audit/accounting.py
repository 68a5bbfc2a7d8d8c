"""Accounting: sent = received + dropped + in flight, for every parcel on every link.

Checked on every channel. Nothing comes from nowhere: what a node received its peer had sent, and what is
delivered was published. And nothing vanishes: what was sent is received or dropped, unless it is still on its
way when the run ends, which is allowed in the last seconds (IN_FLIGHT). On a real network the loss of a
parcel is the row that is missing (nobody can write it), so there only the first half is asked. Copies that a
network makes are no violation.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import PARCEL, of, violations

PROMISE = "accounting"
IN_FLIGHT = 10 * 10**9
"""Nanoseconds before the end of a run in which what was sent may still be on its way."""
_LINK = [*PARCEL, "first", "kind", "from", "to"]
_ROW = ["at", "node", "incarnation", "position", "peer"]


def query(rows: DataFrame) -> DataFrame:
    """Both sides of every link say the same, and so do both ends of every way."""
    return _links(rows).unionByName(_ends(rows))


def _links(rows: DataFrame) -> DataFrame:
    """Per parcel and link: whether it was sent, and whether it came to an end."""
    passed = rows.where(
        sf.col("kind").isin(trace.PARCEL, trace.FEEDBACK)
        & sf.col("action").isin(trace.SENT, trace.RECEIVED, trace.DROPPED)
        & (sf.col("peer") != "")
        & ~sf.col("channel").startswith("#")
    )
    onward = sf.struct(sf.col("node").alias("from"), sf.col("peer").alias("to"))
    back = sf.struct(sf.col("peer").alias("from"), sf.col("node").alias("to"))
    ways = (
        sf.when(sf.col("action") == trace.SENT, sf.array(onward))
        .when(sf.col("action") == trace.RECEIVED, sf.array(back))
        .otherwise(sf.array(onward, back))
    )
    row = sf.struct(*_ROW)

    def first(action: str) -> Column:
        return sf.min(sf.when(sf.col("action") == action, row)).alias(action)

    links = (
        passed.withColumn("way", sf.explode(ways))
        .select(*PARCEL, "first", "kind", "way.*", "action", *_ROW)
        .groupBy(*_LINK)
        .agg(first(trace.SENT), first(trace.RECEIVED), first(trace.DROPPED))
    )
    ends = rows.groupBy("run").agg(sf.max("at").alias("ended"))
    settled = (sf.col("sent.at") < sf.col("ended") - IN_FLIGHT) & (sf.col("ended") < trace.WALL_CLOCK)
    wrong = links.join(sf.broadcast(ends), "run").withColumn(
        "expected",
        sf.when(
            sf.col("received").isNotNull() & sf.col("sent").isNull(), sf.format_string("sent by %s", "from")
        ).when(
            sf.coalesce("received", "dropped").isNull() & settled,
            sf.format_string("received by %s, or dropped", "to"),
        ),
    )
    broken = wrong.where(sf.col("expected").isNotNull()).withColumn("row", sf.coalesce("sent", "received"))
    return violations(
        broken.select(*PARCEL, "first", "row.*", "expected"), PROMISE, "first", sf.col("expected")
    )


def _ends(rows: DataFrame) -> DataFrame:
    """Per parcel: whether it was published, if it was delivered."""
    given = of(rows, trace.PARCEL, trace.PUBLISHED, trace.DELIVERED)
    delivered = sf.when(sf.col("action") == trace.DELIVERED, sf.struct(*_ROW, "first"))
    parcels = given.groupBy(*PARCEL).agg(
        sf.max(sf.col("action") == trace.PUBLISHED).alias("published"), sf.min(delivered).alias("row")
    )
    made_up = parcels.where(~sf.col("published")).select(*PARCEL, "row.*")
    return violations(made_up, PROMISE, "first", sf.format_string("published by %s", "source"))


AUDIT = Audit(PROMISE, query, always=True)
