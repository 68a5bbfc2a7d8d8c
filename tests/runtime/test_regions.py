"""Regions of a ringtree on real sockets: an event published in one reaches the listeners of both, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial

import gossamer
from gossamer import Node, ReceivedEvent

SETTINGS = {
    "servers": "eu: e0; us: u0",
    "heartbeat": 0.1,
    "retry": 0.2,
    "refresh": 1.0,
    "settle": 0.1,
}


async def test_an_event_reaches_the_listeners_of_both_regions_and_none_of_them_twice() -> None:
    async with AsyncExitStack() as stack:

        async def node(name: str, *servers: str) -> Node:
            region = {"e": "eu", "u": "us"}[name[0]]
            made = gossamer.connect(
                *servers, name=name, role="backbone", listen="tcp://127.0.0.1:0", region=region
            )
            return await stack.enter_async_context(made)

        first = await node("e0")
        others = [await node(name, first.addresses[0]) for name in ("e1", "e2", "u0", "u1", "u2")]
        heard: Counter[tuple[str, bytes]] = Counter()
        for each in others:
            channel = await each.channel("alerts", "ringtree", SETTINGS)
            subscription = channel.subscribe(callback=partial(_count, heard, each.name))
            await stack.enter_async_context(subscription)
        alerts = await first.channel("alerts", "ringtree", SETTINGS)
        names = {each.name for each in others}
        sent = 0
        async with asyncio.timeout(60):  # until everybody has found everybody and registered
            while {name for name, payload in heard if payload == b"%d" % sent} != names:
                sent += 1
                await alerts.publish(b"%d" % sent)
                await _quiet(heard)
        assert set(heard.values()) == {1}


def _count(heard: Counter[tuple[str, bytes]], name: str, event: ReceivedEvent) -> None:
    heard[name, event.payload] += 1


async def _quiet(heard: Counter[tuple[str, bytes]]) -> None:
    """Until nothing more comes for a while."""
    before = -1
    while heard.total() != before:
        before = heard.total()
        await asyncio.sleep(0.2)
