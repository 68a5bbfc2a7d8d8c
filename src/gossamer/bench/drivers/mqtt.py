"""paho-mqtt with mosquitto, quality of service 0. The sender looks after how far receivers are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from gossamer.bench.drivers.base import TOPIC, Options
from gossamer.bench.progress import Book, Load

TRIES = 1000


def connected(address: str) -> Any:
    host, _, port = address.partition(":")
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect(host, int(port))
    for _ in range(TRIES):
        if client.is_connected():
            break
        client.loop(0.01)
    return client


class MqttSender:
    front = b""

    def __init__(self, address: str, client: Any) -> None:
        self.address = address
        self._client = client

    async def probe(self, message: bytes) -> None:
        self._client.publish(TOPIC, message)
        self._push()

    async def send(self, load: Load) -> None:
        publish = self._client.publish
        for batch in load.batches():
            for message in batch:
                publish(TOPIC, message)
            self._push()
            load.wait()

    def _push(self) -> None:
        """Have written what could not be at once."""
        for _ in range(TRIES):
            if not self._client.want_write():
                break
            self._client.loop(0.01)


@asynccontextmanager
async def sender(address: str, options: Options) -> AsyncIterator[MqttSender]:
    client = connected(address)
    try:
        yield MqttSender(address, client)
    finally:
        client.disconnect()


async def receive(address: str, options: Options, book: Book) -> None:
    def take(client: Any, told: Any, message: Any) -> None:
        book.seen += 1
        if message.payload[0]:
            book.marked(message.payload[0])

    client = connected(address)
    client.on_message = take
    client.subscribe(TOPIC)
    client.loop_forever()
