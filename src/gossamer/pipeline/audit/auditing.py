"""Holds runs against what their channels promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from gossamer.core import trace
from gossamer.pipeline.audit.catalogue import AUDITS, LOCAL
from gossamer.pipeline.audit.kernels import (
    BESIDES,
    DAMAGED,
    ENDED,
    EVENTS,
    GAP,
    OPENED,
    TASK_ROWS,
    WHOLE,
    by_kernels,
    by_runs,
)
from gossamer.pipeline.audit.relations import ask, of, stretched, union
from gossamer.pipeline.reading import Fault, Survey, rows
from gossamer.pipeline.schema import VIOLATION

MAX_LISTED = 1000
"""Violations that an outcome lists; all are counted."""
SMALL = 200_000
"""Rows up to which one task is faster than many."""
FEW = 200_000
"""Rows up to which whole runs are looked at by kernels: a process has them all as objects."""


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
    few = not plain and traces.rows <= FEW
    if plain:
        text = union([*(AUDITS[name].query for name in LOCAL), *_besides()])
        said, listed, counted = _collected(ask(_held(rows(spark, traces), traces, whole=False), text), traces)
    else:
        looked = by_runs(spark, traces) if few else by_kernels(spark, traces, LOCAL, WHOLE)
        said, listed, counted = _collected(looked, traces)
    faults = (*traces.faults, *_faults(said))
    promised = _promised(said)
    whole = sorted(set(traces.runs) - {fault.run for fault in faults})
    others = [name for name, each in AUDITS.items() if not each.local and name in {p for _, _, p in promised}]
    if whole and others and not few:
        ends = sorted({row.at for row in said if row.promise == ENDED})
        asked = _asked_about(rows(spark, traces), ends).where(sf.col("run").isin(whole))
        complete = _held(asked, traces, whole=True)
        _, more, also = _collected(ask(complete, union(AUDITS[name].query for name in others)), traces)
        listed, counted = [*listed, *more], {**counted, **also}
    verdicts = [
        Verdict(
            run,
            channel,
            promise,
            promise in LOCAL or (promise in AUDITS and run in whole),
            counted.get((run, channel, promise), 0),
        )
        for run, channel, promise in sorted({*promised, *counted})
    ]
    violations = sorted(listed, key=lambda each: (each.run, each.at, *msgspec.structs.astuple(each)))
    events = sum(row.number for row in said if row.promise == EVENTS)
    return Outcome(
        complete=not faults,
        checked=Checked(traces.rows, events),
        violations=tuple(violations[:MAX_LISTED]),
        total=sum(counted.values()),
        verdicts=tuple(verdicts),
        faults=faults,
    )


def _collected(
    found: DataFrame, traces: Survey
) -> tuple[list[Row], list[Violation], dict[tuple[str, str, str], int]]:
    """What was found beside violations, the first violations, and how many of each kind: in one job."""
    small = traces.rows <= SMALL
    if small:
        # each part of a union would be a task, and each task read the plan of all
        rows = (found.coalesce(1) if traces.rows <= TASK_ROWS else found).collect()
    else:
        kind = "partition by run, channel, promise"
        place = f"row_number() over ({kind} order by at, node, number) as place"
        kept = f"""select * from (select *, {place}, count(*) over ({kind}) as many from {{rows}})
            where place <= {MAX_LISTED} or startswith(promise, '{BESIDES}')"""
        rows = ask(found, kept).collect()
    said = [row for row in rows if row.promise.startswith(BESIDES)]
    broken = [row for row in rows if not row.promise.startswith(BESIDES)]
    kinds = [(row.run, row.channel, row.promise) for row in broken]
    counts = Counter(kinds) if small else dict(zip(kinds, (row.many for row in broken), strict=True))
    return said, [Violation(*row[: len(VIOLATION)]) for row in broken], counts


def _held(rows: DataFrame, traces: Survey, whole: bool) -> DataFrame:
    """Rows that are read once for many queries, if they are few: then no row has to move, either."""
    if traces.rows > SMALL:
        return stretched(rows, whole)
    return stretched(rows.coalesce(1), whole).localCheckpoint()


def _asked_about(rows: DataFrame, ends: Sequence[int]) -> DataFrame:
    """Rows without control messages: most of a trace, of which queries want only when a run ended."""
    return rows.where((sf.col("kind") != trace.CONTROL) | sf.col("at").isin(*ends))


def _besides() -> list[str]:
    """Events, ends, promises and missing rows, in the form of violations."""
    published, opened = of(trace.PARCEL, trace.PUBLISHED), of(trace.CHANNEL, trace.OPENED)
    life = "partition by run, node, incarnation order by position"
    jumps = f"(select *, lag(position, 1, 0L) over ({life}) + 1 as wanted from {{rows}})"
    gap = _said(GAP, jumps, node="node", number="position", expected="format_string('row %d', wanted)")
    return [
        f"{_said(EVENTS, number='sum(count)')} where {published} group by run",
        f"{_said(ENDED, at='max(at)')} group by run",
        f"{_said(OPENED, channel='channel', expected='detail', distinct=True)} where {opened}",
        f"{gap} where position != wanted",
    ]


def _said(what: str, found: str = "{rows}", distinct: bool = False, **values: str) -> str:
    columns = [
        f"{values.get(field.name, repr('') if field.type == pa.string() else '0L')} as {field.name}"
        for field in VIOLATION
        if field.name not in ("run", "promise")
    ]
    return f"select {'distinct ' * distinct}run, '{what}' as promise, {', '.join(columns)} from {found}"


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
