"""Durable subscriptions on a dispatch channel: kept at the dispatcher, and taken up at another."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from gossamer import Node, Role, connect
from gossamer.errors import Closed, Damaged, NoAnswer, StorageError, UnsupportedQoS
from tests.runtime.damages import PLAIN, segments
from tests.runtime.parties import ANY_PORT, SOON, client, host_of, linked, reach, server, take, turns, until


def keeper(folder: Path) -> Node:
    """A server whose state is in a folder."""
    return connect(name="b1", role=Role.BACKBONE, listen=ANY_PORT, state=str(folder))


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


async def test_a_subscription_is_taken_up_at_another_server_with_all_that_came_meanwhile() -> None:
    async with server("b1") as first, server("b2", first.addresses[0]) as second:
        news = await first.channel("news", "dispatch")
        async with (
            client(first, "phone") as phone,
            (await phone.channel("news")).subscribe(durable="ann") as events,
        ):
            await reach(news, events)
            await news.publish(b"1")
            assert (await events.next(timeout=SOON)).payload == b"1"
        for number in range(2, 100):
            await news.publish(b"%d" % number)
            news.flush()
        async with (
            client(second, "laptop") as laptop,
            (await laptop.channel("news")).subscribe(durable="ann") as events,
        ):
            await news.publish(b"100")
            assert await take(events, 99) == [b"%d" % number for number in range(2, 101)]


async def test_who_wanders_among_three_servers_under_traffic_gets_everything_once_and_in_order() -> None:
    async with server("b1") as b1, server("b2", b1.addresses[0]) as b2, server("b3", b2.addresses[0]) as b3:
        news = await b2.channel("news", "dispatch")
        there = [await node.channel("news") for node in (b1, b2, b3)]
        async with there[0].subscribe(durable="ann") as events:
            await reach(news, events)
        with suppress(NoAnswer):  # probes may have been on their way while the hierarchy was still changing
            await news.drain(SOON)

        async def talk() -> None:
            for number in count():
                await news.publish(b"%d" % number)
                await turns(3)

        talking = asyncio.create_task(talk())
        found: list[bytes] = []
        for move in range(9):
            async with there[(2 * move + 1) % 3].subscribe(durable="ann", ack="explicit") as events:
                for _ in range(40):
                    event = await events.next(timeout=SOON)
                    found.append(event.payload)
                    events.ack(event)
        talking.cancel()
        await news.drain(SOON)
        assert [each for each in found if each.isdigit()] == [b"%d" % number for number in range(len(found))]


async def test_what_a_server_keeps_on_disk_is_there_when_it_starts_again(tmp_path: Path) -> None:
    async with keeper(tmp_path) as node:
        news = await node.channel("news", "dispatch", {"disk": True})
        async with news.subscribe(durable="ann") as events:
            await news.publish(b"1")
            await news.publish(b"2")
            events.ack(await events.next(timeout=SOON))
        for number in range(3, 10):
            await news.publish(b"%d" % number)
    async with (
        keeper(tmp_path) as node,
        client(node, "phone") as phone,
        (await phone.channel("news", "dispatch", {"disk": True})).subscribe(durable="ann") as events,
    ):
        assert await take(events, 8) == [b"%d" % number for number in range(2, 10)]


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
        with pytest.raises(UnsupportedQoS, match="dispatch"):
            (await node.channel("plain", "multicast")).subscribe(durable="ann")


@pytest.mark.parametrize("kind", ["flip", "truncate", "delete"])
async def test_a_dispatcher_whose_log_is_damaged_refuses_and_names_the_command(
    tmp_path: Path, kind: str
) -> None:
    async with keeper(tmp_path) as node:
        news = await node.channel("news", "dispatch", {"disk": True})
        async with news.subscribe(durable="ann") as events:
            await reach(news, events)
        for number in range(100):
            await news.publish(b"%d" % number)
            news.flush()
    (segment,) = segments(tmp_path)
    PLAIN[kind](segment)
    async with keeper(tmp_path) as node, asyncio.timeout(SOON):
        with pytest.raises(Damaged, match="gossamer log repair"):
            await node.channel("news", "dispatch", {"disk": True})


async def test_a_subscriber_reads_why_its_dispatcher_does_not_keep_it(tmp_path: Path) -> None:
    async with keeper(tmp_path) as node:
        news = await node.channel("news", "dispatch", {"disk": True})
        async with news.subscribe(durable="ann"):
            pass
        ledger = host_of(node).engine.instance("news").template.keeping.ledger  # type: ignore[attr-defined]
        ledger.ready, ledger.damaged, ledger.trouble = False, True, "a bit is not what it was"
        with pytest.raises(StorageError, match="a bit is not what it was"):
            async with news.subscribe(durable="bob") as events:
                await events.next(timeout=SOON)


async def fail(node: Node) -> str:
    """End a node as a crash does: no goodbye, and nothing is drained. Where it listened."""
    address = node.addresses[0]
    for link in tuple(host_of(node).links.values()):
        for strand in tuple(link.strands):
            strand.connection.abort()
    for listener in node._listeners:
        await listener.close()
    for task in node._background:
        task.cancel()
    await host_of(node).close()
    return address


@pytest.mark.parametrize("heard", [False, True])
async def test_a_subscriber_is_told_a_gap_when_its_dispatcher_begins_anew(heard: bool) -> None:
    async with server("b0") as other:
        first = server("b1", other.addresses[0])
        await first.__aenter__()
        news = await other.channel("news", "dispatch")
        async with (
            client(first, "phone") as phone,
            (await phone.channel("news")).subscribe(durable="ann", ack="explicit") as events,
        ):
            await news.wait_for_subscribers(SOON)
            await until(lambda: host_of(phone).kept("kept/news/ann") is not None)
            if heard:
                await reach(news, events)
            address = await fail(first)
            await linked(phone)
            await news.publish(b"while it was down")
            async with connect(other.addresses[0], name="b1", role=Role.BACKBONE, listen=address):
                await until(lambda: events.missed > 0)
                await until(lambda: len(other.peers) == 1)
                with suppress(NoAnswer):
                    await news.drain(SOON)
                await news.publish(b"after it")
                async with asyncio.timeout(SOON):
                    while (await events.next(timeout=SOON)).payload != b"after it":
                        pass
                await news.drain(SOON)


async def test_who_comes_back_in_another_life_is_told_that_nothing_was_kept(tmp_path: Path) -> None:
    first = server("b1")
    await first.__aenter__()
    address = first.addresses[0]
    async with (
        connect(address, name="phone", state=str(tmp_path)) as phone,
        (await phone.channel("news", "dispatch")).subscribe(durable="ann"),
    ):
        await until(lambda: host_of(phone).kept("kept/news/ann") is not None)
    await fail(first)
    async with (
        connect(name="b1", role=Role.BACKBONE, listen=address),
        connect(address, name="phone", state=str(tmp_path)) as phone,
        (await phone.channel("news", "dispatch")).subscribe(durable="ann") as events,
    ):
        await until(lambda: events.missed > 0)


async def test_who_comes_for_the_first_time_or_was_forgotten_misses_nothing() -> None:
    async with server("b1") as node, client(node, "phone") as phone:
        there = await phone.channel("news", "dispatch")
        async with there.subscribe(durable="ann") as events:
            await there.publish(b"1")
            assert await take(events, 1) == [b"1"]
            assert events.missed == 0
        await there.forget("ann")
        async with there.subscribe(durable="ann") as events:
            await there.publish(b"2")
            assert await take(events, 1) == [b"2"]
            assert events.missed == 0
