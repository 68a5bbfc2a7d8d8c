"""Subscriptions: what happens when one is full, how events are taken, how it ends."""

from __future__ import annotations

import asyncio
import logging
from typing import Literal

import pytest

from gossamer import Envelope, Limits, Node, QoS, ReceivedEvent, Subscription, connect
from gossamer.core.context import UNREAD
from gossamer.core.effect import Missed
from gossamer.core.names import channel_id
from gossamer.errors import Closed, Full, NoAnswer
from tests.runtime.parties import SOON, client, host_of, link_of, reach, rest, server, stuff, take, turns

Dropping = Literal["drop_oldest", "drop_newest", "drop_priority"]


def word(number: int) -> bytes:
    return b"%d" % number


async def publish(node: Node, numbers: range, priority: int = 4) -> None:
    """One parcel with these events."""
    channel = await node.channel("news", "loop")
    await channel.publish_many(map(word, numbers), Envelope(qos=QoS(priority)))
    channel.flush()


def adds_up(events: Subscription, offered: int) -> bool:
    return events.pending + events.delivered + events.dropped == offered


# when it is full


@pytest.mark.parametrize(
    ("on_full", "kept"),
    [("drop_oldest", range(5, 9)), ("drop_newest", range(4)), ("drop_priority", range(5, 9))],
)
async def test_what_remains_of_parcels_that_overflow(on_full: Dropping, kept: range) -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=4, on_full=on_full) as events:
            for start in range(0, 9, 3):
                await publish(node, range(start, start + 3))
            assert rest(events) == [word(i) for i in kept]
            assert (events.pending, events.delivered, events.dropped) == (4, 0, 5)
            assert await take(events, 4) == [word(i) for i in kept]
            assert (events.pending, events.delivered, events.dropped) == (0, 4, 5)


@pytest.mark.parametrize(
    ("on_full", "kept"),
    [("drop_oldest", range(6, 10)), ("drop_newest", range(4)), ("drop_priority", range(6, 10))],
)
async def test_what_remains_of_one_parcel_larger_than_the_limit(on_full: Dropping, kept: range) -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=4, on_full=on_full) as events:
            await publish(node, range(10))
            assert rest(events) == [word(i) for i in kept]
            assert (events.pending, events.delivered, events.dropped) == (4, 0, 6)


async def test_the_least_important_are_given_up_first_and_the_oldest_of_them_first() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=6, on_full="drop_priority") as events:
            await publish(node, range(2), priority=5)
            await publish(node, range(2, 4), priority=1)
            await publish(node, range(4, 6), priority=3)
            await publish(node, range(6, 9), priority=4)
            assert rest(events) == [word(i) for i in (0, 1, 5, 6, 7, 8)]
            await publish(node, range(9, 12), priority=0)
            assert rest(events) == [word(i) for i in (0, 1, 5, 6, 7, 8)]
            await publish(node, range(12, 14), priority=4)
            assert rest(events) == [word(i) for i in (0, 1, 7, 8, 12, 13)]
            assert events.dropped == 8
            assert adds_up(events, 14)


async def test_disconnect_delivers_what_fits_and_then_says_full() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=4, on_full="disconnect") as events:
            await publish(node, range(3))
            await publish(node, range(3, 6))
            assert not channel.has_subscribers()
            await publish(node, range(6, 9))
            assert await take(events, 4) == [word(i) for i in range(4)]
            assert (events.delivered, events.dropped) == (4, 2)
            for _ in range(2):
                with pytest.raises(Full, match=r"subscription to 'news' is full \(limit 4\)"):
                    await events.next(timeout=SOON)
            with pytest.raises(Full):
                async for _ in events:
                    pass


async def test_a_disconnected_subscriber_leaves_others_alone() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        frail = channel.subscribe(max_pending=1, on_full="disconnect")
        async with frail, channel.subscribe() as events:
            await publish(node, range(5))
            await publish(node, range(5, 10))
            assert await take(events, 10) == [word(i) for i in range(10)]
            assert await take(frail, 1) == [b"0"]


async def test_dropped_events_are_counted_at_the_node() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=1, on_full="drop_newest"):
            await publish(node, range(5))
            await publish(node, range(5))
        assert node.drops == {"subscription full": 2}


