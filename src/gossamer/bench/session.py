"""One system set up with its receivers: the processes, what they are ordered, and what they answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from contextlib import AsyncExitStack
from operator import add
from pathlib import Path
from typing import Any

import msgspec

from gossamer.bench.brokers import HOST, Broker
from gossamer.bench.progress import DONE, ENDED, SEEN, Board
from gossamer.bench.systems import System
from gossamer.bench.worker import Job, Order
from gossamer.core.errors import RemoteError

ANSWER = 30.0
"""Seconds that a process may take to answer, on top of what it was told to take."""
SILENCE = 5.0
"""Seconds without anything new after which what has not come is lost."""
LOOK, LATE = 0.005, 0.1
"""Seconds between looks: at the board, and at what comes behind the last message."""
STOP = 3.0
"""Seconds that a process may take to end."""


class Failed(RemoteError):
    """A process of a measurement ended, or said nothing.

    what
        What it was, and what it complained about last.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)


class Outcome(msgspec.Struct, frozen=True):
    """What one measurement gave.

    seconds
        From the first message sent to the last one received by anybody.
    seen
        Messages per receiver.
    cpu
        Processor seconds of all processes together; None where a server's cannot be read.
    """

    sent: int
    seen: list[int]
    seconds: float
    cpu: float | None

    @property
    def rate(self) -> float:
        """Messages per second that each receiver got, on average."""
        return sum(self.seen) / len(self.seen) / self.seconds if self.seconds > 0 else 0.0

    @property
    def cost(self) -> float | None:
        """Processor seconds per message delivered."""
        delivered = sum(self.seen)
        return self.cpu / delivered if self.cpu is not None and delivered else None

    @property
    def lost(self) -> int:
        return sum(self.sent - each for each in self.seen)


class RoundTrips(msgspec.Struct, frozen=True):
    """How long calls took, one after the other: how many they were, and nanoseconds."""

    calls: int
    p50: int
    p99: int


class Child:
    """A process that takes orders."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self._complaints = folder / f"{job.role}-{job.receiver}.txt"
        self._process: asyncio.subprocess.Process

    async def start(self) -> None:
        with self._complaints.open("wb") as complaints:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gossamer.bench.worker",
                msgspec.json.encode(self.job).decode(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=complaints,
                start_new_session=True,  # Ctrl-C is for whoever measures; these end when they are told to
            )

    def tell(self, **order: Any) -> None:
        """Give an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(Order(**order)) + b"\n")

    async def hear(self, seconds: float) -> dict[str, Any]:
        """The answer to the oldest order that has none."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise Failed(f"{self.job.role} of {self.job.system}: no answer for {seconds:g} s") from None
        if not line:
            raise Failed(f"{self.job.role} of {self.job.system}: {self._last_complaint()}")
        answer: dict[str, Any] = msgspec.json.decode(line)
        return answer

    async def ask(self, **order: Any) -> dict[str, Any]:
        """Give an order and wait for its answer."""
        self.tell(**order)
        return await self.hear(ANSWER + order.get("seconds", 0.0))

    def _last_complaint(self) -> str:
        lines = self._complaints.read_text(errors="replace").split("\n")
        return next((each.strip() for each in reversed(lines) if each.strip()), "it ended")

    def end(self) -> None:
        """No more orders."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def gone(self) -> None:
        """Wait for its end, and make it end if need be."""
        try:
            async with asyncio.timeout(STOP):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


