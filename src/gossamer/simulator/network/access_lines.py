"""Access lines: what each peer of a network can send and take, whoever it talks to.

All that a node sends shares its line, and so does all that it takes. What is control goes ahead of parcels,
as it does on real links. Who sends to a line that has more to take than it can is told: that is congestion.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.context import Dice
from gossamer.core.names import NANOSECONDS
from gossamer.simulator.network.link_models import FULL

Rate = Annotated[float, Meta(gt=0, le=1e12)]


class Access(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class of access lines.

    share
        Of all peers, how many have one; shares need not add up to 1.
    up, down
        Bytes per second.
    latency
        Seconds that the line adds to every way from or to the peer.
    """

    share: Annotated[float, Meta(gt=0, le=1)]
    up: Rate
    down: Rate
    latency: Annotated[float, Meta(ge=0, le=60)] = 0.0


SPREAD = (
    Access(0.08, 5e3, 7e3, 0.1),
    Access(0.14, 16e3, 64e3, 0.03),
    Access(0.48, 64e3, 300e3, 0.02),
    Access(0.22, 400e3, 400e3, 0.01),
    Access(0.08, 4e6, 4e6, 0.002),
)
"""Modems, slow and fast lines of homes, leased lines and those of institutions: shares and rates of the order
that Saroiu, Gummadi and Gribble (2002) measured among Gnutella's peers."""

HIGH, LOW = NANOSECONDS // 2, NANOSECONDS // 10
"""Work that waits at a line when it counts as congested, and when it no longer does."""
MOST = 4 * NANOSECONDS
"""Work that may wait at a line; what comes on top is dropped."""


class Pipe:
    """One direction of a line."""

    __slots__ = ("_byte", "free")

    def __init__(self, rate: float) -> None:
        self._byte = NANOSECONDS / rate
        self.free = 0

    def carry(self, at: int, size: int, ahead: bool) -> int:
        """When an item that comes at an instant is through, or FULL; some go ahead of what waits."""
        work = round(size * self._byte)
        waits = max(0, self.free - at)
        if waits > MOST and not ahead:
            return FULL
        self.free = at + waits + work
        return at + work if ahead else at + waits + work


class Line:
    """The access line of one peer."""

    __slots__ = ("access", "down", "up")

    def __init__(self, access: Access) -> None:
        self.access = access
        self.up, self.down = Pipe(access.up), Pipe(access.down)


def drawn(classes: tuple[Access, ...], dice: Dice) -> Access:
    """A class by chance."""
    at = dice.random() * sum(each.share for each in classes)
    for each in classes:
        at -= each.share
        if at < 0:
            return each
    return classes[-1]
