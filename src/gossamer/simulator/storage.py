"""Logs of simulated nodes: what templates ask of storage, in virtual time.

Each node has one disk that does one thing after the other. What it has reported is there for ever, whatever
happens to the node. When a node crashes, what was asked for and not yet done is there in part or not at all:
dice decide how many of the records, always from the first on, for a log has no holes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from gossamer.core.context import Dice
from gossamer.core.effect import Append, Appended, History, Read, Trim
from gossamer.core.errors import ProtocolError
from gossamer.core.parcel import Parcel
from gossamer.core.wire import decode
from gossamer.simulator.clock import NETWORK, Clock
from gossamer.simulator.host import Host
from gossamer.storage.memory import MemoryLog

if TYPE_CHECKING:
    from gossamer.simulator.effects import Carrier

Request = Append | Read | Trim
Event = tuple[tuple[str, int], int]
"""Source and number."""


class Drive:
    """The disk of one node, in all its lives.

    logs
        By channel.
    pending
        What the present life has asked for and the disk has not done.
    free
        The instant at which the disk has done all of it.
    """

    __slots__ = ("_events", "_upto", "free", "logs", "pending")

    def __init__(self) -> None:
        self._events: dict[int, set[Event]] = {}
        self._upto: dict[int, int] = {}
        self.logs: dict[int, MemoryLog] = {}
        self.pending: deque[Request] = deque()
        self.free = 0

    def log(self, channel: int) -> MemoryLog:
        """The log of a channel, empty at first."""
        return self.logs.setdefault(channel, MemoryLog())

    def logged(self, channel: int) -> set[Event]:
        """All events that the log of a channel has had."""
        log, events = self.log(channel), self._events.setdefault(channel, set())
        for record in log.read(self._upto.get(channel, 0), log.end)[1]:
            events |= _events(record)
        self._upto[channel] = log.end
        return events


class Storage:
    """The disks of a world."""

    def __init__(self, carrier: Carrier, clock: Clock, dice: Dice) -> None:
        self._carrier = carrier
        self._clock = clock
        self._dice = dice
        self._drives: dict[str, Drive] = {}

    def log(self, node: str, channel: int) -> MemoryLog:
        """What a node has on disk of a channel, for a look inside."""
        return self._drive(node).log(channel)

    def disks(self, hosts: Iterable[Host], channel: int, event: tuple[tuple[str, int], int]) -> int:
        """On how many disks an event is, in the log of its channel or among the small values."""
        return sum(
            event in self._drive(host.name).logged(channel)
            or any(event in _events(value) for value in host.stored.values())
            for host in hosts
        )

    def request(self, host: Host, request: Request) -> None:
        """A template asks for something; it happens after all that the node has asked for before."""
        drive = self._drive(host.name)
        drive.pending.append(request)
        drive.free = max(drive.free, self._clock.now) + (host.disk if type(request) is Append else 0)
        self._clock.schedule(drive.free, NETWORK, self._do, host, (host.life, request))

    def crash(self, host: Host) -> None:
        """A life has ended in the middle of things."""
        drive = self._drives.get(host.name)
        if drive is None:
            return
        written: dict[int, list[bytes]] = {}
        for request in drive.pending:
            if type(request) is Append:
                written.setdefault(request.channel, []).extend(request.records)
        for channel, records in written.items():
            drive.log(channel).append(records[: self._dice.randrange(len(records) + 1)])
        drive.pending.clear()
        drive.free = 0

    def _drive(self, node: str) -> Drive:
        return self._drives.setdefault(node, Drive())

    def _do(self, host: Host, what: tuple[int, Request]) -> None:
        life, request = what
        if host.life != life or host.engine is None:
            return  # the crash has decided what became of it
        drive = self._drive(host.name)
        drive.pending.popleft()
        log = drive.log(request.channel)
        match request:
            case Append(ticket=ticket, at=at) if at >= 0 and at != log.end:
                refusal = f"the log ends at {log.end}, and these records belong at {at}"
                self._report(host, request.channel, Appended(ticket, log.end, refusal))
            case Append(ticket=ticket, records=records):
                self._report(host, request.channel, Appended(ticket, log.append(records)))
            case Read(ticket=ticket, position=position, limit=limit):
                start, found = log.read(position, limit)
                history = History(ticket, start, tuple(found), log.begin, log.end)
                self._report(host, request.channel, history)
            case Trim(position=position):
                log.trim(position)

    def _report(self, host: Host, channel: int, report: Appended | History) -> None:
        self._carrier.tell(host, "report", channel, report)


@lru_cache(maxsize=4096)
def _events(record: bytes) -> frozenset[Event]:
    """The events of a record, or of a small value, that is a parcel; else nothing."""
    try:
        item = decode(record)
    except ProtocolError:
        return frozenset()
    if not isinstance(item, Parcel):
        return frozenset()
    stamp = item.stamp
    return frozenset((stamp.key, number) for number in range(stamp.first, stamp.first + stamp.count))
