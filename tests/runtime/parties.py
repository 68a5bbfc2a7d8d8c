"""Small nets of real nodes on loopback, and a stranger who speaks raw bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from gossamer import Channel, Limits, Node, Role, Subscription, connect
from gossamer.core.control import LINK_CHANNEL, Control, Message
from gossamer.core.wire import PRELUDE, Item, encode, measure
from gossamer.errors import Full
from gossamer.runtime.host import Host
from gossamer.runtime.net.connection import Strand
from gossamer.runtime.net.handshake import Hello
from gossamer.runtime.net.link import Link

ANY_PORT = "tcp://127.0.0.1:0"
SOON = 10.0
"""Seconds in which something that must happen has happened, on any machine."""


def server(name: str = "server", *addresses: str, limits: Limits | None = None) -> Node:
    """A backbone node at a free port, joined to others."""
    return connect(*addresses, name=name, role=Role.BACKBONE, listen=ANY_PORT, limits=limits)


def client(of: Node, name: str, limits: Limits | None = None) -> Node:
    return connect(of.addresses[0], name=name, limits=limits)


def host_of(node: Node) -> Host:
    host = node._host
    assert host is not None
    return host


def link_of(node: Node, peer: str) -> Link:
    return host_of(node).links[peer]


def strand_of(node: Node, peer: str, transport: str = "tcp") -> Strand:
    """The connection of a link that uses a transport."""
    (strand,) = (each for each in link_of(node, peer).strands if each.transport == transport)
    return strand


async def linked(node: Node, *peers: str) -> None:
    """Until a node has just these neighbours."""
    await host_of(node).until(lambda: node.peers == sorted(peers))


async def turns(count: int = 5) -> None:
    """Let the event loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop turn until something holds that nobody tells of."""
    while not condition():
        await turns(1)


async def reach(channel: Channel, *subscriptions: Subscription) -> int:
    """Publish until each of these subscriptions has heard; nothing is left waiting. How many it took.

    That somebody listens says nothing of the others, nor of the nodes on the way.
    """
    await channel.wait_for_subscribers(SOON)
    while not all(each.pending for each in subscriptions):
        await channel.publish(b"probe")
        await turns(20)
    last = await channel.publish(b"last probe")
    for each in subscriptions:
        while (await each.next(timeout=SOON)).number != last.number:
            pass
    return last.number


async def take(events: Subscription, count: int) -> list[bytes]:
    """So many payloads."""
    return [(await events.next(timeout=SOON)).payload for _ in range(count)]


def rest(events: Subscription) -> list[bytes]:
    """What waits in a subscription, oldest first, without taking it."""
    return [event.payload for batch in events._queue._batches for event in batch]


async def stuff(channel: Channel, payload: bytes) -> int:
    """Publish at once, again and again, until the way is full; how many were accepted."""
    count = 0
    while True:
        try:
            channel.try_publish(payload)
        except Full:
            return count
        count += 1
        await turns(2)


class Stranger:
    """Somebody on a plain socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *items: Item | Message | bytes) -> None:
        """Messages are about the link; bytes go out as they are."""
        for item in items:
            if isinstance(item, Message):
                item = Control(LINK_CHANNEL, item)
            self.writer.write(item if isinstance(item, bytes) else encode(item))
        await self.writer.drain()

    async def greet(self, name: str = "stranger", role: Role = Role.CLIENT) -> None:
        await self.send(Hello(name, 1, role, name, listens=(), heard=False))

    async def frame(self) -> bytes:
        """The next whole frame of the other side."""
        head = await self.reader.readexactly(PRELUDE)
        return head + await self.reader.readexactly(measure(head) - PRELUDE)

    async def ended(self) -> None:
        """Until the other side has closed or broken the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


@asynccontextmanager
async def stranger(node: Node) -> AsyncIterator[Stranger]:
    address, _, port = node.addresses[0].removeprefix("tcp://").rpartition(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    try:
        yield Stranger(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
