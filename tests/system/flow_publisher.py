"""A program: publishes numbered events as fast as it may. flow_publisher.py ADDRESS COUNT SIZE"""

import json
import sys

from memory import peak_kibibytes

import gossamer

CHUNK = 10_000


async def main(address: str, count: int, size: int) -> None:
    async with gossamer.connect(address, name="writer") as node:
        channel = await node.channel("flow", "multicast")
        await channel.wait_for_subscribers(30)
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            await channel.publish_many((b"%010d" % number).ljust(size) for number in numbers)
        await channel.drain()
        memory = peak_kibibytes()
        print(json.dumps({"drops": node.drops, "kibibytes": memory}), flush=True)


gossamer.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
