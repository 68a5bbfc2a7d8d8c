"""A publisher that waits for each acknowledgement waits for the disk and the network, and for no timer."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from gossamer import Channel, connect
from tests.runtime.damages import QUICK, fill, logged, node, seated, single, small_segments, soon, three
from tests.runtime.parties import SOON, host_of, take

SLOW: dict[str, Any] = {"ack": 30.0, "heartbeat": 0.1, "patience": 1.0}
"""Acknowledgements that wait for their beat would take as long as this."""
COUNT = 20


async def serial(channel: Channel, count: int) -> None:
    for number in range(count):
        await channel.acknowledged(await channel.publish(b"%d" % number), SOON)


async def test_on_a_single_node_each_event_costs_one_commit(tmp_path: Path) -> None:
    async with connect(name="b1", state=tmp_path) as node:
        channel = await node.channel("log", template="persistent", settings={**SLOW, "seats": 1})
        await serial(channel, 3)
        values = host_of(node)._values
        before = values.commits
        async with asyncio.timeout(SOON):
            await serial(channel, COUNT)
        assert values.commits - before <= COUNT + 2


async def test_a_client_of_each_of_three_nodes_waits_for_no_beat(tmp_path: Path) -> None:
    async with (
        node(tmp_path, 0) as first,
        node(tmp_path, 1, first.addresses[0]) as second,
        node(tmp_path, 2, first.addresses[0]) as third,
    ):
        for number, server in enumerate((first, second, third)):
            async with connect(server.addresses[0], name=f"client{number}") as client:
                channel = await client.channel("log", template="persistent", settings={**SLOW, "seats": 3})
                await serial(channel, 1)
                async with asyncio.timeout(SOON):
                    await serial(channel, COUNT)


async def test_history_that_is_asked_for_right_after_an_acknowledgement_has_the_event(tmp_path: Path) -> None:
    """The record may still be on its way to the log of the node that answers."""
    async with (
        node(tmp_path, 0) as first,
        node(tmp_path, 1, first.addresses[0]),
        node(tmp_path, 2, first.addresses[0]),
        connect(first.addresses[0], name="client") as client,
    ):
        channel = await client.channel("log", template="persistent", settings={**SLOW, "seats": 3})
        for count in (5, 10, 15):
            await serial(channel, 5)
            async with channel.subscribe(from_offset=0) as events:
                assert len(await take(events, count)) == count


async def test_the_voters_write_an_event_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader's disk hangs: the others have the entry all the same, and decide it."""
    async with three(tmp_path) as nodes:
        channels = [await each.channel("log", template="persistent", settings=QUICK) for each in nodes]
        await fill(channels[0], 0, 3)
        await seated(nodes)
        rafts: list[Any] = [host_of(each).engine.instance("log").template.raft for each in nodes]  # type: ignore[attr-defined]
        await soon(lambda: any(each.leads and len(each.seats) == 3 for each in rafts))
        head = next(number for number, each in enumerate(rafts) if each.leads)
        host, leader = host_of(nodes[head]), rafts[head]
        await soon(lambda: not host._gates.channels and leader.commit_index == leader.record.last)
        free, write = threading.Event(), host._values.write

        def held(*what: Any) -> None:
            free.wait(2 * SOON)
            write(*what)

        monkeypatch.setattr(host._values, "write", held)
        try:
            before = leader.record.last
            receipt = await channels[head].publish(b"3")
            channels[head].flush()
            others = [each for each in rafts if each is not leader]
            await soon(lambda: all(each.record.last > before for each in others))
            assert leader.written == before
            await soon(lambda: leader.commit_index > before)
            assert leader.written == before
        finally:
            free.set()
        await channels[head].acknowledged(receipt, SOON)
        await soon(lambda: leader.written == leader.record.last)


async def test_what_a_voter_keeps_beside_its_log_does_not_grow_with_the_events(tmp_path: Path) -> None:
    with small_segments():
        async with single(tmp_path) as channel:
            host, sizes, published = channel._host, [], 0
            for count in (50, 500):
                await fill(channel, published, published + count)
                published += count
                await logged(channel, published)
                sizes.append(sum(len(key) + len(value) for key, value in host._values.values.items()))
            raft: Any = host.engine.instance("log").template.raft  # type: ignore[attr-defined]
            assert raft.record.number > published - 50, "nothing was summed up"
            assert sizes[1] < sizes[0] + 2000
    assert (tmp_path / "state.db").stat().st_size < 200_000
