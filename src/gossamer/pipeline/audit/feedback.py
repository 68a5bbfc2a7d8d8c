"""Feedback is one to one: an answer reaches the source of the event that it answers, once, and nobody else.

Checked on every channel. An answer that never arrives is a loss, not a violation.
"""

from __future__ import annotations

from gossamer.core import trace
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import of, query, violations

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


AUDIT = Audit(PROMISE, violated(), always=True)
