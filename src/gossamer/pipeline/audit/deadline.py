"""Deadline: nothing is delivered after the instant from which nobody wants it. Checked on every channel.

Expiry is a wish of whoever published, and the instant is one on the clock of the source; it is held against
the clock of the node that delivers, as that node does it.
"""

from __future__ import annotations

import numpy as np

from gossamer.pipeline.audit.promise import Audit
from gossamer.pipeline.audit.relations import deliveries, query, violations
from gossamer.pipeline.audit.segment import STREAM, Known, Segment
from gossamer.pipeline.schema import Found

PROMISE = "deadline"


def violated() -> str:
    """Each delivery is before its deadline."""
    late = "(select * from given where value > 0 and at > value)"
    return query(deliveries(), violations(late, PROMISE, "first", "format_string('delivered by %d', value)"))


class Deadline:
    """Remembers nothing."""

    def take(self, known: Known, segment: Segment) -> list[Found]:
        rows = segment.delivered(frozenset(segment.words("channel")))
        until = segment.numbers("value")[rows]
        late = rows[(until > 0) & (segment.numbers("at")[rows] > until)]
        found: list[Found] = []
        for row in map(int, np.asarray(late)):
            node, incarnation, channel, peer, source, life = (segment.value(name, row) for name in STREAM)
            number, at, value = (segment.value(name, row) for name in ("first", "at", "value"))
            found.append(
                (channel, node, incarnation, peer, source, life, number, at, f"delivered by {value}")
            )
        return found

    def end(self, known: Known) -> list[Found]:
        return []


AUDIT = Audit(PROMISE, violated(), Deadline, always=True)
