"""Events that are given up: their publishers learn of it, here and elsewhere."""

from __future__ import annotations

import pytest

from gossamer import Envelope, Node, QoS, Role, catalog, connect
from tests.runtime.api.test_qos import SETTINGS
from tests.runtime.parties import ANY_PORT, SOON, client, host_of, reach, server, take, until

APART = {"loop", "multiring"}
"""One has no elsewhere; the other's rings take their time to form, and the simulator shows their feedback."""
REPORTED = Envelope(qos=QoS(report=True))


async def test_what_is_given_up_on_the_publishers_own_node_is_counted_without_asking() -> None:
    async with connect() as node:
        channel, other = await node.channel("news", "loop"), await node.channel("other", "loop")
        async with channel.subscribe(max_pending=1, on_full="drop_newest"):
            await channel.publish_many([b"1", b"2", b"3"])
            channel.flush()
            assert channel.drops() == {"subscription full": 2}
            assert other.drops() == {}


@pytest.mark.parametrize("template", sorted({*catalog.templates()} - APART))
async def test_what_a_subscriber_elsewhere_gives_up_is_told_to_the_source_that_asks(template: str) -> None:
    alone = template == "direct"
    more = {"role": Role.PEER, "listen": ANY_PORT} if alone else {"role": Role.CLIENT}
    async with connect(name="middle", listen=ANY_PORT, role=Role.PEER if alone else None) as middle:
        at = middle.addresses[0]
        async with connect(at, name="a", **more) as a, connect(at, name="b", **more) as b:  # type: ignore[arg-type]
            await told(template, a, b)


async def told(template: str, source: Node, sink: Node) -> None:
    channel = await source.channel("news", template, SETTINGS.get(template))
    async with (
        (await sink.channel("news")).subscribe(max_pending=2, on_full="drop_oldest") as events,
        channel.answers() as answers,
    ):
        await channel.wait_for_subscribers(SOON)
        await channel.publish_many([b"first", b"second", b"third"])
        assert await take(events, 2) == [b"second", b"third"]
        assert channel.drops() == {}, "nobody asked"
        for number in range(10):
            await channel.publish(b"%d" % number, REPORTED)
        await until(lambda: channel.drops().get("subscription full", 0) == 8)
        assert await take(events, 2) == [b"8", b"9"]
        assert answers.pending == 0, "no application hears of it"
        assert host_of(source).faults["feedback that nobody listens for"] == 0


async def test_what_expires_on_the_way_is_told_and_what_comes_twice_is_not() -> None:
    async with server("middle") as middle, client(middle, "a") as a, client(middle, "b") as b:
        channel = await a.channel("news", "multicast")
        async with (await b.channel("news")).subscribe() as events:
            await reach(channel, events)
            host_of(b)._epoch += 10**10  # late: links have not noticed that the clock was put forward
            await channel.publish(b"", Envelope(qos=QoS(report=True, expiry=5)))
            await host_of(a).until(lambda: channel.drops() == {"expired": 1})


async def test_a_report_that_makes_no_sense_is_contained() -> None:
    async with server("middle") as middle, client(middle, "a") as a:
        channel = await middle.channel("news", "direct")
        async with (await a.channel("news")).subscribe() as events, channel.answers() as answers:
            await channel.wait_for_subscribers(SOON)
            await channel.publish(b"1")
            event = await events.next(SOON)
            await event.feedback(b"nonsense", Envelope({"gossamer.drops": True}))
            await event.feedback(b"answer")
            assert (await answers.next(SOON)).payload == b"answer"
            assert channel.drops() == {}
            assert middle.drops["report that makes no sense"] == 1
