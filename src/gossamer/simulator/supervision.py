"""Supervisory messages of links, as far as they matter here: where a clock is wrong, they tell how wrong.

Links of the runtime ask each other all the time. Here nobody asks while all clocks are right; where one is
not, the exchange that would have ended when a parcel arrives is worked out from the model of the link, once a
second at most, and the receiver believes what it says, error included.
"""

from __future__ import annotations

from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.links.clocks import Offset
from gossamer.simulator.clock import Clock
from gossamer.simulator.dice import SeededDice
from gossamer.simulator.host import Host, Way

BEAT = NANOSECONDS
"""Between two exchanges on a link."""


class Supervision:
    """Reads send times on the clock of the node that a parcel comes to."""

    def __init__(self, clock: Clock, dice: SeededDice) -> None:
        self._clock = clock
        self._dice = dice

    def corrected(self, way: Way, sender: Host, parcel: Parcel) -> Parcel:
        """A parcel that arrives from a sender, as the receiver takes it."""
        if way.offset is None:
            if sender.skew is None and way.receiver.skew is None:
                return parcel
            way.offset, way.measured = Offset(), self._clock.now - BEAT
        if self._clock.now - way.measured >= BEAT:
            self._exchange(way, way.offset, sender)
        offset = way.offset.value
        return parcel.sent_at(parcel.header.sent - offset) if offset else parcel

    def _exchange(self, way: Way, offset: Offset, sender: Host) -> None:
        there, back = self._latency(way), self._latency(way)
        receiver = way.receiver
        offset.exchanged(receiver.time(there + back), sender.time(back), receiver.time())
        way.measured = self._clock.now

    def _latency(self, way: Way) -> int:
        return nanoseconds(way.model.latency + self._dice.random() * way.model.jitter)
