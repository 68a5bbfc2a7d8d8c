"""udp://host:port: datagrams; frames may be lost, doubled or overtaken.

UDP has no handshake: ``connect`` succeeds whoever is there, and the listening side has its connection when
the first datagram arrives. Whether anybody answers is for the host to find out. If the other machine
says that nobody listens (ICMP), the connection is lost with that error: sooner than a heartbeat would
tell, and a host that connects again meets a restarted node afresh.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import cast

from gossamer.core.errors import AddressInUse, BadAddress, CannotConnect
from gossamer.transports.base import Accept, Connection, Transport, host_and_port, joined
from gossamer.transports.datagram import (
    GOODBYE,
    MAX_REMOTES,
    Address,
    DatagramConnection,
    SharedSocket,
    attached,
    opened,
)
from gossamer.transports.tcp import reason

QUIET = 1.0
"""Seconds after closing a connection in which datagrams of its remote are answered with another goodbye:
they were on their way, or the first goodbye got lost. Later they count as a new connection."""


class UdpListener(SharedSocket):
    """The listening socket. Closed, it serves the connections it has and goes with the last of them."""

    def __init__(self, accept: Accept) -> None:
        super().__init__(accept)
        self._dismissed: dict[Address, float] = {}

    @property
    def address(self) -> str:
        host, port = self._transport.get_extra_info("sockname")[:2]
        return joined("udp", host, port)

    async def close(self) -> None:
        self.lasting = self.accepting = False
        self.finish_if_unused()
        await self.settled()

    def stranger(self, address: Address) -> DatagramConnection | None:
        if not self.accepting or self._loop.time() < self._dismissed.get(address, 0.0):
            self.transmit(GOODBYE, address)
            return None
        self._dismissed.pop(address, None)
        return self.meet(DatagramConnection(self, address, f"{address[0]}:{address[1]}"))

    def dismiss(self, connection: DatagramConnection) -> None:
        if connection.open:
            self._dismissed[connection.address] = self._loop.time() + QUIET
            if len(self._dismissed) > MAX_REMOTES:
                del self._dismissed[next(iter(self._dismissed))]
        super().dismiss(connection)


class UdpClient(SharedSocket):
    """A socket connected to one remote address, so that the system passes on no other's datagrams."""

    def __init__(self, accept: Accept) -> None:
        super().__init__(accept)
        self.lasting = False

    def transmit(self, data: bytes, address: Address) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(data)

    def stranger(self, address: Address) -> DatagramConnection | None:
        return None

    def error_received(self, error: Exception) -> None:
        """Nobody listens there; anything else is one more datagram lost."""
        if isinstance(error, ConnectionRefusedError):
            for connection in list(self.connections.values()):
                self.drop(connection, error)


class UdpTransport(Transport):
    scheme = "udp"

    async def listen(self, address: str, accept: Accept) -> UdpListener:
        try:
            family, local = await resolve(address)
            with opened(family) as sock:
                sock.bind(local)
                return await attached(UdpListener(accept), sock)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(address) from None
            raise BadAddress(address, reason(error)) from None

    async def connect(self, address: str, accept: Accept) -> Connection:
        try:
            family, remote = await resolve(address)
            if remote[1] == 0:
                raise BadAddress(address, "port 0 means any free port, and only where one listens")
            with opened(family) as sock:
                sock.connect(remote)
                client = await attached(UdpClient(accept), sock)
        except OSError as error:
            raise CannotConnect(address, reason(error)) from None
        return cast(Connection, client.meet(DatagramConnection(client, sock.getpeername(), address)))


async def resolve(address: str) -> tuple[int, Address]:
    """Family and numeric address. IPv4 goes first: without a handshake no second try can be made."""
    host, port = host_and_port(address)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    family, _, _, _, numeric = min(found, key=lambda info: info[0] != socket.AF_INET)
    return family, numeric
