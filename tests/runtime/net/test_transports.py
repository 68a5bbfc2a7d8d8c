"""The same conversation over every installed transport."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from gossamer import Criteria, Envelope, Node, QoS, catalog, connect
from gossamer.links.binding import Binding
from gossamer.runtime.net.link import ConnectionReport
from gossamer.transports.base import Transport
from gossamer.transports.local import LocalTransport
from gossamer.transports.multicast import MulticastTransport
from tests.runtime.parties import SOON, host_of, linked, reach, take

SCHEMES = sorted(catalog.transports())
COUNT = 200


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def meeting(scheme: str) -> Iterator[tuple[str, tuple[Transport, ...]]]:
    """An address to meet at on loopback, and the transports for it."""
    match scheme:
        case "local":
            yield "local://here", (LocalTransport(),)
        case "multicast":
            group = f"239.{os.getpid() % 250}.7.{os.getpid() // 250 % 250}"
            yield f"multicast://{group}:{free_port()}?interface=127.0.0.1&ttl=0", ()
        case "memory":
            with tempfile.TemporaryDirectory() as folder:
                yield f"memory://{folder}/here", ()
        case _:
            yield f"{scheme}://127.0.0.1:0", ()


@asynccontextmanager
async def three(
    scheme: str, meeting: tuple[str, tuple[Transport, ...]]
) -> AsyncIterator[tuple[Node, Node, Node]]:
    """A server with two clients."""
    address, given = meeting

    def transports() -> tuple[Transport, ...]:
        return (MulticastTransport(beacon=0.1),) if scheme == "multicast" else given

    async with connect(listen=address, name="server", transports=transports()) as server:
        at = server.addresses[0]
        async with (
            connect(at, name="writer", transports=transports()) as writer,
            connect(at, name="reader", transports=transports()) as reader,
        ):
            await linked(server, "reader", "writer")
            await linked(writer, "server")
            await linked(reader, "server")
            yield server, writer, reader


def test_there_is_something_to_test() -> None:
    assert {"local", "memory", "multicast", "tcp", "udp", "ws"} <= set(SCHEMES)


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_events_and_answers_pass(scheme: str, meeting: tuple[str, tuple[Transport, ...]]) -> None:
    envelope = Envelope({"kind": "greeting", "size": 3}, QoS(priority=6, expiry=60))
    async with three(scheme, meeting) as (_, writer, reader):
        channel, heard = await writer.channel("talk", "multicast"), await reader.channel("talk", "multicast")
        async with heard.subscribe(Criteria(kind="greeting"), handback=7) as events:
            async with heard.subscribe() as everything:
                before = await reach(channel, everything)
            async with channel.answers() as to_writer, heard.answers() as to_reader:
                await channel.publish(b"unwanted", Envelope({"kind": "noise"}))
                await channel.publish(b"hello", envelope)
                event = await events.next(timeout=SOON)
                assert (event.payload, event.source, event.envelope) == (b"hello", "writer", envelope)
                assert event.receipt.handback == 7
                await event.feedback(b"hello yourself")
                answer = await to_writer.next(timeout=SOON)
                assert (answer.payload, answer.answers, answer.source) == (
                    b"hello yourself",
                    before + 2,
                    "reader",
                )
                await answer.feedback(b"goodbye")
                assert await take(to_reader, 1) == [b"goodbye"]


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_many_events_pass_in_order(scheme: str, meeting: tuple[str, tuple[Transport, ...]]) -> None:
    async with three(scheme, meeting) as (_, writer, reader):
        channel, heard = await writer.channel("many", "multicast"), await reader.channel("many", "multicast")
        async with heard.subscribe() as events:
            await reach(channel, events)
            for number in range(COUNT):
                await channel.publish(b"%d" % number)
            assert await take(events, COUNT) == [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_node_that_leaves_is_missed(scheme: str, meeting: tuple[str, tuple[Transport, ...]]) -> None:
    async with three(scheme, meeting) as (server, writer, reader):
        channel, heard = await writer.channel("talk", "multicast"), await reader.channel("talk", "multicast")
        async with heard.subscribe():
            await channel.wait_for_subscribers(SOON)
            await reader.close()
            await linked(server, "writer")
            await host_of(writer).until(lambda: not channel.has_subscribers())


async def test_one_server_joins_clients_of_different_transports() -> None:
    schemes = ("tcp", "udp", "ws")
    async with connect(name="server", listen=[f"{each}://127.0.0.1:0" for each in schemes]) as server:
        by_tcp, by_udp, by_ws = server.addresses
        async with (
            connect(by_tcp, name="t") as t,
            connect(by_udp, name="u") as u,
            connect(by_ws, name="w") as w,
        ):
            channels = [await node.channel("talk", "multicast") for node in (t, u, w)]
            for publisher in range(3):
                others = [channels[i] for i in range(3) if i != publisher]
                async with others[0].subscribe() as one, others[1].subscribe() as two:
                    await reach(channels[publisher], one, two)
                    await channels[publisher].publish(b"%d" % publisher)
                    assert await take(one, 1) == await take(two, 1) == [b"%d" % publisher]


async def test_a_link_that_is_bound_to_memory_opens_it_beside_tcp_and_takes_it() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bind = [Binding(channel="*", transports=("memory",))]
        listen = ["tcp://127.0.0.1:0", f"memory://{folder}/here"]
        async with (
            connect(listen=listen, name="server", bind=bind) as server,
            connect(server.addresses[0], name="reader", bind=bind) as reader,
        ):
            async with asyncio.timeout(SOON):
                await host_of(server).until(lambda: len(reports(server)) == 2)
            there, here = await server.channel("talk", "multicast"), await reader.channel("talk")
            async with here.subscribe() as events:
                await there.wait_for_subscribers(SOON)
                before = reports(server)["memory"].sent
                for number in range(COUNT):
                    await there.publish(b"%d" % number)
                    there.flush()
                assert await take(events, COUNT) == [b"%d" % number for number in range(COUNT)]
                assert reports(server)["memory"].sent >= before + COUNT


def reports(node: Node) -> dict[str, ConnectionReport]:
    """The connections of the first link of a node, by transport."""
    return {each.transport: each for link in host_of(node).links.values() for each in link.report}
