"""A program: a node of a ringtree channel, in its own process.

ringtree_node.py NAME SETTINGS [ADDRESS]. It says where it listens, then the number of each event that it
gets. Each line of its input publishes an event; with the end of its input it leaves.
"""

import asyncio
import json
import sys
from typing import Any

from gossamer import Node, run
from gossamer.overlay.backbone.setup import MonitorSettings
from gossamer.runtime.config import NodeConfig


async def main(name: str, settings: dict[str, Any], *at: str) -> None:
    config = NodeConfig(
        name=name,
        listen=("tcp://127.0.0.1:0",),
        connect=at,
        monitor=MonitorSettings(probe_budget=5000.0, pause=0.1),
    )
    async with Node(config) as node:
        channel = await node.channel("news", "ringtree", settings)
        async with channel.subscribe() as events:
            say({"node": node.name, "listen": node.addresses})
            reading = asyncio.create_task(read(events))
            await publish(channel)
            reading.cancel()


async def read(events: Any) -> None:
    async for event in events:
        say({"got": event.number, "from": event.source})


async def publish(channel: Any) -> None:
    while await asyncio.to_thread(sys.stdin.readline):
        receipt = await channel.publish(b"")
        say({"sent": receipt.number})


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


run(main(sys.argv[1], json.loads(sys.argv[2]), *sys.argv[3:]))
