"""A transport written by somebody else, from what ``transports`` offers, passes the same suite."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from itertools import count

import pytest
import uvloop

from gossamer.core.errors import AddressInUse, BadAddress, CannotConnect
from gossamer.testing.transports import TransportConformance
from gossamer.transports.base import Accept, Connection, Transport
from gossamer.transports.stream import StreamConnection


class UnixListener:
    def __init__(self, server: asyncio.AbstractServer, address: str) -> None:
        self._server = server
        self.address = address

    async def close(self) -> None:
        self._server.close()


class UnixTransport(Transport):
    """unix://name: nodes of one Linux machine, through a socket in the abstract namespace."""

    scheme = "unix"

    async def listen(self, address: str, accept: Accept) -> UnixListener:
        loop = asyncio.get_running_loop()
        path, sock = self._path(address), socket.socket(socket.AF_UNIX)
        try:
            sock.bind(path)
        except OSError:
            sock.close()
            raise AddressInUse(address) from None
        return UnixListener(
            await loop.create_unix_server(lambda: StreamConnection(accept), sock=sock), address
        )

    async def connect(self, address: str, accept: Accept) -> Connection:
        loop = asyncio.get_running_loop()
        path, sock = self._path(address), socket.socket(socket.AF_UNIX)
        try:
            sock.connect(path)
        except OSError as error:
            sock.close()
            raise CannotConnect(address, str(error)) from None
        connection = StreamConnection(accept, address)
        await loop.create_unix_connection(lambda: connection, sock=sock)
        return connection

    def _path(self, address: str) -> str:
        name = address.removeprefix("unix://")
        if not name or name == address:
            raise BadAddress(address, "expected unix:// and a name")
        return f"\0gossamer-{name}"


names = count()


@pytest.mark.skipif(sys.platform != "linux", reason="needs the abstract namespace")
class TestUnix(TransportConformance):
    bad_addresses = ("nonsense", "tcp://127.0.0.1:1")

    def make(self) -> tuple[Transport, str]:
        return UnixTransport(), f"unix://{os.getpid()}-{next(names)}"

    async def garbage(self, address: str) -> None:
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(UnixTransport()._path(address))
            stranger.send(b"garbage" * 10)


class TestUnixOnUvloop(TestUnix):
    def new_loop(self) -> asyncio.AbstractEventLoop:
        return uvloop.new_event_loop()
