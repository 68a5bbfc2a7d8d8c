"""Draining and closing tell the truth: they end well only if another node has what was published."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from gossamer import Limits, Node, Role, connect
from gossamer.core import effect
from gossamer.core.names import channel_id
from gossamer.errors import Lost, NoAnswer, NotHandedOver
from gossamer.templates.total_order.template import TotalOrder
from tests.runtime.parties import ANY_PORT, SOON, client, host_of, reach, server, strand_of, take

BEST_EFFORT = ["multicast", "single-source", "ringtree", "direct"]
BRIEF = Limits(handover=2.0)


def writer_of(middle: Node) -> Node:
    return client(middle, "writer", BRIEF)


def cut_off(node: Node, peer: str = "server") -> None:
    strand_of(node, peer).connection.abort()


@pytest.mark.parametrize("template", ["dispatch", *BEST_EFFORT])
async def test_what_is_sent_into_a_broken_connection_is_no_success(template: str) -> None:
    async with server() as middle:
        writer = writer_of(middle)
        await writer.__aenter__()
        channel = await writer.channel("news", template)
        async with (await middle.channel("news")).subscribe() as events:
            await reach(channel, events)
            await channel.drain(SOON)
            cut_off(writer)
            channel.try_publish(b"lost")
            with pytest.raises(NoAnswer, match="1 event") as told:
                await channel.drain(SOON)
            assert "'news'" in str(told.value)
            await channel.drain(SOON)  # each loss is told once
            await host_of(writer).until(lambda: writer.peers == ["server"])
            await reach(channel, events)
            with suppress(NotHandedOver):  # what was published before the server knew of it again
                await channel.drain(SOON)
            await channel.publish(b"on we go")
            await channel.drain(SOON)
            cut_off(writer)
            channel.try_publish(b"lost too")
            with pytest.raises(NoAnswer, match="1 event"):
                await writer.close()


async def test_what_a_dispatcher_has_not_confirmed_when_its_connection_breaks_is_no_success() -> None:
    async with server() as middle:
        writer = writer_of(middle)
        await writer.__aenter__()
        channel = await writer.channel("news", "dispatch")
        async with (await middle.channel("news")).subscribe() as events:
            await reach(channel, events)
            await channel.drain(SOON)
            await channel.publish(b"perhaps lost")
            cut_off(writer)
            with pytest.raises(NoAnswer, match="1 event"):
                await writer.close()
            assert writer.drops["no neighbour any more"] == 1


@pytest.mark.parametrize("template", BEST_EFFORT)
async def test_what_the_network_has_not_taken_when_its_connection_breaks_is_no_success(template: str) -> None:
    async with server() as middle:
        writer = writer_of(middle)
        await writer.__aenter__()
        channel = await writer.channel("news", template)
        async with (await middle.channel("news")).subscribe() as events:
            await reach(channel, events)
            strand_of(middle, "writer").connection.pause()
            while host_of(writer).pending < 1_000_000:
                channel.try_publish(bytes(200_000))
                await asyncio.sleep(0)
            cut_off(writer)
            with pytest.raises(NoAnswer, match="events"):
                await writer.close()


@pytest.mark.parametrize("template", ["multicast", "single-source", "ringtree"])
async def test_what_waits_for_the_server_to_speak_is_not_handed_over(template: str) -> None:
    async with server() as middle:
        writer = writer_of(middle)
        await writer.__aenter__()
        channel = await writer.channel("news", template)
        async with (await middle.channel("news")).subscribe() as events:
            strand_of(middle, "writer").connection.pause()  # it hears nothing, and says nothing
            await channel.publish(b"early")
            with pytest.raises(NoAnswer):
                await channel.drain(0.3)
            strand_of(middle, "writer").connection.resume()
            await channel.drain(SOON)
            assert await take(events, 1) == [b"early"]
        await writer.close()


@pytest.mark.parametrize("template", ["dispatch", *BEST_EFFORT, "reliable", "causal"])
async def test_a_connection_that_comes_back_before_draining_costs_nothing(template: str) -> None:
    async with server() as middle, writer_of(middle) as writer:
        channel = await writer.channel("news", template)
        async with (await middle.channel("news")).subscribe() as events:
            await reach(channel, events)
            await channel.drain(SOON)
            cut_off(writer)
            await host_of(writer).until(lambda: not writer.peers)
            await host_of(writer).until(lambda: writer.peers == ["server"])
            await reach(channel, events)
            await channel.drain(SOON)


async def test_a_direct_event_that_waits_for_a_link_is_not_handed_over() -> None:
    async with connect(name="a", role=Role.PEER, listen=ANY_PORT) as a:
        b = connect(a.addresses[0], name="b", role=Role.PEER, listen=ANY_PORT)
        await b.__aenter__()
        channel = await b.channel("news", "direct")
        async with (await a.channel("news")).subscribe() as events:
            await reach(channel, events)
            await channel.publish(b"x")
            await channel.drain(SOON)
            assert await take(events, 1) == [b"x"]
        await b.close()


async def test_closing_moves_to_a_second_server_if_the_first_dies_before_it_took_the_events() -> None:
    limits = Limits(handover=SOON)
    async with server("one") as one, server("two", one.addresses[0]) as two:
        writer = connect(one.addresses[0], two.addresses[0], name="writer", limits=limits)
        await writer.__aenter__()
        channel = await writer.channel("news", "reliable")
        async with (await two.channel("news")).subscribe() as events:
            await reach(channel, events)
            strand_of(one, "writer").connection.pause()  # the server stands still, and then it dies
            await channel.publish(b"moved")
            closing = asyncio.create_task(writer.close())
            await asyncio.sleep(0.1)
            strand_of(one, "writer").connection.abort()
            for listener in one._listeners:
                await listener.close()
            await closing
            assert await take(events, 1) == [b"moved"]


async def test_events_that_were_given_up_elsewhere_are_told_as_lost() -> None:
    async with connect() as node:
        channel = await node.channel("news", "total-order")
        host, number = host_of(node), channel_id("news")
        for _ in range(4):
            await channel.publish(b"x")
        await channel.acknowledged(4, SOON)
        host.do([effect.Lost(number, 2, 2), effect.Lost(number, 3, 3), effect.Acknowledged(number, 4)])
        await channel.acknowledged(1, SOON)
        with pytest.raises(Lost, match="2 to 3") as told:
            await channel.acknowledged(4, SOON)
        assert (told.value.ranges, told.value.count) == (((2, 3),), 2)
        await channel.acknowledged(4, SOON)  # each is told once
        with pytest.raises(Lost):
            await channel.acknowledged(2, SOON)  # but for the event itself
        host.do([effect.Lost(number, 5, 5)])
        with pytest.raises(Lost, match="number 5"):
            await channel.drain(SOON)
        await channel.drain(SOON)


@pytest.mark.parametrize("template", ["total-order", "persistent"])
async def test_a_client_that_only_publishes_is_told_of_events_that_its_server_saw_passed_over(
    template: str, tmp_path: Path
) -> None:
    async with (
        connect(name="server", role=Role.BACKBONE, listen=ANY_PORT, state=tmp_path) as middle,
        writer_of(middle) as writer,
    ):
        channel = await writer.channel("news", template)
        await channel.publish(b"1")
        await channel.acknowledged(1, SOON)
        order = host_of(middle).engine.instance("news").template
        assert isinstance(order, TotalOrder)
        (key,) = (each for each in order.streams if each[0] == "writer")
        order._proposed[key] = 2  # the sequencer is sure that this event has its place, and is wrong
        await channel.publish(b"2")
        await channel.publish(b"3")
        with pytest.raises(Lost, match="number 2") as told:
            await channel.acknowledged(3, SOON)
        assert told.value.ranges == ((2, 2),)
        await channel.drain(SOON)
        with pytest.raises(Lost):
            await channel.acknowledged(2, SOON)
        await channel.publish(b"4")
        await channel.acknowledged(4, SOON)
