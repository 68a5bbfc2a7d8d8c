"""A listener as an application holds it: ``async with Listener(MEETING, "weather/oslo") as heard``."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from gossamer.announce.identity import ANNOUNCER_BYTES, Allotter
from gossamer.announce.interest import Reporter
from gossamer.announce.listener import Effect, Follower, Heard, ListenerSettings, Missed
from gossamer.announce.memberships import Join, Leave
from gossamer.announce.sender import Packet
from gossamer.core.errors import Closed, GossamerError, NoAnswer
from gossamer.runtime.api.node import Node
from gossamer.runtime.net.announcement_carriers import Carriers
from gossamer.runtime.timer import Alarm

MAX_PENDING = 10_000


class HeardAnnouncement(msgspec.Struct, frozen=True):
    """An announcement that was wanted."""

    name: str
    thread: bytes
    version: int
    payload: bytes


class Listener:
    """Hears what it wants, and joins channels only around it.

    meeting
        Where configuration is announced: a multicast group, or a channel of the ``node``.
    names
        Threads to listen for.
    max_pending
        Announcements that may wait to be read; then the oldest are dropped, and counted.
    reports
        Whether to tell now and then, if an indexer asks for it, what is wanted here.
    missed
        Versions that an index told of and that did not come.
    """

    def __init__(
        self,
        meeting: str,
        *names: str,
        settings: ListenerSettings | None = None,
        node: Node | None = None,
        max_pending: int = MAX_PENDING,
        reports: bool = True,
    ) -> None:
        self.missed = 0
        self._meeting, self._names = meeting, names
        self._settings, self._node = settings, node
        self._limit = max_pending
        self._waiting: deque[HeardAnnouncement] = deque()
        self._arrival = asyncio.Event()
        self._drops: Counter[str] = Counter()
        self._carriers: Carriers | None = None
        self._reports = reports

    async def __aenter__(self) -> Listener:
        carriers = Carriers(self._packet, self._node)
        carriers.check(self._meeting)
        reporter = Reporter(Allotter(os.urandom(ANNOUNCER_BYTES)), random.Random()) if self._reports else None
        self.follower = Follower(self._meeting, self._settings, reporter)
        self._alarm = Alarm(self._step)
        self._carriers = carriers
        try:
            self.want(*self._names)
        except BaseException:
            await self.close()
            raise
        return self

    def want(self, *names: str) -> None:
        """Listen for these, too."""
        if self._running:
            self._carry_out(self.follower.want(self._alarm.now(), *names))

    def unwant(self, *names: str) -> None:
        """Listen for these no longer."""
        if self._running:
            self._carry_out(self.follower.unwant(self._alarm.now(), *names))

    @property
    def joined(self) -> set[str]:
        """Channels that are joined at the moment."""
        return self.follower.joined

    @property
    def settled(self) -> bool:
        """Whether everything wanted is found, and the indexes that list it have been heard."""
        return self.follower.settled

    @property
    def drops(self) -> Counter[str]:
        """What came to nothing, by reason."""
        return self._drops + self.follower.drops

    # reading

    async def next(self, timeout: float | None = None) -> HeardAnnouncement:
        """The next announcement; raises NoAnswer after so many seconds, Closed when it is closed."""
        try:
            async with asyncio.timeout(timeout):
                while not self._waiting:
                    self._running  # noqa: B018 - raises if it is closed
                    self._arrival.clear()
                    await self._arrival.wait()
        except TimeoutError:
            raise NoAnswer("what is listened for", timeout or 0) from None
        return self._waiting.popleft()

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> HeardAnnouncement:
        try:
            return await self.next()
        except Closed:
            raise StopAsyncIteration from None

    # carrying out

    @property
    def _running(self) -> Carriers:
        if self._carriers is None:
            raise Closed("listener")
        return self._carriers

    def _packet(self, data: bytes) -> None:
        if self._carriers is not None:
            self._carry_out(self.follower.packet(self._alarm.now(), data))

    def _step(self) -> None:
        if self._carriers is not None:
            self._carry_out(self.follower.step(self._alarm.now()))

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for each in effects:
            try:
                self._effect(each)
            except GossamerError as error:  # a page may name channels that nothing here carries
                self._drops[f"not joined: {type(error).__name__}"] += 1
        self._alarm.set(self.follower.wake)

    def _effect(self, effect: Effect) -> None:
        match effect:
            case Join(channel):
                self._running.join(channel)
            case Leave(channel):
                self._running.leave(channel)
            case Packet(channel, data):
                self._running.send(channel, data)
            case Missed():
                self.missed += effect.count
            case Heard(announcement):
                name = self.follower.name(announcement.thread)
                whole = HeardAnnouncement(
                    name, announcement.thread, announcement.version, announcement.payload
                )
                self._waiting.append(whole)
                if len(self._waiting) > self._limit:
                    self._waiting.popleft()
                    self._drops["not read in time"] += 1
                self._arrival.set()

    async def close(self) -> None:
        """Leave all channels; what waits can still be read."""
        if self._carriers is not None:
            self._alarm.cancel()
            carriers, self._carriers = self._carriers, None
            self._arrival.set()
            await carriers.close()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
