"""eclipse-zenoh: two peers without a router; by default messages from some size on go through shared memory.

Congestion control is to block, so nothing is dropped.
"""

from __future__ import annotations

import asyncio
import json
import queue
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import zenoh

from gossamer.bench.brokers import HOST, free_port
from gossamer.bench.drivers.base import PING, PONG, PROBE_WAIT, TOPIC, Options
from gossamer.bench.progress import Book, Load

KEY, PING_KEY, PONG_KEY = (each.replace(".", "/") for each in (TOPIC, PING, PONG))


def opened(options: Options, listen: str = "", connect: str = "") -> Any:
    """A session that finds nobody by itself."""
    config = zenoh.Config()
    settings = {
        "mode": "peer",
        "listen/endpoints": [listen] if listen else [],
        "connect/endpoints": [connect] if connect else [],
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "transport/shared_memory/enabled": bool(options["shared"]),
    }
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


def publisher(session: Any, key: str, express: bool = False) -> Any:
    return session.declare_publisher(
        key,
        congestion_control=zenoh.CongestionControl.BLOCK,
        reliability=zenoh.Reliability.RELIABLE,
        express=express,
    )


class ZenohSender:
    front = b""

    def __init__(self, address: str, out: Any) -> None:
        self.address = address
        self._out = out

    async def probe(self, message: bytes) -> None:
        self._out.put(message)

    async def send(self, load: Load) -> None:
        put = self._out.put
        for batch in load.batches():
            for message in batch:
                put(message)


@asynccontextmanager
async def sender(address: str, options: Options) -> AsyncIterator[ZenohSender]:
    address = f"tcp/{HOST}:{free_port()}"
    with opened(options, listen=address) as session:
        yield ZenohSender(address, publisher(session, KEY))


async def receive(address: str, options: Options, book: Book) -> None:
    def take(sample: Any) -> None:
        message = sample.payload.to_bytes()
        book.seen += 1
        if message[0]:
            book.marked(message[0])

    with opened(options, connect=address) as session:
        session.declare_subscriber(KEY, take)
        await asyncio.Event().wait()


class ZenohCaller:
    def __init__(self, address: str, ping: Any, answers: queue.SimpleQueue[bytes]) -> None:
        self.address = address
        self._ping = ping
        self._answers = answers

    async def call(self, message: bytes) -> None:
        self._ping.put(message)
        try:
            while self._answers.get(timeout=PROBE_WAIT) != message:
                pass
        except queue.Empty:
            raise TimeoutError from None


@asynccontextmanager
async def caller(address: str, options: Options) -> AsyncIterator[ZenohCaller]:
    address = f"tcp/{HOST}:{free_port()}"
    answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with opened(options, listen=address) as session:
        session.declare_subscriber(PONG_KEY, lambda sample: answers.put(sample.payload.to_bytes()))
        yield ZenohCaller(address, publisher(session, PING_KEY, express=True), answers)


async def echo(address: str, options: Options) -> None:
    with opened(options, connect=address) as session:
        pong = publisher(session, PONG_KEY, express=True)
        session.declare_subscriber(PING_KEY, lambda sample: pong.put(sample.payload))
        await asyncio.Event().wait()
