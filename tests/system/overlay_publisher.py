"""A program: a node from a file that publishes numbered events until it is told to stop.

overlay_publisher.py FILE CHANNEL PEERS: PEERS, as JSON, are the transports that its links to others must have
before it is ready. Lines of its input: ``go``, ``mark`` (publish an event that says so) and ``stop``.
"""

import asyncio
import json
import sys
from typing import Any

from gossamer import Channel, Node, run
from gossamer.runtime.config import load

PACE = 0.005
"""Seconds between bursts: enough to keep the way busy on a small machine that runs five nodes."""
BURST = 10


async def main(file: str, name: str, peers: dict[str, list[str]]) -> None:
    async with Node(load(file), patient=True) as node:
        say({"node": node.name, "listen": node.addresses})
        channel = await node.channel(name)
        while not complete(node, peers):  # noqa: ASYNC110
            await asyncio.sleep(PACE)
        say({"links": links(node)})
        assert await line() == "go"
        publishing = asyncio.create_task(publish(channel))
        while await line() == "mark":
            await channel.publish(b"mark")
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        last = await channel.publish(b"end")
        say({"last": last.number, "links": links(node)})
        await line()


async def publish(channel: Channel) -> None:
    while True:
        for _ in range(BURST):
            await channel.publish(bytes(200))
        await asyncio.sleep(PACE)


def complete(node: Node, peers: dict[str, list[str]]) -> bool:
    found = links(node)
    return all(set(transports) <= set(found.get(peer, {})) for peer, transports in peers.items())


def links(node: Node) -> dict[str, dict[str, int]]:
    return {peer: {each.transport: each.sent for each in reports} for peer, reports in node.links.items()}


async def line() -> str:
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
