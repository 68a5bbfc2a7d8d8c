"""Three nodes, every template, short-lived and lasting publishers at every pair of nodes: what was called
published arrives.

    python -m tests.system.plain_use [NAMES]               nodes on this machine, NAMES channels a template
    python -m tests.system.plain_use [NAMES] --namespaces  nodes on three hosts, which listen at 0.0.0.0

A lasting publisher stays connected until its event has arrived; a short-lived one connects, publishes and
closes, as ``gossamer pub`` does.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

import gossamer
from tests.system import namespaces
from tests.system.cluster import until
from tests.system.programs import PATIENCE, Program
from tests.system.test_plain_use import TEMPLATES, three_nodes

AT_ONCE = 4
"""Channels that are tried at the same time."""


class Readers:
    """A client below each node, and what each has got on each channel."""

    def __init__(self, nodes: list[gossamer.Node]) -> None:
        self.nodes = nodes
        self.got: dict[tuple[str, int], list[str]] = defaultdict(list)

    async def read(self, name: str, template: str, at: int, ready: asyncio.Event) -> None:
        channel = await self.nodes[at].channel(name, template=template)
        async with channel.subscribe() as events:
            ready.set()
            async for event in events:
                self.got[name, at].append(bytes(event.payload).decode())


async def try_channel(readers: Readers, addresses: list[str], name: str, template: str) -> int:
    """Publish at every node to a reader at every other, in both ways; how many events arrived."""
    expected = 0
    async with asyncio.TaskGroup() as group:
        readies = [asyncio.Event() for _ in addresses]
        reading = [
            group.create_task(readers.read(name, template, at, ready)) for at, ready in enumerate(readies)
        ]
        for ready in readies:
            await asyncio.wait_for(ready.wait(), PATIENCE)
        for number, address in enumerate(addresses):
            said = f"lasting {number}"
            async with gossamer.connect(address) as publisher:
                channel = await publisher.channel(name, template=template)
                await channel.wait_for_subscribers(PATIENCE)
                if number == 0:
                    await until_all_listen(readers, channel, name, len(addresses))
                await channel.publish(said.encode())
                await arrived(readers, name, said, len(addresses), template)
            said = f"short {number}"
            async with gossamer.connect(address) as publisher:
                channel = await publisher.channel(name, template=template)
                await channel.wait_for_subscribers(PATIENCE)
                await channel.publish(said.encode())
            await arrived(readers, name, said, len(addresses), template)
            expected += 2 * len(addresses)
        for task in reading:
            task.cancel()
    return expected


async def until_all_listen(readers: Readers, channel: gossamer.Channel, name: str, count: int) -> None:
    """Publish until every reader has got something: one reader is enough for ``wait_for_subscribers``."""
    end = time.monotonic() + PATIENCE
    while not all(readers.got[name, at] for at in range(count)):
        assert time.monotonic() < end, f"{name}: somebody hears nothing"
        await channel.publish(b"hello")
        await asyncio.sleep(0.2)


async def arrived(readers: Readers, name: str, said: str, count: int, template: str) -> None:
    def everywhere() -> bool:
        return all(said in readers.got[name, at] for at in range(count))

    try:
        await until(everywhere, said)
    except AssertionError:
        lacking = [at + 1 for at in range(count) if said not in readers.got[name, at]]
        raise AssertionError(f"{template}, channel {name}: {said!r} never came to {lacking}") from None
    for at in range(count):
        assert readers.got[name, at].count(said) == 1, f"{template}, channel {name}: {said!r} twice"


async def clients(addresses: list[str], names: int) -> None:
    """Every template, so many channels each."""
    async with AsyncExitStack() as stack:
        readers = Readers([await stack.enter_async_context(gossamer.connect(each)) for each in addresses])
        for template in TEMPLATES:
            begun, total = time.monotonic(), 0
            for start in range(0, names, AT_ONCE):
                some = range(start, min(names, start + AT_ONCE))
                tries = [partial(try_channel, readers, addresses, f"{template}-{each}") for each in some]
                total += sum(await asyncio.gather(*(each(template) for each in tries)))
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
        addresses = three_nodes(stack, Path(states), hosts)
        inside = hosts.inside(0) if hosts else ()
        driver = Program("-m", "tests.system.plain_use", "--at", names, *addresses, inside=inside)
        with driver:
            for _ in TEMPLATES:
                print(driver.line(), flush=True)
            driver.process.wait()
            return driver.process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
