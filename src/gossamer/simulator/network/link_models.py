"""Models of links and nodes: numbers in, instants out. Nothing here knows engines, rules or the heap.

A link is two lanes, one per direction, that share a model and nothing else. A lane is asked at the instant
of sending and answers at once with the instant of arrival, so that a transmission is one entry of the heap.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.context import Dice
from gossamer.core.names import NANOSECONDS, nanoseconds

Probability = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]

MAX_QUEUE = 2**40
"""Bytes."""
FULL, LOST, NONE = -1, -2, -3
"""What a lane answers instead of an instant: no room in the queue, lost on the way, no second copy."""


class LinkModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a link treats what is sent through it; the same in both directions.

    An item of ``size`` bytes sent at ``now`` arrives at
    ``max(now, free) + size / bandwidth + latency + jitter × u``, u uniform in [0, 1), and never before
    an item sent earlier in the same direction, unless it is reordered.

    latency
        Seconds on the way, 0 to 86 400.
    jitter
        Seconds, 0 to 86 400. Uniform between 0 and this is added: latency + jitter / 2 on average.
    bandwidth
        Bytes per second and direction; 0 is infinite.
    queue
        Bytes that may wait per direction for the link to get free, the unsent rest of the item that is
        being sent included. What does not fit is dropped (reason "queue full"). An idle link takes an
        item of any size. Without meaning if the bandwidth is infinite.
    loss
        Probability that an item is lost on the way, after it has used its share of bandwidth.
    duplicate
        Probability that an item arrives a second time, with a jitter of its own and not before the first.
    reorder
        Probability that an item is held back for ``reorder_delay`` and may be overtaken meanwhile.
    reorder_delay
        Seconds, 0 to 86 400.
    """

    latency: Seconds = 0.01
    jitter: Seconds = 0.0
    bandwidth: Annotated[float, Meta(ge=0, le=1e12)] = 0.0
    queue: Annotated[int, Meta(ge=0, le=MAX_QUEUE)] = 1024 * 1024
    loss: Probability = 0.0
    duplicate: Probability = 0.0
    reorder: Probability = 0.0
    reorder_delay: Seconds = 0.05


class NodeModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What handling costs a node: one server that takes one item after the other.

    parcel, feedback, control
        Seconds of work per item of that kind, 0 to 86 400; its effects happen when the work is done.
        Timers and the applications of the node cost nothing.
    inbox
        Items that may wait for the server, 1 to 100 000 000, the one it works on aside. What comes on top
        is dropped (reason "inbox full").
    disk
        Seconds that the node's disk needs for each append to a log, 0 to 86 400, one after the other.
    """

    parcel: Seconds = 0.0
    feedback: Seconds = 0.0
    control: Seconds = 0.0
    inbox: Annotated[int, Meta(ge=1, le=100_000_000)] = 10_000
    disk: Seconds = 0.001


class Lane:
    """One direction of a link: when does what is sent now arrive?"""

    __slots__ = (
        "_byte",
        "_free",
        "_jitter",
        "_last",
        "_latency",
        "_reorder_delay",
        "duplicate",
        "loss",
        "queue",
        "reorder",
    )

    def __init__(self, model: LinkModel) -> None:
        self._latency = nanoseconds(model.latency)
        self._jitter = nanoseconds(model.jitter)
        self._byte = NANOSECONDS / model.bandwidth if model.bandwidth else 0.0
        self._reorder_delay = nanoseconds(model.reorder_delay)
        self.queue = model.queue
        self.loss = model.loss
        self.duplicate = model.duplicate
        self.reorder = model.reorder
        self._free = 0
        self._last = 0

    def carry(self, now: int, size: int, dice: Dice, extra: int = 0) -> int:
        """The instant at which an item arrives, ``extra`` nanoseconds late; or FULL or LOST."""
        arrives = now + self._latency + extra
        if self._byte:
            waits = self._free - now
            if waits > 0:
                if waits / self._byte + size > self.queue:
                    return FULL
            else:
                waits = 0
            work = waits + round(size * self._byte)
            self._free = now + work
            arrives += work
        if self.loss and dice.random() < self.loss:
            return LOST
        if self._jitter:
            arrives += int(dice.random() * self._jitter)
        if arrives < self._last:
            arrives = self._last
        if self.reorder and dice.random() < self.reorder:
            return arrives + self._reorder_delay
        self._last = arrives
        return arrives

    def again(self, arrives: int, dice: Dice) -> int:
        """The instant at which the model lets an item arrive a second time, or NONE."""
        return self.copy(arrives, dice) if dice.random() < self.duplicate else NONE

    def copy(self, arrives: int, dice: Dice) -> int:
        """The instant at which a second copy arrives."""
        return arrives + int(dice.random() * self._jitter) if self._jitter else arrives


class Skew:
    """A clock that is wrong: by an offset, and by a drift that grows.

    ``local = base + (true − since) × (1 + drift)``, base what the clock showed at the true instant ``since``;
    never below zero.
    """

    __slots__ = ("_base", "_drift", "_since")

    def __init__(self, base: int, since: int, drift: float) -> None:
        self._base, self._since, self._drift = base, since, drift

    def local(self, true: int) -> int:
        """What the clock shows at a true instant."""
        passed = true - self._since
        return max(0, self._base + passed + round(passed * self._drift))

    def true(self, now: int, local_now: int, local: int) -> int:
        """The true instant at which the clock will have gone on by ``local − local_now``."""
        return now + round((local - local_now) / (1 + self._drift))
