"""At most once: no subscription gets an event twice.

A violation is a delivery that repeats events; its number is the first of them that had come before.
"""

from __future__ import annotations

from typing import Any

from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import STREAM, deliveries, query, violations
from gossamer.pipeline.audit.segment import Known, Segment
from gossamer.pipeline.audit.spans import Coverage
from gossamer.pipeline.schema import Found

PROMISE = "at-most-once"
EXPECTED = "delivered once to this subscription"


def repeated(promise: str) -> tuple[str, str, str]:
    """Steps to deliveries of events that the same subscription had before."""
    again = f"""each as (
        select {STREAM}, position, at, explode(sequence(first, first + count - 1)) as number from given
    ), again as (
        select *, row_number() over (partition by {STREAM}, number order by position) as copy from each
    ), twice as (
        select {STREAM}, at, min(number) as number from again where copy > 1
        group by {STREAM}, position, at)"""
    return deliveries(promise), again, violations("twice", promise, "number", f"'{EXPECTED}'")


def violated() -> str:
    """No number twice in a stream."""
    return query(*repeated(PROMISE))


class AtMostOnce:
    """Remembers which numbers each stream has had."""

    def __init__(self, promise: str = PROMISE) -> None:
        self._promise = promise
        self.coverage = Coverage()

    def take(self, known: Known, segment: Segment) -> list[Found]:
        found: list[Found] = []
        for stream, number, row in self.coverage.take(segment, known.promising(self._promise)):
            found.append(_twice(stream, number, segment.value("at", row)))
        return found

    def end(self, known: Known) -> list[Found]:
        return []


def _twice(stream: tuple[Any, ...], number: int, at: int) -> Found:
    node, incarnation, channel, peer, source, life = stream
    return (channel, node, incarnation, peer, source, life, number, at, EXPECTED)


AUDIT = Audit(PROMISE, violated(), AtMostOnce)
