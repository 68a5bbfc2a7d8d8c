"""Nodes and the directory: finding channels, joining, losing and finding each other again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from gossamer import Limits, NodeConfig, Role, connect
from gossamer.errors import (
    AddressInUse,
    BadAddress,
    BadName,
    CannotConnect,
    ChannelExists,
    ConfigError,
    NotATree,
    Refused,
    UnknownChannel,
    UnknownTemplate,
)
from gossamer.runtime.api.node import Node
from gossamer.runtime.config import ChannelConfig
from gossamer.testing.fake import parcel
from tests.runtime.parties import (
    ANY_PORT,
    SOON,
    client,
    host_of,
    link_of,
    linked,
    reach,
    server,
    strand_of,
    stranger,
    take,
    turns,
    until,
)

# the directory


async def test_an_unknown_template_is_refused_with_a_suggestion() -> None:
    async with connect() as node:
        with pytest.raises(UnknownTemplate, match=r"no template 'multicats'; did you mean 'multicast'\?"):
            await node.channel("news", "multicats")
        assert await node.directory.list() == []


async def test_an_unknown_channel_is_refused_with_a_suggestion() -> None:
    async with server() as middle, client(middle, "reader") as reader:
        await middle.channel("weather", "multicast")
        with pytest.raises(UnknownChannel, match=r"did you mean 'weather'\?"):
            await reader.channel("whether")
        with pytest.raises(UnknownChannel):
            await reader.directory.lookup("zzz")


async def test_a_name_stands_for_one_kind_of_channel() -> None:
    async with server() as middle, client(middle, "other") as other:
        await middle.channel("news", "multicast", {"retry": 0.25})
        with pytest.raises(ChannelExists, match=r"multicast\(retry=0.25\), not as loop"):
            await other.channel("news", "loop")
        with pytest.raises(ChannelExists):
            await other.channel("news", "multicast", {"retry": 1.0})
        assert (await other.channel("news", "multicast")).settings == {"retry": 0.25}


async def test_cloning_twice_gives_the_same_channel() -> None:
    async with connect() as node:
        first = await node.directory.clone("loop", "news")
        assert await node.directory.clone("loop", "news") == first
        assert await node.channel("news", "loop") is await node.channel("news", "loop")


async def test_two_nodes_that_clone_one_name_at_once_agree() -> None:
    async with server("one") as one, server("two", one.addresses[0]) as two:
        made = await asyncio.gather(*(node.channel("news", "multicast") for node in (one, two)))
        async with made[0].subscribe() as events:
            await made[1].wait_for_subscribers(SOON)
            await made[1].publish(b"same")
            assert await take(events, 1) == [b"same"]
        async with asyncio.timeout(SOON):
            while await one.directory.lookup("news") != await two.directory.lookup("news"):
                await turns()
        assert await one.directory.lookup("news") == await two.directory.lookup("news")


async def test_cloning_and_looking_up_are_separate_and_neither_runs_the_channel() -> None:
    async with connect() as node:
        cloned = await node.directory.clone("multicast", "news", {"window": 9})
        found = await node.directory.lookup("news")
        assert found == cloned
        assert (found.template, found.settings, found.creator) == ("multicast", {"window": 9}, node.name)
        assert host_of(node).engine.channels == ()
        assert (await node.channel("news")).template == "multicast"
        assert host_of(node).engine.channels == ("news",)


@pytest.mark.parametrize("name", ["", "two words", "a\nb", "x" * 201, "gossamer.mine", "\ud800"])
async def test_a_bad_channel_name_is_refused(name: str) -> None:
    async with connect() as node:
        with pytest.raises(BadName):
            await node.channel(name, "loop")


async def test_bad_settings_are_refused_with_their_key() -> None:
    async with connect() as node:
        with pytest.raises(ConfigError, match=r"key 'retry'") as caught:
            await node.channel("news", "multicast", {"retry": -1})
        assert caught.value.key == "retry"
        with pytest.raises(ConfigError, match=r"key 'colour'.*window"):
            await node.channel("news", "multicast", {"colour": "red"})
        assert await node.directory.list() == []


async def test_every_node_lists_every_channel_however_many() -> None:
    names = sorted(f"channel-{i}" for i in range(120))
    async with (
        server("one") as one,
        server("two", one.addresses[0]) as two,
        client(one, "a") as a,
        client(two, "b") as b,
    ):
        for name in names:
            await a.directory.clone("multicast", name)
        for node in (one, two, a, b):
            listed: list[str] = []
            async with asyncio.timeout(3 * SOON):
                while listed != names:
                    listed = [entry.name for entry in await node.directory.list()]
                    await asyncio.sleep(0)
            assert listed == names


# addresses


async def test_a_port_in_use_is_refused() -> None:
    async with server() as first:
        with pytest.raises(AddressInUse, match="0 takes a free one"):
            async with connect(listen=first.addresses[0]):
                pass


@pytest.mark.parametrize(
    "address",
    ["nonsense", "", "pigeon://coop:1", "tcp://127.0.0.1", "tcp://127.0.0.1:99999", "tcp://:1", "udp://[::1"],
)
@pytest.mark.parametrize("way", ["listen", "connect"])
async def test_a_bad_address_is_refused(address: str, way: str) -> None:
    with pytest.raises(BadAddress) as caught:
        async with connect(listen=address) if way == "listen" else connect(address):
            pass
    assert caught.value.address == address


async def test_a_patient_node_does_not_wait_for_an_address_that_can_never_answer() -> None:
    with pytest.raises(BadAddress):
        async with Node(NodeConfig(connect=("tcp://127.0.0.1",)), patient=True):
            pass


async def test_nobody_there_is_said_so() -> None:
    async with server() as gone:
        address = gone.addresses[0]
    with pytest.raises(CannotConnect, match="gossamer up") as caught:
        async with connect(address):
            pass
    assert caught.value.retry
    assert caught.value.address == address


@asynccontextmanager
async def other_program(words: bytes) -> AsyncIterator[str]:
    """Something that is no node, and what it says to whoever connects."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        over.set()

    over = asyncio.Event()
    program = await asyncio.start_server(talk, "127.0.0.1", 0)
    yield f"tcp://127.0.0.1:{program.sockets[0].getsockname()[1]}"
    await over.wait()
    program.close()


