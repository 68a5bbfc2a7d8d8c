"""gossamer: the sender is a node that receivers are clients of, or a client of a hub as they are."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain

from gossamer.bench.drivers.base import PING, PONG, PROBE_WAIT, TOPIC, Options
from gossamer.bench.progress import Book, Load
from gossamer.core.parcel import Event
from gossamer.runtime.api.channel import Channel
from gossamer.runtime.api.node import connect
from gossamer.runtime.api.subscription import Subscription

LISTEN = "tcp://127.0.0.1:0"


def listening(options: Options) -> str:
    """An address of the wanted transport."""
    if options["transport"] == "memory":
        return f"memory://{tempfile.gettempdir()}/gossamer-bench-{os.getpid()}"
    return LISTEN


class GossamerSender:
    front = b""

    def __init__(self, channel: Channel, address: str, one_by_one: bool) -> None:
        self.address = address
        self._channel = channel
        self._one_by_one = one_by_one

    async def probe(self, message: bytes) -> None:
        await self._channel.publish(message)

    async def send(self, load: Load) -> None:
        channel = self._channel
        if self._one_by_one:
            for batch in load.batches():
                for message in batch:
                    await channel.publish(message)
        else:
            await channel.publish_many(chain.from_iterable(load.batches()))
        channel.flush()


@asynccontextmanager
async def sender(address: str, options: Options) -> AsyncIterator[GossamerSender]:
    if address:
        node = connect(address, name="sender")
    else:
        node = connect(listen=listening(options), name="sender", role=options.get("role") or None)
    async with node:
        channel = await node.channel(TOPIC, template=options["template"])
        where = address or node.addresses[0]
        made = GossamerSender(channel, where, options["form"] == "one by one")
        if options["template"] != "multiring":
            yield made
            return
        async with channel.subscribe(callback=lambda event: None):  # the sender stands in the ring too
            yield made


@asynccontextmanager
async def hub() -> AsyncIterator[str]:
    """A node that only passes on; its address."""
    async with connect(listen=LISTEN, name="hub") as node:
        yield node.addresses[0]


async def receive(address: str, options: Options, book: Book) -> None:
    def take(event: Event) -> None:
        book.seen += 1
        if event.payload[0]:
            book.marked(event.payload[0])

    role = options.get("role") or None
    listen = (listening(options),) if role else ()
    async with connect(address, name=f"receiver-{os.getpid()}", role=role, listen=listen) as node:
        channel = await node.channel(TOPIC)
        if options["form"] == "async for":
            async with channel.subscribe() as events:
                await _iterate(events, book)
        elif options["form"] == "batches":
            async with channel.subscribe() as events:
                await _take_batches(events, book)
        else:
            async with channel.subscribe(callback=take):
                await asyncio.Event().wait()


async def _iterate(events: Subscription, book: Book) -> None:
    async for event in events:
        book.seen += 1
        if event.payload[0]:
            book.marked(event.payload[0])


async def _take_batches(events: Subscription, book: Book) -> None:
    async for batch in events.batches():
        for event in batch:
            book.seen += 1
            if event.payload[0]:
                book.marked(event.payload[0])


class GossamerCaller:
    def __init__(self, address: str, ping: Channel, answers: Subscription) -> None:
        self.address = address
        self._ping = ping
        self._answers = answers

    async def call(self, message: bytes) -> None:
        await self._ping.publish(message)
        async for answer in self._answers:
            if answer.payload == message:
                return


class PatientCaller:
    """Gives a call up after a while."""

    def __init__(self, caller: GossamerCaller) -> None:
        self.address = caller.address
        self._caller = caller

    async def call(self, message: bytes) -> None:
        async with asyncio.timeout(PROBE_WAIT):
            await self._caller.call(message)


@asynccontextmanager
async def caller(address: str, options: Options) -> AsyncIterator[PatientCaller]:
    async with connect(listen=listening(options), name="caller") as node:
        ping = await node.channel(PING, template=options["template"])
        pong = await node.channel(PONG, template=options["template"])
        async with pong.subscribe() as answers:
            yield PatientCaller(GossamerCaller(node.addresses[0], ping, answers))


async def echo(address: str, options: Options) -> None:
    async with connect(address, name="echo") as node:
        ping, pong = await node.channel(PING), await node.channel(PONG)

        async def answer(event: Event) -> None:
            await pong.publish(event.payload)

        async with ping.subscribe(callback=answer):
            await asyncio.Event().wait()
