"""Links of several connections, on real sockets: what bindings open, what takes which, and what breaks."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gossamer import Binding, Channel, Envelope, Limits, Node, NodeConfig, QoS, Role, Subscription, connect
from gossamer.core.context import CONTACTS
from gossamer.core.control import LINK_CHANNEL, Control
from gossamer.core.names import channel_id
from gossamer.errors import ConfigError
from gossamer.links.selector import Wish
from gossamer.runtime.config import load
from gossamer.runtime.net.connection import Strand
from gossamer.runtime.net.handshake import Ping
from gossamer.runtime.net.link import Link
from gossamer.transports.multicast import MulticastTransport
from tests.runtime.net.test_transports import free_port
from tests.runtime.parties import ANY_PORT, SOON, host_of, link_of, linked, reach, strand_of, take, until

UDP = "udp://127.0.0.1:0"
BOTH = (Binding("money", ("tcp", "udp"), essential=True), Binding("*", ("udp",)))
QUICK = Limits(heartbeat=0.05)


def transports(node: Node, peer: str) -> list[str]:
    return sorted(each.transport for each in node.links[peer])


async def over(node: Node, peer: str, *names: str) -> None:
    """Until a link has just these connections, and they carry frames in both directions."""
    host = host_of(node)
    await host.until(lambda: peer in host.links and transports(node, peer) == sorted(names))
    await until(lambda: all(each.known for each in link_of(node, peer).strands))


@asynccontextmanager
async def pair(
    binding: Iterable[Binding] = BOTH, role: Role = Role.BACKBONE
) -> AsyncIterator[tuple[Node, Node]]:
    """A server at two addresses, and a node that reaches it by the first and is bound to both."""
    async with (
        connect(name="b", listen=[ANY_PORT, UDP], limits=QUICK) as b,
        connect(b.addresses[0], name="a", role=role, bind=binding, limits=QUICK) as a,
    ):
        await over(a, "b", "tcp", "udp")
        await over(b, "a", "tcp", "udp")
        yield a, b


@asynccontextmanager
async def talk(
    writer: Node, reader: Node, name: str, template: str = "multicast", **settings: Any
) -> AsyncIterator[tuple[Channel, Subscription]]:
    channel = await writer.channel(name, template, settings or None)
    heard = await reader.channel(name)
    async with heard.subscribe() as events:
        await reach(channel, events)
        yield channel, events


def sent(node: Node, peer: str) -> dict[str, int]:
    return {each.transport: each.sent for each in node.links[peer]}


async def carried_by(writer: Node, peer: str, channel: Channel, events: Subscription) -> set[str]:
    """The transports that took twenty parcels, each big enough not to be taken for anything else."""
    before = {id(each): each.sent for each in link_of(writer, peer).strands}
    for number in range(20):
        await channel.publish(b"%d" % number)
        assert await take(events, 1) == [b"%d" % number]
    strands = link_of(writer, peer).strands
    return {each.transport for each in strands if each.sent - before.get(id(each), 0) >= 20}


# opening


@pytest.mark.parametrize("role", [Role.BACKBONE, Role.CLIENT])
async def test_a_link_opens_what_a_binding_asks_for_and_the_neighbour_listens_with(role: Role) -> None:
    binding = (Binding("*", ("udp", "ws", "multicast")),)
    async with pair(binding, role) as (a, b):
        assert transports(a, "b") == transports(b, "a") == ["tcp", "udp"]
        await until(lambda: all(each.latency is not None for each in link_of(a, "b").strands))


async def test_a_binding_for_another_tier_opens_nothing() -> None:
    binding = (Binding("*", ("udp",), tier=Role.SECONDARY),)
    async with (
        connect(name="b", listen=[ANY_PORT, UDP]) as b,
        connect(b.addresses[0], name="a", bind=binding) as a,
    ):
        async with talk(a, b, "news") as (channel, events):
            assert await carried_by(a, "b", channel, events) == {"tcp"}
        assert transports(a, "b") == ["tcp"]


async def test_both_sides_dialling_at_once_make_one_link_that_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connect(name="gone", listen=[ANY_PORT, UDP]) as gone:
        tcp, udp = gone.addresses
    binding = (Binding("*", ("tcp", "udp")),)
    settings = NodeConfig(name="a", listen=(ANY_PORT, UDP), connect=(tcp,), bind=binding, limits=QUICK)
    with caplog.at_level(logging.INFO, "gossamer"):
        async with Node(settings, patient=True) as a:
            b = connect(
                a.addresses[0], name="b", role="backbone", listen=[tcp, udp], bind=binding, limits=QUICK
            )
            async with b, talk(a, b, "money", "reliable") as (channel, events):
                link = link_of(b, "a")
                number = 0
                # under load all the while: whatever is surplus is closed without losing anything
                while not (
                    number > 100
                    and transports(a, "b") == transports(b, "a") == ["tcp", "udp"]
                    and strand_of(a, "b").opened_here
                ):
                    await channel.publish(b"%d" % number)
                    assert await take(events, 1) == [b"%d" % number]
                    number += 1
                assert link_of(b, "a") is link
    lines = [record.message for record in caplog.records]
    assert sum("linked to a " in line for line in lines) == sum("linked to b " in line for line in lines) == 1


async def test_a_connection_that_is_no_longer_needed_is_closed_when_nothing_is_on_its_way_there() -> None:
    async with (
        connect(name="b", listen=ANY_PORT) as b,
        connect(b.addresses[0], name="z", role="backbone", listen=ANY_PORT) as z,
        talk(z, b, "news") as (channel, events),
    ):
        old = strand_of(b, "z")
        old.connection.pause()
        words = [b"%1000d" % number for number in range(500)]
        await channel.publish_many(words)
        channel.flush()
        await until(lambda: not host_of(z).pending)  # the network has it all, and b has read nothing of it
        link = await b._reach.link(z.addresses[0])  # the lower name's, so it stays
        assert link.strands == [old, strand_of_two(link, old)]
        old.connection.resume()
        assert await take(events, len(words)) == words
        await old.gone.wait()
        await over(z, "b", "tcp")
        await over(b, "z", "tcp")
        await channel.publish(b"by the other")
        assert await take(events, 1) == [b"by the other"]


def strand_of_two(link: Link, other: Strand) -> Strand:
    (found,) = (each for each in link.strands if each is not other)
    return found


# choosing


async def test_what_is_essential_goes_by_tcp_and_the_rest_as_it_is_bound() -> None:
    async with pair() as (a, b):
        async with talk(a, b, "money", "reliable") as (channel, events):
            assert await carried_by(a, "b", channel, events) == {"tcp"}
        async with talk(a, b, "video") as (channel, events):
            assert await carried_by(a, "b", channel, events) == {"udp"}
        assert a.drops == b.drops == {}


@pytest.mark.parametrize(("name", "by"), [("video", "udp"), ("money", "tcp")])
async def test_an_answer_takes_the_connection_that_the_event_came_on(name: str, by: str) -> None:
    """The reader has no bindings: left to itself, it would send everything by tcp."""
    async with pair() as (a, b), talk(a, b, name) as (channel, events), channel.answers() as answers:
        strand, count = strand_of(b, "a", by), 0
        for number in range(20):
            await channel.publish(b"%d" % number)
            event = await events.next(SOON)
            before = strand.sent
            await event.feedback(b"answer")
            count += strand.sent - before
            assert (await answers.next(SOON)).answers == event.number
        assert count >= 20
        urgent = Envelope(qos=QoS(essential=True))
        tcp = strand_of(b, "a", "tcp")
        before = tcp.sent
        await event.feedback(b"has to arrive", urgent)
        assert tcp.sent > before
        assert (await answers.next(SOON)).payload == b"has to arrive"


async def test_an_events_own_wish_wins_over_the_binding_of_its_channel() -> None:
    async with pair() as (a, b), talk(a, b, "video") as (channel, events):
        tcp = strand_of(a, "b", "tcp")
        for essential, by_tcp in ((None, 0), (True, 1), (False, 0)):
            before = tcp.sent
            await channel.publish(b"frame", Envelope(qos=QoS(essential=essential)))
            channel.flush()
            assert await take(events, 1) == [b"frame"]
            assert tcp.sent - before == by_tcp


async def test_a_channel_that_no_binding_fits_stays_on_reliable_connections() -> None:
    async with pair((Binding("video.*", ("udp",)),)) as (a, b), talk(a, b, "chat") as (channel, events):
        assert await carried_by(a, "b", channel, events) == {"tcp"}


async def test_parcels_of_a_channel_bound_to_datagrams_fit_into_one_and_others_are_large() -> None:
    async with pair() as (a, b):
        for name, most in (("video", 1400), ("money", 60_000)):
            async with talk(a, b, name) as (channel, events):
                await channel.publish_many([bytes(100)] * 300)
                sizes = {(await events.next(timeout=SOON)).parcel.size for _ in range(300)}
                assert most / 2 < max(sizes) <= most, name


async def test_a_parcel_too_large_for_a_datagram_takes_the_other_way() -> None:
    async with pair() as (a, b), talk(a, b, "video") as (channel, events):
        await channel.publish(bytes(100_000))
        assert len((await events.next(timeout=SOON)).payload) == 100_000
        assert a.drops == {}


async def test_another_selector_may_be_plugged_in() -> None:
    class Contrary:
        """Takes what the default would not."""

        def choose(self, candidates: Any, wish: Wish, current: Any) -> Any:
            return max(candidates, key=lambda each: (not each.reliable) == wish.essential)

    async with (
        connect(name="b", listen=[ANY_PORT, UDP]) as b,
        connect(b.addresses[0], name="a", bind=BOTH, selector=Contrary()) as a,
    ):
        await over(a, "b", "tcp", "udp")
        async with talk(a, b, "money") as (channel, events):
            assert await carried_by(a, "b", channel, events) == {"udp"}


# breaking


@pytest.mark.parametrize("role", [Role.BACKBONE, Role.CLIENT])
async def test_reliable_traffic_survives_its_connection_without_loss_or_copy_and_nobody_is_told(
    role: Role,
) -> None:
    words = [b"%1000d" % number for number in range(6000)]
    async with (
        pair(role=role) as (a, b),
        talk(a, b, "money", "reliable", repair=0.05, ack=0.05) as (channel, events),
    ):
        links = link_of(a, "b"), link_of(b, "a")

        async def publish() -> None:
            for number, word in enumerate(words):
                if number % 2000 == 800:
                    await over(b, "a", "tcp", "udp")
                    strand_of(b, "a").connection.pause()
                elif number % 2000 == 1000:  # what was sent meanwhile lies unread, and is lost
                    strand_of(b, "a").connection.abort()
                await channel.publish(word)

        publishing = asyncio.create_task(publish())
        assert await take(events, len(words)) == words
        await publishing
        template: Any = host_of(a).engine.instance("money").template
        assert template.repaired > 0, "nothing was under way"
        assert events.pending == events.missed == 0
        await over(a, "b", "tcp", "udp")
        assert (link_of(a, "b"), link_of(b, "a")) == links
        assert await carried_by(a, "b", channel, events) == {"tcp"}, "it is not back where it belongs"


async def test_a_channel_whose_transport_is_down_takes_another_and_that_is_counted_once() -> None:
    async with pair() as (a, b), talk(a, b, "video") as (channel, events):
        for node in (a, b):
            host_of(node).neighbours.opener = None  # nobody opens it again
        strand_of(a, "b", "udp").connection.abort()
        await over(a, "b", "tcp")
        await over(b, "a", "tcp")
        assert await carried_by(a, "b", channel, events) == {"tcp"}
        assert a.drops == {"no bound transport is up": 1}


async def test_a_link_is_down_when_its_last_connection_is() -> None:
    async with pair() as (a, b):
        link = link_of(a, "b")
        await b.close()
        await linked(a)
        assert link.gone.is_set()
        assert link.strands == []


async def test_a_closed_node_dials_nobody_and_wakes_no_more() -> None:
    """It would look alive, and leave again, for as long as its process lives."""
    async with pair() as (a, b):
        neighbours, host = host_of(a).neighbours, host_of(b)
        await b.close()
        met: list[str] = []
        neighbours.greeted = lambda strand, hello: met.append(hello.node)  # type: ignore[method-assign]
        host.do(host.engine.linked(host.now(), "a"))
        host.send("a", Control(LINK_CHANNEL, Ping(1)))
        await asyncio.sleep(1.0)
        assert met == []
        assert not [timer for timer in host._timers.values() if not timer.cancelled()]


async def test_a_datagram_connection_is_doubted_when_another_of_its_link_breaks() -> None:
    """Who dies without a word breaks tcp at once; the datagrams that are left need not be waited for long."""
    slow = Limits(heartbeat=0.05, datagram_silence=3600, silence=3600)
    async with (
        connect(name="b", listen=[ANY_PORT, UDP], limits=slow) as b,
        connect(b.addresses[0], name="a", bind=BOTH, limits=slow) as a,
    ):
        await over(b, "a", "tcp", "udp")
        udp, tcp = strand_of(a, "b", "udp"), strand_of(a, "b", "tcp")
        udp.received = lambda frames: None  # type: ignore[method-assign]
        host_of(a).neighbours.opener = None
        tcp.connection.abort()
        await linked(a)


# groups


def group() -> str:
    address = f"239.{os.getpid() % 250}.9.{os.getpid() // 250 % 250}"
    return f"multicast://{address}:{free_port()}?interface=127.0.0.1&ttl=0"


@asynccontextmanager
async def circle(at: str, *names: str, bind: Iterable[Binding]) -> AsyncIterator[list[Node]]:
    """Backbone nodes of one group; each but the first is also connected to the first by tcp."""
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for name in names:
            node = connect(
                *(nodes[0].addresses[:1] if nodes else ()),
                name=name,
                role="backbone",
                listen=[ANY_PORT, at],
                tree=[(names[0], other) for other in names[1:]],
                bind=bind,
                transports=[MulticastTransport(beacon=0.1)],
            )
            nodes.append(await stack.enter_async_context(node))
        for node in nodes[1:]:
            await over(node, names[0], "multicast", "tcp")
            await over(nodes[0], node.name, "multicast", "tcp")
        yield nodes


async def test_one_transmission_reaches_all_neighbours_of_a_group() -> None:
    async with circle(group(), "a", "b", "c", bind=[Binding("video", ("multicast",))]) as (a, b, c):
        channel = await a.channel("video", "multicast")
        heard = [await node.channel("video") for node in (b, c)]
        async with heard[0].subscribe() as one, heard[1].subscribe() as two:
            await reach(channel, one, two)
            shared = strand_of(a, "b", "multicast").connection.group
            assert shared is not None
            assert shared is strand_of(a, "c", "multicast").connection.group
            transmit, said = shared.transmit, []  # type: ignore[attr-defined]
            shared.transmit = lambda data, to: (said.append((len(data), to)), transmit(data, to))  # type: ignore[attr-defined]
            for number in range(20):
                await channel.publish(b"%500d" % number)
                for events in (one, two):
                    event = await events.next(timeout=SOON)
                    assert (event.payload, event.source) == (b"%500d" % number, "a")
            large = [to for size, to in said if size > 500]
            assert len(large) == 20
            assert set(large) == {shared._group}  # type: ignore[attr-defined]


async def test_nodes_of_a_group_that_are_no_neighbours_do_not_become_each_others_servers() -> None:
    at = group()
    bind = [Binding("video", ("multicast",))]
    async with circle(at, "a", "b", bind=bind) as (a, b):
        below = connect(
            a.addresses[0],
            name="s",
            role="secondary",
            listen=at,
            bind=bind,
            transports=[MulticastTransport(beacon=0.1)],
        )
        async with below as s:
            await over(s, "a", "multicast", "tcp")
            await until(lambda: len(host_of(s).neighbours._strands) == 3)
            assert s.peers == ["a"]
            assert b.peers == ["a"]
            channel = await s.channel("video", "multicast")
            heard = await b.channel("video")
            async with heard.subscribe() as events:
                await reach(channel, events)
                assert await carried_by(s, "a", channel, events) == {"multicast"}
            assert s.drops == b.drops == {}


async def test_a_group_that_a_node_is_in_is_not_dialled_for_somebody_who_is_gone() -> None:
    at = group()
    async with circle(at, "a", "b", bind=[]) as (a, _):
        host = host_of(a)
        host.do(host.engine.set(host.now(), CONTACTS, {"ghost": (at,)}))
        assert host.dialer is not None
        assert host.dialer.send("ghost", Control(channel_id("news"), Ping(1))) == "no link"


# settings


FILE = """\
name = "a"
role = "client"
connect = ["{address}"]

