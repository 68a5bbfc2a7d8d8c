"""What datagram transports share: one socket, and a connection for each remote address on it.

A datagram is a frame, except those that cannot be one: frames begin with ``gs`` and are longer than ten
bytes. What a datagram cannot hold travels in pieces. The single byte ``GOODBYE`` stands for the close that
datagrams lack. Like every datagram it may get lost and its sender's address may be forged: whoever needs to
be sure sends heartbeats, and signs.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from gossamer.transports import pieces
from gossamer.transports.base import HIGH_WATER, Accept, Connection, Sink

MAX_DATAGRAM = 65_000
"""Bytes; IPv4 carries 65 507 at most."""
LARGEST = pieces.MAX_PIECES * (MAX_DATAGRAM - pieces.HEAD)
"""Bytes of the largest frame, in pieces."""
BEST_DATAGRAM = 1_400
"""Bytes that travel unfragmented over Ethernet and most tunnels."""
MAX_REMOTES = 1024
"""Connections per socket: a flood of forged addresses takes no more memory than these."""
SOCKET_BYTES = 4 * 1024 * 1024
"""Room asked of the system for datagrams that wait to be read; it may grant less."""
GOODBYE = b"\x00"

Address = tuple[Any, ...]
P = TypeVar("P", bound=asyncio.DatagramProtocol)


class DatagramConnection(Connection):
    """Frames to and from one remote address. Pausing does nothing: what nobody reads is dropped anyway."""

    reliable = False
    max_frame = LARGEST
    best_frame = BEST_DATAGRAM

    def __init__(self, shared: SharedSocket, address: Address, remote: str) -> None:
        self.remote = remote
        self.address = address
        self.sink: Sink
        self.open = True
        self._shared = shared

    @property
    def pending(self) -> int:
        """Counted for the whole socket, since one buffer serves all its connections."""
        return self._shared.pending if self.open else 0

    @property
    def ending(self) -> bool:
        return not self.open

    def send(self, frame: bytes) -> None:
        check_size(frame)
        if self.open:
            self._shared.transmit_frame(frame, self.address)

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    async def close(self) -> None:
        self._shared.dismiss(self)
        await self._shared.settled()

    def abort(self) -> None:
        self._shared.dismiss(self)


class SharedSocket(asyncio.DatagramProtocol):
    """A socket that lives while it is ``lasting`` or has connections.

    ignored
        Datagrams of strangers not listened to because ``MAX_REMOTES`` connections exist.
    """

    def __init__(self, accept: Accept) -> None:
        self.connections: dict[Address, DatagramConnection] = {}
        self.lasting = self.accepting = True
        self.ignored = 0
        self._accept = accept
        self._assembly = pieces.Assembly()
        self._in_pieces = 0
        self._loop = asyncio.get_running_loop()
        self._gone = self._loop.create_future()
        self._transport: asyncio.DatagramTransport

    # asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self._buffer = cast(asyncio.WriteTransport, transport)
        self._buffer.set_write_buffer_limits(high=HIGH_WATER, low=0)

    def datagram_received(self, data: bytes, address: Address) -> None:
        connection = self.connections.get(address)
        if data == GOODBYE:
            if connection is not None:
                self.drop(connection)
        elif data:
            connection = connection or self.stranger(address)
            if connection is None or not connection.open:
                return  # nor does a piece of it take room from others
            frame = self._assembly.add(address, data) if data.startswith(pieces.MARK) else data
            if frame is not None:
                connection.sink.received([frame])

    def resume_writing(self) -> None:
        for connection in list(self.connections.values()):
            if connection.open:
                connection.sink.drained()

    def connection_lost(self, error: Exception | None) -> None:
        for connection in list(self.connections.values()):
            self.drop(connection, error)
        self._gone.set_result(None)

    # what a transport decides

    def stranger(self, address: Address) -> DatagramConnection | None:
        """A first frame came from this address: a new connection, or None to ignore it."""
        raise NotImplementedError

    def finish(self) -> None:
        """The last connection is gone, and no others are wanted."""
        self._transport.close()

    # for connections

    @property
    def pending(self) -> int:
        return self._buffer.get_write_buffer_size()

    def transmit(self, data: bytes, address: Address) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(data, address)

    def transmit_frame(self, frame: bytes, address: Address) -> None:
        """Send a frame, in pieces if it has to be."""
        if len(frame) <= MAX_DATAGRAM:
            self.transmit(frame, address)
            return
        self._in_pieces += 1
        for piece in pieces.cut(frame, self._in_pieces, MAX_DATAGRAM):
            self.transmit(piece, address)

    def meet(self, connection: DatagramConnection) -> DatagramConnection | None:
        """Make a connection known and find its sink; None if there are too many."""
        if len(self.connections) >= MAX_REMOTES:
            self.ignored += 1
            return None
        self.connections[connection.address] = connection
        try:
            connection.sink = self._accept(connection)
        except BaseException:
            del self.connections[connection.address]
            self.finish_if_unused()
            raise
        return connection

    def dismiss(self, connection: DatagramConnection) -> None:
        """End a connection from this side."""
        if connection.open:
            self.transmit(GOODBYE, connection.address)
            self.drop(connection)

    def drop(self, connection: DatagramConnection, error: Exception | None = None) -> None:
        """End a connection, whatever the reason; its sink is told soon, and nothing after that."""
        if connection.open:
            connection.open = False
            del self.connections[connection.address]
            self._loop.call_soon(lambda: connection.sink.lost(error))
            self.finish_if_unused()

    def finish_if_unused(self) -> None:
        if not self.lasting and not self.connections and not self._transport.is_closing():
            self.finish()

    async def settled(self) -> None:
        """Sinks have been told what is due, and a socket that is closing has closed."""
        await asyncio.sleep(0)
        if self._transport.is_closing():
            await asyncio.shield(self._gone)


def check_size(frame: bytes) -> None:
    if len(frame) > LARGEST:
        raise ValueError(f"frame of {len(frame)} bytes, limit {LARGEST}")


@contextmanager
def opened(family: int) -> Iterator[socket.socket]:
    """A datagram socket with ample buffers, to be set up and attached; closed if that fails."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        yield sock
    except BaseException:
        sock.close()
        raise


async def attached(protocol: P, sock: socket.socket) -> P:
    """The protocol, receiving from the socket from now on and owning it."""
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: protocol, sock=sock)
    return protocol
