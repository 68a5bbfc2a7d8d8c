"""An announcer as an application holds it: ``async with Announcer(MEETING) as announcer``."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from gossamer.announce.announcer import AnnouncerSettings, Station
from gossamer.announce.configuration import Reports
from gossamer.announce.identity import ANNOUNCER_BYTES, Allotter, Thread
from gossamer.announce.index_plan import Plan
from gossamer.announce.reliability import Reliability
from gossamer.announce.sender import Pace, Sender
from gossamer.core.errors import Closed, ConfigError, StorageError
from gossamer.runtime.api.node import Node
from gossamer.runtime.net.announcement_carriers import Carriers
from gossamer.runtime.net.ip_multicast import SCHEME, beside, path_mtu
from gossamer.runtime.state import closed, opened
from gossamer.runtime.state_writer import Writer
from gossamer.runtime.timer import Alarm

DATA_CHANNELS = 16
INDEX_CHANNELS = 1
REPORTS = 1
"""Where reports go, after the meeting place."""
FIRST_INDEX = 2
FIRST_DATA = 16
"""Where channels for indexes and for threads begin, after the meeting place."""

RESERVED = 65_536
"""Identifiers left out after a restart: indexes and pages of the life before have taken some of them."""

PATIENCE = 5.0
"""Seconds that closing waits for the disk."""
_STATE = "announcer"
_THREAD = "thread/"
_decode = msgspec.msgpack.Decoder(tuple[bytes, int]).decode


class AnnouncedThread:
    """A thread that this announcer announces."""

    def __init__(self, announcer: Announcer, thread: Thread, name: str, channel: str) -> None:
        self.id, self.name, self.channel = thread, name, channel
        self._announcer = announcer

    def announce(self, payload: bytes) -> int:
        """Announce something new; its version. Raises Full if too much waits to be sent."""
        return self._announcer._announce(self, payload)

    def __repr__(self) -> str:
        return f"<thread {self.name!r} on {self.channel}>"


class Announcer:
    """Threads, and indexes that list them.

    meeting
        Where configuration is announced: ``multicast://GROUP:PORT``, or a channel of the ``node`` by name.
    data, indexes
        Channels for threads and for indexes; groups or channels beside the meeting place, if none are given.
    pace, reliability, settings
        How announcements are sent, what heals losses, and how indexes are kept.
    state
        Folder that remembers identifiers and versions; without one this announcer is a new one each time.
    """

    def __init__(
        self,
        meeting: str,
        *,
        data: Sequence[str] = (),
        indexes: Sequence[str] = (),
        pace: Pace | None = None,
        reliability: Reliability | None = None,
        settings: AnnouncerSettings | None = None,
        reports: Reports | None = None,
        state: str | Path = "",
        node: Node | None = None,
    ) -> None:
        self.meeting = meeting
        self.data = list(data) or beside(meeting, DATA_CHANNELS, FIRST_DATA)
        self.index_channels = list(indexes) or beside(meeting, INDEX_CHANNELS, FIRST_INDEX)
        self._pace, self._reliability = pace or Pace(), reliability
        self._settings, self._reports, self._node = settings, reports, node
        self._folder = state
        self._listed: Thread | None = None
        self._known: dict[str, tuple[Thread, int]] = {}
        self._carriers: Carriers | None = None
        self._sent: asyncio.Event = asyncio.Event()
        self._unkept = 0
        """Versions that are on their way to the disk; nothing is sent meanwhile."""
        self._failure: StorageError | None = None
        """Why nothing can be written."""

    async def __aenter__(self) -> Announcer:
        carriers = Carriers(self._hears, self._node)
        carriers.check(self.meeting, *self.data, *self.index_channels)
        self._state = await opened(self._folder)
        self._writer = Writer(self._state, dict, self._stalled)
        allotter = self._allotter()
        groups = [
            each for each in (self.meeting, *self.data, *self.index_channels) if each.startswith(SCHEME)
        ]
        mtu = min([self._pace.mtu, *map(path_mtu, groups[:1])])
        sender = Sender(msgspec.structs.replace(self._pace, mtu=mtu), self._reliability)
        self.station = Station(allotter, self.meeting, sender, self._settings, self._reports)
        self._allot = allotter
        self._alarm = Alarm(self._tend)
        self._carriers = carriers
        return self

    def _allotter(self) -> Allotter:
        """Who this announcer is: somebody new, or the same as in an earlier life."""
        kept = self._state.values.get(_STATE)
        if kept is None:
            return Allotter(os.urandom(ANNOUNCER_BYTES))
        for key, value in self._state.values.items():
            if key.startswith(_THREAD):
                self._known[key.removeprefix(_THREAD)] = _decode(value)
        return Allotter(*_decode(kept))

    def _keep(self, name: str, thread: Thread, version: int) -> None:
        self._known[name] = thread, version
        if self._folder:
            encode = msgspec.msgpack.encode
            whole = encode((self._allot.announcer, self._allot.allotted + RESERVED))
            self._unkept += 1
            self._writer.write([(_STATE, whole), (_THREAD + name, encode((thread, version)))], self._kept)

    def _kept(self) -> None:
        """A version is on disk: it may be sent, for the next life of this announcer begins behind it."""
        self._unkept -= 1
        if self._carriers is not None:
            self._tend()

    def _stalled(self, error: StorageError | None) -> None:
        self._failure = error
        self._sent.set()

    # use

    def thread(self, name: str, channel: str = "", *, listed: bool = True) -> AnnouncedThread:
        """A thread that listeners find by its name; on a channel by its name, if none is given.

        listed
            Whether the announcer's own index lists it. If not, and no other index does, those who want it
            listen to its channel all the time.
        """
        carriers = self._running
        chosen = channel or self.data[_spread(name) % len(self.data)]
        carriers.check(chosen)
        now = self._alarm.now()
        made = self.station.thread(now, name, chosen, self._known.get(name))
        if listed:
            if self._listed is None:
                self._listed = self.station.index(now, self.index_channels[0], [made])
            else:
                self.station.enlist(now, self._listed, [made])
        self._keep(name, made, self.station.version(made))
        self._tend()
        return AnnouncedThread(self, made, name, chosen)

    def index(self, members: Iterable[AnnouncedThread | Thread], channel: str = "") -> Thread:
        """A further index, of threads and of other indexes; raises Cyclic."""
        carriers = self._running
        chosen = channel or self.index_channels[-1]
        carriers.check(chosen)
        listed = [each.id if isinstance(each, AnnouncedThread) else each for each in members]
        made = self.station.index(self._alarm.now(), chosen, listed)
        self._tend()
        return made

    def regroup(self, plan: Plan) -> None:
        """Other indexes in place of those there are; listeners move over by themselves."""
        if not self.index_channels:
            raise ConfigError("no channel for indexes", key="indexes")
        self._running.check(*self.index_channels)
        self.station.regroup(self._alarm.now(), plan, self.index_channels)
        self._listed = None
        self._tend()

    async def drain(self) -> None:
        """Wait until everything announced has been sent, with all repetitions; raises what the disk says."""
        while self._unkept or self.station.sender.backlog:
            if self._failure is not None:
                raise self._failure
            self._sent.clear()
            await self._sent.wait()

    @property
    def drops(self) -> Counter[str]:
        """What was not sent, by reason."""
        return self._running.drops + self.station.sender.drops

    def _announce(self, thread: AnnouncedThread, payload: bytes) -> int:
        carriers = self._running
        carriers.check(thread.channel)
        if self._failure is not None:
            raise self._failure
        version = self.station.announce(self._alarm.now(), thread.id, payload)
        self._keep(thread.name, thread.id, version)
        self._tend()
        return version

    # carrying out

    @property
    def _running(self) -> Carriers:
        if self._carriers is None:
            raise Closed("announcer")
        return self._carriers

    def _tend(self) -> None:
        if self._unkept:  # nothing is sent that a next life of this announcer would not know of
            return
        for packet in self.station.step(self._alarm.now()):
            self._running.send(packet.channel, packet.data)
        self._alarm.set(self.station.wake)
        if not self.station.sender.backlog:
            self._sent.set()

    def _hears(self, data: bytes) -> None:
        """An announcer hears nothing; an indexer does."""

    async def close(self) -> None:
        """Stop at once; at the end of ``async with`` everything is sent first, and listeners are told."""
        if self._carriers is not None:
            self._alarm.cancel()
            carriers, self._carriers = self._carriers, None
            await carriers.close()
            if await self._writer.close(PATIENCE):
                await closed(self._state)
            self._sent.set()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None and self._carriers is not None:
                await self.drain()
                self.station.farewell(self._alarm.now())
                self._tend()
                await self.drain()
        finally:
            await self.close()


def _spread(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")
