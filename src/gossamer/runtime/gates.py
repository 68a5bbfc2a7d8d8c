"""Effects that wait behind small values which are not on disk yet, per channel and in order.

What a template says after ``store`` may depend on the value: a vote, an acknowledgement, an append to the
log. So everything of its channel that leaves this node or reaches an application waits until the value is
durable; timers do not, and other channels go on. Parcels and messages of other nodes, which this one only
passes on, and messages about members do not wait either: a node with a full disk does not cut off those
behind it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from gossamer.core.control import Control
from gossamer.core.effect import (
    Acknowledged,
    Append,
    Deliver,
    DeliverFeedback,
    Effect,
    Missed,
    Repair,
    Reply,
    Send,
)
from gossamer.core.names import last
from gossamer.core.parcel import Parcel
from gossamer.core.wire import Item
from gossamer.overlay.councilwords import Letter
from gossamer.overlay.groupwords import Join, JoinHeard, Leave, LeaveHeard, TreeHeard, TreeUpdate
from gossamer.overlay.interest import Interest, InterestHeard
from gossamer.overlay.order import MARK
from gossamer.overlay.post import Relay, Relayed
from gossamer.overlay.replay import Replay, Replayed
from gossamer.overlay.storewords import Unstored
from gossamer.overlay.streamwords import Missing

if TYPE_CHECKING:
    from gossamer.runtime.strand import Strand

MAX_WAITING = 65_536
"""Effects of a channel that may wait; messages beyond are dropped, as a network would."""

Waiting = tuple[Effect, "Strand | None"]
_OF_THE_GROUP = (
    Interest,
    InterestHeard,
    Join,
    JoinHeard,
    Leave,
    LeaveHeard,
    Missing,
    Relayed,
    TreeHeard,
    TreeUpdate,
    Unstored,
)
"""Messages about members and links: they depend on no value that is stored."""
_OF_A_CHANNEL = (Deliver, DeliverFeedback, Acknowledged, Append, Missed, Repair)


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
    """The channels of one node that wait for the disk."""

    def __init__(self, node: str) -> None:
        self._own = (node, MARK + node)
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
        gate = self._gates.get(_channel(effect, stored))
        if gate is None or (isinstance(effect, Send) and self._passes(effect.item)):
            return False
        if len(gate.queue) < MAX_WAITING or not isinstance(effect, Send):
            gate.queue.append((gate.asked, effect, origin))
        return True

    def _passes(self, item: Item) -> bool:
        """Whether an item depends on nothing that this node stores."""
        if isinstance(item, Parcel):
            return item.stamp.node not in self._own
        message = item.message
        if isinstance(message, Relay):
            message = message.letter
        if isinstance(message, Letter | Replay | Replayed):
            return last(message.origin) not in self._own
        return isinstance(message, _OF_THE_GROUP)

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
