"""A client that publishes and listens to nothing: it never hears the order that its events get.

All the same everything that it publishes is acknowledged, beyond its window of parcels, and a reader at
another server gets everything in order.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import gossamer
from tests.system.cluster import Cluster, until

PARCELS = 400
"""More than a window of parcels (256)."""
SOON = 60.0


@pytest.mark.parametrize("template", ["total-order", "persistent"])
async def test_all_that_a_client_publishes_is_acknowledged_though_it_listens_to_nothing(
    template: str, tmp_path: Path
) -> None:
    async with Cluster(3, tmp_path if template == "persistent" else None) as cluster:
        _, two, three = cluster.addresses
        async with gossamer.connect(three, name="reader") as reader, gossamer.connect(two) as writer:
            news = await writer.channel("news", template=template)
            got: list[gossamer.ReceivedEvent] = []
            async with (await reader.channel("news")).subscribe() as events:
                await news.wait_for_subscribers(SOON)
                reading = asyncio.create_task(_read(events, got))
                for number in range(PARCELS):
                    receipt = await asyncio.wait_for(news.publish(b"%d" % number), SOON)
                    news.flush()  # each is a parcel of its own
                await news.acknowledged(receipt, timeout=SOON)
                await until(lambda: len(got) >= PARCELS, "everything delivered")
                reading.cancel()
            assert [int(event.payload) for event in got] == list(range(PARCELS))
            assert len({event.receipt.stamp.sequence for event in got}) == PARCELS


async def _read(events: gossamer.Subscription, got: list[gossamer.ReceivedEvent]) -> None:
    async for event in events:
        got.append(event)
