"""What one acknowledged event costs that is published alone: publish, wait for the acknowledgement, again.

``python benchmarks/serial_publish.py --folder FOLDER`` starts nodes as processes with their state in FOLDER,
which has to be on the disk that is meant. It publishes on a persistent channel: on a single node, from a
client of it, and from a client of each of three nodes. Beside it stands what one sync of this disk costs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import gossamer

WARM = 20
"""Events that are not counted: the first of them wait until there is a leader."""
SOON = 60.0


def sync_cost(folder: Path, count: int = 200) -> list[float]:
    """Milliseconds of a write of 200 bytes and its sync."""
    times = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter()
            file.write(bytes(200))
            os.fsync(file.fileno())
            times.append((time.perf_counter() - start) * 1000)
    (folder / "probe").unlink()
    return times


def ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def start(stack: ExitStack, folder: Path, count: int) -> list[str]:
    """Nodes as processes; their addresses."""
    addresses = [f"tcp://127.0.0.1:{port}" for port in ports(count)]
    for number, address in enumerate(addresses):
        others = [word for each in addresses if each != address for word in ("--connect", each)]
        command = [sys.executable, "-m", "gossamer.cli.main", "up", "--json", "--name", f"b{number + 1}"]
        state = ["--state", str(folder / f"b{number + 1}")]
        process = subprocess.Popen(
            [*command, "--listen", address, *others, *state],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(process.wait, 20)
        stack.callback(process.terminate)
        assert process.stdout is not None
        process.stdout.readline()
    return addresses


async def serial(channel: gossamer.Channel, count: int) -> list[float]:
    """Milliseconds of each event."""
    times = []
    for _ in range(WARM + count):
        start = time.perf_counter()
        receipt = await channel.publish(b"x" * 100)
        await channel.acknowledged(receipt, SOON)
        times.append((time.perf_counter() - start) * 1000)
    return times[WARM:]


async def on_the_node(folder: Path, count: int) -> list[float]:
    async with gossamer.connect(name="b1", listen="tcp://127.0.0.1:0", state=folder) as node:
        return await serial(await node.channel("log", template="persistent", settings={"seats": 1}), count)


async def by_a_client(address: str, seats: int, count: int) -> list[float]:
    async with gossamer.connect(address, name="publisher") as node:
        return await serial(
            await node.channel("log", template="persistent", settings={"seats": seats}), count
        )


def shown(name: str, times: list[float]) -> dict[str, object]:
    ordered = sorted(times)
    return {
        "case": name,
        "events": len(times),
        "median_ms": round(statistics.median(times), 2),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk that is measured")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--cases", default="sync,node,client,three")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        for case in given.cases.split(","):
            if case == "sync":
                print(json.dumps(shown("one sync", sync_cost(folder))), flush=True)
            elif case == "node":
                times = gossamer.run(on_the_node(folder / case, given.count))
                print(json.dumps(shown("single node, on it", times)), flush=True)
            else:
                with ExitStack() as stack:
                    nodes = 3 if case == "three" else 1
                    for number, address in enumerate(start(stack, folder / case, nodes), 1):
                        times = gossamer.run(by_a_client(address, nodes, given.count))
                        print(json.dumps(shown(f"{nodes} nodes, client of b{number}", times)), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
