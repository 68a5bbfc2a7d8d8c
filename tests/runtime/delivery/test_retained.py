"""The last value of a channel: for who comes later, and for who asks."""

from __future__ import annotations

import pytest

from gossamer import Criteria, Envelope, QoS, catalog, connect
from gossamer.errors import TooLarge
from gossamer.runtime.delivery.retained import MAX_RETAINED
from tests.runtime.api.test_qos import SETTINGS
from tests.runtime.parties import SOON, client, server, take, turns

KEPT = Envelope({"colour": "red"}, QoS(retain=True))


@pytest.mark.parametrize("template", sorted(catalog.templates()))
async def test_who_comes_later_gets_the_last_value_first_and_once(template: str) -> None:
    async with connect() as node:
        channel = await node.channel("news", template, SETTINGS.get(template))
        await channel.publish_many([b"1", b"2"], KEPT)
        await channel.publish(b"not kept")
        await channel.publish(b"3", KEPT)
        await channel.drain()
        async with channel.subscribe(retained=True) as events:
            assert await take(events, 1) == [b"3"]
            await channel.publish(b"4", KEPT)
            assert await take(events, 1) == [b"4"]
            assert events.pending == 0


async def test_it_outlives_its_publisher_and_can_be_asked_for_from_anywhere() -> None:
    async with server("middle") as middle, client(middle, "reader") as reader:
        async with client(middle, "writer") as writer:
            channel = await writer.channel("news", "multicast")
            assert await channel.last() is None
            await channel.publish(b"kept", KEPT)
            await channel.drain()
        same = await reader.channel("news")
        last = await same.last()
        assert last is not None
        assert (last.payload, last.source, last.number, last.attributes) == (
            b"kept",
            "writer",
            1,
            {"colour": "red"},
        )
        async with same.subscribe(Criteria(colour="red"), retained=True) as events:
            assert await take(events, 1) == [b"kept"]
        async with same.subscribe(Criteria(colour="blue"), retained=True) as events:
            await same.last()
            await turns()
            assert events.pending == 0, "it does not match"


async def test_one_that_comes_live_as_well_is_not_given_twice() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as watching:
            await channel.publish(b"1", KEPT)
            await channel.drain()
            parcel = (await watching.next(SOON)).parcel
        async with channel.subscribe(retained=True) as events:
            assert await take(events, 1) == [b"1"]
            events.put(parcel, None, None)
            await channel.publish(b"2")
            assert await take(events, 1) == [b"2"]


async def test_the_last_value_does_not_come_behind_a_newer_one() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        await channel.publish(b"old", KEPT)
        await channel.drain()
        async with channel.subscribe(retained=True) as events:
            await channel.publish(b"new")
            channel.flush()
            last = await channel.last()
            assert last is not None
            assert last.payload == b"old", "the new one did not ask for it"
            await turns()
            assert await take(events, 1) == [b"new"]
            assert events.pending == 0


async def test_what_has_expired_is_no_value_and_what_is_too_large_is_refused() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop", qos=QoS(retain=True))
        await channel.publish(b"1")
        await channel.drain()
        await channel.publish(b"2", Envelope(qos=QoS(expiry=0.001)))
        channel.flush()
        while await channel.last() is not None:
            await turns()
        with pytest.raises(TooLarge, match="retained"):
            await channel.publish(bytes(MAX_RETAINED + 1))
