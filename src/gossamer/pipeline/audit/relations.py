"""What several queries ask of the rows of a trace, as steps in SQL.

A query is one text, and so are several together, so that Spark analyses them once, and not again with every
step. A step is ``name as (…)`` and may use those before it; ``{rows}`` stands for the rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from gossamer.core import trace

SEAT = "run, node, incarnation, channel, peer"
"""What tells one subscription from another."""
STREAM = f"{SEAT}, source, source_incarnation"
"""What one subscription gets of one life of a source."""
PARCEL = "run, channel, source, source_incarnation, sequence"
"""What tells one parcel from another."""
EARLIER = "rows between unbounded preceding and 1 preceding"
"""Of a window: what came before."""


def query(*steps: str) -> str:
    """What the last step selects; it has no name."""
    *named, last = steps
    return f"with {', '.join(named)} {last}"


def union(queries: Iterable[str]) -> str:
    """What all of them select, which must have the same columns."""
    return " union all ".join(f"select * from ({each})" for each in queries)


def ask(rows: DataFrame, text: str) -> DataFrame:
    """What a query selects of rows."""
    return rows.sparkSession.sql(text, rows=rows)


def stretched(rows: DataFrame, whole: bool) -> DataFrame:
    """Rows with a number for each run of them without a hole; whole traces have one such run per life."""
    if whole:
        return rows.withColumn("stretch", sf.lit(0))
    life = Window.partitionBy("run", "node", "incarnation").orderBy("position")
    jump = sf.col("position") != sf.lag("position", 1, 0).over(life) + 1
    return rows.withColumn("jump", sf.when(jump, 1).otherwise(0)).withColumn(
        "stretch", sf.sum("jump").over(life.rowsBetween(Window.unboundedPreceding, 0))
    )


def of(kind: str, *actions: str) -> str:
    """Where rows are of a kind with some actions."""
    return f"kind = '{kind}' and action in ({', '.join(repr(each) for each in actions)})"


def promises(promise: str) -> str:
    """Selects the channels of runs that promise something."""
    return f"""select distinct run, channel from {{rows}} where {of(trace.CHANNEL, trace.OPENED)}
        and array_contains(slice(split(detail, ' '), 2, 100), '{promise}')"""


def promised(promise: str) -> str:
    """``promised``: channels of runs that promise something."""
    return f"promised as ({promises(promise)})"


def deliveries(promise: str | None = None) -> str:
    """``given``: rows that deliver events, on all channels or on those that promise something."""
    if promise is None:
        return f"given as (select * from {{rows}} where {of(trace.PARCEL, trace.DELIVERED)} and count > 0)"
    return f"""{promised(promise)}, given as (
        select /*+ broadcast(promised) */ r.* from {{rows}} r left semi join promised using (run, channel)
        where {of(trace.PARCEL, trace.DELIVERED)} and count > 0)"""


GOT = f"""got as (
    select {SEAT}, source, source_incarnation, sequence,
        min(position) as position, min(first) as first, min_by(at, position) as at
    from given group by {SEAT}, source, source_incarnation, sequence)"""
"""``got``: parcels of ``given``, each with the row that first delivers some of it to a subscription."""

CHOOSY = f"""choosy as (
    select distinct {SEAT} from {{rows}} where {of(trace.MEMBER, trace.SUBSCRIBED)} and detail != '')"""
"""``choosy``: subscriptions with criteria."""

_PLACE = "run, node, incarnation, channel, source"
EXCUSED = f"""{CHOOSY}, told as (
    select {_PLACE}, position as told from {{rows}} where {of(trace.MEMBER, trace.MISSED)}
), ended as (
    select {_PLACE}, source_incarnation, first as start, count as many from {{rows}}
    where {of(trace.PARCEL, trace.DROPPED)} and detail = '{trace.EXPIRED}'
), expired as (
    select {STREAM}, position from wrong join ended using ({_PLACE}, source_incarnation)
    where start >= wanted and start + many <= first
    group by {STREAM}, position, first, wanted having sum(many) = first - wanted
), unexcused as (
    select w.* from wrong w left anti join choosy using ({SEAT})
    left anti join told t on w.run = t.run and w.node = t.node and w.incarnation = t.incarnation
        and w.channel = t.channel and w.source = t.source and told > after and told < position
    left anti join expired using ({STREAM}, position))"""
"""``unexcused``: deliveries of ``wrong``, where numbers from ``wanted`` on are missing, without a reason.

``after`` is the position of the delivery before. Reasons: the subscription has criteria; it was told of a
gap in between; all that is missing expired there.
"""


def violations(found: str, promise: str, number: str, expected: str) -> str:
    """Rows that break a promise, in the form that all audits give; the last two are SQL."""
    return f"""
        select run, '{promise}' as promise, channel, node, incarnation, peer as subscription, source,
            source_incarnation, {number} as number, at, {expected} as expected from {found}"""
