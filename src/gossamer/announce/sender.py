"""The raw service of an announcer: cuts, repeats and paces announcements; nobody ever answers.

Rounds of an announcement are ``interval`` apart; on each channel no more than ``rate`` bytes per second
leave. Rounds are as many as the reliability module wants, and as many more as the time ``join`` takes that a
listener needs to join a channel once it has heard from an index that there is something to hear.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from math import ceil

import msgspec

from gossamer.announce.header import MOST_VERSION, Code, Header, encode
from gossamer.announce.identity import Thread
from gossamer.announce.reliability import Erasure, Fragment, Reliability
from gossamer.core.errors import ConfigError, Full, TooLarge
from gossamer.core.names import NANOSECONDS, nanoseconds

CATCH_UP = nanoseconds(0.01)
"""A sender that was woken late may send at once what it would have sent in this time."""


class Pace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How announcements leave.

    interval
        Seconds from one round of an announcement to the next.
    join
        Seconds that joining a channel takes; rounds go on for so much longer: ceil(join / interval) more of
        them.
    rate
        Bytes per second and channel.
    mtu
        Bytes of a packet, its header included.
    backlog
        Bytes per channel, repetitions included, that may wait; more is refused with Full.
    """

    interval: float = 0.25
    join: float = 1.0
    rate: float = 1_250_000.0
    mtu: int = 1_400
    backlog: int = 64 * 1024 * 1024

    def check(self) -> Pace:
        """Itself; raises ConfigError."""
        for name, least in (("interval", 0.001), ("join", 0.0), ("rate", 1.0), ("mtu", 64), ("backlog", 1)):
            if not getattr(self, name) >= least:
                raise ConfigError(f"{getattr(self, name)!r}: at least {least:g}", key=name)
        return self

    @property
    def extra(self) -> int:
        """Rounds that cover a join."""
        return ceil(self.join / self.interval)


class Packet(msgspec.Struct, frozen=True):
    """An effect: send this on a channel."""

    channel: str
    data: bytes


class _Job:
    """The packets of an announcement that are still to be sent, in order."""

    __slots__ = ("at", "heads", "interval", "place", "round", "rounds", "size")

    def __init__(
        self, start: int, interval: int, rounds: list[list[Fragment]], heads: dict[int, bytes]
    ) -> None:
        self.at, self.interval, self.rounds, self.heads = start, interval, rounds, heads
        self.round = self.place = 0
        self.size = sum(self._length(each) for each_round in rounds for each in each_round)

    def _length(self, fragment: Fragment) -> int:
        return len(self.heads[fragment.sequence]) + len(fragment.body)

    def next(self) -> bytes:
        fragment = self.rounds[self.round][self.place]
        self.place += 1
        if self.place == len(self.rounds[self.round]):
            self.place, self.round = 0, self.round + 1
            self.at += self.interval
        packet = self.heads[fragment.sequence] + fragment.body
        self.size -= len(packet)
        return packet

    @property
    def done(self) -> bool:
        return self.round == len(self.rounds)


class _Lane:
    """What waits for one channel, the earliest first."""

    __slots__ = ("backlog", "free", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, _Job]] = []
        self.free = 0
        self.backlog = 0


class Sender:
    """Takes announcements, gives packets when they are due. ``sent`` and ``drops`` count."""

    def __init__(self, pace: Pace | None = None, reliability: Reliability | None = None) -> None:
        self.pace = (pace or Pace()).check()
        self.reliability: Reliability = reliability or Erasure()
        self.sent: Counter[str] = Counter()
        self.drops: Counter[str] = Counter()
        self._interval = nanoseconds(self.pace.interval)
        self._byte = NANOSECONDS / self.pace.rate
        self._lanes: dict[str, _Lane] = {}
        self._jobs: dict[Thread, _Job] = {}
        self._serial = 0

    def announce(
        self,
        now: int,
        channel: str,
        thread: Thread,
        version: int,
        payload: bytes,
        *,
        code: Code = Code.DATA,
        once: bool = False,
        replace: bool = False,
    ) -> None:
        """Announce a version of a thread.

        once
            One round only, without repetition.
        replace
            What is left of an earlier announcement of the thread is not sent: this one says all that it said.
        """
        if not 1 <= version <= MOST_VERSION:
            raise TooLarge("version of a thread", version, MOST_VERSION)
        rounds = self.reliability.rounds(payload, self.pace.mtu, self.pace.extra)
        if once:
            del rounds[1:]
        heads = {
            each.sequence: encode(Header(thread, version, each.sequence, each.last, code, each.options))
            for each_round in rounds
            for each in each_round
        }
        job = _Job(now, self._interval, rounds, heads)
        lane = self._lanes.setdefault(channel, _Lane())
        if replace:
            self._withdraw(lane, thread)
        if lane.backlog + job.size > self.pace.backlog:
            raise Full(f"channel {channel!r} of the sender", self.pace.backlog)
        lane.backlog += job.size
        if replace:
            self._jobs[thread] = job
        self._push(lane, job)

    def _withdraw(self, lane: _Lane, thread: Thread) -> None:
        """Empty what is left of a job; it falls out of its heap when its turn comes."""
        job = self._jobs.pop(thread, None)
        if job is not None and not job.done:
            lane.backlog -= job.size
            job.round, job.size = len(job.rounds), 0

    def _push(self, lane: _Lane, job: _Job) -> None:
        self._serial += 1
        heappush(lane.heap, (job.at, self._serial, job))

    def due(self, now: int) -> list[Packet]:
        """What is to be sent now."""
        packets: list[Packet] = []
        for channel, lane in list(self._lanes.items()):
            while lane.heap and lane.heap[0][0] <= now and lane.free <= now:
                _, _, job = heappop(lane.heap)
                if not job.done:
                    data = job.next()
                    lane.backlog -= len(data)
                    lane.free = max(lane.free, now - CATCH_UP) + int(len(data) * self._byte)
                    packets.append(Packet(channel, data))
                    self.sent[channel] += len(data)
                if not job.done:
                    self._push(lane, job)
            if not lane.heap and lane.free <= now:
                del self._lanes[channel]
        return packets

    @property
    def wake(self) -> int | None:
        """When something is due next."""
        times = [max(lane.heap[0][0], lane.free) for lane in self._lanes.values() if lane.heap]
        return min(times, default=None)

    @property
    def backlog(self) -> int:
        """Bytes that are still to be sent, repetitions included."""
        return sum(lane.backlog for lane in self._lanes.values())
