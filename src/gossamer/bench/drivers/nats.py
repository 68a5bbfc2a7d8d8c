"""nats-py with nats-server. It drops for slow consumers, so the sender looks after how far receivers are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats

from gossamer.bench.drivers.base import PING, PONG, PROBE_WAIT, TOPIC, Options
from gossamer.bench.progress import NAP, Book, Load

UNLIMITED = 2**40


class NatsSender:
    front = b""

    def __init__(self, address: str, client: Any) -> None:
        self.address = address
        self._client = client

    async def probe(self, message: bytes) -> None:
        await self._client.publish(TOPIC, message)
        await self._client.flush()

    async def send(self, load: Load) -> None:
        publish = self._client.publish
        for batch in load.batches():
            for message in batch:
                await publish(TOPIC, message)
            await asyncio.sleep(0)
            while load.ahead:  # noqa: ASYNC110 - another process tells
                await asyncio.sleep(NAP)
        await self._client.flush()


@asynccontextmanager
async def sender(address: str, options: Options) -> AsyncIterator[NatsSender]:
    async with await nats.connect(f"nats://{address}") as client:
        yield NatsSender(address, client)


async def receive(address: str, options: Options, book: Book) -> None:
    async def take(message: Any) -> None:
        book.seen += 1
        if message.data[0]:
            book.marked(message.data[0])

    async with await nats.connect(f"nats://{address}") as client:
        await client.subscribe(TOPIC, cb=take, pending_msgs_limit=UNLIMITED, pending_bytes_limit=UNLIMITED)
        await asyncio.Event().wait()


class NatsCaller:
    def __init__(self, address: str, client: Any, answers: Any) -> None:
        self.address = address
        self._client = client
        self._answers = answers

    async def call(self, message: bytes) -> None:
        await self._client.publish(PING, message)
        async with asyncio.timeout(PROBE_WAIT):
            async for answer in self._answers.messages:
                if answer.data == message:
                    return


@asynccontextmanager
async def caller(address: str, options: Options) -> AsyncIterator[NatsCaller]:
    async with await nats.connect(f"nats://{address}") as client:
        yield NatsCaller(address, client, await client.subscribe(PONG))


async def echo(address: str, options: Options) -> None:
    async with await nats.connect(f"nats://{address}") as client:

        async def answer(message: Any) -> None:
            await client.publish(PONG, message.data)

        await client.subscribe(PING, cb=answer)
        await asyncio.Event().wait()
