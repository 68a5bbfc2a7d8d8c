"""Feedback is one to one: an answer reaches the source of the event that it answers, once, and nobody else.

Checked on every channel. An answer that never arrives is a loss, not a violation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import of, query, violations
from gossamer.pipeline.audit.whole import Row, Whole
from gossamer.pipeline.schema import Found

PROMISE = "feedback"
_ANSWER = "run, channel, source, source_incarnation, first"


def violated() -> str:
    """Each answer handed over was given, for just this event of this node, and is handed over once."""
    steps = f"""answers as (
        select {_ANSWER}, peer as target, value as question from {{rows}}
        where {of(trace.FEEDBACK, trace.PUBLISHED)}
    ), handed as (
        select * from {{rows}} where {of(trace.FEEDBACK, trace.DELIVERED)}
    ), copies as (
        select *, row_number() over (partition by {_ANSWER} order by at, node, incarnation, position) as copy
        from handed
    ), held as (
        select *, case when target is null then 'an answer that was given'
            when node != target or value != question
            then format_string('handed to %s as an answer to its number %d', target, question)
        end as expected from handed left join answers using ({_ANSWER}))"""
    found = [
        violations("copies where copy > 1", PROMISE, "first", "'handed over once'"),
        violations("held where expected is not null", PROMISE, "first", "expected"),
    ]
    return query(steps, " union all ".join(found))


def broken(run: Whole) -> Iterator[Found]:
    """The same, of all rows of a run."""
    answers: dict[_Answer, list[Row]] = defaultdict(list)
    for row in run.of(trace.FEEDBACK, trace.PUBLISHED):
        answers[_answer(row)].append(row)
    handed: set[_Answer] = set()
    for row in sorted(run.of(trace.FEEDBACK, trace.DELIVERED)):
        if _answer(row) in handed:
            yield row.found(row.first, "handed over once")
        handed.add(_answer(row))
        if _answer(row) not in answers:
            yield row.found(row.first, "an answer that was given")
        for given in answers.get(_answer(row), ()):
            if (row.node, row.value) != (given.peer, given.value):
                yield row.found(row.first, f"handed to {given.peer} as an answer to its number {given.value}")


_Answer = tuple[str, str, int, int]


def _answer(row: Row) -> _Answer:
    return (row.channel, row.source, row.source_incarnation, row.first)


AUDIT = Audit(PROMISE, violated(), whole=broken, always=True)
