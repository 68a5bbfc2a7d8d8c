"""Every transport keeps the promises of ``transports.base``, on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from contextlib import suppress

import uvloop

from gossamer.testing.transports import TransportConformance
from gossamer.transports.base import Transport, host_and_port
from gossamer.transports.local import LocalTransport
from gossamer.transports.memory import MemoryTransport
from gossamer.transports.multicast import MulticastTransport
from gossamer.transports.tcp import TcpTransport
from gossamer.transports.udp import UdpTransport
from gossamer.transports.websocket import WebsocketTransport

HOSTILE = (b"\xff" * 100, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"gs\x01\x01\x00\x00\xff\xff\xff\xff", b"gs")


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def stream_garbage(address: str) -> None:
    """Each piece on a stream of its own, until the other side hangs up or we have said all."""
    for piece in HOSTILE:
        reader, writer = await asyncio.open_connection(*host_and_port(address))
        writer.write(piece)
        writer.write_eof()
        with suppress(ConnectionError):
            await reader.read()
        writer.close()


class OnUvloop(TransportConformance):
    def new_loop(self) -> asyncio.AbstractEventLoop:
        return uvloop.new_event_loop()


class TestLocal(TransportConformance):
    bad_addresses = ("tcp://127.0.0.1:1", "nonsense")

    def make(self) -> tuple[Transport, str]:
        return LocalTransport(), "local://somewhere"


class TestMemory(TransportConformance):
    bad_addresses = ("memory://host/path", "memory:///", "memory:///a\0b", "memory:///" + "x" * 200, "no")

    def make(self) -> tuple[Transport, str]:
        return MemoryTransport(), f"memory://{tempfile.mkdtemp(prefix='gossamer-')}/socket"

    async def garbage(self, address: str) -> None:
        for piece in HOSTILE:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.connect(address.removeprefix("memory://"))
                sock.send(piece)


BAD_HOSTS = ("{}://127.0.0.1", "{}://127.0.0.1:99999", "{}://a..b:1", "{}://a\0b:1", "{}://[::1:1", "no")


class TestTcp(TransportConformance):
    bad_addresses = tuple(each.format("tcp") for each in BAD_HOSTS)

    def make(self) -> tuple[Transport, str]:
        return TcpTransport(), "tcp://127.0.0.1:0"

    async def garbage(self, address: str) -> None:
        await stream_garbage(address)


class TestUdp(TransportConformance):
    connectionless = True
    bad_addresses = tuple(each.format("udp") for each in BAD_HOSTS)

    def make(self) -> tuple[Transport, str]:
        return UdpTransport(), "udp://127.0.0.1:0"

    async def garbage(self, address: str) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for piece in (*HOSTILE, b"", b"\x00", b"\x01", b"g"):
                sock.sendto(piece, host_and_port(address))


class TestMulticast(TransportConformance):
    shared = True
    bad_addresses = (
        *(each.format("multicast") for each in BAD_HOSTS),
        "multicast://127.0.0.1:7400",
        "multicast://239.1.2.3:0?interface=127.0.0.1",
        "multicast://239.1.2.3:7400?interface=nowhere",
        "multicast://239.1.2.3:7400?interface=127.0.0.1&ttl=256",
        "multicast://239.1.2.3:7400?interface=127.0.0.1&colour=red",
    )

    def make(self) -> tuple[Transport, str]:
        address = f"multicast://239.255.71.{1 + id(self) % 250}:{free_udp_port()}?interface=127.0.0.1"
        return MulticastTransport(beacon=0.2), address

    async def garbage(self, address: str) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            for piece in (*HOSTILE, b"", b"\x00", b"\x01", b"\x01short", b"g"):
                sock.sendto(piece, host_and_port(address))


class TestWebsocket(TransportConformance):
    bad_addresses = tuple(each.format("ws") for each in BAD_HOSTS)

    def make(self) -> tuple[Transport, str]:
        return WebsocketTransport(), "ws://127.0.0.1:0"

    async def garbage(self, address: str) -> None:
        await stream_garbage(address)


class TestLocalOnUvloop(OnUvloop, TestLocal):
    pass


class TestMemoryOnUvloop(OnUvloop, TestMemory):
    pass


class TestTcpOnUvloop(OnUvloop, TestTcp):
    pass


class TestUdpOnUvloop(OnUvloop, TestUdp):
    pass


class TestMulticastOnUvloop(OnUvloop, TestMulticast):
    pass


class TestWebsocketOnUvloop(OnUvloop, TestWebsocket):
    pass