[[bind]]
channel = "video.*"
transports = {transports}
"""


@pytest.mark.parametrize("transport", ["tcp", "udp", "ws"])
async def test_rebinding_touches_the_file_and_nothing_else(tmp_path: Path, transport: str) -> None:
    async with connect(name="b", listen=[ANY_PORT, UDP, "ws://127.0.0.1:0"]) as b:
        file = tmp_path / "a.toml"
        file.write_text(FILE.format(address=b.addresses[0], transports=f'["{transport}"]'))
        async with Node(load(file)) as a:
            await over(a, "b", *{"tcp", transport})
            async with talk(a, b, "video.hall") as (channel, events):
                assert await carried_by(a, "b", channel, events) == {transport}


def test_a_node_refuses_a_binding_to_a_transport_it_does_not_have() -> None:
    with pytest.raises(ConfigError, match=r"key 'bind.transports': no transport 'pigeon'"):
        connect(bind=[Binding("*", ("pigeon",))])


async def test_a_server_that_moves_tells_those_below_its_new_address() -> None:
    async with (
        connect(name="b1", listen=ANY_PORT) as one,
        connect(one.addresses[0], name="b2", role="backbone", listen=ANY_PORT) as two,
        connect(one.addresses[0], two.addresses[0], name="s", role="secondary", listen=ANY_PORT) as middle,
        connect(middle.addresses[0], name="c") as below,
    ):
        assert host_of(below).engine.address == "b1/s/c"
        await one.close()
        await linked(middle, "b2", "c")
        await host_of(below).until(lambda: host_of(below).engine.address == "b2/s/c")


# clocks


async def test_an_event_is_as_old_as_it_is_and_expires_in_time_whatever_clock_its_source_has() -> None:
    hour = 3600 * 10**9
    async with (
        connect(name="b", listen=ANY_PORT) as b,
        connect(b.addresses[0], name="c", limits=QUICK) as c,
        connect(name="a", role=Role.CLIENT, limits=QUICK) as a,
    ):
        host = host_of(a)
        host._epoch -= hour
        await a._reach.link(b.addresses[0])
        channel = await a.channel("news", "multicast")
        async with (await c.channel("news")).subscribe() as events:
            await channel.wait_for_subscribers(SOON)
            await channel.publish(b"1", Envelope(qos=QoS(expiry=600)))
            event = await events.next(SOON)
            assert 0 <= event.age < SOON
            assert abs(event.sent - host.now() - hour) < SOON * 10**9
            await until(lambda: len(strand_of(b, "a").offset._recent) > 0)
            assert abs(strand_of(b, "a").offset.value + hour) < 10**9
            host._epoch += hour  # it is put right
            await until(lambda: strand_of(b, "a").offset.value == 0)
            await channel.publish(b"2")
            assert (await events.next(SOON)).age < SOON
