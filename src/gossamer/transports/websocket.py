"""ws://host:port: one binary message per frame, through whatever lets HTTP pass.

Browsers say in the ``Origin`` header which page opens a connection; programs send none. A listener refuses
every origin it was not told of (``ws://host:port?origin=https://example.org``, repeated for more), so that
no page a person happens to visit can talk to a node on their machine. A text message is an error and closes
the connection.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from urllib.parse import parse_qsl, urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection as Socket
from websockets.asyncio.server import Server, ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, InvalidHandshake
from websockets.frames import CloseCode
from websockets.typing import Origin

from gossamer.core.errors import AddressInUse, BadAddress, CannotConnect, ProtocolError
from gossamer.core.wire import MAX_FRAME
from gossamer.transports.base import HIGH_WATER, Accept, Connection, Sink, Transport, host_and_port, joined
from gossamer.transports.stream import linger
from gossamer.transports.tcp import reason

_log = logging.getLogger(f"{__name__}.library")
_log.setLevel(logging.CRITICAL)  # Strangers who send garbage are no news; a debugger can lower it.


class _Telling(Socket):
    """The library's connection, which passes on that its write buffer ran empty."""

    owner: WebsocketConnection | None = None
    gone = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.owner is not None:
            self.owner.drained()


class _Client(_Telling, ClientConnection):
    pass


class _Server(_Telling, ServerConnection):
    pass


class WebsocketConnection(Connection):
    """One end of a websocket. Messages that arrive together are passed on together."""

    def __init__(self, socket: _Telling, accept: Accept, remote: str) -> None:
        self.remote = remote
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._frames: list[bytes] = []
        self._scheduled = self._closing = False
        self._error: Exception | None = None
        self._closer: asyncio.Task[None] | None = None
        socket.owner = self
        self._sink: Sink = accept(self)
        self._reader = self._loop.create_task(self._read())

    # the library tells

    async def _read(self) -> None:
        try:
            await self._receive_all()
            if not self._closing:
                await self._flowing.wait()
                self._deliver()
        finally:
            self._closing = True
            self._gone.set_result(None)
            self._sink.lost(self._error)

    async def _receive_all(self) -> None:
        try:
            while True:
                message = await self._socket.recv()
                if self._closing:
                    continue
                if isinstance(message, str):
                    self._error = ProtocolError("message", message, "a binary message")
                    self._end(CloseCode.UNSUPPORTED_DATA)
                    continue
                self._frames.append(message)
                self._schedule()
        except ConnectionClosedOK:
            pass
        except ConnectionClosed as error:
            if not self._closing:
                self._error = error

    def _schedule(self) -> None:
        if not self._scheduled and self._flowing.is_set():
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._frames and self._flowing.is_set() and not self._closing:
            frames, self._frames = self._frames, []
            self._sink.received(frames)

    def drained(self) -> None:
        if not self._gone.done():
            self._sink.drained()

    # gossamer asks

    @property
    def pending(self) -> int:
        return 0 if self._gone.done() else self._socket.transport.get_write_buffer_size()

    @property
    def ending(self) -> bool:
        return self._closing or self._socket.transport.is_closing()

    def send(self, frame: bytes) -> None:
        if len(frame) > self.max_frame:
            raise ValueError(f"frame of {len(frame)} bytes, limit {self.max_frame}")
        if not self._closing:
            broadcast((self._socket,), frame)  # the library's way to send without waiting

    def pause(self) -> None:
        if not self._closing:
            self._flowing.clear()
            self._socket.transport.pause_reading()

    def resume(self) -> None:
        if not self._closing:
            self._flowing.set()
            self._schedule()
            self._socket.transport.resume_reading()

    async def close(self) -> None:
        self._end(CloseCode.NORMAL_CLOSURE)
        await linger(self, self._gone)

    def _end(self, code: CloseCode) -> None:
        """Close behind what is pending; what still arrives is read, for the other end's close is among it."""
        if not self._closing:
            self.resume()
            self._closing = True
            self._closer = self._loop.create_task(self._close(code))

    async def _close(self, code: CloseCode) -> None:
        closing = asyncio.ensure_future(self._socket.close(code))
        await linger(self, self._gone)
        await closing

    def abort(self) -> None:
        self._closing = True
        self._flowing.set()
        if not self._socket.gone:
            self._socket.transport.abort()

    async def wait(self) -> None:
        """Until the connection is lost."""
        await asyncio.shield(self._gone)


class WebsocketListener:
    def __init__(self, server: Server) -> None:
        self._server = server
        host, port = server.sockets[0].getsockname()[:2]
        self.address = joined("ws", host, port)

    async def close(self) -> None:
        self._server.close(close_connections=False)
        await asyncio.sleep(0)  # The library closes its sockets in a task.


class WebsocketTransport(Transport):
    scheme = "ws"

    async def listen(self, address: str, accept: Accept) -> WebsocketListener:
        host, port = host_and_port(address)

        async def handle(socket: ServerConnection) -> None:
            assert isinstance(socket, _Server)
            peer = socket.remote_address
            try:
                connection = WebsocketConnection(socket, accept, f"{peer[0]}:{peer[1]}")
            except Exception as error:
                problem = {"message": "accept failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(problem)
                socket.transport.abort()
            else:
                await connection.wait()

        try:
            server = await serve(
                handle,
                host,
                port,
                origins=[None, *allowed_origins(address)],
                create_connection=_Server,
                compression=None,
                max_size=MAX_FRAME,
                max_queue=None,
                write_limit=(HIGH_WATER, 0),
                ping_interval=None,
                close_timeout=None,
                server_header=None,
                logger=_log,
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(address) from None
            raise BadAddress(address, reason(error)) from None
        return WebsocketListener(server)

    async def connect(self, address: str, accept: Accept) -> Connection:
        host, port = host_and_port(address)
        try:
            socket = await connect(
                joined("ws", host, port),
                # Given here, they also keep a server from redirecting to another.
                host=host,
                port=port,
                create_connection=_Client,
                compression=None,
                max_size=MAX_FRAME,
                max_queue=None,
                write_limit=(HIGH_WATER, 0),
                ping_interval=None,
                close_timeout=None,
                user_agent_header=None,
                proxy=None,
                logger=_log,
            )
        except OSError as error:
            raise CannotConnect(address, reason(error)) from None
        except (InvalidHandshake, EOFError, ValueError) as error:
            raise CannotConnect(address, str(error)) from None
        assert isinstance(socket, _Client)
        return WebsocketConnection(socket, accept, address)


def allowed_origins(address: str) -> list[Origin]:
    """The origins a listening address names; raises BadAddress."""
    origins = []
    for name, value in parse_qsl(urlsplit(address).query, keep_blank_values=True):
        if name != "origin" or not value:
            raise BadAddress(address, f"unknown option {name!r}; known: origin, such as https://example.org")
        origins.append(Origin(value))
    return origins
