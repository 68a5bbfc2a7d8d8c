"""What each step of an event's way costs, in nanoseconds of processor time per event, by size.

One process does all steps one after the other with the code that nodes run: a full parcel is sealed, framed,
written to a socket and read from it, cut out of the stream, decoded, opened, made into events and handed to a
callback. The last line is the whole way between two nodes of one process: what it has more is spent by engine
and template, host and event loop, and by caches that each of them finds cold.

    python benchmarks/way.py [--repeat R]
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import time
from collections import defaultdict
from typing import Any, cast

import gossamer
from gossamer.core.event import NO_QOS
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Notary
from gossamer.core.sealer import Sealer
from gossamer.core.template import Template
from gossamer.core.wire import decode, pieces
from gossamer.runtime.api.event import opened
from gossamer.transports.stream import Intake

SIZES = (10, 100, 1_000, 10_000, 100_000)
STEPS = ("accept", "seal", "frame", "write", "read", "cut", "decode", "open", "make events", "callback")
seen = 0


def take(event: gossamer.Event) -> None:
    global seen
    seen += 1
    if event.payload[0]:
        raise ValueError(event)


def moved(
    near: socket.socket, far: socket.socket, parts: list[memoryview], intake: Intake
) -> tuple[int, int]:
    """Nanoseconds that writing and reading a frame took; what was read is in the intake."""
    wrote = read = 0
    while parts:
        began = time.thread_time_ns()
        count = near.sendmsg(parts[:1000])
        wrote += time.thread_time_ns() - began
        while parts and count >= len(parts[0]):
            count -= len(parts.pop(0))
        if count:
            parts[0] = parts[0][count:]
        began = time.thread_time_ns()
        got = far.recv_into(intake.room)
        read += time.thread_time_ns() - began
        if parts:
            intake.filled(got)
            intake.make_room()
    return wrote, read


def steps(size: int, near: socket.socket, far: socket.socket, ready: Intake) -> dict[str, float]:
    """Nanoseconds per event of each step, for one full parcel."""
    took: dict[str, int] = {}
    clock = time.thread_time_ns
    sealer, payloads = (
        Sealer("way", 1, Notary(b"x"), Template.parcel_bytes),
        [bytes(size)] * (min(4096, Template.parcel_bytes // size) + 1),
    )
    mark = clock()
    count, _ = sealer.add_run(payloads, NO_QOS)
    took["accept"], mark = clock() - mark, clock()
    (parcel,) = sealer.seal("way", 1)
    took["seal"], mark = clock() - mark, clock()
    parts = [memoryview(each) for each in pieces(parcel)]
    took["frame"] = clock() - mark
    near.setblocking(False)
    whole = b"".join(parts)
    intake = Intake()
    took["write"], took["read"] = moved(near, far, parts, intake)
    left = memoryview(whole)
    frames: list[memoryview] = []
    while left:  # as it comes in one read after the other
        if took.get("cut"):
            mark = clock()
            ready.make_room()
            took["cut"] += clock() - mark
        room = ready.room
        some = min(len(room), len(left))
        room[:some] = left[:some]
        left, mark = left[some:], clock()
        frames += ready.filled(some)
        took["cut"] = took.get("cut", 0) + clock() - mark
    mark = clock()
    item = cast(Parcel, decode(frames[0]))
    took["decode"], mark = clock() - mark, clock()
    assert len(item.payloads) == count
    took["open"], mark = clock() - mark, clock()
    events = opened(item, None, cast(Any, None), None)
    took["make events"], mark = clock() - mark, clock()
    for event in events:
        take(event)
    took["callback"] = clock() - mark
    ready.make_room()
    return {step: each / count for step, each in took.items()}


async def whole(size: int, seconds: float) -> float:
    """Nanoseconds per event of the whole way between two nodes."""
    async with (
        gossamer.connect(listen="tcp://127.0.0.1:0", name="sender") as near,
        gossamer.connect(near.addresses[0], name="receiver") as far,
    ):
        channel = await near.channel("way", template="single-source")
        async with (await far.channel("way")).subscribe(callback=take) as events:
            await channel.wait_for_subscribers(10)
            count, began, end = 0, time.process_time_ns(), time.monotonic() + seconds
            while time.monotonic() < end:
                sent = await channel.publish_many([bytes(size)] * max(20, 400_000 // size))
                count += len(sent)
            while events.delivered < count:  # noqa: ASYNC110
                await asyncio.sleep(0)
            return (time.process_time_ns() - began) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    near, far = socket.socketpair()
    table: dict[str, list[float]] = defaultdict(list)
    for size in SIZES:
        intake = Intake()
        runs = [steps(size, near, far, intake) for _ in range(options.repeat)]
        for step in STEPS:
            table[step].append(statistics.median(run[step] for run in runs))
        table["all steps"].append(sum(table[step][-1] for step in STEPS))
        table["between nodes"].append(gossamer.run(whole(size, options.seconds)))
    print(f"{'bytes':14}" + "".join(f"{size:>12,}" for size in SIZES))
    for step, figures in table.items():
        print(f"{step:14}" + "".join(f"{each:>12,.0f}" for each in figures))


if __name__ == "__main__":
    main()
