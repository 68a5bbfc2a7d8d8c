"""The tables: each a function from rows of a trace (``reading.rows``) to a DataFrame, and nothing else.

Times are nanoseconds as in the trace, and those between nodes of a live run are as good as their clocks.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
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
    named = rows.where(~sf.col("channel").startswith("#"))
    return relations.ask(named, relations.query(_KEPT, _SEATS, _DUE, _GIVEN, _CARDS))


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
    found = relations.ask(rows, relations.query(_SEATS, "select * from seats"))
    return found.withColumnRenamed("peer", "subscription")


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


# steps in SQL, as those of audits are: of a table with so many, Spark takes longer to understand each anew

_OPENED, _PUBLISHED = relations.of(trace.CHANNEL, trace.OPENED), relations.of(trace.PARCEL, trace.PUBLISHED)
_SENT, _CONTROL = f"action = '{trace.SENT}'", f"kind = '{trace.CONTROL}'"
_CARRIED = relations.of(trace.PARCEL, trace.SENT)

_KEPT = f"""kept as (
    select run, channel, first(split(detail, ' ')[0]) filter (where {_OPENED}) as template,
        sum(if({_PUBLISHED}, count, 0)) as published,
        count_if({_SENT} and {_CONTROL}) as control_messages,
        sum(if({_SENT} and {_CONTROL}, bytes, 0)) as control_bytes,
        count_if({_SENT} and not {_CONTROL}) as data_messages,
        sum(if({_SENT} and not {_CONTROL}, bytes, 0)) as data_bytes,
        count_if({_CARRIED})
            - count(distinct if({_CARRIED}, struct({relations.PARCEL}, node, peer), null)) as repairs
    from {{rows}} group by run, channel having template is not null)"""
"""``kept``: channels that were opened, what was published there and what went over links."""

_SUBSCRIBED, _LEFT = f"action = '{trace.SUBSCRIBED}'", f"action = '{trace.UNSUBSCRIBED}'"
_SEATS = f"""seats as (
    select *, coalesce(`left`, last) as until from (
        select {relations.SEAT}, min(at) filter (where {_SUBSCRIBED}) as since,
            max(at) filter (where {_LEFT}) as `left`, max(detail) filter (where {_SUBSCRIBED}) as criteria
        from {{rows}} where {relations.of(trace.MEMBER, trace.SUBSCRIBED, trace.UNSUBSCRIBED)}
        group by {relations.SEAT}
    ) join (
        select run, node, incarnation, max(at) as last from {{rows}} group by run, node, incarnation
    ) using (run, node, incarnation))"""
"""``seats``: subscriptions, from when to when."""

_DUE = f"""steps as (
    select run, channel, at, 0 as here, count from {{rows}} where {_PUBLISHED}
    union all select run, channel, inline(array(named_struct('at', since, 'here', 1),
        named_struct('at', until + 1, 'here', -1))), 0 from seats where criteria = ''
), due as (
    select run, channel, sum(there * count) as expected from (
        select *, sum(here) over (partition by run, channel order by at, here desc
            rows between unbounded preceding and current row) as there
        from steps)
    group by run, channel)"""
"""``due``: pairs of an event and a subscription without criteria that was there, by running sums over time.

Who subscribes at the very instant of an event is there for it.
"""

_GIVEN = f"""published as (
    select {relations.PARCEL}, at as published_at from {{rows}} where {_PUBLISHED}
), copies as (
    select *, row_number() over
        (partition by {relations.STREAM}, sequence, first, count order by position) > 1 as again
    from {{rows}} where {relations.of(trace.PARCEL, trace.DELIVERED)} and count > 0
), timed as (
    select *, at - published_at as latency from copies left join published using ({relations.PARCEL})
), given as (
    select t.*, criteria = '' and published_at >= since as due,
        abs(latency - lag(latency) over (partition by {relations.STREAM} order by position)) as change
    from timed t left join seats using ({relations.SEAT})
), served as (
    select run, channel, sum(if(again, 0, count)) as delivered, sum(if(again, count, 0)) as duplicates,
        sum(if(due and not again, count, 0)) as in_time, max(latency) as latency_max,
        percentile(latency, array(0.5, 0.9, 0.99), count) as shares, avg(change) as jitter
    from given group by run, channel)"""
"""``served``: pairs of an event and a subscription that there were deliveries for, repetitions, latencies."""

_CARDS = """
    select run, channel, template, published, coalesce(expected, 0) as expected,
        coalesce(delivered, 0) as delivered, coalesce(duplicates, 0) as duplicates,
        shares[0] as latency_p50, shares[1] as latency_p90, shares[2] as latency_p99,
        coalesce(latency_max, 0) as latency_max, jitter,
        control_messages, control_bytes, data_messages, data_bytes, repairs,
        if(expected > 0, coalesce(in_time, 0) / expected, null) as delivery_ratio
    from kept left join due using (run, channel) left join served using (run, channel)"""
