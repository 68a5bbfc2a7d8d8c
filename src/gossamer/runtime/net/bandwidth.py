"""How much a node can send, measured without the help of another node (seed 004, 5.4.1.1).

A short burst of datagrams goes to the discard port of any neighbour. Nobody answers; what counts is how fast
this node's own network takes them. A datagram socket with a small buffer accepts no more than the line has
carried away, so the rate at which it accepts is that of the narrowest place up to the first router that does
not push back. It is looked at again from time to time, and a figure that is about the same stays: who is in
an inner ring should not depend on noise.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Protocol

import msgspec
from msgspec import Meta

from gossamer.core.context import BANDWIDTH

if TYPE_CHECKING:
    from gossamer.runtime.host import Host

log = logging.getLogger("gossamer")

DISCARD = 9
"""The port whose service throws away whatever comes."""
DATAGRAM = bytes(1200)
"""Fits every path in one piece."""
HEADERS = 28
"""Bytes that the network adds to a datagram."""
BUFFER = 16 * 1024
"""Bytes that may wait in the system: little, so that the line is heard soon."""
ABOUT_THE_SAME = 0.25
"""A new figure counts if it differs by more than this share of the old one."""


class BandwidthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a peer learns what it can send; a ``[bandwidth]`` table.

    stated
        Bytes per second, for those who know better; 0 measures.
    burst, seconds
        Most bytes of one measurement, and how long it takes at most.
    every
        Seconds between measurements.
    """

    stated: Annotated[float, Meta(ge=0, le=1e15)] = 0.0
    burst: Annotated[int, Meta(ge=16_384, le=2**28)] = 512 * 1024
    seconds: Annotated[float, Meta(gt=0, le=10)] = 1.0
    every: Annotated[float, Meta(gt=0, le=86400)] = 120.0


class Line(Protocol):
    """Where datagrams go: a socket that never waits, and a way to wait for it."""

    def send(self) -> int:
        """Send one datagram; its bytes, or 0 if the line is full."""

    def wait(self, seconds: float) -> None:
        """Until the line takes more, or so many seconds have passed."""


class DiscardLine:
    """Datagrams to the discard port of a host."""

    def __init__(self, host: str) -> None:
        family, _, _, _, to = socket.getaddrinfo(host, DISCARD, type=socket.SOCK_DGRAM)[0]
        self._to: tuple[object, ...] = to
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        self._socket.setblocking(False)

    def send(self) -> int:
        try:
            return self._socket.sendto(DATAGRAM, self._to) + HEADERS
        except BlockingIOError:
            return 0

    def wait(self, seconds: float) -> None:
        select.select((), (self._socket,), (), seconds)

    def close(self) -> None:
        self._socket.close()


def measure(line: Line, burst: int, seconds: float, clock: Callable[[], float]) -> float:
    """Bytes per second that a line takes.

    From one moment at which the buffer was full to another, the line has carried what was accepted between
    them. A line so fast that its buffer never fills twice is measured by all that it took.
    """
    began = now = clock()
    full: list[tuple[float, int]] = []
    total = 0
    while total < burst and now < began + seconds:
        taken = line.send()
        total += taken
        if not taken:
            full.append((now, total))
            line.wait(began + seconds - now)
        now = clock()
    (since, before), (until, after) = (full[0], full[-1]) if len(full) > 1 else ((began, 0), (now, total))
    return (after - before) / max(until - since, 1e-9)


class Bandwidth:
    """Keeps the container of one node current, once a channel of it needs the figure."""

    def __init__(self, host: Host, settings: BandwidthSettings) -> None:
        self._host, self._settings = host, settings
        self._begun = False

    def begin(self) -> None:
        """A channel needs the figure."""
        if self._settings.stated:
            self._set(self._settings.stated)
        elif not self._begun:
            self._host.spawn(self._watch())
        self._begun = True

    async def _watch(self) -> None:
        while True:
            await self._host.until(lambda: bool(self._towards()))
            await self._look(self._towards())
            await asyncio.sleep(self._settings.every)

    async def _look(self, towards: str) -> None:
        settings = self._settings
        try:
            line = await asyncio.to_thread(DiscardLine, towards)
        except OSError as error:
            log.debug("cannot measure towards %s: %s", towards, error)
            return
        try:
            self._set(
                await asyncio.to_thread(measure, line, settings.burst, settings.seconds, time.monotonic)
            )
        except OSError as error:
            log.debug("the line to %s takes no datagrams: %s", towards, error)
        finally:
            line.close()

    def _set(self, rate: float) -> None:
        engine = self._host.engine
        known: float = engine.containers.get(BANDWIDTH) or 0.0
        if abs(rate - known) > ABOUT_THE_SAME * known:
            self._host.tell(lambda now: engine.set(now, BANDWIDTH, rate))

    def _towards(self) -> str:
        """A host that a neighbour is at; empty if none is reached by a network."""
        for link in self._host.links.values():
            for strand in link.strands:
                host, colon, port = strand.connection.remote.rpartition("://")[2].rpartition(":")
                if colon and port.isdigit():
                    return host.strip("[]")
        return ""
