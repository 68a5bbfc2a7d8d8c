"""redis-py with redis-server: PUBLISH in pipelines. The sender looks after how far receivers are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import redis

from gossamer.bench.drivers.base import TOPIC, Options
from gossamer.bench.progress import Book, Load


def client(address: str) -> Any:
    host, _, port = address.partition(":")
    return redis.Redis(host, int(port))


class RedisSender:
    front = b""

    def __init__(self, address: str, server: Any) -> None:
        self.address = address
        self._server = server

    async def probe(self, message: bytes) -> None:
        self._server.publish(TOPIC, message)

    async def send(self, load: Load) -> None:
        pipeline = self._server.pipeline(transaction=False)
        for batch in load.batches():
            for message in batch:
                pipeline.publish(TOPIC, message)
            pipeline.execute()
            load.wait()


@asynccontextmanager
async def sender(address: str, options: Options) -> AsyncIterator[RedisSender]:
    with client(address) as server:
        yield RedisSender(address, server)


async def receive(address: str, options: Options, book: Book) -> None:
    with client(address) as server, server.pubsub(ignore_subscribe_messages=True) as messages:
        messages.subscribe(TOPIC)
        for message in messages.listen():
            data = message["data"]
            book.seen += 1
            if data[0]:
                book.marked(data[0])
