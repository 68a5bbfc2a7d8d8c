"""local://name: nodes of one process, through the event loop and nothing else.

Each transport object is a world of its own: nodes that should meet share one.
"""

from __future__ import annotations

import asyncio
from collections import deque

from gossamer.core.errors import AddressInUse, BadAddress, CannotConnect
from gossamer.transports.base import HIGH_WATER, Accept, Connection, Sink, Transport


class LocalConnection(Connection):
    """One end of a pair; frames pass through the loop, so no call nests into another."""

    def __init__(self, remote: str) -> None:
        self.remote = remote
        self.sink: Sink
        self.other: LocalConnection
        self._inbox: deque[bytes] = deque()
        self._size = 0
        self._paused = self._scheduled = self._closed = self._high = False
        self._loop = asyncio.get_running_loop()

    @property
    def pending(self) -> int:
        return self.other._size

    @property
    def ending(self) -> bool:
        return self._closed

    def send(self, frame: bytes) -> None:
        if len(frame) > self.max_frame:
            raise ValueError(f"frame of {len(frame)} bytes, limit {self.max_frame}")
        if self._closed:
            return
        other = self.other
        other._inbox.append(frame)
        other._size += len(frame)
        self._high = self._high or other._size > HIGH_WATER
        other._schedule()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and not self._paused:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        if self._paused or self._closed:
            return
        frames, self._inbox, self._size = list(self._inbox), deque(), 0
        if frames:
            self.sink.received(frames)
        if self.other._high and not self._size and not self.other._closed:
            self.other._high = False
            self.other.sink.drained()
        if self.other._closed and not self._inbox:
            self._lost()

    async def close(self) -> None:
        """The other end still receives what is pending."""
        self._end()
        await asyncio.sleep(0)

    def abort(self) -> None:
        if not self._closed:
            self.other._inbox.clear()
            self.other._size = 0
            self._end()

    def _end(self) -> None:
        if not self._closed:
            self._closed = True
            self.other._schedule()
            self._loop.call_soon(lambda: self.sink.lost(None))

    def _lost(self) -> None:
        if not self._closed:
            self._closed = True
            self.sink.lost(None)


class LocalListener:
    def __init__(self, transport: LocalTransport, address: str) -> None:
        self._transport = transport
        self.address = address

    async def close(self) -> None:
        self._transport.listening.pop(self.address, None)


class LocalTransport(Transport):
    """A meeting place for nodes of one process."""

    scheme = "local"

    def __init__(self) -> None:
        self.listening: dict[str, Accept] = {}

    async def listen(self, address: str, accept: Accept) -> LocalListener:
        check(address)
        if address in self.listening:
            raise AddressInUse(address)
        self.listening[address] = accept
        return LocalListener(self, address)

    async def connect(self, address: str, accept: Accept) -> Connection:
        check(address)
        remote = self.listening.get(address)
        if remote is None:
            raise CannotConnect(address, "nobody listens there in this process")
        mine, theirs = LocalConnection(address), LocalConnection("local://")
        mine.other, theirs.other = theirs, mine
        mine.sink = accept(mine)
        theirs.sink = remote(theirs)
        return mine


def check(address: str) -> None:
    """Raise BadAddress for anything but ``local://name``."""
    if not address.startswith("local://") or address == "local://":
        raise BadAddress(address, "expected local:// and a name")