@pytest.mark.parametrize("on_full", ["drop_oldest", "drop_newest", "drop_priority"])
async def test_counters_add_up_while_events_come_and_go(on_full: Dropping) -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=7, on_full=on_full) as events:
            for count, start in enumerate(range(0, 100, 5), 1):
                await publish(node, range(start, start + 5), priority=start % 3)
                assert adds_up(events, 5 * count)
                await take(events, min(3, events.pending))
                assert adds_up(events, 5 * count)
            assert events.dropped > 0


async def test_block_makes_a_remote_publisher_wait_and_loses_nothing() -> None:
    limits = Limits(queue_bytes=262144, patience=60)
    async with (
        server(limits=limits) as middle,
        client(middle, "writer", limits) as writer,
        client(middle, "reader", limits) as reader,
    ):
        heard = await reader.channel("news", "multicast")
        async with heard.subscribe(max_pending=10) as events:
            channel = await writer.channel("news", "multicast")
            before = await reach(channel, events)
            accepted = await stuff(channel, bytes(60_000))
            waiting = asyncio.create_task(channel.publish(b"last"))
            await turns(50)
            assert not waiting.done()
            assert events.pending <= 11
            got = [await events.next(timeout=SOON) for _ in range(accepted + 1)]
            assert [event.number for event in got] == list(range(before + 1, before + accepted + 2))
            assert (await waiting).number == before + accepted + 1
            assert events.dropped == 0
        assert "link stalled" not in {**writer.drops, **middle.drops, **reader.drops}


async def test_links_that_wait_for_a_slow_subscriber_are_not_taken_for_dead() -> None:
    limits = Limits(queue_bytes=262144, patience=60, heartbeat=0.02, silence=0.2)
    async with (
        server(limits=limits) as middle,
        client(middle, "writer", limits) as writer,
        client(middle, "reader", limits) as reader,
    ):
        heard = await reader.channel("news", "multicast")
        async with heard.subscribe(max_pending=1) as events:
            channel = await writer.channel("news", "multicast")
            await reach(channel, events)
            links = [link_of(middle, "writer"), link_of(middle, "reader")]
            accepted = await stuff(channel, bytes(60_000))
            assert host_of(reader).engine.containers[UNREAD] == ("server",)
            waits = [asyncio.create_task(link.gone.wait()) for link in links]
            done, _ = await asyncio.wait(waits, timeout=0.8, return_when=asyncio.FIRST_COMPLETED)
            assert not done
            for each in waits:
                each.cancel()
            assert len(await take(events, accepted)) == accepted
            await turns(2)
            assert host_of(reader).engine.containers[UNREAD] == ()


# taking events out


async def test_batches_are_whole_parcels() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            for start in (0, 3, 6):
                await publish(node, range(start, start + 3))
            batches = events.batches()
            for start in (0, 3, 6):
                batch = await anext(batches)
                assert [event.payload for event in batch] == [word(i) for i in range(start, start + 3)]
                assert {event.parcel.stamp.first for event in batch} == {start + 1}
            assert events.delivered == 9


async def test_breaking_out_of_an_iteration_loses_nothing() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            await publish(node, range(6))
            await publish(node, range(6, 12))
            seen = []
            async for event in events:
                seen.append(event.payload)
                if len(seen) == 2:
                    break
            assert (events.delivered, events.pending) == (2, 10)
            seen.append((await events.next(timeout=SOON)).payload)
            async for batch in events.batches():
                seen += [event.payload for event in batch]
                break
            async for event in events:
                seen.append(event.payload)
                if len(seen) == 12:
                    break
            assert seen == [word(i) for i in range(12)]
            assert (events.delivered, events.pending) == (12, 0)


async def test_two_readers_of_one_subscription_share_its_events() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            readers = [asyncio.create_task(events.next(timeout=SOON)) for _ in range(4)]
            await turns()
            for i in range(4):
                await publish(node, range(i, i + 1))
            got = await asyncio.gather(*readers)
            assert sorted(event.payload for event in got) == [word(i) for i in range(4)]