class Session:
    """A sender, or caller, and receivers, or an echo, of one system; use it with ``async with``."""

    def __init__(self, system: System, receivers: int, echo: bool = False) -> None:
        self.system = system
        self._receivers = receivers
        self._roles = ("caller", "echo") if echo else ("sender", "receiver")
        self._stack = AsyncExitStack()
        self._broker: Broker | None = None
        self._hub: Child | None = None
        self._sender: Child
        self._listening: list[Child] = []
        self._children: list[Child] = []
        self._board: Board

    async def __aenter__(self) -> Session:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-bench-")))
        path = folder / "board"
        self._board = Board(path, self._receivers, create=True)
        self._stack.callback(self._board.close)
        if self.system.server:
            self._broker = await self._stack.enter_async_context(Broker(self.system.server, folder))
        self._stack.push_async_callback(self._stop)
        first, second = self._roles
        job = Job(first, self.system.name, str(path), self._receivers)
        self._sender = await self._child(job, folder)
        for each in range(self._receivers):
            own = msgspec.structs.replace(job, role=second, receiver=each)
            self._listening.append(await self._child(own, folder))
        if self.system.hub:
            self._hub = await self._child(msgspec.structs.replace(job, role="hub"), folder)
        await self._introduce()

    async def _child(self, job: Job, folder: Path) -> Child:
        child = Child(job, folder)
        await child.start()
        self._children.append(child)
        return child

    async def _introduce(self) -> None:
        """Tell each where it has to connect to, and wait until all hear the sender."""
        address = f"{HOST}:{self._broker.port}" if self._broker else ""
        if self._hub is not None:
            address = (await self._hub.ask(do="open"))["address"]
        there = (await self._sender.ask(do="open", address=address))["address"]
        await asyncio.gather(*(each.ask(do="open", address=there) for each in self._listening))
        if self._roles[0] == "sender":
            await self._sender.ask(do="probe")

    async def _stop(self) -> None:
        for child in self._children:
            child.end()
        await asyncio.gather(*(child.gone() for child in self._children))

    # measuring

    async def measure(self, size: int, seconds: float) -> Outcome:
        """Send messages of a size for some time, and wait until all are there or no more come."""
        self._board.clear()
        before = await self._usage()
        sent = await self._sender.ask(do="send", size=size, seconds=seconds)
        await self._arrived()
        after, seen = await self._counted(sent["sent"])
        ended = max(self._board.read(ENDED))
        cpu = None if before[0] is None or after is None else after - before[0]
        took = (ended - sent["began"]) / 1e9 if ended else 0.0
        return Outcome(sent["sent"], seen, took, cpu)

    async def _arrived(self) -> None:
        """Wait until every receiver has the last message, or nothing moves any more."""
        seen, quiet = self._board.read(SEEN), 0.0
        while not all(self._board.read(DONE)) and quiet < SILENCE:
            await asyncio.sleep(LOOK)
            now = self._board.read(SEEN)
            quiet = 0.0 if now != seen else quiet + LOOK
            seen = now

    async def _counted(self, sent: int) -> tuple[float | None, list[int]]:
        """What was used and seen in the end: not all systems promise that the last message comes last."""
        cpu, seen = await self._usage()
        quiet = 0.0
        while min(seen) < sent and quiet < SILENCE:
            await asyncio.sleep(LATE)
            used, more = await self._usage()
            quiet += LATE
            if any(more):
                cpu, quiet, seen = used, 0.0, list(map(add, seen, more))
        return cpu, seen

    async def _usage(self) -> tuple[float | None, list[int]]:
        """Processor seconds of all processes so far, and what each receiver has seen since the last time."""
        heard = await asyncio.gather(*(each.ask(do="count") for each in self._listening))
        others = [await each.ask(do="count") for each in (self._sender, self._hub) if each is not None]
        cpu = sum(each["cpu"] for each in (*heard, *others))
        server = _server_seconds(self._broker.pid) if self._broker else 0.0
        return None if server is None else cpu + server, [each.get("seen", 0) for each in heard]

    async def round_trips(self, seconds: float) -> RoundTrips:
        """Make calls for some time."""
        answer = await self._sender.ask(do="call", seconds=seconds)
        return msgspec.convert(answer, RoundTrips)


def _server_seconds(pid: int) -> float | None:
    """Processor seconds of another program so far; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
