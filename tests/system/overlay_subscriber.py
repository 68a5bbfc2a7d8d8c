"""A program: a node from a file that listens to a channel and says what it saw.

overlay_subscriber.py FILE CHANNEL. It says that it listens, its first event, each mark, and after the last
event what was missing, what came twice or out of order, and of how many gaps it was told. It ends with its
input.
"""

import asyncio
import json
import sys
from typing import Any

from gossamer import Node, run
from gossamer.runtime.config import load


async def main(file: str, name: str) -> None:
    async with Node(load(file), patient=True) as node:
        channel = await node.channel(name)
        async with channel.subscribe() as events:
            say({"node": node.name, "listen": node.addresses})
            first = last = gaps = disorder = 0
            async for event in events:
                if not first:
                    first = event.number
                    say({"first": first})
                elif event.number <= last:
                    disorder += 1
                elif event.number != last + 1:
                    gaps += 1
                last = max(last, event.number)
                if event.payload == b"mark":
                    say({"mark": event.number})
                if event.payload == b"end":
                    break
            links = {
                peer: {each.transport: each.received for each in reports}
                for peer, reports in node.links.items()
            }
            seen = {"last": last, "gaps": gaps, "disorder": disorder, "told": events.missed}
            say({**seen, "dropped": events.dropped, "links": links})
            await asyncio.to_thread(sys.stdin.readline)


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


run(main(sys.argv[1], sys.argv[2]))
