"""How far a neighbour's clock is from ours, so that send times mean something here (seed 004, 3.2).

The supervisory messages that measure a connection's latency also tell the other's clock. A node reads the
send time of every parcel that comes as if its own clock had shown it, hop by hop, without opening the body:
an event's age is then how long it has been on its way, and it expires when it should, whatever clocks say.
"""

from __future__ import annotations

from collections import deque

KEPT = 8
"""Exchanges that are remembered; the quickest of them says most."""
LEAST = 1_000_000
"""Nanoseconds: a smaller difference is nobody's concern, and parcels pass on as the very bytes they were."""
ROUGH = 1_000_000_000
"""Nanoseconds by which a clock must be wrong to be told by a greeting, which may have been on its way."""


class Offset:
    """What a neighbour's clock shows more than ours; ``value`` is 0 where nobody could tell the two apart.

    An exchange is wrong by half its round trip at most. A clock that was put right or wrong shows in one that
    contradicts what is believed; what was measured before it then counts no longer.
    """

    __slots__ = ("_recent", "value")

    def __init__(self) -> None:
        self.value = 0
        self._recent: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def greeted(self, theirs: int, ours: int) -> None:
        """Before the first exchange: what their clock showed when they greeted, and ours when that came."""
        if not self._recent and abs(theirs - ours) > ROUGH:
            self.value = theirs - ours

    def exchanged(self, asked: int, theirs: int, answered: int) -> None:
        """They answered at ``theirs`` what was asked and answered at these instants of ours."""
        trip, offset = max(0, answered - asked), theirs - (asked + answered) // 2
        if self._recent:
            known, believed = min(self._recent)
            if abs(offset - believed) > (trip + known) // 2 + LEAST:
                self._recent.clear()
        self._recent.append((trip, offset))
        best, offset = min(self._recent)
        self.value = offset if abs(offset) > max(best // 2, LEAST) else 0
