"""A program: publishes on a node of its own, traced, until it is killed. traced_publisher.py FOLDER

It prints a line for each hundred events; the trace is written far more often than usual.
"""

import asyncio
import sys

import gossamer
from gossamer.runtime.api import node as runtime_node

runtime_node.TRACE_FLUSH = 0.02


async def main(folder: str) -> None:
    async with gossamer.connect(name="victim", trace=folder, run="killed") as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(on_full="drop_oldest", max_pending=1):
            while True:
                for _ in range(100):
                    await channel.publish(b"x")
                    await asyncio.sleep(0)
                print("a hundred", flush=True)


gossamer.run(main(sys.argv[1]))