async def test_somebody_who_never_greets_is_said_so() -> None:
    async with other_program(b"") as address:
        with pytest.raises(CannotConnect, match=r"no greeting within 0.05 s"):
            async with connect(address, limits=Limits(answer=0.05)):
                pass


async def test_somebody_who_speaks_another_language_is_said_so() -> None:
    async with other_program(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        with pytest.raises(CannotConnect, match="is this a gossamer node"):
            async with connect(address):
                pass


async def test_of_several_addresses_the_first_that_answers_is_used() -> None:
    async with server() as gone:
        dead = gone.addresses[0]
    async with server("alive") as alive, connect(dead, alive.addresses[0]) as node:
        assert node.peers == ["alive"]


# who may link to whom


async def test_a_node_that_connects_to_itself_is_refused() -> None:
    async with server() as first:
        address = first.addresses[0]
    with pytest.raises(Refused, match="give this one another name"):
        async with connect(address, listen=address, role="backbone", name="narcissus"):
            pass


async def test_a_client_with_the_name_of_its_server_is_refused() -> None:
    async with server("same") as first:
        with pytest.raises(Refused, match="a node called 'same' is here already"):
            async with client(first, "same"):
                pass
        assert first.peers == []


async def test_of_two_clients_with_one_name_the_newer_stays_and_the_older_is_told_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with server() as middle, client(middle, "twin") as older:
        link = link_of(older, "server")
        await turns()
        with caplog.at_level(logging.ERROR, "gossamer"):
            async with client(middle, "twin") as newer:
                await link.gone.wait()
                await linked(older)
                await until(lambda: bool(caplog.records))
                assert newer.peers == ["server"]
                assert host_of(middle).links["twin"].hello.incarnation == host_of(newer).engine.incarnation
        assert "replaced by a newer node called 'twin'" in caplog.text


async def test_a_client_below_a_client_is_refused() -> None:
    async with server() as middle:
        address = middle.addresses[0]
        async with connect(address, listen=ANY_PORT, role=Role.CLIENT, name="upper") as upper:
            with pytest.raises(Refused, match="serves nobody: connect to a backbone node"):
                async with client(upper, "lower"):
                    pass
            assert upper.peers == ["server"]


async def test_a_secondary_server_carries_events_both_ways() -> None:
    async with (
        server("main") as main,
        connect(main.addresses[0], listen=ANY_PORT, role="secondary", name="branch") as branch,
        client(branch, "below") as below,
    ):
        ours, theirs = await below.channel("news", "multicast"), await main.channel("news", "multicast")
        async with ours.subscribe() as down:
            await theirs.wait_for_subscribers(SOON)
            await theirs.publish(b"down")
            assert await take(down, 1) == [b"down"]
        async with theirs.subscribe() as up:
            await ours.wait_for_subscribers(SOON)
            await ours.publish(b"up")
            event = await up.next(timeout=SOON)
            assert event.payload == b"up"
            assert event.parcel.stamp.source == "main/branch/below"
            async with ours.answers() as answers:
                await event.feedback(b"thanks")
                assert await take(answers, 1) == [b"thanks"]
        assert branch.peers == ["below", "main"]


async def test_two_servers_carry_events_and_answers_between_their_clients() -> None:
    async with (
        server("one") as one,
        server("two", one.addresses[0]) as two,
        client(one, "a") as a,
        client(two, "b") as b,
    ):
        at_a, at_b = await a.channel("talk", "multicast"), await b.channel("talk", "multicast")
        async with at_b.subscribe() as events, at_a.answers() as answers, at_b.answers() as others:
            await at_a.wait_for_subscribers(SOON)
            await at_a.publish(b"from a")
            event = await events.next(timeout=SOON)
            assert (event.payload, event.source) == (b"from a", "a")
            await event.feedback(b"heard")
            answer = await answers.next(timeout=SOON)
            assert (answer.payload, answer.source, answer.answers) == (b"heard", "b", event.number)
            assert others.pending == 0


async def test_two_servers_that_connect_to_each_other_keep_one_link() -> None:
    async with server() as gone:
        address = gone.addresses[0]
    config = NodeConfig(name="a", listen=(ANY_PORT,), connect=(address,))
    async with (
        Node(config, patient=True) as a,
        connect(a.addresses[0], listen=address, name="b", role="backbone") as b,
    ):
        ours, theirs = await a.channel("news", "multicast"), await b.channel("news", "multicast")
        async with theirs.subscribe() as events:
            await ours.wait_for_subscribers(SOON)
            await linked(b, "a")
            link = link_of(b, "a")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await link.gone.wait()
            await ours.wait_for_subscribers(SOON)
            await ours.publish(b"once")
            assert await take(events, 1) == [b"once"]
        assert (a.peers, b.peers) == (["b"], ["a"])


async def test_a_static_tree_keeps_events_off_the_other_links() -> None:
    edges = [("a", "b"), ("b", "c")]
    async with (
        connect(name="a", listen=ANY_PORT, tree=edges) as a,
        connect(a.addresses[0], name="b", role="backbone", listen=ANY_PORT, tree=edges) as b,
        connect(a.addresses[0], b.addresses[0], name="c", role="backbone", tree=edges) as c,
    ):
        assert c.peers == ["a", "b"]
        channels = [await node.channel("news", "multicast") for node in (a, b, c)]
        async with channels[2].subscribe() as events, channels[1].subscribe() as between:
            await channels[0].wait_for_subscribers(SOON)
            await reach(channels[0], events, between)
            await channels[0].publish_many([b"%d" % i for i in range(10)])
            assert await take(events, 10) == [b"%d" % i for i in range(10)]
            assert await take(between, 10) == [b"%d" % i for i in range(10)]
        for node in (a, b, c):
            assert node.drops == {}


async def test_edges_that_form_no_tree_are_refused_before_anything_starts() -> None:
    with pytest.raises(NotATree):
        connect(tree=[("a", "b"), ("b", "c"), ("c", "a")])


async def test_a_node_makes_the_channels_of_its_settings() -> None:
    config = NodeConfig(
        channel=(ChannelConfig("news", "multicast", {"window": 7}), ChannelConfig("x", "loop"))
    )
    async with Node(config) as node:
        listed = [(entry.name, entry.template, entry.settings) for entry in await node.directory.list()]
    assert listed == [("news", "multicast", {"window": 7}), ("x", "loop", {})]


async def test_a_bad_node_name_or_role_is_refused() -> None:
    with pytest.raises(BadName, match="node name"):
        connect(name="two words")
    with pytest.raises(BadName, match="one of backbone, secondary, client, peer"):
        connect(role="king")


# losing each other


async def test_a_client_finds_its_restarted_server_and_its_subscription_works_again() -> None:
    async with server() as first:
        address = first.addresses[0]
        reader = await client(first, "reader").__aenter__()
        heard = await reader.channel("news", "multicast")
        events = await heard.subscribe().__aenter__()
    await linked(reader)
    async with connect(listen=address, name="server") as second:
        channel = await second.channel("news", "multicast")
        await channel.wait_for_subscribers(SOON)
        await channel.publish(b"again")
        assert await take(events, 1) == [b"again"]
        await reader.close()


async def test_while_its_server_is_away_a_publisher_waits() -> None:
    async with server() as first:
        address = first.addresses[0]
        writer = await client(first, "writer").__aenter__()
        channel = await writer.channel("news", "multicast")
    await linked(writer)
    waiting = asyncio.create_task(channel.publish(b"patient"))
    await turns(50)
    assert not waiting.done()
    async with connect(listen=address) as second:
        heard = await second.channel("news", "multicast")
        async with heard.subscribe():
            assert (await waiting).number == 1
            await writer.close()


async def test_a_client_with_two_addresses_moves_on_when_its_server_dies() -> None:
    async with (
        server("one") as one,
        server("two", one.addresses[0]) as two,
        connect(one.addresses[0], two.addresses[0], name="reader") as reader,
    ):
        heard = await reader.channel("news", "multicast")
        async with heard.subscribe() as events:
            assert reader.peers == ["one"]
            await one.close()
            await linked(reader, "two")
            channel = await two.channel("news", "multicast")
            await channel.wait_for_subscribers(SOON)
            await channel.publish(b"moved")
            assert await take(events, 1) == [b"moved"]


async def test_a_stalled_peer_loses_only_its_own_parcels_and_they_are_counted() -> None:
    limits = Limits(queue_bytes=262144, patience=0.05)
    async with (
        server(limits=limits) as middle,
        client(middle, "writer") as writer,
        client(middle, "lively") as lively,
        client(middle, "stuck") as stuck,
    ):
        channels = [await node.channel("news", "multicast") for node in (writer, lively, stuck)]
        async with channels[1].subscribe() as good, channels[2].subscribe() as bad:
            await reach(channels[0], good, bad)
            probes = good.delivered
            strand_of(stuck, "server").connection.pause()
            sent = 0
            while not middle.drops.get("link stalled"):
                await channels[0].publish(bytes(60_000))
                sent += 1
                assert len(await take(good, 1)) == 1
            for _ in range(20):
                await channels[0].publish(bytes(60_000))
                channels[0].flush()  # each in a parcel of its own: parcels are what is counted
            await take(good, 20)
            assert good.delivered == probes + sent + 20
            assert link_of(middle, "stuck").stalled
            strand_of(stuck, "server").connection.resume()
            await host_of(middle).until(lambda: not link_of(middle, "stuck").stalled)
            await channels[0].publish(b"end")
            numbers = []
            while True:
                event = await bad.next(timeout=SOON)
                numbers.append(event.number)
                if event.payload == b"end":
                    break
            assert numbers == sorted(set(numbers))
            assert sent + 21 - len(numbers) == middle.drops["link stalled"] > 20
            assert (await good.next(timeout=SOON)).payload == b"end"


async def test_nobody_waits_for_itself_where_it_is_sent_what_it_asked_for() -> None:
    limits = Limits(queue_bytes=262144, patience=60)
    async with server(limits=limits) as asked, client(asked, "asking") as asking:
        strand = strand_of(asked, "asking")
        strand_of(asking, "server").connection.pause()
        while not strand.congested:
            strand.send(parcel("server", payloads=[bytes(60_000)]), strand)
            await turns(1)
        assert not strand.waits


async def test_a_neighbour_that_falls_silent_is_given_up() -> None:
    limits = Limits(heartbeat=0.02, silence=0.1)
    async with server(limits=limits) as middle, stranger(middle) as quiet:
        await quiet.greet("quiet")
        await linked(middle, "quiet")
        await quiet.ended()
        await linked(middle)


async def test_a_neighbour_that_answers_is_kept() -> None:
    limits = Limits(heartbeat=0.02, silence=0.1)
    async with server(limits=limits) as middle, client(middle, "alive", limits) as alive:
        link = link_of(alive, "server")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await link.gone.wait()
        assert middle.peers == ["alive"]
        assert link.latency is not None
        assert 0 <= link.latency < SOON * 1e9


async def test_a_connection_that_never_greets_is_closed() -> None:
    limits = Limits(heartbeat=0.02, answer=0.05)
    async with server(limits=limits) as middle, stranger(middle) as mute:
        await mute.ended()


async def test_a_node_that_was_used_and_closed_leaves_no_task_behind() -> None:
    async with server() as middle, client(middle, "a") as a, client(middle, "b") as b:
        ours, theirs = await a.channel("news", "multicast"), await b.channel("news", "multicast")
        async with theirs.subscribe() as events:
            await ours.wait_for_subscribers(SOON)
            async with ours.subscribe(callback=lambda event: None):
                await ours.publish(b"x")
                assert await take(events, 1) == [b"x"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
