"""One process of a measurement: a sender, receiver, hub, caller or echo.

    python -m gossamer.bench.worker JOB

It reads one order per line, as JSON, and answers each with one line. It ends when there are no more orders,
so none is left when whoever measures has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from gossamer.bench.drivers.base import Caller, Sender
from gossamer.bench.drivers.choice import driver, echoing
from gossamer.bench.progress import PROBE, READY, Board, Book, Load
from gossamer.bench.systems import named
from gossamer.runtime.api.node import run

PROBE_PAUSE = 0.01
PROBE_LIMIT = 20.0
"""Seconds until every receiver must have heard something."""
MAX_CALLS = 100_000
CALL_BYTES = 100
GRACE = 0.2
"""Seconds that a receiver has to close what it holds."""


class Job(msgspec.Struct, frozen=True):
    """What a process is for: its role, its system, and its place among so many receivers."""

    role: str
    system: str
    board: str
    receivers: int
    receiver: int = 0


class Order(msgspec.Struct, frozen=True):
    """What to do next."""

    do: str
    address: str = ""
    size: int = 0
    seconds: float = 0.0


_order = msgspec.json.Decoder(Order).decode


def say(**what: Any) -> None:
    """Answer the last order."""
    sys.stdout.write(msgspec.json.encode(what).decode() + "\n")
    sys.stdout.flush()


def used() -> float:
    """Processor seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def read() -> Order | None:
    """The next order; None at the end."""
    line = sys.stdin.readline()
    return _order(line) if line else None


async def order() -> Order | None:
    """The next order; the loop goes on meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(None, read)


# sender


async def send(job: Job, board: Board) -> None:
    """Send what is ordered."""
    system = named(job.system)
    first = await order()
    if first is None:
        return
    async with driver(system).sender(first.address, system.options) as sender:
        say(address=sender.address)
        while (told := await order()) is not None:
            match told.do:
                case "probe":
                    await probe(sender, board)
                    say(ready=True)
                case "send":
                    load = Load(board, told.size, told.seconds, sender.front)
                    await sender.send(load)
                    say(sent=load.sent, began=load.began)
                case _:
                    say(cpu=used())


async def probe(sender: Sender, board: Board) -> None:
    """Send until every receiver has heard something."""
    message = Load(board, 1, 0, sender.front).message(PROBE)
    async with asyncio.timeout(PROBE_LIMIT):
        while not all(board.read(READY)):
            await sender.probe(message)
            await asyncio.sleep(PROBE_PAUSE)


# caller


async def call(job: Job, board: Board) -> None:
    """Make round trips as ordered."""
    system = named(job.system)
    first = await order()
    if first is None:
        return
    async with echoing(system).caller(first.address, system.options) as caller:
        say(address=caller.address)
        while (told := await order()) is not None:
            if told.do == "call":
                await reach(caller)
                times = sorted(await round_trips(caller, told.seconds))
                say(calls=len(times), p50=times[len(times) // 2], p99=times[len(times) * 99 // 100])
            else:
                say(cpu=used())


async def reach(caller: Caller) -> None:
    """Call until somebody answers."""
    async with asyncio.timeout(PROBE_LIMIT):
        number = 0
        while True:
            number += 1
            with contextlib.suppress(TimeoutError):
                await caller.call(b"try %d" % number)
                return


async def round_trips(caller: Caller, seconds: float) -> list[int]:
    """Nanoseconds that each of many calls took, one after the other."""
    times: list[int] = []
    end = time.monotonic() + seconds
    while not times or (time.monotonic() < end and len(times) < MAX_CALLS):
        message = (b"%d " % len(times)).ljust(CALL_BYTES, b".")
        began = time.perf_counter_ns()
        await caller.call(message)
        times.append(time.perf_counter_ns() - began)
    return times


# hub


async def forward(job: Job, board: Board) -> None:
    """Be the node between sender and receivers."""
    from gossamer.bench.drivers.gossamer import hub

    await order()
    async with hub() as address:
        say(address=address)
        while await order() is not None:
            say(cpu=used())


# receivers may block: a thread takes their orders


def listen(work: Callable[[str], Coroutine[Any, Any, None]], answer: Callable[[], None]) -> None:
    """Do some work at the address that is ordered, and answer further orders beside it."""
    first = read()
    if first is None:
        return

    async def main() -> None:
        task = asyncio.ensure_future(work(first.address))
        loop = asyncio.get_running_loop()
        threading.Thread(target=_answer, args=(loop, task, answer), daemon=True).start()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    say(began=True)
    run(main())


def _answer(loop: asyncio.AbstractEventLoop, task: asyncio.Future[None], answer: Callable[[], None]) -> None:
    while read() is not None:
        answer()
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(task.cancel)
    time.sleep(GRACE)
    os._exit(0)


def receive(job: Job, board: Board) -> None:
    """Count what comes."""
    system, book = named(job.system), Book(board, job.receiver)

    def answer() -> None:
        # first back to zero: whoever hears the answer may begin to send before this goes on
        seen, book.seen = book.seen, 0
        say(cpu=used(), seen=seen)

    own = driver(system)  # imported while others start
    listen(lambda address: own.receive(address, system.options, book), answer)


def echo(job: Job, board: Board) -> None:
    """Send back what comes."""
    system = named(job.system)
    own = echoing(system)
    listen(lambda address: own.echo(address, system.options), lambda: say(cpu=used()))


def main() -> None:
    job = msgspec.json.decode(sys.argv[1], type=Job)
    board = Board(Path(job.board), job.receivers)
    match job.role:
        case "sender":
            run(send(job, board))
        case "caller":
            run(call(job, board))
        case "hub":
            run(forward(job, board))
        case "receiver":
            receive(job, board)
        case "echo":
            echo(job, board)


if __name__ == "__main__":
    main()
