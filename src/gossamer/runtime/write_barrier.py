"""Effects that wait behind small values which are not on disk yet, per channel and in order.

What a template says after ``store`` may depend on the value: a vote, an acknowledgement, an append to the
log. So everything of its channel that leaves this node or reaches an application waits until the value is
durable; timers do not, and other channels go on. What the template only passes on for other nodes does not
wait either: a node with a full disk does not cut off those behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gossamer.core.control import Control
from gossamer.core.effect import (
    Acknowledged,
    Append,
    Deliver,
    DeliverFeedback,
    Effect,
    Lost,
    Missed,
    Repair,
    Reply,
    Send,
)
from gossamer.core.wire import Item

if TYPE_CHECKING:
    from gossamer.runtime.net.connection import Strand

MAX_WAITING = 65_536
"""Effects of a channel that may wait; messages beyond are dropped, as a network would."""

Waiting = tuple[Effect, "Strand | None"]
_OF_A_CHANNEL = (Deliver, DeliverFeedback, Acknowledged, Append, Lost, Missed, Repair)


class Gate:
    """What waits on one channel.

    asked, done
        How many times values were given to the disk, and how many of them are there.
    """

    __slots__ = ("asked", "done", "queue")

    def __init__(self) -> None:
        self.asked = self.done = 0
        self.queue: deque[tuple[int, Effect, Strand | None]] = deque()


class Gates:
    """The channels of one node that wait for the disk.

    waits
        Whether an item of a channel that is to be sent depends on what the channel stores.
    """

    def __init__(self, waits: Callable[[int, Item], bool]) -> None:
        self._waits = waits
        self._gates: dict[int, Gate] = {}

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels that wait."""
        return tuple(self._gates)

    def close(self, channel: int) -> int:
        """Values of a channel go to the disk, and what follows waits; which time it is."""
        gate = self._gates.setdefault(channel, Gate())
        gate.asked += 1
        return gate.asked

    def holds(self, effect: Effect, origin: Strand | None, stored: int) -> bool:
        """Whether an effect has to wait, and does so now.

        stored
            The channel whose values were stored just before, in the same turn: answers to calls name no
            channel, and wait for these.
        """
        if not self._gates:
            return False
        channel = _channel(effect, stored)
        gate = self._gates.get(channel)
        if gate is None or (isinstance(effect, Send) and not self._waits(channel, effect.item)):
            return False
        if len(gate.queue) < MAX_WAITING or not isinstance(effect, Send):
            gate.queue.append((gate.asked, effect, origin))
        return True

    def open(self, channel: int, time: int) -> list[Waiting]:
        """Values of a channel are on disk: what may happen now."""
        gate = self._gates.get(channel)
        if gate is None:
            return []
        gate.done = max(gate.done, time)
        free: list[Waiting] = []
        while gate.queue and gate.queue[0][0] <= gate.done:
            _, effect, origin = gate.queue.popleft()
            free.append((effect, origin))
        if gate.done >= gate.asked:
            del self._gates[channel]
        return free

    def refuse(self, error: Exception) -> list[Reply]:
        """Answers to calls that wait, as failures: their callers shall not wait for the disk."""
        refused: list[Reply] = []
        for gate in self._gates.values():
            refused += [
                msgspec.structs.replace(each, value=None, error=error)
                for _, each, _ in gate.queue
                if isinstance(each, Reply)
            ]
            gate.queue = deque(item for item in gate.queue if not isinstance(item[1], Reply))
        return refused


def _channel(effect: Effect, stored: int) -> int:
    if isinstance(effect, Send):
        item = effect.item
        return item.channel if isinstance(item, Control) else item.header.channel
    if isinstance(effect, Reply):
        return stored
    return effect.channel if isinstance(effect, _OF_A_CHANNEL) else 0
