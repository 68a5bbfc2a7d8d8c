"""What became of events that were given up: counted for the publishers of this node, told to those of others.

A node that gives up an event with the wish ``report`` tells its source, by the way that feedback takes and
with the proof that the parcel carried. What is given up within a moment is told in one message.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from gossamer.core.effect import Drop
from gossamer.core.errors import GossamerError
from gossamer.core.event import Envelope
from gossamer.core.names import channel_id
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Stamp
from gossamer.core.trace import EXPIRED, KEPT_FOR_SESSION

if TYPE_CHECKING:
    from gossamer.runtime.host import Host

PAUSE = 0.1
"""Seconds in which losses are gathered before they are told."""
MAX_SOURCES = 1000
"""Sources that are told at once; what others lose meanwhile is not told."""
REPORT = "gossamer.drops"
"""Attribute of feedback that tells of losses, and of no application's."""
HARMLESS = frozenset({"seen before", "nobody wants it any more", "subscription closed"})
"""Reasons why nobody misses anything."""
FINE = HARMLESS | {EXPIRED, KEPT_FOR_SESSION}
"""Reasons that are no failure of the hand-over: the event is not wanted (any more), or is here again."""
MAX_KEPT_BACK = 65_536
"""Parcels of a channel whose end is remembered until ``drain`` tells it."""

_decode = msgspec.msgpack.Decoder(
    Annotated[
        dict[Annotated[str, Meta(max_length=200)], Annotated[int, Meta(ge=0, le=2**53)]],
        Meta(max_length=100),
    ]
).decode


class Losses:
    """Events given up on one node, and what others tell of events that were published on it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._counts: dict[int, Counter[str]] = {}
        self._untold: dict[tuple[int, str, int], tuple[Stamp, Counter[str]]] = {}
        self._telling: asyncio.TimerHandle | None = None
        self._kept_back: dict[tuple[int, bool], dict[int, tuple[int, str]]] = {}
        """Parcels published here that ended here: by channel and whether the network is the reason, by their
        sequence number, how many events and why."""

    def of(self, channel: str) -> dict[str, int]:
        """Events of a channel that were published here, by the reason why they were given up."""
        return dict(self._counts.get(channel_id(channel), {}))

    def dropped(self, drop: Drop) -> None:
        """A parcel or a message ended here."""
        item = drop.item
        if isinstance(item, Parcel):
            count = item.stamp.count if item.picks is None else len(item.picks)
            self.discarded(item, count, drop.reason)
            own = item.stamp.key == (self._host.engine.node, self._host.engine.incarnation)
            if own and item.header.answers is None and drop.reason not in FINE:
                kept_back = self._kept_back.setdefault((item.header.channel, bool(drop.peer)), {})
                if len(kept_back) < MAX_KEPT_BACK:
                    kept_back[item.stamp.sequence] = (count, drop.reason)

    def not_handed_over(self, channel: str, repairs: bool) -> dict[str, int]:
        """Events of a channel that were published here and ended here, by reason; each is told once.

        repairs
            Whether what the network lost is sent again, so that only what the template gave up counts.
        """
        found: dict[int, tuple[int, str]] = {}
        for network in (True, False):
            kept_back = self._kept_back.pop((channel_id(channel), network), {})
            if not (network and repairs):
                found |= kept_back
        if not repairs:
            for parcel in self._host.neighbours.stuck():
                if parcel.header.channel == channel_id(channel):
                    found[parcel.stamp.sequence] = (parcel.stamp.count, "link stalled")
        reasons: Counter[str] = Counter()
        for count, reason in found.values():
            reasons[reason] += count
        return dict(reasons)

    def discarded(self, parcel: Parcel, count: int, reason: str) -> None:
        """Some events of a parcel were given up."""
        stamp, engine = parcel.stamp, self._host.engine
        if parcel.header.answers is not None or reason in HARMLESS:
            return
        if stamp.key == (engine.node, engine.incarnation):
            self._count(parcel.header.channel, {reason: count})
        elif parcel.qos.report:
            key = (parcel.header.channel, *stamp.key)
            if key in self._untold or len(self._untold) < MAX_SOURCES:
                self._untold.setdefault(key, (stamp, Counter()))[1][reason] += count
                self._telling = self._telling or asyncio.get_running_loop().call_later(PAUSE, self._tell)

    def _count(self, channel: int, counts: dict[str, int]) -> None:
        self._counts.setdefault(channel, Counter()).update(counts)
        self._host.changed()

    def _tell(self) -> None:
        self._telling = None
        untold, self._untold = self._untold, {}
        for (channel, _, _), (stamp, counts) in untold.items():
            name = self._host.channel_name(channel)
            if name and not self._host.closed:
                self._host.guarded(partial(self._say, name, stamp, counts), "template")

    def _say(self, channel: str, stamp: Stamp, counts: Counter[str]) -> None:
        engine, now = self._host.engine, self._host.now()
        receipt = engine.notary.receipt(channel, stamp, stamp.first)
        payload = msgspec.msgpack.encode(counts)
        _, effects = engine.feedback(now, channel, receipt, payload, Envelope({REPORT: True}))
        self._host.do(effects)

    def told(self, parcel: Parcel) -> bool:
        """Whether feedback is about losses; then it is counted, and nobody else's."""
        attributes = parcel.attributes[0] if parcel.attributes else None
        if not attributes or REPORT not in attributes:
            return False
        try:
            self._count(parcel.header.channel, _decode(parcel.payloads[0]))
        except (msgspec.MsgspecError, GossamerError):
            self._host.faults["report that makes no sense"] += 1
        return True

    def stop(self) -> None:
        """Tell nothing more."""
        if self._telling is not None:
            self._telling.cancel()
