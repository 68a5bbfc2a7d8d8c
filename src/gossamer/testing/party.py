"""Both ends of connections under test, and sinks that remember what they were told."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence

from gossamer.core.wire import MAGIC, PARCEL, PRELUDE, VERSION
from gossamer.transports.base import Connection, Frame, Listener, Transport

SMALLEST = PRELUDE + 5


def frame(number: int, size: int = SMALLEST) -> bytes:
    """A frame as the wire wants it, of so many bytes, told from others by its number."""
    prelude = struct.pack(">2sBBHI", MAGIC, VERSION, PARCEL, 4, size - PRELUDE - 4)
    return prelude + struct.pack(">I", number) + bytes([number % 251]) * (size - PRELUDE - 4)


def number_of(data: bytes) -> int:
    """The number that a frame was made with."""
    return int.from_bytes(data[PRELUDE : PRELUDE + 4], "big")


class Recorder:
    """A sink that remembers what it was told. ``on_received`` may be replaced."""

    def __init__(self) -> None:
        self.connection: Connection
        self.frames: list[bytes] = []
        self.drains = 0
        self.losses: list[Exception | None] = []
        self.told_after_loss: list[str] = []
        self.on_received: Callable[[list[bytes]], None] = lambda frames: None
        self._changed = asyncio.Event()

    def received(self, frames: Sequence[Frame]) -> None:
        self._note("received")
        kept = [bytes(each) for each in frames]
        self.frames += kept
        self.on_received(kept)

    def drained(self) -> None:
        self._note("drained")
        self.drains += 1

    def lost(self, error: Exception | None) -> None:
        self._note("lost")
        self.losses.append(error)

    def _note(self, what: str) -> None:
        if self.losses:
            self.told_after_loss.append(what)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is looked at whenever the sink is told something."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def has(self, count: int) -> list[bytes]:
        await self.until(lambda: len(self.frames) >= count)
        return self.frames

    async def is_lost(self) -> None:
        await self.until(lambda: bool(self.losses))


class Party:
    """Everything one test opens: it accepts connections, remembers their sinks and closes all at the end."""

    def __init__(self, transport: Transport, address: str) -> None:
        self.transport, self.asked = transport, address
        self.server: Listener
        self.accepted: list[Recorder] = []
        self.everyone: list[Recorder] = []
        self.on_accept: Callable[[Connection], None] = lambda connection: None
        self._arrived = asyncio.Event()

    def accept(self, connection: Connection) -> Recorder:
        recorder = self.greet(connection)
        self.accepted.append(recorder)
        self._arrived.set()
        self.on_accept(connection)
        return recorder

    def greet(self, connection: Connection) -> Recorder:
        recorder = Recorder()
        recorder.connection = connection
        self.everyone.append(recorder)
        return recorder

    async def listen(self) -> None:
        self.server = await self.transport.listen(self.asked, self.accept)

    async def connect(self) -> Recorder:
        connection = await self.transport.connect(self.server.address, self.greet)
        return next(each for each in self.everyone if each.connection is connection)

    async def pair(self) -> tuple[Recorder, Recorder]:
        """Both ends of a new connection, after a first frame, without which some listeners hear nothing."""
        near = await self.connect()
        hello = frame(0xFFFF_FFFF - len(self.everyone))
        near.connection.send(hello)
        while True:
            for far in self.accepted:
                if hello in far.frames:
                    far.frames.remove(hello)
                    return near, far
            await self._news()

    async def accepts(self, count: int) -> Recorder:
        """Wait until so many were accepted; the last of them."""
        while len(self.accepted) < count:
            await self._news()
        return self.accepted[count - 1]

    async def _news(self) -> None:
        """Wait until somebody is accepted or an accepted sink is told something."""
        self._arrived.clear()
        waits = [asyncio.ensure_future(self._arrived.wait())]
        for each in self.accepted:
            each._changed.clear()
            waits.append(asyncio.ensure_future(each._changed.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def end(self) -> None:
        """Close everything; every sink has then been told of its loss, once and last."""
        for each in self.everyone:
            each.connection.resume()
        await asyncio.gather(*(each.connection.close() for each in list(self.everyone)))
        await self.server.close()
        for each in self.everyone:
            await each.is_lost()
        await turns()
        for each in self.everyone:
            assert len(each.losses) == 1, f"lost was told {len(each.losses)} times"
            assert each.told_after_loss == [], f"told after lost: {each.told_after_loss}"


async def turns() -> None:
    """Let the event loop do what it was about to do."""
    for _ in range(20):
        await asyncio.sleep(0)
