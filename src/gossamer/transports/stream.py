"""A connection over any asyncio byte stream: cuts it into frames, counts what is pending."""

from __future__ import annotations

import asyncio
from typing import cast

from gossamer.core.errors import ProtocolError
from gossamer.core.wire import Framer
from gossamer.transports.base import HIGH_WATER, Accept, Connection, Sink

RECEIVE_BYTES = 256 * 1024


class StreamConnection(Connection, asyncio.BufferedProtocol):
    """The asyncio protocol is the connection: one object, one buffer, no copy but the frame itself."""

    def __init__(self, accept: Accept, remote: str = "") -> None:
        self.remote = remote
        self._accept = accept
        self._sink: Sink
        self._transport: asyncio.Transport
        self._framer = Framer()
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._error: Exception | None = None
        self._gone = asyncio.get_running_loop().create_future()

    # asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER, low=0)
        if not self.remote:
            peer = transport.get_extra_info("peername")
            self.remote = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        self._sink = self._accept(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        if self._error is not None:
            return
        try:
            frames = self._framer.feed(self._buffer[:count])
        except ProtocolError as error:
            self._error = error
            self._transport.abort()
            return
        if frames:
            self._sink.received(frames)

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
        if not self._transport.is_closing():
            self._transport.write(frame)

    def pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    async def close(self) -> None:
        self._transport.close()
        await asyncio.shield(self._gone)

    def abort(self) -> None:
        self._transport.abort()
