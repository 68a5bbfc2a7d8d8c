"""Direct channels of real nodes: nobody between publisher and subscribers, and nothing unwanted leaves."""

from __future__ import annotations

import asyncio

import pytest

from gossamer import Criteria, Envelope, Node, Role, connect
from gossamer.errors import Full
from tests.runtime.parties import ANY_PORT, SOON, client, linked, reach, server, strand_of, stuff, take, until


def peer(name: str, *addresses: str) -> Node:
    return connect(*addresses, name=name, role=Role.PEER, listen=ANY_PORT)


def coloured(colour: str) -> Envelope:
    return Envelope({"colour": colour})


async def test_peers_publish_to_each_other_without_any_server() -> None:
    async with peer("a") as a, peer("b", a.addresses[0]) as b, peer("c", a.addresses[0]) as c:
        channel = await a.channel("news", "direct")
        others = [await each.channel("news") for each in (b, c)]
        async with others[0].subscribe() as at_b, others[1].subscribe() as at_c:
            await reach(channel, at_b, at_c)
            await channel.publish(b"from a")
            assert await take(at_b, 1) == await take(at_c, 1) == [b"from a"]
            await reach(others[0], at_c)  # b and c have no link at first: one is opened
            assert "c" in b.peers
            await others[0].publish(b"from b")
            assert await take(at_c, 1) == [b"from b"]


@pytest.mark.parametrize("role", [Role.BACKBONE, Role.PEER])
async def test_events_that_nobody_wants_never_leave_the_publisher(role: Role) -> None:
    async with (
        connect(name="publisher", role=role, listen=ANY_PORT) as publisher,
        client(publisher, "red") as red,
        client(publisher, "blue") as blue,
    ):
        channel = await publisher.channel("news", "direct")
        async with (
            (await red.channel("news")).subscribe(Criteria(colour="red")) as reds,
            (await blue.channel("news")).subscribe(Criteria(colour="blue")) as blues,
        ):
            await until(lambda: channel._instance.template._index.__len__() == 2)  # type: ignore[attr-defined]
            before = strand_of(blue, "publisher").received_frames
            for number in range(1000):
                await channel.publish(b"%d" % number, coloured("red" if number % 4 else "green"))
            await channel.publish(b"last", coloured("blue"))
            got = [await reds.next(SOON) for _ in range(750)]
            assert [each.number for each in got] == [n + 1 for n in range(1000) if n % 4]
            assert [int(each.payload) + 1 for each in got] == [each.number for each in got]
            assert await take(blues, 1) == [b"last"]
            parcels = strand_of(blue, "publisher").received_frames - before
            assert parcels < 50, "only the last, and signs of life"
            assert reds.dropped == blues.dropped == 0


async def test_an_answer_to_a_picked_event_reaches_its_source_by_the_same_connection() -> None:
    async with server("a") as a, client(a, "b") as b:
        channel = await a.channel("news", "direct")
        async with (
            (await b.channel("news")).subscribe(Criteria(colour="red")) as reds,
            channel.answers() as answers,
        ):
            await channel.wait_for_subscribers(SOON)
            await channel.publish(b"1", coloured("blue"))
            receipt = await channel.publish(b"2", coloured("red"))
            await (await reds.next(SOON)).feedback(b"yes")
            answer = await answers.next(SOON)
            assert (answer.payload, answer.answers) == (b"yes", receipt.number)
            assert len(a.links["b"]) == 1


async def test_publishing_waits_for_the_slowest_subscriber_and_nothing_is_lost() -> None:
    async with server("a") as a, client(a, "b") as b, client(a, "c") as c:
        channel = await a.channel("news", "direct")
        async with (
            (await b.channel("news")).subscribe(max_pending=10) as slow,
            (await c.channel("news")).subscribe(max_pending=1_000_000) as fast,
        ):
            await linked(a, "b", "c")
            await reach(channel, slow, fast)
            count = await stuff(channel, bytes(10_000))
            with pytest.raises(Full, match="'b'"):
                channel.try_publish(bytes(10_000))
            more = asyncio.ensure_future(channel.publish(b"end"))
            for events in (slow, fast):
                assert await take(events, count) == [bytes(10_000)] * count
            await more
            assert await take(slow, 1) == await take(fast, 1) == [b"end"]
            assert slow.dropped == fast.dropped == 0


async def test_a_subscriber_that_unsubscribes_is_sent_nothing_more() -> None:
    async with server("a") as a, client(a, "b") as b:
        channel = await a.channel("news", "direct")
        async with (await b.channel("news")).subscribe():
            await channel.wait_for_subscribers(SOON)
        await until(lambda: not channel.has_subscribers())
        before = strand_of(a, "b").sent
        await channel.publish(b"nobody")
        channel.flush()
        assert strand_of(a, "b").sent == before
