"""A connection over any asyncio byte stream: cuts it into frames, counts what is pending."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from sys import getrefcount
from typing import cast

from gossamer.core.body import Buffer
from gossamer.core.errors import ProtocolError
from gossamer.core.wire import PRELUDE, cut
from gossamer.transports.base import HIGH_WATER, Accept, Connection, Sink

FIRST_BYTES, RECEIVE_BYTES = 64 * 1024, (1024 + 64) * 1024
"""Room for what is read at once: at first, and where much comes, a large parcel and a little of the next. It
grows as a larger frame comes."""
MAX_GIVEN = 16
"""Buffers of the usual size that were given away and are held on to, because they may come free."""
FREE = 2
"""References to a buffer in a list that nobody else has: of the list, and of who counts them."""
PATIENCE = 5.0
"""Seconds that a closing connection waits for the other end to take something more, or to close as well."""


class Intake:
    """Cuts what is read into frames, in the place where it was read: whoever keeps one copies it, or has the
    buffer. Buffers that nobody looks at any more are read into again.
    """

    __slots__ = ("_begin", "_buffer", "_end", "_given", "_view", "_wanted", "error")

    def __init__(self) -> None:
        self._given: deque[Buffer] = deque(maxlen=MAX_GIVEN)
        self._use(Buffer(FIRST_BYTES))
        self._begin = self._end = 0
        self._wanted = PRELUDE
        self.error: ProtocolError | None = None
        """What broke the stream, once good frames before it have been handed out."""

    def _use(self, buffer: Buffer) -> None:
        self._buffer, self._view = buffer, memoryview(buffer)

    @property
    def room(self) -> memoryview:
        """Where the next bytes go."""
        return self._view[self._end :]

    def filled(self, count: int) -> list[memoryview]:
        """The frames completed by so many bytes more; they are there until ``make_room``."""
        self._end += count
        frames: list[memoryview] = []
        try:
            taken, self._wanted = cut(self._view[self._begin : self._end], frames)
            self._begin += taken
        except ProtocolError as error:
            self.error = error
        return frames

    def make_room(self) -> None:
        """Let the open frame end within the buffer, and the next read be worth it.

        Memory is taken for what has come, not for what was claimed to come.
        """
        view, begin, end, wanted = self._view, self._begin, self._end, self._wanted
        size, most = len(view), max(wanted, RECEIVE_BYTES)
        if end == size and size < most:
            self._renew(min(2 * size, most))
        elif begin == end and size > most:
            self._renew(RECEIVE_BYTES)  # the frame that needed more is out
        elif self._buffer.kept:
            self._renew(size)
        elif begin != end and begin + max(wanted, size // 2) <= size:
            return
        if begin != end:
            self._view[: end - begin] = bytes(view[begin:end])
        self._begin, self._end = 0, end - begin

    def _renew(self, size: int) -> None:
        """Read into another buffer from now on: one that was given away and has come free, or a new one."""
        given = self._given
        if self._buffer.kept and len(self._buffer) == RECEIVE_BYTES:
            given.append(self._buffer)
        if size == RECEIVE_BYTES and given and getrefcount(given[0]) == FREE:
            buffer = given.popleft()
            buffer.kept = False
            self._use(buffer)
        else:
            self._use(Buffer(size))


class StreamConnection(Connection, asyncio.BufferedProtocol):
    """The asyncio protocol is the connection: one object, one buffer, no copy but the frame itself."""

    def __init__(self, accept: Accept, remote: str = "") -> None:
        self.remote = remote
        self._accept = accept
        self._sink: Sink
        self._transport: asyncio.Transport
        self._intake = Intake()
        self._error: Exception | None = None
        self._closing = False
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER, low=0)
        if not self.remote:
            peer = transport.get_extra_info("peername")
            self.remote = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        here = transport.get_extra_info("sockname")
        self.local = str(here[0]) if isinstance(here, tuple) else ""
        self._sink = self._accept(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._intake.room

    def buffer_updated(self, count: int) -> None:
        if self._error is not None or self._closing:
            return
        frames = self._intake.filled(count)
        if frames:
            self._sink.received(frames)
        self._intake.make_room()
        if self._intake.error is not None:
            self._error = self._intake.error
            self._transport.abort()

    def resume_writing(self) -> None:
        self._sink.drained()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._gone.done():
            self._gone.set_result(None)
        self._sink.lost(self._error or error)

    # gossamer asks

    @property
    def pending(self) -> int:
        return self._transport.get_write_buffer_size()

    def send(self, frame: bytes) -> None:
        if len(frame) > self.max_frame:
            raise ValueError(f"frame of {len(frame)} bytes, limit {self.max_frame}")
        if not self.ending:
            self._transport.write(frame)

    def send_pieces(self, pieces: Sequence[bytes | memoryview]) -> None:
        size = sum(map(len, pieces))
        if size > self.max_frame:
            raise ValueError(f"frame of {size} bytes, limit {self.max_frame}")
        if not self.ending:
            self._transport.writelines(pieces)

    def pause(self) -> None:
        if not self.ending:
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self.ending:
            self._transport.resume_reading()

    async def close(self) -> None:
        """Say that nothing more comes, and read what does until the other end closes too.

        To close a socket with bytes unread resets it, and the system then throws away what it had not
        sent yet.
        """
        if not self.ending:
            self._transport.resume_reading()
            self._closing = True
            self._end_output()
        await linger(self, self._gone)

    def _end_output(self) -> None:
        if not self._transport.can_write_eof():
            self._transport.close()
            return
        try:
            self._transport.write_eof()
        except OSError:
            self._transport.abort()

    def abort(self) -> None:
        self._closing = True
        if not self._gone.done():
            self._transport.abort()

    @property
    def ending(self) -> bool:
        return self._closing or self._transport.is_closing()


async def linger(connection: Connection, gone: asyncio.Future[None]) -> None:
    """Wait until a closing connection is gone; abort it when nothing moves any more."""
    while not gone.done():
        before = connection.pending
        await asyncio.wait([gone], timeout=PATIENCE)
        if not gone.done() and connection.pending >= before:
            connection.abort()
