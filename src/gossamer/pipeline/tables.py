"""The tables: each a function from rows of a trace (``reading.rows``) to a DataFrame, and nothing else.

Times are nanoseconds as in the trace, and those between nodes of a live run are as good as their clocks.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from gossamer.core import trace
from gossamer.pipeline.audit import relations

SECOND = 10**9
MAX_HOPS = 64
"""Steps of a path that journeys follow."""
SEAT, STREAM, PARCEL = (each.split(", ") for each in (relations.SEAT, relations.STREAM, relations.PARCEL))
_EVENTS = [*PARCEL, "first", "count"]


def hops(rows: DataFrame) -> DataFrame:
    """One row per parcel and direction of a link: when it was sent, when it came, how often, what it cost.

    ``outcome`` is received, dropped, or in flight; ``latency`` is from first sending to first arrival.
    """
    moved = rows.where(
        sf.col("kind").isin(trace.PARCEL, trace.FEEDBACK)
        & sf.col("action").isin(trace.SENT, trace.RECEIVED, trace.DROPPED)
        & (sf.col("peer") != "")
    )
    here = sf.struct(sf.col("node").alias("sender"), sf.col("peer").alias("receiver"))
    there = sf.struct(sf.col("peer").alias("sender"), sf.col("node").alias("receiver"))
    way = sf.when(sf.col("action") == trace.RECEIVED, there).otherwise(here)
    by_link = moved.withColumn("way", way).groupBy(*_EVENTS, "kind", "way.sender", "way.receiver")
    sent, received = _when(trace.SENT), _when(trace.RECEIVED)
    found = by_link.agg(
        sf.min(sf.when(sent, sf.col("at"))).alias("sent_at"),
        sf.min(sf.when(received, sf.col("at"))).alias("received_at"),
        sf.count_if(sent).alias("sent"),
        sf.count_if(received).alias("received"),
        sf.count_if(_when(trace.DROPPED)).alias("dropped"),
        sf.max("bytes").alias("bytes"),
    )
    outcome = sf.when(sf.col("received") > 0, "received").when(sf.col("dropped") > 0, "dropped")
    return found.where(sf.col("sent") > 0).withColumns(
        {"latency": sf.col("received_at") - sf.col("sent_at"), "outcome": outcome.otherwise("in flight")}
    )


def journeys(rows: DataFrame) -> DataFrame:
    """One row per event and subscription that it reached: latency, and the path of nodes that it took."""
    arrived = (
        of(rows, trace.PARCEL, trace.RECEIVED)
        .groupBy(*PARCEL, "node")
        .agg(sf.min_by("peer", sf.struct("incarnation", "position")).alias("by"))
        .groupBy(*PARCEL)
        .agg(sf.map_from_entries(sf.collect_list(sf.struct("node", "by"))).alias("parents"))
    )
    given = timed(rows).join(arrived, [*PARCEL], "left")
    return given.select(
        *PARCEL,
        sf.explode(sf.sequence(sf.col("first"), sf.col("first") + sf.col("count") - 1)).alias("number"),
        "node",
        "incarnation",
        sf.col("peer").alias("subscription"),
        "published_at",
        sf.col("at").alias("delivered_at"),
        "latency",
        _path().alias("path"),
    ).withColumn("hops", sf.size("path") - 1)


def scorecard(rows: DataFrame) -> DataFrame:
    """One row per run and channel: how well it served, and what that cost.

    ``expected`` counts pairs of an event and a subscription without criteria that was there when it was
    published, and ``delivery_ratio`` says which part of them was delivered. ``jitter`` is the mean
    change of latency from one delivery of a stream to its next. ``repairs`` are sendings of a parcel over a
    link beyond the first.
    """
    keys = ["run", "channel"]
    named = rows.where(~sf.col("channel").startswith("#"))
    opened = of(named, trace.CHANNEL, trace.OPENED).groupBy(*keys)
    parts = [
        opened.agg(sf.first(sf.split("detail", " ")[0]).alias("template")),
        of(named, trace.PARCEL, trace.PUBLISHED).groupBy(*keys).agg(sf.sum("count").alias("published")),
        _due(named),
        _given(named),
        _latencies(named),
        _traffic(named),
    ]
    cards = parts[0]
    for part in parts[1:]:
        cards = cards.join(part, keys, "left")
    numbers = [name for name, kind in cards.dtypes if kind == "bigint"]
    ratio = sf.when(sf.col("expected") > 0, sf.col("in_time") / sf.col("expected"))
    return cards.fillna(0, numbers).withColumn("delivery_ratio", ratio).drop("in_time")


def node_load(rows: DataFrame, bucket: float | Column = 1.0) -> DataFrame:
    """Per run, node and bucket of seconds: messages and bytes in and out, events delivered, items dropped."""
    sent, received = _when(trace.SENT), _when(trace.RECEIVED)
    return rows.groupBy("run", "node", _bucket(bucket)).agg(
        sf.count_if(sent).alias("sent"),
        sf.count_if(received).alias("received"),
        sum_of(sent, "bytes").alias("bytes_sent"),
        sum_of(received, "bytes").alias("bytes_received"),
        sum_of(_when(trace.DELIVERED), "count").alias("delivered"),
        sf.count_if(_when(trace.DROPPED)).alias("dropped"),
    )


def link_utilisation(rows: DataFrame, bucket: float | Column = 1.0) -> DataFrame:
    """Per run, link and bucket of seconds: messages and bytes in both directions; ``a`` is the lower name."""
    sent = rows.where(_when(trace.SENT))
    onward = sf.col("node") < sf.col("peer")
    return sent.groupBy(
        "run", sf.least("node", "peer").alias("a"), sf.greatest("node", "peer").alias("b"), _bucket(bucket)
    ).agg(
        sf.count_if(onward).alias("messages_ab"),
        sf.count_if(~onward).alias("messages_ba"),
        sum_of(onward, "bytes").alias("bytes_ab"),
        sum_of(~onward, "bytes").alias("bytes_ba"),
    )


def membership(rows: DataFrame) -> DataFrame:
    """One row per subscription: from when to when it was there, and its criteria.

    Who never unsubscribed was there until the last row of that life of its node.
    """
    lives = rows.groupBy("run", "node", "incarnation").agg(sf.max("at").alias("last"))
    changes = of(rows, trace.MEMBER, trace.SUBSCRIBED, trace.UNSUBSCRIBED)
    came, left = _when(trace.SUBSCRIBED), _when(trace.UNSUBSCRIBED)
    seats = changes.groupBy(*SEAT).agg(
        sf.min(sf.when(came, sf.col("at"))).alias("since"),
        sf.max(sf.when(left, sf.col("at"))).alias("left"),
        sf.max(sf.when(came, sf.col("detail"))).alias("criteria"),
    )
    found = seats.join(lives, ["run", "node", "incarnation"]).withColumn("until", sf.coalesce("left", "last"))
    return found.drop("last").withColumnRenamed("peer", "subscription")


def compare(rows: DataFrame, run_a: str, run_b: str) -> DataFrame:
    """Two scorecards side by side: one row per channel and measure; ``change`` is b to a, less one."""
    cards = scorecard(rows.where(sf.col("run").isin(run_a, run_b)))
    measures = [name for name, kind in cards.dtypes if kind in ("bigint", "double")]
    pairs = sf.create_map(*(x for name in measures for x in (sf.lit(name), sf.col(name).cast("double"))))
    long = cards.select("run", "channel", sf.explode(pairs).alias("measure", "value"))
    both = long.groupBy("channel", "measure").agg(
        sf.max(sf.when(sf.col("run") == run_a, sf.col("value"))).alias("a"),
        sf.max(sf.when(sf.col("run") == run_b, sf.col("value"))).alias("b"),
    )
    return both.withColumn("change", sf.when(sf.col("a") != 0, sf.col("b") / sf.col("a") - 1))


def timed(rows: DataFrame) -> DataFrame:
    """Deliveries with the instant of their publication."""
    published = of(rows, trace.PARCEL, trace.PUBLISHED).select(*PARCEL, sf.col("at").alias("published_at"))
    given = deliveries(rows).join(published, [*PARCEL], "left")
    return given.withColumn("latency", sf.col("at") - sf.col("published_at"))


def of(rows: DataFrame, kind: str, *actions: str) -> DataFrame:
    """Rows of a kind with some actions."""
    return rows.where(relations.of(kind, *actions))


def deliveries(rows: DataFrame) -> DataFrame:
    """Rows that deliver events."""
    return of(rows, trace.PARCEL, trace.DELIVERED).where("count > 0")


def sum_of(where: Column, column: str) -> Column:
    """The sum of a column over the rows where something holds."""
    return sf.sum(sf.when(where, sf.col(column)).otherwise(0))


# inside


def _when(action: str) -> Column:
    return sf.col("action") == action


def _bucket(seconds: float | Column) -> Column:
    length = seconds if isinstance(seconds, Column) else sf.lit(float(seconds))
    size = sf.round(length * SECOND).cast("bigint")
    return (sf.floor(sf.col("at") / size) * size).cast("bigint").alias("since")


def _path() -> Column:
    """From the source to the node, by who each had the parcel from first."""
    begin = sf.array(sf.col("node"))

    def step(path: Column, _: Column) -> Column:
        by = sf.col("parents")[path[0]]
        return sf.when(
            by.isNotNull() & ~sf.array_contains(path, by), sf.concat(sf.array(by), path)
        ).otherwise(path)

    return sf.aggregate(sf.sequence(sf.lit(1), sf.lit(MAX_HOPS)), begin, step)


def _due(rows: DataFrame) -> DataFrame:
    """Pairs of an event and a subscription without criteria that was there, by running sums over time."""
    keys = ["run", "channel"]
    seats = membership(rows).where(sf.col("criteria") == "")
    published = of(rows, trace.PARCEL, trace.PUBLISHED).select(*keys, "at", sf.col("count").alias("events"))
    nothing = sf.lit(0).cast("bigint").alias("events")
    here = sf.lit(0).alias("here")
    steps = (
        published.select(*keys, "at", "events", here)
        .unionByName(seats.select(*keys, sf.col("since").alias("at"), nothing, sf.lit(1).alias("here")))
        .unionByName(
            seats.select(*keys, (sf.col("until") + 1).alias("at"), nothing, sf.lit(-1).alias("here"))
        )
    )
    # who subscribes at the very instant of an event is there for it
    in_time = Window.partitionBy(*keys).orderBy("at", sf.desc("here"))
    there = sf.sum("here").over(in_time.rowsBetween(Window.unboundedPreceding, 0))
    pairs = steps.withColumn("due", there * sf.col("events"))
    return pairs.groupBy(*keys).agg(sf.sum("due").alias("expected"))


def _given(rows: DataFrame) -> DataFrame:
    """Pairs of an event and a subscription that there were deliveries for, and repetitions."""
    once = (
        deliveries(rows)
        .groupBy(*STREAM, "sequence", "first", "count")
        .agg(sf.count("*").alias("copies"), sf.min("at").alias("at"))
    )
    seats = membership(rows).withColumnRenamed("subscription", "peer").select(*SEAT, "since", "criteria")
    published = of(rows, trace.PARCEL, trace.PUBLISHED).select(*PARCEL, sf.col("at").alias("published_at"))
    known = once.join(seats, [*SEAT], "left").join(published, [*PARCEL], "left")
    due = (sf.col("criteria") == "") & (sf.col("published_at") >= sf.col("since"))
    return known.groupBy("run", "channel").agg(
        sf.sum("count").alias("delivered"),
        sf.sum((sf.col("copies") - 1) * sf.col("count")).alias("duplicates"),
        sum_of(due, "count").alias("in_time"),
    )


def _latencies(rows: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*STREAM).orderBy("position")
    given = timed(rows).withColumn("change", sf.abs(sf.col("latency") - sf.lag("latency").over(in_order)))
    shares = sf.percentile("latency", [0.5, 0.9, 0.99], sf.col("count"))
    found = given.groupBy("run", "channel").agg(
        shares.alias("shares"), sf.max("latency").alias("latency_max"), sf.avg("change").alias("jitter")
    )
    names = ("latency_p50", "latency_p90", "latency_p99")
    return found.select(
        "run",
        "channel",
        *(sf.col("shares")[index].alias(name) for index, name in enumerate(names)),
        "latency_max",
        "jitter",
    )


def _traffic(rows: DataFrame) -> DataFrame:
    """What went over links, and how much of it was said before."""
    control = sf.col("kind") == trace.CONTROL
    sent = rows.where(_when(trace.SENT)).groupBy("run", "channel")
    repeated = (
        of(rows, trace.PARCEL, trace.SENT)
        .groupBy(*PARCEL, "node", "peer")
        .agg((sf.count("*") - 1).alias("again"))
        .groupBy("run", "channel")
        .agg(sf.sum("again").alias("repairs"))
    )
    costs = sent.agg(
        sf.count_if(control).alias("control_messages"),
        sum_of(control, "bytes").alias("control_bytes"),
        sf.count_if(~control).alias("data_messages"),
        sum_of(~control, "bytes").alias("data_bytes"),
    )
    return costs.join(repeated, ["run", "channel"], "left")
