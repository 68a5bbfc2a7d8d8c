"""``gossamer up`` processes on this machine that are one overlay, to be killed and restarted."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import gossamer
from tests.system.programs import PATIENCE, Program
from tests.system.programs import gossamer as command


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


async def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for a condition; far more time than it needs is an error."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)


class Cluster:
    """Backbone nodes ``b1``, ``b2`` … as processes; each knows the first as its contact.

    states
        Where nodes keep their state; None keeps none.
    """

    def __init__(self, count: int = 3, states: Path | None = None) -> None:
        self.addresses = [f"tcp://127.0.0.1:{port}" for port in free_ports(count)]
        self.states = states
        self.nodes: dict[int, Program] = {}

    async def __aenter__(self) -> Cluster:
        for number in range(len(self.addresses)):
            self._spawn(number)
        for node in self.nodes.values():
            node.line()
        await self.joined()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.__exit__()

    def start(self, number: int) -> None:
        """Start a node; it listens where it did before."""
        self._spawn(number)
        self.nodes[number].line()

    def _spawn(self, number: int) -> None:
        others = [each for index, each in enumerate(self.addresses) if index != number]
        contacts = [option for each in others for option in ("--connect", each)]
        state = ["--state", str(self.states / f"b{number + 1}")] if self.states else []
        self.nodes[number] = command(
            "up", "--name", f"b{number + 1}", "--listen", self.addresses[number], *contacts, *state
        )

    def kill(self, number: int) -> None:
        """End a node without a word."""
        node = self.nodes.pop(number)
        node.kill()
        node.__exit__()

    def stop(self, number: int) -> None:
        """Ask a node to stop in good order."""
        node = self.nodes.pop(number)
        node.stop(signal.SIGTERM)
        node.__exit__()

    async def joined(self) -> None:
        """Wait until a channel that exists at one node is known at every other."""
        async with gossamer.connect(self.addresses[0]) as node:
            await node.channel(f"ready-{len(self.nodes)}-{time.monotonic_ns()}", template="multicast")
