"""A publisher's server dies or stops while it publishes; it moves to another server by itself, and goes on.

    python -m tests.system.failover TEMPLATE [ROUNDS]

What was acknowledged was delivered, in order and once, to a reader that stayed, and publishing goes on:
everything published is acknowledged in the end. In each round the publisher's server is killed or stopped, in
turn, and comes back afterwards, so that the rounds together are a rolling restart.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import gossamer
from tests.system.cluster import Cluster, until

SILENCE = 60.0
"""Seconds within which publishing has to go on after a fault."""
SETTLE = {"total-order": 8.0}
"""Seconds from a restart to the next fault, by template: a voter that keeps its log in memory comes back as
another one, and two of three voters that are lost at once stop the channel until they are back."""


async def fail_over(
    template: str, rounds: int, states: Path | None, events: int = 60, stops: bool = False
) -> dict[str, float]:
    """Rounds of one run; raises AssertionError, or returns figures in seconds.

    stops
        Whether the first server is stopped in good order, and not killed.
    """
    longest = 0.0
    async with Cluster(3, states) as cluster:
        one, two, three = cluster.addresses
        reader = gossamer.connect(three, one, two, name="reader")
        writer = gossamer.connect(two, one, three, name="writer")
        async with reader, writer:
            news = await writer.channel("news", template=template)
            heard = await reader.channel("news")
            got: list[int] = []

            async def read() -> None:
                async with heard.subscribe() as stream:
                    async for event in stream:
                        got.append(int(event.payload))

            reading = asyncio.create_task(read())
            await news.wait_for_subscribers(30)
            published = shared = 0
            for number in range(rounds):
                server = int(writer.peers[0][1:]) - 1  # at times it is the reader's too
                shared += writer.peers == reader.peers
                for step in range(events):
                    await asyncio.wait_for(news.publish(b"%d" % published), SILENCE)
                    published += 1
                    await asyncio.sleep(0.005)
                    if step == events // 3:
                        cluster.kill(server) if number % 2 == stops else cluster.stop(server)
                begun = time.monotonic()
                try:
                    await news.acknowledged(published, timeout=SILENCE)
                except gossamer.errors.NoAnswer:
                    raise AssertionError(
                        f"{template}, round {number}: {published} published, {len(got)} delivered, "
                        f"{_state(writer)}; {_state(reader)}"
                    ) from None
                longest = max(longest, time.monotonic() - begun)
                await until(partial(_enough, got, published), f"{len(got)} of {published} delivered")
                assert got == list(range(published)), f"{template}, round {number}: out of order or twice"
                if number < rounds - 1:
                    cluster.start(server)
                    await asyncio.sleep(SETTLE.get(template, 1.0))
            reading.cancel()
    return {"rounds": rounds, "shared": shared, "published": published, "longest": round(longest, 2)}


def _state(node: gossamer.Node) -> str:
    """What a node knows of the channel, for whoever has to find out why it stands still."""
    host = node._running
    instance = host.engine.instance("news")
    template = instance.template
    known = {key: each for key, each in template.streams.items() if key[0] == "writer"}
    streams = [
        f"{each.address} moves {each.moves} next {each.next} high {each.high} low {each.low} "
        f"behind {each.behind} reached {each.reached} over {each.over} confirmed {each.confirmed}"
        for each in known.values()
    ]
    return f"{node.name} at {node.peers}: {template.interests.said} {streams}"


def _enough(got: list[int], count: int) -> bool:
    return len(got) >= count


async def main(template: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(template, await fail_over(template, rounds, Path(folder) if template == "persistent" else None))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4))
