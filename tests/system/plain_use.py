"""Three nodes, every template, short-lived and lasting publishers at every pair of nodes: what was called
published arrives.

    python -m tests.system.plain_use [NAMES]               nodes on this machine, NAMES channels a template
    python -m tests.system.plain_use [NAMES] --namespaces  nodes on three hosts, which listen at 0.0.0.0
    python -m tests.system.plain_use [NAMES] --namespaces --ipv6       the same hosts, nodes listen at [::]

A lasting publisher stays connected until its event has arrived; a short-lived one connects, publishes and
closes, as ``gossamer pub`` does, and that runs as a program of its own for every fourth channel. On a direct
channel the readers are peers, and a program that publishes reaches the peer that it connects to.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import gossamer
from tests.system import namespaces
from tests.system.cluster import until
from tests.system.programs import PATIENCE, Program
from tests.system.test_plain_use import TEMPLATES, three_nodes

AT_ONCE = 4
"""Channels that are tried at the same time."""


class Readers:
    """A node below or beside each server, and what each has got on each channel.

    addresses
        Where publishers connect to.
    role
        Of publishers that are nodes of this process.
    """

    def __init__(self, nodes: list[gossamer.Node], addresses: list[str], role: str = "client") -> None:
        self.nodes, self.addresses, self.role = nodes, addresses, role
        self.got: dict[tuple[str, int], list[str]] = defaultdict(list)

    async def read(self, name: str, template: str, at: int, ready: asyncio.Event) -> None:
        channel = await self.nodes[at].channel(name, template=template)
        async with channel.subscribe() as events:
            ready.set()
            async for event in events:
                self.got[name, at].append(bytes(event.payload).decode())

    def everywhere(self, template: str, number: int) -> list[int]:
        """Readers that get what a client publishes at the address of this number."""
        return [number] if template == "direct" else list(range(len(self.nodes)))


async def try_channel(readers: Readers, name: str, template: str, program: bool) -> int:
    """Publish at every node to a reader at every other, in every way; how many events arrived."""
    expected, count = 0, len(readers.nodes)
    async with asyncio.TaskGroup() as group:
        readies = [asyncio.Event() for _ in readers.nodes]
        reading = [
            group.create_task(readers.read(name, template, at, ready)) for at, ready in enumerate(readies)
        ]
        for ready in readies:
            await asyncio.wait_for(ready.wait(), PATIENCE)
        for number, address in enumerate(readers.addresses):
            said = f"lasting {number}"
            async with gossamer.connect(address, role=readers.role) as publisher:
                channel = await publisher.channel(name, template=template)
                await channel.wait_for_subscribers(PATIENCE)
                if number == 0 or readers.role == "peer":
                    await until_all_listen(readers, channel, name, f"hello {number}")
                await channel.publish(said.encode())
                await arrived(readers, name, said, range(count), template)
            expected += count
            if readers.role == "client":  # a peer that closes at once may not have met the others yet
                said = f"short {number}"
                async with gossamer.connect(address) as publisher:
                    channel = await publisher.channel(name, template=template)
                    await channel.wait_for_subscribers(PATIENCE)
                    await channel.publish(said.encode())
                await arrived(readers, name, said, range(count), template)
                expected += count
            if program:
                said = f"program {number}"
                await publish_by_program(name, said, address, template)
                hearing = readers.everywhere(template, number)
                await arrived(readers, name, said, hearing, template)
                expected += len(hearing)
        for task in reading:
            task.cancel()
    return expected


async def publish_by_program(name: str, said: str, address: str, template: str) -> None:
    """``gossamer pub`` must end with 0 and without a word."""
    options = ("--template", template, "--connect", address, "--wait", "20")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gossamer.cli.main", "pub", name, said, *options),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b""), f"{template}, channel {name}: {errors.decode()}"


async def until_all_listen(readers: Readers, channel: gossamer.Channel, name: str, said: str) -> None:
    """Publish until every reader has got something: one reader is enough for ``wait_for_subscribers``."""
    end = time.monotonic() + PATIENCE
    while not all(said in readers.got[name, at] for at in range(len(readers.nodes))):
        assert time.monotonic() < end, f"{name}: a reader hears nothing"
        await channel.publish(said.encode())
        await asyncio.sleep(0.2)


async def arrived(readers: Readers, name: str, said: str, hearing: Iterable[int], template: str) -> None:
    def everywhere() -> bool:
        return all(said in readers.got[name, at] for at in hearing)

    try:
        await until(everywhere, said)
    except AssertionError:
        lacking = [at + 1 for at in hearing if said not in readers.got[name, at]]
        raise AssertionError(f"{template}, channel {name}: {said!r} never came to {lacking}") from None
    for at in hearing:
        assert readers.got[name, at].count(said) == 1, f"{template}, channel {name}: {said!r} twice"


async def start_readers(stack: AsyncExitStack, template: str, addresses: list[str], host: str) -> Readers:
    """A client below each server; on direct channels, which have no server, peers that know the first."""
    if template != "direct":
        return Readers(
            [await stack.enter_async_context(gossamer.connect(each)) for each in addresses], addresses
        )
    peers: list[gossamer.Node] = []
    for _ in addresses:
        known = [each.addresses[0] for each in peers[:1]]
        node = gossamer.connect(*known, role="peer", listen=f"tcp://{host}:0")
        peers.append(await stack.enter_async_context(node))
    return Readers(peers, [each.addresses[0] for each in peers], role="peer")


async def clients(addresses: list[str], names: int) -> None:
    """Every template, so many channels each; some of them also with ``gossamer pub``."""
    host = addresses[0].removeprefix("tcp://").rpartition(":")[0]
    for template in TEMPLATES:
        async with AsyncExitStack() as stack:
            readers = await start_readers(stack, template, addresses, host)
            begun, total = time.monotonic(), 0
            for start in range(0, names, AT_ONCE):
                some = range(start, min(names, start + AT_ONCE))
                tries = [
                    try_channel(readers, f"{template}-{each}", template, each % AT_ONCE == 0) for each in some
                ]
                total += sum(await asyncio.gather(*tries))
            print(
                f"{template}: {names} channels, {total} arrived, {time.monotonic() - begun:.0f} s", flush=True
            )


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--at"]:
        asyncio.run(clients(arguments[2:], int(arguments[1])))
        return 0
    names = next((each for each in arguments if each.isdigit()), "20")
    with ExitStack() as stack, tempfile.TemporaryDirectory() as states:
        hosts = stack.enter_context(namespaces.Hosts(3)) if "--namespaces" in arguments else None
        addresses = three_nodes(stack, Path(states), hosts, "--ipv6" in arguments)
        inside = hosts.inside(0) if hosts else ()
        driver = Program("-m", "tests.system.plain_use", "--at", names, *addresses, inside=inside)
        with driver:
            for _ in TEMPLATES:
                print(driver.line(), flush=True)
            driver.process.wait()
            return driver.process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
