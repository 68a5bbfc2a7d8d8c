"""A peer of a ring: prints where it listens, then what it gets; it publishes what comes in, line by line."""

from __future__ import annotations

import asyncio
import sys

import gossamer


async def main(name: str, *seeds: str) -> None:
    async with gossamer.connect(*seeds, name=name, role="peer", listen="tcp://127.0.0.1:0") as node:
        print(node.addresses[0], flush=True)
        channel = await node.channel("group", template="multiring")
        async with channel.subscribe() as events:
            writing = asyncio.create_task(write(channel))
            async for event in events:
                print(event.payload.decode(), flush=True)
            await writing


async def write(channel: gossamer.Channel) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        await channel.publish(line.strip().encode())


gossamer.run(main(*sys.argv[1:]))
