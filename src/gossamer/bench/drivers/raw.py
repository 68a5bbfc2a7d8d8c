"""The floor, bare sockets: frames of a length, a byte that stands for the topic, and the message."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gossamer.bench.drivers.base import Options
from gossamer.bench.progress import Book, Load

_LENGTH = struct.Struct(">IB")
BUFFER = 1024 * 1024


class RawSender:
    front = b""

    def __init__(self, server: socket.socket) -> None:
        self.address = str(server.getsockname()[1])
        self._server = server
        self._receivers: list[socket.socket] = []

    async def probe(self, message: bytes) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                receiver, _ = self._server.accept()
                receiver.setblocking(True)
                receiver.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._receivers.append(receiver)
        self._send([message])

    async def send(self, load: Load) -> None:
        for batch in load.batches():
            self._send(batch)

    def _send(self, batch: list[bytes]) -> None:
        pieces: list[bytes] = []
        for message in batch:
            pieces += (_LENGTH.pack(len(message), 1), message)
        data = b"".join(pieces)
        for receiver in self._receivers:
            receiver.sendall(data)

    def close(self) -> None:
        for receiver in self._receivers:
            receiver.close()


@asynccontextmanager
async def sender(address: str, options: Options) -> AsyncIterator[RawSender]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        one = RawSender(server)
        try:
            yield one
        finally:
            one.close()


async def receive(address: str, options: Options, book: Book) -> None:
    with socket.create_connection(("127.0.0.1", int(address))) as connection:
        await asyncio.sleep(0)
        buffer = bytearray(BUFFER)
        view, end = memoryview(buffer), 0
        while count := connection.recv_into(view[end:]):
            end += count
            done = _take(view, end, book)
            buffer[: end - done] = buffer[done:end]
            end -= done


def _take(view: memoryview, end: int, book: Book) -> int:
    """Take the messages that are whole; where the first one that is not begins."""
    position, head = 0, _LENGTH.size
    while end - position >= head:
        length, _topic = _LENGTH.unpack_from(view, position)
        begin = position + head
        if end - begin < length:
            break
        position = begin + length
        message = bytes(view[begin:position])
        book.seen += 1
        if message[0]:
            book.marked(message[0])
    return position
