"""Readers that come to a channel which others have used before: they get what is published from then on."""

from __future__ import annotations

import asyncio

import pytest

import gossamer


@pytest.mark.parametrize("template", ["reliable", "causal", "total-order", "persistent"])
async def test_each_new_reader_gets_what_is_published_after_it_came(template: str) -> None:
    """The sequencer let places go before a new reader could ask for them, which then waited for ever."""
    async with gossamer.connect(name="server", listen="tcp://127.0.0.1:0") as server:
        for time in range(3):
            reader, writer = (gossamer.connect(server.addresses[0]) for _ in range(2))
            async with reader, writer:
                heard = await reader.channel("news", template=template)
                news = await writer.channel("news", template=template)
                async with heard.subscribe() as stream, asyncio.timeout(30):
                    await news.wait_for_subscribers(30)
                    said = [b"%d of %d" % (number, time) for number in range(3)]
                    for each in said:
                        await news.publish(each)
                    assert [bytes((await anext(stream)).payload) for _ in range(3)] == said
