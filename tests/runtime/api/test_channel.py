"""Channels: publishing, waiting where it is full, answering."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from gossamer import Criteria, Envelope, Limits, QoS, ReceivedEvent, connect
from gossamer.core.event import MAX_PAYLOAD
from gossamer.core.operations import Advertise
from gossamer.core.template import Template
from gossamer.errors import (
    BadEnvelope,
    Closed,
    ForgedReceipt,
    Full,
    NoAnswer,
    NotAdvertised,
    TooLarge,
    UnsupportedOperation,
)
from tests.runtime.parties import (
    SOON,
    client,
    host_of,
    reach,
    rest,
    server,
    strand_of,
    stuff,
    take,
    turns,
    until,
)

# content


async def test_a_channel_that_dispatches_by_advertisements_refuses_what_was_not_advertised() -> None:
    async with server() as node, client(node, "phone") as phone:
        settings = {"propagation": "advertisement"}
        here = await node.channel("prices", "dispatch", settings)
        there = await phone.channel("prices")
        async with here.subscribe(Criteria(("price", ">", 10))) as events:
            with pytest.raises(NotAdvertised):
                await there.publish(b"", Envelope({"price": 11}))
            await there.advertise(Criteria(("price", "any", 0)))
            await there.wait_for_subscribers(timeout=SOON)
            await there.publish(b"low", Envelope({"price": 9}))
            await there.publish(b"high", Envelope({"price": 11}))
            assert (await events.next(timeout=SOON)).payload == b"high"
        await there.withdraw(Criteria(("price", "any", 0)))
        with pytest.raises(NotAdvertised):
            await there.publish(b"", Envelope({"price": 11}))
        with pytest.raises(BadEnvelope):
            await there.advertise("price > 10")  # type: ignore[arg-type]


# publishing on one node


@pytest.mark.parametrize("template", ["loop", "multicast"])
async def test_an_embedded_node_needs_nothing_started(template: str) -> None:
    async with connect() as node:
        channel = await node.channel("news", template)
        async with channel.subscribe() as events:
            await channel.publish(b"hello")
            event = await events.next(timeout=SOON)
    assert (event.payload, event.number, event.source) == (b"hello", 1, node.name)


async def test_criteria_let_through_only_what_matches() -> None:
    async with connect() as node:
        channel = await node.channel("prices", "loop")
        dear = channel.subscribe(Criteria(("price", ">", 10)))
        acme = channel.subscribe(Criteria(symbol="ACME"))
        async with dear, acme, channel.subscribe() as everything:
            for symbol, price in [("ACME", 5), ("OTHER", 50), ("ACME", 20)]:
                await channel.publish(
                    f"{symbol} {price}".encode(), Envelope({"symbol": symbol, "price": price})
                )
            await channel.publish(b"bare")
            assert await take(everything, 4) == [b"ACME 5", b"OTHER 50", b"ACME 20", b"bare"]
            assert rest(dear) == [b"OTHER 50", b"ACME 20"]
            assert rest(acme) == [b"ACME 5", b"ACME 20"]


async def test_several_subscribers_each_get_everything_in_order_with_consecutive_numbers() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as one, channel.subscribe() as two:
            receipts = [await channel.publish(b"%d" % i) for i in range(50)]
            for events in (one, two):
                got = [await events.next(timeout=SOON) for _ in range(50)]
                assert [event.payload for event in got] == [b"%d" % i for i in range(50)]
                assert [event.number for event in got] == list(range(1, 51))
    assert [receipt.number for receipt in receipts] == list(range(1, 51))


async def test_envelopes_and_wishes_arrive_as_they_were_sent() -> None:
    envelope = Envelope({"a": 1, "b": "text", "c": 2.5, "d": True, "e": b"raw"}, QoS(7, 60.0))
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            await channel.publish(b"", envelope)
            event = await events.next(timeout=SOON)
    assert event.envelope == envelope
    assert event.attributes == envelope.attributes


async def test_publish_many_numbers_its_events_in_a_row() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            await channel.publish(b"first")
            assert await channel.publish_many([b"a", b"b", b"c"], Envelope({"x": 1})) == range(2, 5)
            got = [await events.next(timeout=SOON) for _ in range(4)]
    assert [event.payload for event in got] == [b"first", b"a", b"b", b"c"]
    assert [event.attributes for event in got] == [{}, {"x": 1}, {"x": 1}, {"x": 1}]


@pytest.mark.parametrize("size", [10, 999, 20_000])
async def test_many_leave_in_full_parcels_in_the_order_in_which_they_were_given(size: int) -> None:
    count = 400_000 // size
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=count) as events:
            payloads = [b"%06d" % number + bytes(size - 6) for number in range(count)]
            numbers = await channel.publish_many(iter(payloads))
            channel.flush()
            found = [await events.next(timeout=SOON) for _ in range(count)]
    assert numbers == range(1, count + 1)
    assert [event.payload for event in found] == payloads
    sizes = Counter(event.parcel.stamp.sequence for event in found)
    fullest = max(sizes.values())
    assert all(fullest - own <= 3 for own in list(sizes.values())[1:-1]), sizes


async def test_a_run_with_something_that_is_no_bytes_is_published_up_to_there() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            with pytest.raises(BadEnvelope):
                await channel.publish_many([b"1", b"2", "3", b"4"])
            channel.flush()
            assert await take(events, 2) == [b"1", b"2"]
            assert events.pending == 0


async def test_one_event_on_an_idle_channel_leaves_at_once_and_the_next_when_the_loop_turns() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            await channel.publish(b"alone")
            assert events.pending == 1
            await channel.publish(b"behind it")
            assert events.pending == 1
            await turns(2)
            assert events.pending == 2
            await channel.publish(b"alone again")
            assert events.pending == 3


async def test_many_publishes_in_one_turn_share_a_parcel_behind_the_first() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            for i in range(1000):
                await channel.publish(b"%d" % i)
            first, *others = [await events.next(timeout=SOON) for _ in range(1000)]
            assert [event.payload for event in (first, *others)] == [b"%d" % i for i in range(1000)]
            assert {event.parcel.stamp.sequence for event in others} == {first.parcel.stamp.sequence + 1}


async def test_events_with_other_wishes_go_into_another_parcel_and_stay_in_order() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            for priority in (1, 1, 1, 8, 1):
                await channel.publish(b"%d" % priority, Envelope(qos=QoS(priority)))
            got = [await events.next(timeout=SOON) for _ in range(5)]
    assert [event.envelope.qos.priority for event in got] == [1, 1, 1, 8, 1]
    assert [event.parcel.stamp.sequence for event in got] == [1, 2, 2, 3, 4]


async def test_a_lingering_channel_keeps_its_parcel_open_until_it_is_flushed() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop", linger=3600)
        async with channel.subscribe() as events:
            await channel.publish(b"one")
            await turns()
            await channel.publish(b"two")
            await turns()
            assert events.pending == 0
            channel.flush()
            assert [event.payload for event in await anext(events.batches())] == [b"one", b"two"]


async def test_a_lingering_parcel_leaves_by_itself_when_its_time_has_come() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop", linger=0.01)
        async with channel.subscribe() as events:
            await channel.publish(b"one")
            await turns()
            await channel.publish(b"two")
            assert len(await anext(events.batches())) == 2


async def test_a_lingering_parcel_leaves_when_it_is_full() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop", linger=3600)
        async with channel.subscribe() as events:
            await channel.publish(bytes(Template.parcel_bytes))
            assert (await events.next(timeout=SOON)).number == 1


async def test_closing_a_node_sends_what_lingers() -> None:
    async with server() as middle, client(middle, "reader") as reader:
        heard = await reader.channel("news", "multicast")
        async with heard.subscribe() as events:
            async with client(middle, "writer") as writer:
                channel = await writer.channel("news", "multicast", linger=3600)
                await channel.wait_for_subscribers(SOON)
                await channel.publish(b"last words")
            assert await take(events, 1) == [b"last words"]


@pytest.mark.parametrize("many", [False, True])
async def test_a_publisher_without_rest_lets_others_run(many: bool) -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        others = 0

        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        if many:
            await channel.publish_many(bytes(Template.parcel_bytes // 50) for _ in range(1000))
        else:
            for _ in range(1000):
                await channel.publish(bytes(Template.parcel_bytes // 50))
        task.cancel()
    assert others >= 10


# where it is full


async def test_try_publish_says_full_while_a_subscriber_here_has_no_room() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=2) as events:
            channel.try_publish(b"1")
            channel.try_publish(b"2")
            await turns()
            with pytest.raises(Full, match=r"subscriber of 'news'.*limit 2") as caught:
                channel.try_publish(b"3")
            assert caught.value.retry
            await take(events, 2)
            assert channel.try_publish(b"3").number == 3


async def test_try_publish_says_full_while_the_link_has_no_room() -> None:
    limits = Limits(queue_bytes=262144, patience=60)
    async with server(limits=limits) as middle, client(middle, "writer", limits) as writer:
        heard = await middle.channel("news", "multicast")
        async with heard.subscribe(on_full="drop_newest"):
            channel = await writer.channel("news", "multicast")
            await channel.wait_for_subscribers(SOON)
            strand_of(middle, "writer").connection.pause()
            assert await stuff(channel, bytes(60_000)) > 0
            with pytest.raises(Full, match=r"link to .server.*limit 262144"):
                channel.try_publish(b"more")
            strand_of(middle, "writer").connection.resume()
            await channel.publish(b"more")


async def test_publish_waits_for_room_and_then_goes_on() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=1) as events:
            await channel.publish(b"1")
            await turns()
            waiting = asyncio.create_task(channel.publish(b"2"))
            await turns(50)
            assert not waiting.done()
            assert await take(events, 1) == [b"1"]
            assert (await waiting).number == 2
            assert await take(events, 1) == [b"2"]


async def test_a_cancelled_publish_that_waited_has_accepted_nothing() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=1) as events:
            await channel.publish(b"1")
            await turns()
            waiting = asyncio.create_task(channel.publish(b"never"))
            await turns(50)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await take(events, 1) == [b"1"]
            assert (await channel.publish(b"2")).number == 2
            event = await events.next(timeout=SOON)
            assert (event.payload, event.number) == (b"2", 2)


async def test_a_cancelled_publish_many_has_accepted_a_prefix() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=3) as events:
            waiting = asyncio.create_task(
                channel.publish_many(b"%d" % i + bytes(Template.parcel_bytes // 4) for i in range(9))
            )
            await turns(50)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            accepted = events.pending
            assert 3 <= accepted < 9
            got = [await events.next(timeout=SOON) for _ in range(accepted)]
            assert [event.payload[:1] for event in got] == [b"%d" % i for i in range(accepted)]
            assert (await channel.publish(b"on")).number == accepted + 1


async def test_many_waiting_publishers_lose_nothing_and_share_no_number() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=2) as events:
            tasks = [asyncio.create_task(channel.publish(b"%d" % i)) for i in range(40)]
            got = [await events.next(timeout=SOON) for _ in range(40)]
            numbers = [(await task).number for task in tasks]
    assert sorted(numbers) == list(range(1, 41))
    assert {event.number: event.payload for event in got} == {n: b"%d" % i for i, n in enumerate(numbers)}


async def test_a_waiting_publish_is_told_when_the_node_closes() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(max_pending=1):
            await channel.publish(b"1")
            await turns()
            waiting = asyncio.create_task(channel.publish(b"2"))
            await turns(50)
            await node.close()
            with pytest.raises(Closed):
                await waiting


async def test_after_closing_nothing_is_accepted() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
    with pytest.raises(Closed):
        await channel.publish(b"x")
    with pytest.raises(Closed):
        channel.try_publish(b"x")
    with pytest.raises(Closed):
        await channel.publish_many([b"x"])
    with pytest.raises(Closed):
        async with channel.subscribe():
            pass
    with pytest.raises(Closed):
        await node.channel("news")
    with pytest.raises(Closed):
        await channel.wait_for_subscribers(1)
    await node.close()


async def test_bad_input_is_refused_by_type_and_the_channel_goes_on() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            with pytest.raises(TooLarge) as too_large:
                await channel.publish(bytes(MAX_PAYLOAD + 1))
            assert (too_large.value.size, too_large.value.limit) == (MAX_PAYLOAD + 1, MAX_PAYLOAD)
            with pytest.raises(BadEnvelope, match=r"bytes; give the channel a codec"):
                await channel.publish("text")  # type: ignore[arg-type]
            with pytest.raises(BadEnvelope, match=r"Envelope object"):
                await channel.publish(b"", {"a": 1})  # type: ignore[arg-type]
            with pytest.raises(BadEnvelope, match=r"attribute 'a'"):
                await channel.publish(b"", Envelope({"a": object()}))  # type: ignore[dict-item]
            with pytest.raises(BadEnvelope, match=r"bytes; give the channel a codec"):
                await channel.publish_many([b"kept", "text"])  # type: ignore[list-item]
            with pytest.raises(BadEnvelope):
                channel.subscribe(on_full="explode")  # type: ignore[arg-type]
            with pytest.raises(BadEnvelope):
                channel.subscribe(max_pending=0)
            with pytest.raises(BadEnvelope):
                channel.subscribe({"a": 1})  # type: ignore[arg-type]
            with pytest.raises(BadEnvelope):
                channel.subscribe(handback=object())  # type: ignore[arg-type]
            await channel.publish(bytes(MAX_PAYLOAD))
            assert await take(events, 2) == [b"kept", bytes(MAX_PAYLOAD)]


# who listens


async def test_matching_follows_subscribers_on_other_nodes() -> None:
    async with server() as middle, client(middle, "writer") as writer, client(middle, "reader") as reader:
        channel = await writer.channel("news", "multicast")
        heard = await reader.channel("news")
        assert not channel.has_subscribers()
        with pytest.raises(NoAnswer):
            await channel.wait_for_subscribers(0.01)
        async with heard.subscribe():
            await channel.wait_for_subscribers(SOON)
            assert channel.has_subscribers()
        await host_of(writer).until(lambda: not channel.has_subscribers())


async def test_after_draining_nothing_is_pending() -> None:
    async with server() as middle, client(middle, "writer") as writer:
        heard = await middle.channel("news", "multicast")
        async with heard.subscribe(on_full="drop_oldest") as events:
            channel = await writer.channel("news", "multicast")
            await channel.wait_for_subscribers(SOON)
            for _ in range(100):
                await channel.publish(bytes(30_000))
            await channel.drain()
            assert host_of(writer).pending == 0
            await take(events, 100)


# answers


async def test_a_request_gets_the_answer_to_itself() -> None:
    async with server() as middle, client(middle, "asker") as asker, client(middle, "oracle") as oracle:
        channel = await asker.channel("questions", "multicast")
        heard = await oracle.channel("questions")

        async def reply(event: object) -> None:
            await event.feedback(b"re: " + event.payload)  # type: ignore[attr-defined]

        async with heard.subscribe(callback=reply):
            await channel.wait_for_subscribers(SOON)
            answers = await asyncio.gather(*(channel.request(b"%d" % i, timeout=SOON) for i in range(20)))
    assert [answer.payload for answer in answers] == [b"re: %d" % i for i in range(20)]
    assert {answer.source for answer in answers} == {"oracle"}


async def test_a_request_that_nobody_answers_ends_in_time() -> None:
    async with connect() as node:
        channel = await node.channel("questions", "loop")
        async with channel.subscribe():
            with pytest.raises(NoAnswer, match=r"event 1 on 'questions' within 0.02 s"):
                await channel.request(b"?", timeout=0.02)


async def test_feedback_reaches_exactly_the_source() -> None:
    async with (
        server() as middle,
        client(middle, "a") as a,
        client(middle, "b") as b,
        client(middle, "reader") as reader,
    ):
        channels = [await node.channel("news", "multicast") for node in (a, b, reader)]
        to_a, to_b, to_reader = (channel.answers() for channel in channels)
        async with to_a, to_b, to_reader, channels[2].subscribe() as events:
            for channel, word in zip(channels, (b"from a", b"from b"), strict=False):
                await channel.wait_for_subscribers(SOON)
                await channel.publish(word)
            for _ in range(2):
                event = await events.next(timeout=SOON)
                await event.feedback(b"got " + event.payload, Envelope({"seen": True}))
            first = await to_a.next(timeout=SOON)
            assert (first.payload, first.answers, first.source) == (b"got from a", 1, "reader")
            assert first.attributes == {"seen": True}
            assert await take(to_b, 1) == [b"got from b"]
            assert (to_a.pending, to_b.pending, to_reader.pending) == (0, 0, 0)


async def test_an_answer_can_be_answered_both_ways() -> None:
    async with server() as middle, client(middle, "a") as a, client(middle, "b") as b:
        ours, theirs = await a.channel("talk", "multicast"), await b.channel("talk", "multicast")
        async with theirs.subscribe() as events, ours.answers() as to_a, theirs.answers() as to_b:
            await ours.wait_for_subscribers(SOON)
            await ours.publish(b"knock knock")
            await (await events.next(timeout=SOON)).feedback(b"who is there?")
            await (await to_a.next(timeout=SOON)).feedback(b"gossamer")
            await (await to_b.next(timeout=SOON)).feedback(b"gossamer who?")
            assert await take(to_a, 1) == [b"gossamer who?"]


async def test_on_feedback_calls_back() -> None:
    got: asyncio.Queue[bytes] = asyncio.Queue()
    async with connect() as node:
        channel = await node.channel("news", "loop")
        listening = channel.on_feedback(lambda answer: got.put_nowait(answer.payload))
        async with channel.subscribe() as events, listening:
            await channel.publish(b"x")
            await (await events.next(timeout=SOON)).feedback(b"y")
            assert await got.get() == b"y"


async def test_on_feedback_listens_at_once_and_stops_when_closed() -> None:
    got: asyncio.Queue[bytes] = asyncio.Queue()
    async with connect() as node:
        channel = await node.channel("news", "loop")
        listening = channel.on_feedback(lambda answer: got.put_nowait(answer.payload))
        async with channel.subscribe() as events:
            await channel.publish(b"x")
            event = await events.next(timeout=SOON)
            await event.feedback(b"y")
            assert await got.get() == b"y"
            await listening.close()
            await event.feedback(b"z")
            await turns()
        assert got.empty()


async def test_a_callback_gets_what_waits_when_its_subscription_is_closed() -> None:
    got: list[bytes] = []

    async def slow(event: ReceivedEvent) -> None:
        await asyncio.sleep(0)
        got.append(event.payload)

    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(callback=slow):
            await channel.publish_many([b"1", b"2", b"3"])
            channel.flush()
        assert got == [b"1", b"2", b"3"]


async def test_feedback_that_nobody_listens_for_is_counted() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            await channel.publish(b"x")
            await (await events.next(timeout=SOON)).feedback(b"y")
            await turns()
        assert node.drops == {"feedback that nobody listens for": 1}


async def test_requests_leave_nothing_behind() -> None:
    import gc

    from gossamer import Subscription

    async with connect() as node:
        channel = await node.channel("questions", "loop")
        async with channel.subscribe(callback=lambda event: event.feedback(b"!")) as events:
            for _ in range(20):
                await channel.request(b"?", timeout=SOON)
            gc.collect()
            alive = [each for each in gc.get_objects() if isinstance(each, Subscription)]
            assert alive == [events]


# receipts


@pytest.mark.parametrize("handback", [None, "mark", 7, 2.5, True, b"raw"])
async def test_a_receipt_carries_the_handback_of_its_subscription(handback: str | None) -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(handback=handback) as events, channel.answers() as answers:
            await channel.publish(b"x")
            receipt = (await events.next(timeout=SOON)).receipt
            assert (receipt.handback, receipt.number, receipt.source) == (handback, 1, node.name)
            await channel.feedback(receipt, b"y")
            assert await take(answers, 1) == [b"y"]


async def test_a_receipt_that_was_altered_is_refused() -> None:
    async with connect() as node:
        channel, other = await node.channel("news", "loop"), await node.channel("other", "loop")
        async with channel.subscribe(handback="mine") as events:
            await channel.publish_many([b"x", b"y"])
            receipt = (await events.next(timeout=SOON)).receipt
            stamp = msgspec.structs.replace(receipt.stamp, source="somebody")
            forged = [
                msgspec.structs.replace(receipt, number=2),
                msgspec.structs.replace(receipt, handback="yours"),
                msgspec.structs.replace(receipt, stamp=stamp),
                msgspec.structs.replace(receipt, seal=bytes(16)),
                msgspec.structs.replace(receipt, channel="other"),
            ]
            for each in forged:
                with pytest.raises(ForgedReceipt):
                    await channel.feedback(each, b"z")
            for each in (receipt, forged[-1]):
                with pytest.raises(ForgedReceipt):
                    await other.feedback(each, b"z")
            with pytest.raises(ForgedReceipt):
                await channel.feedback("receipt", b"z")  # type: ignore[arg-type]
            await channel.feedback(receipt, b"genuine")


async def test_a_receipt_of_another_node_is_refused() -> None:
    async with server() as middle, client(middle, "writer") as writer, client(middle, "reader") as reader:
        channel, heard = await writer.channel("news", "multicast"), await reader.channel("news", "multicast")
        async with heard.subscribe() as events:
            await channel.wait_for_subscribers(SOON)
            await channel.publish(b"x")
            receipt = (await events.next(timeout=SOON)).receipt
            with pytest.raises(ForgedReceipt):
                await channel.feedback(receipt, b"y")


async def test_a_queue_smaller_than_connections_tell_about_never_counts_as_stalled() -> None:
    limits = Limits(queue_bytes=1, patience=0.01)
    async with server(limits=limits) as middle, client(middle, "writer", limits) as writer:
        heard = await middle.channel("news", "multicast")
        async with heard.subscribe() as events:
            channel = await writer.channel("news", "multicast")
            await channel.wait_for_subscribers(SOON)
            for i in range(30):
                await channel.publish(b"%02d" % i + bytes(100_000))
            assert [payload[:2] for payload in await take(events, 30)] == [b"%02d" % i for i in range(30)]
        assert writer.drops == {}


async def test_on_a_reliable_channel_publishing_waits_for_a_reader_however_slow_and_nothing_is_lost() -> None:
    hasty = Limits(patience=0.05, queue_bytes=256 * 1024)
    async with server("a", limits=hasty) as a, client(a, "b", hasty) as b:
        channel = await a.channel("news", "reliable", {"repair": 0.05, "ack": 0.05, "send_window": 16})
        async with (await b.channel("news")).subscribe(max_pending=10) as events:
            await reach(channel, events)
            words = [b"%9000d" % number for number in range(3000)]
            publishing = asyncio.create_task(channel.publish_many(words))
            await until(lambda: a.drops.get("link stalled", 0) > 0)  # patience is over, the promise is not
            await until(lambda: host_of(a).engine.instance("news").obstacle is not None)
            with pytest.raises(Full):
                channel.try_publish(b"no room")
            assert not publishing.done()
            assert await take(events, len(words)) == words
            await publishing
            assert events.missed == events.dropped == 0


async def test_a_channel_refuses_an_operation_that_its_template_does_not_declare() -> None:
    async with connect(name="n") as node:
        loop, dispatch = await node.channel("a", "loop"), await node.channel("b", "dispatch")
        advertise = Advertise(Criteria(kind="news"))
        await dispatch.call(advertise)
        with pytest.raises(UnsupportedOperation, match="no operation Advertise; it offers none"):
            await loop.call(advertise)


async def test_attributes_and_quality_of_service_may_be_given_by_name() -> None:
    async with connect(name="n") as node:
        news = await node.channel("a", "loop")
        async with news.subscribe() as events:
            await news.publish(b"1", attributes={"kind": "x"}, priority=7, expiry=5.0)
            await news.publish(
                b"2", Envelope({"kind": "x"}, QoS(priority=3)), attributes={"size": 2}, expiry=5.0
            )
            stream = aiter(events)
            first, second = await anext(stream), await anext(stream)
        assert (first.attributes, first.parcel.qos) == ({"kind": "x"}, QoS(priority=7, expiry=5.0))
        assert second.attributes == {"kind": "x", "size": 2}
        assert second.parcel.qos == QoS(priority=3, expiry=5.0)
        with pytest.raises(TypeError, match="prioriti"):
            await news.publish(b"", prioriti=3)  # type: ignore[call-arg]
        with pytest.raises(BadEnvelope, match="attributes"):
            await news.publish(b"", attributes=[1])  # type: ignore[arg-type]
