"""tcp://host:port: a stream per neighbour."""

from __future__ import annotations

import asyncio
import errno
import socket

from gossamer.core.errors import AddressInUse, BadAddress, CannotConnect
from gossamer.transports.base import Accept, Connection, Transport, host_and_port, joined
from gossamer.transports.stream import StreamConnection


class TcpListener:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        host, port = server.sockets[0].getsockname()[:2]
        self.address = joined("tcp", host, port)

    async def close(self) -> None:
        self._server.close()


class TcpConnection(StreamConnection):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)


class TcpTransport(Transport):
    scheme = "tcp"

    async def listen(self, address: str, accept: Accept) -> TcpListener:
        host, port = host_and_port(address)
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(lambda: TcpConnection(accept), host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(address) from None
            raise BadAddress(address, reason(error)) from None
        return TcpListener(server)

    async def connect(self, address: str, accept: Accept) -> Connection:
        host, port = host_and_port(address)
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(lambda: TcpConnection(accept, address), host, port)
        except OSError as error:
            raise CannotConnect(address, reason(error)) from None
        return connection


def reason(error: OSError) -> str:
    """What the system says, without Python's wrapping."""
    return (error.strerror or str(error)).lower()
