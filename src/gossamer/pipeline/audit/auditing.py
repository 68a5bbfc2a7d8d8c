"""Holds runs against what their channels promised."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import msgspec
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as sf

from gossamer.core import trace
from gossamer.pipeline.audit.catalogue import AUDITS
from gossamer.pipeline.audit.kernels import DAMAGED, EVENTS, GAP, OPENED, by_kernels
from gossamer.pipeline.audit.relations import of, stretched
from gossamer.pipeline.reading import Fault, Survey, rows
from gossamer.pipeline.schema import VIOLATIONS

MAX_LISTED = 1000
"""Violations that an outcome lists; all are counted."""
SMALL = 200_000
"""Rows up to which one task is faster than many."""
_BESIDES = (EVENTS, OPENED, GAP, DAMAGED)


class Violation(msgspec.Struct, frozen=True):
    """A promise that was broken: which, where, by what, when, and what should have been."""

    run: str
    promise: str
    channel: str
    node: str
    incarnation: int
    subscription: str
    source: str
    source_incarnation: int
    number: int
    at: int
    expected: str


class Checked(msgspec.Struct, frozen=True):
    """What was looked at."""

    rows: int
    events: int


class Verdict(msgspec.Struct, frozen=True):
    """One promise of one channel of one run. ``judged`` is False where that cannot be told."""

    run: str
    channel: str
    promise: str
    judged: bool
    violations: int


class Outcome(msgspec.Struct, frozen=True):
    """What an audit found.

    complete
        Whether the traces are whole; if not, a promise without violations may still have been broken.
    violations
        The first MAX_LISTED, by run and instant; ``total`` counts all.
    faults
        What is missing or damaged.
    """

    complete: bool
    checked: Checked
    violations: tuple[Violation, ...]
    total: int
    verdicts: tuple[Verdict, ...]
    faults: tuple[Fault, ...]

    @property
    def code(self) -> int:
        """1 if a promise was broken, else 2 if that cannot be known, else 0."""
        if self.total:
            return 1
        return 0 if self.complete and all(verdict.judged for verdict in self.verdicts) else 2

    @property
    def word(self) -> str:
        return ("passed", "violated", "incomplete")[self.code]


def audit(spark: SparkSession, traces: Survey, *, plain: bool = False) -> Outcome:
    """Check every promise of every channel of every run.

    plain
        Use the queries also where there are kernels; the outcome is the same.
    """
    local = [name for name, each in AUDITS.items() if each.local]
    everything = rows(spark, traces)
    found = _plainly(everything, local) if plain else by_kernels(spark, traces, local)
    said, listed, counted = _collected(found)
    faults = (*traces.faults, *_faults(said))
    promised = _promised(said)
    whole = sorted(set(traces.runs) - {fault.run for fault in faults})
    others = [name for name, each in AUDITS.items() if not each.local and name in {p for _, _, p in promised}]
    if whole and others:
        complete = stretched(everything.where(sf.col("run").isin(whole)), whole=True)
        if traces.rows <= SMALL:  # one task is done before many have begun, and no row has to move
            complete = complete.coalesce(1).localCheckpoint()
        _, more, also = _collected(_union([AUDITS[name].query(complete) for name in others]))
        listed, counted = [*listed, *more], {**counted, **also}
    verdicts = [
        Verdict(
            run,
            channel,
            promise,
            promise in local or (promise in AUDITS and run in whole),
            counted.get((run, channel, promise), 0),
        )
        for run, channel, promise in sorted({*promised, *counted})
    ]
    violations = sorted((Violation(**row.asDict()) for row in listed), key=lambda each: (each.run, each.at))
    events = sum(row.number for row in said if row.promise == EVENTS)
    return Outcome(
        complete=not faults,
        checked=Checked(traces.rows, events),
        violations=tuple(violations[:MAX_LISTED]),
        total=sum(counted.values()),
        verdicts=tuple(verdicts),
        faults=faults,
    )


def _collected(found: DataFrame) -> tuple[list[Row], list[Row], dict[tuple[str, str, str], int]]:
    """What is not a violation, the first violations, and how many there are of each kind."""
    found = found.persist()
    try:
        besides = sf.col("promise").isin(*_BESIDES)
        broken = found.where(~besides)
        counts = {
            (row.run, row.channel, row.promise): int(row.many)
            for row in broken.groupBy("run", "channel", "promise").agg(sf.count("*").alias("many")).collect()
        }
        first = broken.orderBy("run", "at", "promise", "node", "number").limit(MAX_LISTED)
        return found.where(besides).collect(), first.collect() if counts else [], counts
    finally:
        found.unpersist()


def _plainly(everything: DataFrame, promises: Sequence[str]) -> DataFrame:
    """What kernels would find, by queries."""
    torn = stretched(everything, whole=False).persist()
    return _union([*(AUDITS[name].query(torn) for name in promises), *_besides(torn)])


def _besides(torn: DataFrame) -> list[DataFrame]:
    """Events, promises and missing rows, in the form of violations."""
    published = of(torn, trace.PARCEL, trace.PUBLISHED).groupBy("run").agg(sf.sum("count").alias("number"))
    opened = of(torn, trace.CHANNEL, trace.OPENED).select("run", "channel", "detail").distinct()
    life = Window.partitionBy("run", "node", "incarnation").orderBy("position")
    before = torn.withColumn("wanted", sf.lag("position", 1, 0).over(life) + 1)
    gaps = before.where(sf.col("position") != sf.col("wanted"))
    expected = sf.format_string("row %d", "wanted")
    return [
        _said(published, EVENTS, number=sf.col("number")),
        _said(opened, OPENED, channel=sf.col("channel"), expected=sf.col("detail")),
        _said(gaps, GAP, node=sf.col("node"), number=sf.col("position"), expected=expected),
    ]


def _said(found: DataFrame, what: str, **values: Column) -> DataFrame:
    columns = []
    for name, kind in (each.split(" ") for each in VIOLATIONS.split(", ")):
        empty = sf.lit("") if kind == "string" else sf.lit(0)
        value = sf.lit(what) if name == "promise" else values.get(name, empty)
        columns.append((sf.col("run") if name == "run" else value).cast(kind).alias(name))
    return found.select(*columns)


def _union(found: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, found)


def _promised(said: Sequence[Row]) -> set[tuple[str, str, str]]:
    """Run, channel and promise; what is always checked counts as promised."""
    always = [name for name, each in AUDITS.items() if each.always]
    opened = [(row.run, row.channel, row.expected.split(" ")[1:]) for row in said if row.promise == OPENED]
    return {(run, channel, promise) for run, channel, words in opened for promise in [*words, *always]}


def _faults(said: Sequence[Row]) -> list[Fault]:
    """What is missing or damaged that only reading all rows shows."""
    faults = []
    for row in said:
        if row.promise == DAMAGED:
            faults.append(Fault(row.run, row.node, row.subscription, row.expected, True))
        elif row.promise == GAP:
            reason = f"rows of {row.node!r} are missing: {row.expected} was expected, {row.number} came"
            faults.append(Fault(row.run, row.node, "", reason, False))
    return faults
