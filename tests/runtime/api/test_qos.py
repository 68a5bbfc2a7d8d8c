"""Every wish on a channel of every template: kept, or refused naming templates that can."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gossamer import (
    Binding,
    Channel,
    Criteria,
    Envelope,
    Limits,
    Node,
    QoS,
    Redelivery,
    Role,
    Subscription,
    catalog,
    connect,
)
from gossamer.core.parcel import Parcel
from gossamer.core.qos import QOS_OPTIONS
from gossamer.core.receipt import Notary
from gossamer.core.sealer import Sealer
from gossamer.core.template import Template
from gossamer.errors import TooLarge, UnknownCodec, UnsupportedQoS
from gossamer.runtime.net.connection import Strand
from tests.runtime.parties import SOON, client, link_of, server, strand_of, take, turns, until

TEMPLATES = sorted(catalog.templates())
COUNCIL = {"heartbeat": 0.05, "patience": 0.5, "repair": 0.05, "ack": 0.05}
SETTINGS = {"total-order": COUNCIL, "persistent": COUNCIL}
LOW, HIGH = Envelope(qos=QoS(priority=1)), Envelope(qos=QoS(priority=7))


class Try:
    """One wish on one channel of its own; every method named after a wish would fail were it not kept."""

    def __init__(self, node: Node, template: str, wish: str) -> None:
        self.node, self.template, self.wish = node, template, wish
        self.name = f"{template}-{wish.replace('=', '-')}"

    async def channel(self, **more: object) -> Channel:
        settings = SETTINGS.get(self.template)
        return await self.node.channel(self.name, self.template, settings, **more)  # type: ignore[arg-type]

    async def subscribe(self, **terms: object) -> Subscription:
        return (await self.channel()).subscribe(**terms)  # type: ignore[arg-type]

    async def run(self) -> None:
        await getattr(self, self.wish.replace("=", "_").replace("-", "_"))()

    async def settled(self, channel: Channel, events: Subscription, count: int) -> None:
        """Until so many events wait."""
        channel.flush()
        await until(lambda: events.pending >= count)

    # on channels

    async def reliability_at_most_once(self) -> None:
        channel = await self.channel(reliability="at-most-once")
        async with channel.subscribe() as events:
            await channel.publish_many([b"1", b"2"])
            assert await take(events, 2) == [b"1", b"2"]

    async def reliability_at_least_once(self) -> None:
        channel = await self.channel(reliability="at-least-once")
        async with channel.subscribe() as events:
            receipt = await channel.publish(b"1")
            assert await take(events, 1) == [b"1"]
            await channel.acknowledged(receipt, SOON)

    async def reliability_exactly_once(self) -> None:
        channel = await self.channel(reliability="exactly-once")
        await channel.publish_many([b"1", b"2"])
        async with channel.subscribe(durable="one") as events:
            assert await take(events, 1) == [b"1"]
        async with channel.subscribe(durable="one") as events:
            assert await take(events, 1) == [b"2"]

    # on events

    async def priority(self) -> None:
        channel = await self.channel()
        async with channel.subscribe(max_pending=1, on_full="drop_priority") as events:
            await channel.publish(b"low", LOW)
            await self.settled(channel, events, 1)
            await channel.publish(b"high", HIGH)
            channel.flush()
            assert await self.first(events, b"low") == b"high"

    async def first(self, events: Subscription, before: bytes) -> bytes:
        """What waits, once it is no longer what waited before; nothing is taken meanwhile."""
        await until(lambda: events.dropped > 0)
        (payload,) = await take(events, 1)
        assert payload != before
        return payload

    async def expiry(self) -> None:
        channel = await self.channel(qos=QoS(expiry=0.001))
        async with channel.subscribe() as events:
            await channel.publish(b"short")
            await channel.publish(b"long", Envelope(qos=QoS(expiry=1000.0)))
            channel.flush()
            await asyncio.sleep(0.005)
            assert await take(events, 1) == [b"long"]

    async def earliest(self) -> None:
        channel = await self.channel()
        async with channel.subscribe() as events:
            await channel.publish(b"later", Envelope(qos=QoS(earliest=0.02)))
            await channel.publish(b"now")
            assert await take(events, 2) == [b"now", b"later"]

    async def essential(self) -> None:
        channel = await self.channel(qos=QoS(essential=True))
        async with channel.subscribe() as events:
            await channel.publish(b"must")
            await channel.publish(b"may", Envelope(qos=QoS(essential=False)))
            got = [await events.next(SOON) for _ in range(2)]
            assert [each.parcel.qos.essential for each in got] == [True, False]

    async def transaction(self) -> None:
        channel = await self.channel()
        async with channel.subscribe() as events:
            with suppress(ZeroDivisionError):
                async with channel.transaction() as together:
                    together.publish(b"never")
                    raise ZeroDivisionError
            async with channel.transaction() as together:
                together.publish(b"1")
                together.publish(b"2", Envelope({"with": "attributes"}))
            batch = await anext(events.batches())
            assert [each.payload for each in batch] == [b"1", b"2"]
            assert [each.number for each in batch] == list(together.numbers)

    # on subscriptions

    async def queued(self, **terms: object) -> list[bytes]:
        """In which order three events are taken that wait together."""
        channel = await self.channel()
        async with channel.subscribe(**terms) as events:  # type: ignore[arg-type]
            for name, qos in (
                (b"a", QoS(priority=1, expiry=300)),
                (b"b", QoS(priority=7, expiry=200)),
                (b"c", QoS(priority=4, expiry=100)),
            ):
                await channel.publish(name, Envelope({"name": name.decode()}, qos))
            await self.settled(channel, events, 3)
            return await take(events, 3)

    async def order_arrival(self) -> None:
        assert await self.queued(order="arrival") == [b"a", b"b", b"c"]

    async def order_priority(self) -> None:
        assert await self.queued(order="priority") == [b"b", b"c", b"a"]

    async def order_deadline(self) -> None:
        assert await self.queued(order="deadline") == [b"c", b"b", b"a"]

    async def on_full(self) -> None:
        channel = await self.channel()
        async with channel.subscribe(max_pending=1, on_full="drop_oldest") as events:
            await channel.publish_many([b"1", b"2"])
            channel.flush()
            assert await self.first(events, b"1") == b"2"

    async def max_pending(self) -> None:
        channel = await self.channel()
        async with channel.subscribe(max_pending=2, on_full="drop_newest") as events:
            await channel.publish_many([b"1", b"2", b"3"])
            channel.flush()
            assert await self.first(events, b"3") == b"1"
            assert (events.pending, events.dropped) == (1, 1)

    async def ack_automatic(self) -> None:
        channel, got = await self.channel(), []

        def fails_once(event: object) -> None:
            got.append(event)
            if len(got) == 1:
                raise ValueError("not yet")

        async with channel.subscribe(callback=fails_once, redelivery=Redelivery()):
            await channel.publish(b"1")
            await until(lambda: len(got) == 2)

    async def ack_explicit(self) -> None:
        channel = await self.channel()
        async with channel.subscribe(ack="explicit", redelivery=Redelivery(after=0.01)) as events:
            await channel.publish(b"1")
            first, again = await events.next(SOON), await events.next(SOON)
            assert (first.number, events.attempt(again)) == (again.number, 2)
            assert events.ack(again)
            assert events.unacknowledged == 0

    async def ack_none(self) -> None:
        channel, failed = await self.channel(), 0

        def fails(event: object) -> None:
            nonlocal failed
            failed += 1
            raise ValueError("never")

        async with channel.subscribe(callback=fails, ack="none") as events:
            await channel.publish_many([b"1", b"2"])
            await until(lambda: events.failed == 2)
            await turns()
            assert failed == 2

    async def mapping(self) -> None:
        mine = [(Criteria(name="a"), QoS(expiry=0.001))]
        channel = await self.channel()
        async with channel.subscribe(mapping=mine) as events:
            for name in ("a", "b"):
                await channel.publish(name.encode(), Envelope({"name": name}))
            await self.settled(channel, events, 2)
            await asyncio.sleep(0.005)
            assert await take(events, 1) == [b"b"]

    async def report(self) -> None:
        channel = await self.channel(qos=QoS(report=True))
        async with channel.subscribe(max_pending=1, on_full="drop_newest"):
            await channel.publish_many([b"1", b"2", b"3"])
            channel.flush()
            await until(lambda: channel.drops() == {"subscription full": 2})

    async def retain(self) -> None:
        channel = await self.channel(qos=QoS(retain=True))
        await channel.publish_many([b"1", b"2"])
        channel.flush()
        while (last := await channel.last()) is None or last.number < 2:
            await turns()
        async with channel.subscribe(retained=True) as events:
            assert await take(events, 1) == [b"2"]

    async def push(self) -> None:
        channel, got = await self.channel(), []
        async with channel.subscribe(callback=lambda event: got.append(event.payload)):
            await channel.publish_many([b"1", b"2"])
            await until(lambda: got == [b"1", b"2"])

    async def pull(self) -> None:
        channel = await self.channel()
        async with channel.subscribe() as events:
            await channel.publish_many([b"1", b"2"])
            await self.settled(channel, events, 2)
            assert events.delivered == 0, "nobody has taken any"
            assert await take(events, 2) == [b"1", b"2"]

    async def durable(self) -> None:
        channel = await self.channel()
        if not channel.keeps:
            await self.reliability_exactly_once()
            return
        async with channel.subscribe(durable="mine"):
            pass
        await channel.publish(b"meanwhile")
        async with channel.subscribe(durable="mine") as events:
            assert await take(events, 1) == [b"meanwhile"]

    async def history(self) -> None:
        channel = await self.channel()
        receipt = await channel.publish(b"before")
        await channel.acknowledged(receipt, SOON)
        async with channel.subscribe(from_offset=0) as events:
            assert await take(events, 1) == [b"before"]


REFUSED: dict[str, Callable[[Try], Awaitable[object]]] = {
    "reliability=at-least-once": lambda each: each.channel(reliability="at-least-once"),
    "reliability=exactly-once": lambda each: each.channel(reliability="exactly-once"),
    "earliest": lambda each: each.channel(qos=QoS(earliest=1)),
    "order=priority": lambda each: each.subscribe(order="priority"),
    "order=deadline": lambda each: each.subscribe(order="deadline"),
    "durable": lambda each: each.subscribe(durable="mine"),
    "history": lambda each: each.subscribe(from_offset=0),
    "transaction": Try.transaction,
}


async def tried(node: Node, template: str, wish: str) -> None:
    """Kept or refused, whichever it has to be."""
    one = Try(node, template, wish)
    if QOS_OPTIONS[wish].supported_by(catalog.templates()[template]):
        async with asyncio.timeout(SOON):
            await one.run()
    else:
        with pytest.raises(UnsupportedQoS) as refused:
            await REFUSED[wish](one)
        assert refused.value.able


@pytest.mark.parametrize("template", TEMPLATES)
async def test_every_wish_is_kept_or_refused(template: str, tmp_path: Path) -> None:
    async with connect(name="n1", state=tmp_path) as node:
        found = await asyncio.gather(
            *(tried(node, template, wish) for wish in QOS_OPTIONS), return_exceptions=True
        )
    wrong = [f"{wish}: {error!r}" for wish, error in zip(QOS_OPTIONS, found, strict=True) if error]
    assert not wrong


async def test_an_event_may_wish_what_its_channel_does_not() -> None:
    async with connect() as node:
        channel = await node.channel("orders", "reliable")
        with pytest.raises(UnsupportedQoS, match=r"earliest.*multicast"):
            await channel.publish(b"", Envelope(qos=QoS(earliest=1)))
        with pytest.raises(UnsupportedQoS, match="earliest"):
            channel.subscribe(mapping=[(Criteria(), QoS(earliest=1))])


async def test_values_travel_by_the_codec_of_their_channel_and_bytes_without() -> None:
    async with connect() as node:
        plain = await node.channel("plain", "loop")
        channel = await node.channel("values", "loop", codec="json")
        async with plain.subscribe() as raw, channel.subscribe() as events, channel.answers() as answers:
            await channel.publish({"price": 10.5})
            await plain.publish(b"bytes")
            got = await events.next(SOON)
            assert got.value == {"price": 10.5}
            assert (await raw.next(SOON)).value == b"bytes"
            await got.feedback([1, 2])
            assert (await answers.next(SOON)).value == [1, 2]
        with pytest.raises(UnknownCodec):
            await node.channel("other", "loop", codec="jsno")


async def test_a_transaction_that_does_not_fit_a_parcel_is_refused_as_a_whole() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe() as events:
            together = channel.transaction()
            for _ in range(2):
                together.publish(bytes(Template.parcel_bytes // 2))
            with pytest.raises(TooLarge, match="transaction"):
                await together.__aexit__(None, None, None)
            await channel.publish(b"next")
            assert (await events.next(SOON)).number == 1


@pytest.mark.parametrize("hop", ["publisher", "server"])
async def test_one_that_matters_overtakes_a_hundred_thousand_at_every_hop(hop: str) -> None:
    """The reader of one hop stops reading: what the network does not take waits, and is overtaken."""
    wide = Limits(queue_bytes=2**30)
    async with (
        server("server", limits=wide) as middle,
        client(middle, "publisher", wide) as publisher,
        client(middle, "reader", wide) as reader,
    ):
        channel = await publisher.channel("news", "multicast")
        async with (await reader.channel("news")).subscribe(max_pending=200_000) as events:
            await channel.wait_for_subscribers(SOON)
            waits, stops = (publisher, middle) if hop == "publisher" else (middle, reader)
            strand = strand_of(waits, stops.name)
            halted = strand_of(stops, waits.name)
            for each in (strand, halted):
                shrink(each)
            halted.connection.pause()
            await channel.publish_many([bytes(200)] * 110_000, LOW)
            await until(lambda: queued(strand) >= 100_000)
            waiting = queued(strand)
            await channel.publish(b"high", HIGH)
            channel.flush()
            await until(lambda: any(lane == 7 for lane in strand._outbox._lanes))
            halted.connection.resume()
            got = await take(events, 110_001)
            assert len(got) - got.index(b"high") > waiting >= 100_000


def shrink(strand: Strand) -> None:
    """Let the system hold little of what a connection carries."""
    sock = strand.connection._transport.get_extra_info("socket")  # type: ignore[attr-defined]
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, 65536)


def queued(strand: Strand) -> int:
    """Events that wait above a connection."""
    lanes = strand._outbox._lanes.values()
    return sum(item.stamp.count for lane in lanes for item, _ in lane if isinstance(item, Parcel))


async def test_what_waits_on_a_connection_that_breaks_takes_another() -> None:
    both = (Binding("*", ("ws", "tcp")),)
    listen = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0"]
    async with (
        connect(name="a", role=Role.BACKBONE, listen=listen, bind=both) as a,
        connect(a.addresses[0], name="b", role=Role.BACKBONE, listen=listen, bind=both) as b,
    ):
        channel = await a.channel("news", "multicast")
        async with (await b.channel("news")).subscribe() as events:
            await channel.wait_for_subscribers(SOON)
            await until(lambda: len(link_of(a, "b").strands) == 2)
            by = next(each for each in link_of(a, "b").strands if each.transport == "tcp")
            sealer = Sealer("news", 1, Notary(b"x"))
            for number in range(3):  # as if the network had enough for now
                sealer.add(b"%d" % number)
                (item,) = sealer.seal("a", 0)
                by._outbox.put(item, 100)
            by.connection.abort()
            assert await take(events, 3) == [b"0", b"1", b"2"]


async def test_one_that_matters_overtakes_a_hundred_thousand_that_wait() -> None:
    async with connect() as node:
        channel = await node.channel("news", "loop")
        async with channel.subscribe(order="priority", max_pending=200_000) as events:
            await channel.publish_many([b"low"] * 100_000, LOW)
            await channel.publish(b"high", HIGH)
            channel.flush()
            assert events.pending == 100_001
            assert await take(events, 2) == [b"high", b"low"]
