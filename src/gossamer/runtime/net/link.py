"""A link: all connections to one neighbour, one strand each.

Of the link: the neighbour's greeting, whether it is up (while one strand is), and the choice of a strand
for each frame. Of the strand: latency, what waits to be sent, and who waits for that. A link is congested
if one of its strands is, and stalled if all of them are: that the other side does not read is no reason to
send it more by another way. When a strand breaks, what the network had is lost, as on any broken connection,
and templates that promise more repair it; what still waited takes another strand.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from gossamer.core.control import Control
from gossamer.core.names import NANOSECONDS
from gossamer.core.parcel import Parcel
from gossamer.core.wire import Item
from gossamer.links.selector import Wish, allowed, bound
from gossamer.runtime.net.connection import Strand
from gossamer.runtime.net.handshake import Hello

if TYPE_CHECKING:
    from gossamer.runtime.net.links import Neighbours


MAX_CAME = 4096
"""Channels and sources of which it is known on which strand their events come."""
Kind = tuple[int, bool, bool | None]
"""Frames that take one strand: channel, whether they are control, whether they wish to be essential."""


class ConnectionReport(msgspec.Struct, frozen=True):
    """One connection of a link; latency in seconds one way, None before it is measured, and frames."""

    transport: str
    remote: str
    reliable: bool
    latency: float | None
    sent: int
    received: int


class Link:
    """The neighbour's name and greeting, and the strands that are up."""

    def __init__(self, around: Neighbours, hello: Hello) -> None:
        self.hello = hello
        self.peer = hello.node
        self.strands: list[Strand] = []
        self.dialled: dict[str, str] = {}
        """Addresses by which it was opened from here, by transport."""
        self.gone = asyncio.Event()
        self.refusal = ""
        """Why the other side ended the link, if it said so."""
        self._around = around
        self._usable: list[Strand] = []
        self._chosen: dict[Kind, Strand] = {}
        self._before: dict[Kind, Strand] = {}
        self._detours: set[Kind] = set()
        self._came: dict[tuple[int, str], Strand] = {}
        """By channel and source, the strand that events last came on: answers to them go back there."""

    @property
    def latency(self) -> int | None:
        """Nanoseconds one way over the nearest strand; None before the first measurement."""
        return min((each.latency for each in self.strands if each.latency is not None), default=None)

    @property
    def congested(self) -> bool:
        return any(each.congested for each in self.strands)

    @property
    def stalled(self) -> bool:
        return bool(self.strands) and all(each.stalled for each in self.strands)

    @property
    def report(self) -> list[ConnectionReport]:
        return [
            ConnectionReport(
                each.transport,
                each.connection.remote,
                each.reliable,
                None if each.latency is None else each.latency / NANOSECONDS,
                each.sent,
                each.received_frames,
            )
            for each in self.strands
        ]

    # strands come and go

    def add(self, strand: Strand) -> None:
        self.strands.append(strand)
        if strand.dialled:
            self.dialled[strand.transport] = strand.dialled
        strand.joined(self)
        self.reconsider()

    def remove(self, strand: Strand) -> None:
        self.strands.remove(strand)
        strand.link = None
        self.refusal = strand.refusal
        self.reconsider()
        self._before = {key: each for key, each in self._before.items() if each is not strand}
        self._came = {key: each for key, each in self._came.items() if each is not strand}
        if not self.strands:
            self.gone.set()

    def surplus(self, strand: Strand) -> bool:
        """Whether another strand of the same transport does the same: of two that were opened by different
        sides the one of the lower name stays, so that both sides agree, else the newer.
        """
        same = [each for each in self.strands if each.transport == strand.transport]
        return strand is not max(
            same, key=lambda each: (self._around.lower_opened(each), self.strands.index(each))
        )

    def learn(self, hello: Hello) -> None:
        """The neighbour greets again, because something is new."""
        if (hello.node, hello.incarnation, hello.role) == (
            self.peer,
            self.hello.incarnation,
            self.hello.role,
        ):
            news = (hello.address, hello.listens) != (self.hello.address, self.hello.listens)
            self.hello = hello
            if news:
                self._around.describe()
                self._around.changed()

    # choosing

    def reconsider(self) -> None:
        """Something that a choice depends on has changed; what was chosen is asked about again."""
        if self._chosen:
            self._before, self._chosen = {**self._before, **self._chosen}, {}
        needed = [each for each in self.strands if not self.surplus(each)]
        self._usable = [each for each in needed if each.known] or needed

    def strand_for(self, item: Item, size: int) -> Strand:
        """The strand for a frame of some size."""
        if len(self.strands) == 1 and not self._around.bindings:
            return self.strands[0]
        back = self._back(item, size)
        if back is not None:
            return back
        if isinstance(item, Control):
            key: Kind = (item.channel, True, None)
        else:
            key = (item.header.channel, False, item.qos.essential)
        strand = self._chosen.get(key)
        if strand is None:
            strand = self._choose(key)
        if size > strand.connection.max_frame:
            fit = [each for each in self._usable if size <= each.connection.max_frame]
            if fit:
                return self._around.selector.choose(fit, self._around.wish(self, *key), None)
        return strand

    def came(self, parcel: Parcel, strand: Strand) -> None:
        """Events came on a strand; where there is only one nobody has to know."""
        if len(self.strands) > 1 and parcel.header.answers is None:
            if len(self._came) >= MAX_CAME:
                self._came.clear()
            self._came[parcel.header.channel, parcel.stamp.node] = strand

    def _back(self, item: Item, size: int) -> Strand | None:
        """The strand that an answer goes back on, unless it has to be another."""
        if isinstance(item, Control) or item.header.answers is None:
            return None
        strand = self._came.get((item.header.channel, item.header.answers.stamp.node))
        if strand is None or size > strand.connection.max_frame:
            return None
        return strand if strand.reliable or not item.qos.essential else None

    def _choose(self, key: Kind) -> Strand:
        wish = self._around.wish(self, *key)
        before = self._before.pop(key, None)
        strand = self._around.selector.choose(self._usable, wish, before)
        self._chosen[key] = strand
        if bound(self._usable, wish):
            self._detours.discard(key)
        elif key not in self._detours:
            self._detours.add(key)
            self._around.detour(self, key[0], wish, strand)
        return strand

    def best_frame(self, wish: Wish) -> int:
        """Size up to which frames of a channel travel in one piece, whichever strand is chosen."""
        return min(each.connection.best_frame for each in allowed(self._usable, wish))
