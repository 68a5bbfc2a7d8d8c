"""Durable subscriptions on a dispatch channel: kept at the dispatcher, and taken up at another."""

from __future__ import annotations

import pytest

from gossamer import Closed, WishRefused

from .parties import SOON, client, reach, server


async def test_a_client_goes_and_another_takes_up_its_subscription() -> None:
    async with server("b1") as first:
        news = await first.channel("news", "dispatch")
        async with client(first, "phone") as phone:
            there = await phone.channel("news")
            async with there.subscribe(durable="ann") as events:
                await reach(news, events)
                await news.publish(b"1")
                assert (await events.next(timeout=SOON)).payload == b"1"
        for number in range(2, 100):
            await news.publish(b"%d" % number)
            news.flush()
        async with client(first, "laptop") as laptop:
            there = await laptop.channel("news")
            async with there.subscribe(durable="ann") as events:
                await news.publish(b"100")
                found = [(await events.next(timeout=SOON)).payload for _ in range(2, 101)]
        assert found == [b"%d" % number for number in range(2, 101)]


async def test_who_subscribes_under_the_same_name_elsewhere_takes_over() -> None:
    async with server("b1") as node:
        news = await node.channel("news", "dispatch")
        async with client(node, "phone") as phone, news.subscribe(durable="ann") as here:
            async with (await phone.channel("news")).subscribe(durable="ann") as there:
                with pytest.raises(Closed, match="taken over"):
                    await here.next(timeout=SOON)
                await news.publish(b"hello")
                assert (await there.next(timeout=SOON)).payload == b"hello"
            await news.forget("ann")


async def test_what_is_not_acknowledged_comes_again() -> None:
    async with server("b1") as node:
        news = await node.channel("news", "dispatch")
        async with news.subscribe(durable="ann", ack="explicit") as events:
            for payload in (b"1", b"2", b"3"):
                await news.publish(payload)
            for _ in range(3):
                event = await events.next(timeout=SOON)
                if event.payload != b"3":
                    events.ack(event)
        async with news.subscribe(durable="ann") as events:
            assert (await events.next(timeout=SOON)).payload == b"3"


async def test_where_nobody_keeps_it_a_durable_subscription_is_refused() -> None:
    async with server("b1") as node:
        with pytest.raises(WishRefused, match="dispatch"):
            (await node.channel("plain", "multicast")).subscribe(durable="ann")
