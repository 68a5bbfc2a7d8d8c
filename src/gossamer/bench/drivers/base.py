"""What a driver is: a module that sends, receives and echoes with one system.

A module has ``sender``, ``receive`` and, where round trips are measured, ``caller`` and ``echo``. They are
coroutines even where a system blocks: nothing else runs in their process.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from gossamer.bench.progress import Book, Load

TOPIC = "bench"
PING, PONG = "bench.ping", "bench.pong"
PROBE_WAIT = 0.3
"""Seconds after which a call without an answer is made again."""

Options = Mapping[str, str]


class Sender(Protocol):
    """Sends to all receivers.

    address
        Where receivers connect to.
    front
        What this system puts in front of each message.
    """

    address: str
    front: bytes

    async def probe(self, message: bytes) -> None:
        """Send one message now."""

    async def send(self, load: Load) -> None:
        """Send a load."""


class Caller(Protocol):
    """Makes round trips.

    address
        Where the echo connects to.
    """

    address: str

    async def call(self, message: bytes) -> None:
        """Send a message and wait until it is back; raises TimeoutError."""


class Driver(Protocol):
    """How one system is used. The address is the server's or hub's, if there is one; else it is empty."""

    def sender(self, address: str, options: Options) -> AbstractAsyncContextManager[Sender]: ...

    async def receive(self, address: str, options: Options, book: Book) -> None: ...


class Echoing(Protocol):
    """How its round trips are made."""

    def caller(self, address: str, options: Options) -> AbstractAsyncContextManager[Caller]: ...

    async def echo(self, address: str, options: Options) -> None: ...
