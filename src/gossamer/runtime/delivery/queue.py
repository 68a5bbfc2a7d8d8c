"""Events that wait for a subscriber: in the order of their arrival, or by importance or deadline.

By arrival, what came in one parcel stays in one piece and is handed over in one step. By rank, events wait
one by one, so that whatever comes can overtake all that waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from gossamer.runtime.api.event import ReceivedEvent

Order = Literal["arrival", "priority", "deadline"]
NEVER = 2**63


class Waiting(Protocol):
    """A queue; ``count`` events wait in it."""

    @property
    def count(self) -> int: ...

    def add(self, events: list[ReceivedEvent]) -> None:
        """Events of one parcel have come."""

    def take(self) -> list[ReceivedEvent]:
        """What comes next; there is something."""
        ...

    def oldest(self, excess: int) -> list[ReceivedEvent]:
        """Give up so many of those that wait longest."""
        ...

    def least(self, excess: int, below: int) -> list[ReceivedEvent]:
        """Give up at most so many, the least important first, and none above a priority."""
        ...


class ByArrival:
    """First come, first served."""

    def __init__(self) -> None:
        self.count = 0
        self._batches: deque[list[ReceivedEvent]] = deque()

    def add(self, events: list[ReceivedEvent]) -> None:
        self._batches.append(events)
        self.count += len(events)

    def take(self) -> list[ReceivedEvent]:
        batch = self._batches.popleft()
        self.count -= len(batch)
        return batch

    def oldest(self, excess: int) -> list[ReceivedEvent]:
        gone: list[ReceivedEvent] = []
        while len(gone) < excess:
            batch = self.take()
            cut = excess - len(gone)
            gone += batch[:cut]
            if batch[cut:]:
                self._batches.appendleft(batch[cut:])
                self.count += len(batch[cut:])
        return gone

    def least(self, excess: int, below: int) -> list[ReceivedEvent]:
        gone: list[ReceivedEvent] = []
        for batch in sorted(self._batches, key=_priority):
            if len(gone) >= excess or _priority(batch) > below:
                break
            cut = excess - len(gone)
            gone += batch[:cut]
            del batch[:cut]
        self._batches = deque(batch for batch in self._batches if batch)
        self.count -= len(gone)
        return gone


class ByRank:
    """The lowest rank first, and of those alike the first that came."""

    def __init__(self, rank: Callable[[ReceivedEvent], int]) -> None:
        self._rank = rank
        self._heap: list[tuple[int, int, ReceivedEvent]] = []
        self._serial = 0

    @property
    def count(self) -> int:
        return len(self._heap)

    def add(self, events: list[ReceivedEvent]) -> None:
        for event in events:
            self._serial += 1
            heappush(self._heap, (self._rank(event), self._serial, event))

    def take(self) -> list[ReceivedEvent]:
        return [heappop(self._heap)[2]]

    def oldest(self, excess: int) -> list[ReceivedEvent]:
        return self._give_up(sorted(self._heap, key=lambda each: each[1])[:excess])

    def least(self, excess: int, below: int) -> list[ReceivedEvent]:
        found = sorted(self._heap, key=lambda each: (each[2].parcel.qos.priority, each[1]))
        return self._give_up([each for each in found if each[2].parcel.qos.priority <= below][:excess])

    def _give_up(self, found: Iterable[tuple[int, int, ReceivedEvent]]) -> list[ReceivedEvent]:
        gone = {serial: event for _, serial, event in found}
        self._heap = [each for each in self._heap if each[1] not in gone]
        heapify(self._heap)
        return list(gone.values())


class Arrivals:
    """Who waits for something to take. Each has its own future: if one gives up, the others still hear."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}

    def tell(self) -> None:
        """Something may have changed for them."""
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    async def wait(self) -> None:
        """Wait until they are told."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[mine] = None
        try:
            await mine
        finally:
            del self._waiting[mine]


def make(order: Order) -> Waiting:
    """A queue for an order."""
    match order:
        case "priority":
            return ByRank(lambda event: -event.parcel.qos.priority)
        case "deadline":
            return ByRank(_deadline)
    return ByArrival()


def _priority(batch: list[ReceivedEvent]) -> int:
    return batch[0].parcel.qos.priority


def _deadline(event: ReceivedEvent) -> int:
    deadline = event.parcel.deadline
    return NEVER if deadline is None else deadline
