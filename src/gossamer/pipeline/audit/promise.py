"""What an audit is: a promise, a query over the rows of whole runs, and perhaps a kernel.

The query is plain SQL (see ``relations``): rows in, violations out. A kernel says the same from the segments
of one writer in order, without a shuffle: it is told of each segment once and keeps what it must remember.
Where there are both, they find the very same violations.

An audit that is ``local`` needs no rows of other nodes; it can be held even where traces are not whole, as
far as they go. The others are only asked about runs that are complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from gossamer.pipeline.audit.segment import Known, Segment

Found = tuple[str, str, int, str, str, int, int, int, str]
"""Channel, node, incarnation, subscription, source, its incarnation, number, instant, and the expectation."""


class Kernel(Protocol):
    """Checks one promise over the segments of one writer."""

    def take(self, known: Known, segment: Segment) -> list[Found]:
        """The next segment; what breaks the promise in it."""

    def end(self, known: Known) -> list[Found]:
        """There are no more; what breaks the promise by never having come."""


class Audit(msgspec.Struct, frozen=True):
    """How a promise is checked.

    promise
        The word that templates use for it.
    query
        Selects violations of ``{rows}``.
    kernel
        Makes a kernel; None if the promise needs rows of several nodes.
    always
        Whether it is checked on every channel, promised or not.
    """

    promise: str
    query: str
    kernel: Callable[[], Kernel] | None = None
    always: bool = False

    @property
    def local(self) -> bool:
        return self.kernel is not None
