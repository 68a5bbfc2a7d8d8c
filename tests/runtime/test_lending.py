"""Frames are looked at where they were read; whoever keeps one has it for good."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import gossamer
from gossamer.templates.multiring.template import Multiring
from tests.runtime.parties import SOON, host_of, until


async def taken(events: gossamer.Subscription, count: int) -> list[bytes]:
    return [(await events.next(SOON)).payload for _ in range(count)]


async def publish(channel: gossamer.Channel, payloads: list[bytes]) -> None:
    """Each in a parcel of its own, so that one read brings several."""
    for each in payloads:
        await channel.publish(each)
        channel.flush()


def payload(number: int) -> bytes:
    """Unlike any other of its size, which is small, large, or more than a ring holds in one piece."""
    sizes = (10, 1_000, 70_000, 400_000)
    return b"%d " % number + bytes([number % 256]) * sizes[number % len(sizes)]


@pytest.mark.parametrize("template", ["multicast", "reliable"])
@pytest.mark.parametrize("scheme", ["tcp", "memory"])
async def test_what_waits_or_is_passed_on_is_not_what_came_later(
    tmp_path: Path, scheme: str, template: str
) -> None:
    """Through a node between, to one that takes nothing for a while: more than buffers hold waits at both."""
    wanted = [payload(number) for number in range(240)]
    listen = "tcp://127.0.0.1:0" if scheme == "tcp" else f"memory://{tmp_path}/hub"
    async with (
        gossamer.connect(listen=listen, name="hub") as hub,
        gossamer.connect(hub.addresses[0], name="sender") as sender,
        gossamer.connect(hub.addresses[0], name="receiver") as receiver,
    ):
        channel = await sender.channel("lent", template=template)
        async with (
            (await receiver.channel("lent")).subscribe(max_pending=8) as events,
            (await hub.channel("lent")).subscribe(max_pending=8) as between,
        ):
            await channel.wait_for_subscribers(SOON)
            publishing = asyncio.create_task(publish(channel, wanted))
            await until(lambda: between.full and events.full)
            seen, came = await asyncio.gather(taken(between, len(wanted)), taken(events, len(wanted)))
            await publishing
    assert came == wanted
    assert seen == wanted


async def test_what_is_kept_for_others_is_kept_once_and_not_also_as_it_was_read() -> None:
    async with gossamer.connect(role="peer", name="a", listen="tcp://127.0.0.1:0") as node:
        channel = await node.channel("group", template="multiring")
        async with channel.subscribe() as first, channel.subscribe() as second:
            await publish(channel, [payload(number) for number in range(4)])
            assert await taken(first, 4) == await taken(second, 4)
        template = host_of(node).engine.instance("group").template
        assert isinstance(template, Multiring)
        store = template.spreading.store
        kept = [found.parcel for each in store.since(0) if (found := store.get(each))]
    assert len(kept) == 4
    assert all(each._payloads is None and each._attributes is None for each in kept)
