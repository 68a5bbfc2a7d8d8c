"""Exactly once: a subscription gets each number of a source once, between the lowest and the highest it gets.

Order does not matter here. A violation is a delivery that repeats events, as in at-most-once, or a hole: its
number is the first that is missing, its instant that of the delivery behind the hole. One with criteria is
not asked about holes, nor is one whose trace has holes itself.
"""

from __future__ import annotations

from gossamer.pipeline.audit.at_most_once import AtMostOnce, repeated
from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import CHOOSY, EARLIER, SEAT, STREAM, query, violations
from gossamer.pipeline.audit.segment import Known
from gossamer.pipeline.schema import Found

PROMISE = "exactly-once"


def violated() -> str:
    """No number twice, none missing in between."""
    given, again, twice = repeated(PROMISE)
    holes = f"""numbered as (
        select *, max(first + count) over (partition by {STREAM} order by first, position {EARLIER}) as wanted
        from given
    ), torn as (
        select distinct run, node, incarnation from {{rows}} where stretch > 0
    ), {CHOOSY}, holes as (
        select n.* from numbered n left anti join torn using (run, node, incarnation)
        left anti join choosy using ({SEAT}) where first > wanted)"""
    missing = violations("holes", PROMISE, "wanted", "format_string('number %d too', wanted)")
    return query(given, again, holes, f"{twice} union all {missing}")


class ExactlyOnce(AtMostOnce):
    """Remembers which numbers each stream has had, and at the end looks for holes."""

    def __init__(self) -> None:
        super().__init__(PROMISE)

    def end(self, known: Known) -> list[Found]:
        found: list[Found] = []
        for stream, spans in self.coverage.streams.items():
            node, incarnation, channel, peer, source, life = stream
            if known.choosy(stream[:4]) or known.torn((node, incarnation)):
                continue
            for missing, at in zip(spans.ends, spans.begins[1:], strict=False):
                expected = f"number {missing} too"
                found.append((channel, node, incarnation, peer, source, life, missing, at, expected))
        return found


AUDIT = Audit(PROMISE, violated(), ExactlyOnce)
