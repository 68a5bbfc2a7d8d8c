"""A program: a backbone node of its own that listens to a direct channel and prints what it gets.

direct_reader.py NAME CHANNEL COUNT LISTEN ADDRESS. On a direct channel no node passes anything on, so a
client reaches the node that it is connected to and no other: this one says where it listens, then that it
listens to the channel, then each event, and it ends after the last.
"""

from __future__ import annotations

import sys

from gossamer import connect, run


async def main(name: str, channel: str, count: str, listen: str, address: str) -> None:
    async with connect(address, name=name, role="backbone", listen=listen) as node:
        news = await node.channel(channel, template="direct")
        async with news.subscribe() as events:
            print(node.addresses[0], flush=True)
            print(f"listening on {channel}", file=sys.stderr, flush=True)
            for _ in range(int(count)):
                event = await events.next()
                print(bytes(event.payload).decode(), flush=True)


run(main(*sys.argv[1:]))
