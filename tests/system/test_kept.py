"""Kept subscriptions and a dispatcher that is killed: what nobody kept is told as a gap."""

from __future__ import annotations

import asyncio

from gossamer import Node, connect
from gossamer.runtime.host import Host
from tests.system.programs import PATIENCE, address_of, gossamer


def host_of(node: Node) -> Host:
    assert node._host is not None
    return node._host


async def test_a_subscriber_of_a_killed_dispatcher_is_told_a_gap() -> None:
    up = ("up", "--name", "b1", "--json", "--listen")
    with gossamer(*up, "tcp://127.0.0.1:0") as node:
        at = address_of(node)
        phone = connect(at, name="phone")
        await phone.__aenter__()
        news = await phone.channel("news", "dispatch")
        async with news.subscribe(durable="ann", ack="explicit") as events, asyncio.timeout(PATIENCE):
            await news.publish(b"1")
            assert (await events.next()).payload == b"1"
            await news.drain()
            node.process.kill()
            node.process.wait()
            with gossamer(*up, at) as again:
                assert address_of(again) == at
                await host_of(phone).until(lambda: events.missed > 0)
                await news.publish(b"2")
                assert (await events.next()).payload == b"2"
                await phone.close()
