"""pyzmq: PUB and SUB over tcp; topic and message in one frame, which is the fastest way it has.

A publisher that may not drop waits when a subscriber's queue is full.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import zmq

from gossamer.bench.drivers.base import PING, PONG, PROBE_WAIT, TOPIC, Options
from gossamer.bench.progress import PIECE, Book, Load

FRONT = TOPIC.encode() + b" "
QUEUE_BYTES = 64 * PIECE
HIGH_WATER = 4096
"""Messages that may wait for one receiver; with large ones pyzmq holds what the kernel does not."""


class ZeromqSender:
    front = FRONT

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.address = socket.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0")
        self._socket = socket

    async def probe(self, message: bytes) -> None:
        self._socket.send(message)

    async def send(self, load: Load) -> None:
        send = self._socket.send
        for batch in load.batches():
            for message in batch:
                send(message)


def publisher(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.PUB)
    socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
    socket.setsockopt(zmq.XPUB_NODROP, 1)
    socket.setsockopt(zmq.LINGER, 0)
    return socket


def subscriber(context: zmq.Context[zmq.Socket[bytes]], topic: bytes) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.SUB)
    socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
    socket.setsockopt(zmq.SUBSCRIBE, topic)
    socket.setsockopt(zmq.LINGER, 0)
    return socket


@asynccontextmanager
async def sender(address: str, options: Options) -> AsyncIterator[ZeromqSender]:
    with zmq.Context() as context, publisher(context) as socket:
        socket.bind("tcp://127.0.0.1:*")
        yield ZeromqSender(socket)


async def receive(address: str, options: Options, book: Book) -> None:
    with zmq.Context() as context, subscriber(context, FRONT) as socket:
        socket.connect(address)
        receive_one, place = socket.recv, len(FRONT)
        while True:
            message = receive_one()
            book.seen += 1
            if message[place]:
                book.marked(message[place])


class ZeromqCaller:
    def __init__(self, ping: zmq.Socket[bytes], pong: zmq.Socket[bytes]) -> None:
        ends = (each.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0") for each in (ping, pong))
        self.address = " ".join(ends)
        self._ping, self._pong = ping, pong

    async def call(self, message: bytes) -> None:
        self._ping.send(PING.encode() + b" " + message)
        while True:
            try:
                answer = self._pong.recv()
            except zmq.Again:
                raise TimeoutError from None
            if answer.endswith(message):
                return


@asynccontextmanager
async def caller(address: str, options: Options) -> AsyncIterator[ZeromqCaller]:
    with zmq.Context() as context, publisher(context) as ping, subscriber(context, PONG.encode()) as pong:
        pong.setsockopt(zmq.RCVTIMEO, round(PROBE_WAIT * 1000))
        for each in (ping, pong):
            each.bind("tcp://127.0.0.1:*")
        yield ZeromqCaller(ping, pong)


async def echo(address: str, options: Options) -> None:
    there, back = address.split()
    front, place = PONG.encode(), len(PING)
    with zmq.Context() as context, subscriber(context, PING.encode()) as ping, publisher(context) as pong:
        ping.connect(there)
        pong.connect(back)
        while True:
            pong.send(front + ping.recv()[place:])