async def test_next_says_so_when_nothing_comes_and_misses_nothing_afterwards() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            with pytest.raises(NoAnswer, match=r"an event on 'news' within 0.01 s"):
                await events.next(timeout=0.01)
            await publish(node, range(2))
            assert await take(events, 2) == [b"0", b"1"]


async def test_a_closed_subscription_can_be_read_to_its_end() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            await publish(node, range(3))
        await publish(node, range(3, 6))
        assert [event.payload async for event in events] == [word(i) for i in range(3)]
        with pytest.raises(Closed, match=r"subscription to 'news'"):
            await events.next(timeout=SOON)
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        assert [batch async for batch in events.batches()] == []


async def test_whoever_waits_is_told_when_the_node_closes() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            waiting = asyncio.create_task(events.next(timeout=SOON))
            await turns()
            await node.close()
            with pytest.raises(Closed):
                await waiting


# callbacks


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_callback_gets_each_event_in_order(asynchronous: bool) -> None:
    got: list[bytes] = []
    done = asyncio.Event()

    def plain(event: ReceivedEvent) -> None:
        got.append(event.payload)
        if len(got) == 20:
            done.set()

    async def coroutine(event: ReceivedEvent) -> None:
        await turns(2)
        plain(event)

    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(callback=coroutine if asynchronous else plain) as events:
            await publish(node, range(20))
            await done.wait()
            assert got == [word(i) for i in range(20)]
            assert (events.delivered, events.pending, events.failed) == (20, 0, 0)


async def test_a_callback_that_raises_is_counted_and_disturbs_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    got: list[bytes] = []
    done = asyncio.Event()

    def fails_on_odd(event: ReceivedEvent) -> None:
        got.append(event.payload)
        if event.payload == b"9":
            done.set()
        if int(event.payload) % 2:
            raise ValueError("odd")

    async with connect() as node:
        channel = await node.channel("news", "loop")
        frail = channel.subscribe(callback=fails_on_odd)
        async with frail, channel.subscribe() as events:
            with caplog.at_level(logging.ERROR, "gossamer"):
                await publish(node, range(10))
                await done.wait()
                await turns()
            assert await take(events, 10) == [word(i) for i in range(10)]
            assert got == [word(i) for i in range(10)]
            assert frail.failed == 5
        assert len(caplog.records) == 5
        assert "a subscriber of 'news' failed on event 2" in caplog.text


async def test_a_callback_may_close_its_own_subscription() -> None:
    closed = asyncio.Event()
    async with connect() as node:
        channel = await node.channel("news", "loop")

        async def once(event: ReceivedEvent) -> None:
            await events.close()
            closed.set()

        async with channel.subscribe(callback=once) as events:
            await publish(node, range(1))
            await closed.wait()
            assert not channel.has_subscribers()


async def test_a_slow_callback_with_block_makes_the_publisher_wait() -> None:
    gate = asyncio.Semaphore(0)
    got: list[bytes] = []

    async def slow(event: ReceivedEvent) -> None:
        await gate.acquire()
        got.append(event.payload)

    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(callback=slow, max_pending=1):
            await channel.publish(b"1")
            await turns()
            await channel.publish(b"2")
            await turns()
            waiting = asyncio.create_task(channel.publish(b"3"))
            await turns(50)
            assert not waiting.done()
            for _ in range(3):
                gate.release()
            await waiting
            while len(got) < 3:
                await turns(1)
            assert got == [b"1", b"2", b"3"]


async def test_a_subscriber_that_did_not_keep_up_learns_it_and_others_do_not() -> None:
    async with connect() as node:
        mine, other = await node.channel("news", "loop"), await node.channel("more", "loop")
        async with mine.subscribe() as events, other.subscribe() as others:
            host_of(node).do([Missed(channel_id("news"), "source")])
            assert (events.missed, others.missed) == (1, 0)


async def test_who_gives_up_waiting_takes_nothing_from_others_who_wait() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            hasty, patient = (asyncio.create_task(events.next()) for _ in range(2))
            await turns(2)
            hasty.cancel()
            await turns(2)
            await channel.publish(b"for the other")
            assert (await asyncio.wait_for(patient, SOON)).payload == b"for the other"
            assert hasty.cancelled()
