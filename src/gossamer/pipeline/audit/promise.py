"""What an audit is: a promise, a query over the rows of whole runs, and perhaps a kernel.

The query is plain SQL (see ``relations``): rows in, violations out. A kernel says the same from the segments
of one writer in order, without a shuffle: it is told of each segment once and keeps what it must remember.
A promise that needs rows of several nodes has one over whole runs instead, for those that are small. Kernel
and query find the very same violations.

An audit that is ``local`` needs no rows of other nodes; it can be held even where traces are not whole, as
far as they go. The others are only asked about runs that are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from gossamer.pipeline.audit.segment import Known, Segment
from gossamer.pipeline.audit.whole import Whole
from gossamer.pipeline.schema import Found


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
    whole
        Violations in a run; None if there is a kernel.
    always
        Whether it is checked on every channel, promised or not.
    """

    promise: str
    query: str
    kernel: Callable[[], Kernel] | None = None
    whole: Callable[[Whole], Iterable[Found]] | None = None
    always: bool = False

    @property
    def local(self) -> bool:
        return self.kernel is not None
