"""Strangers who send nonsense: counted, cut off, and noticed by nobody else."""

from __future__ import annotations

import asyncio
import logging
import struct
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

import pytest

from gossamer import Limits, Node
from gossamer.core.control import LINK_CHANNEL, Control, Message
from gossamer.core.names import NANOSECONDS, Role, channel_id
from gossamer.core.parcel import Answer, Header, Parcel, make_body
from gossamer.core.receipt import Stamp
from gossamer.core.wire import CONTROL, MAX_CONTROL, PARCEL, VERSION, decode, decode_message, encode
from gossamer.errors import NoAnswer
from gossamer.overlay.directory.service import Asked, Directory, Lookup
from gossamer.overlay.groups.messages import TreeUpdate
from gossamer.runtime.net.handshake import Hello, Ping, Pong, decoder
from gossamer.testing.hostile import Stranger as Words
from tests.runtime.parties import (
    SOON,
    Stranger,
    client,
    host_of,
    link_of,
    linked,
    server,
    stranger,
    take,
    until,
)

HELLO = encode(Control(LINK_CHANNEL, Hello("stranger", 1, Role.CLIENT, "stranger", (), False)))


class Nonsense(Message, frozen=True):
    """No template knows it."""

    words: str


def prelude(kind: int, header: int, body: int, version: int = VERSION, magic: bytes = b"gs") -> bytes:
    return struct.pack(">2sBBHI", magic, version, kind, header, body)


def nested(depth: int) -> bytes:
    """A control message for the directory made of lists in lists."""
    return encode(Control(channel_id(Directory.name), body=b"\x91" * depth + b"\xc0"))


def parcel(channel: str, body: bytes | None = None, sequence: int = 1) -> Parcel:
    made, split = make_body([b"hostile"], [])
    stamp = Stamp("stranger", 1, sequence, 1, 1, bytes(8))
    return Parcel(Header(channel_id(channel), stamp, 1, split), made if body is None else body)


@asynccontextmanager
async def undisturbed() -> AsyncIterator[Node]:
    """A server with two clients; afterwards an event and its answer still pass, over the same links."""
    async with server() as middle, client(middle, "writer") as writer, client(middle, "reader") as reader:
        channel, heard = await writer.channel("news", "multicast"), await reader.channel("news", "multicast")
        async with heard.subscribe() as events, channel.answers() as answers:
            await channel.wait_for_subscribers(SOON)
            links = dict(host_of(middle).links)
            yield middle
            await channel.publish(b"still here")
            event = await events.next(timeout=SOON)
            assert event.payload == b"still here"
            await event.feedback(b"indeed")
            assert await take(answers, 1) == [b"indeed"]
            now = host_of(middle).links
            assert {name: now[name] for name in links} == links
            assert (writer.drops, reader.drops) == ({}, {})


GARBAGE = {
    "noise": b"\xff\x00\xaa" * 1000,
    "a web browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "another version": prelude(CONTROL, 2, 2, version=VERSION + 1) + bytes(4),
    "an unknown kind": prelude(9, 2, 2) + bytes(4),
    "no header": prelude(PARCEL, 0, 10) + bytes(10),
    "a huge header": prelude(PARCEL, 65535, 10),
    "a huge body": prelude(PARCEL, 10, 2**32 - 1),
    "a huge control message": prelude(CONTROL, 2, MAX_CONTROL + 1),
    "a header of noise": prelude(PARCEL, 4, 4) + b"\xff\xff\xff\xff" * 2,
    "a control header of noise": prelude(CONTROL, 4, 4) + b"\xff\xff\xff\xff" * 2,
    "a greeting of noise": encode(Control(LINK_CHANNEL, body=b"\xc1")),
    "a greeting too long": encode(
        Control(LINK_CHANNEL, Hello("x" * 1000, 1, Role.CLIENT, "x", listens=(), heard=False))
    ),
    "a greeting with a bad name": encode(
        Control(LINK_CHANNEL, Hello("two words", 1, Role.CLIENT, "x", listens=(), heard=False))
    ),
    "a greeting nested deeply": encode(Control(LINK_CHANNEL, body=b"\x91" * 100_000 + b"\xc0")),
}


@pytest.mark.parametrize("words", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("greeted", [False, True], ids=["at once", "after a greeting"])
async def test_garbage_ends_its_connection_and_is_counted(words: bytes, greeted: bool) -> None:
    async with undisturbed() as middle, stranger(middle) as bad:
        if greeted:
            await bad.greet()
            await linked(middle, "reader", "stranger", "writer")
        await bad.send(words)
        await bad.ended()
        await linked(middle, "reader", "writer")
        assert middle.drops == {"malformed frame": 1}


@pytest.mark.parametrize(
    "words",
    [
        encode(Control(channel_id("news"), Nonsense("?"))),
        encode(Control(channel_id("news"), body=b"\xc1")),
        encode(Control(channel_id(Directory.name), Nonsense("?"))),
        nested(100),
        nested(100_000),
    ],
    ids=["unknown message", "noise", "unknown to the directory", "nested", "nested deeply"],
)
async def test_control_that_a_template_does_not_know_ends_its_connection(words: bytes) -> None:
    async with undisturbed() as middle, stranger(middle) as bad:
        await bad.greet()
        await bad.send(words)
        await bad.ended()
        await linked(middle, "reader", "writer")
        assert middle.drops == {"malformed frame": 1}


async def test_values_that_no_clock_can_show_are_counted_and_cost_no_link() -> None:
    late = TreeUpdate(2**62, 1, ("stranger",), (0,), (3,))
    async with undisturbed() as middle, stranger(middle) as bad:
        await bad.greet()
        await linked(middle, "reader", "stranger", "writer")
        await bad.send(Control(channel_id("news"), late), Pong(1, 2**62))
        senseless = {"message.epoch makes no sense": 1, "frame that makes no sense": 1}
        await until(lambda: middle.drops == senseless)
        await bad.send(Control(channel_id("news"), late))
        await until(lambda: middle.drops["message.epoch makes no sense"] == 2)
        assert "stranger" in middle.peers


async def test_whatever_is_said_about_a_connection_harms_no_other() -> None:
    """Greetings, pings and answers with hostile values, before and after an honest greeting."""
    words = Words("about links", ("stranger", "reader", "server"), time.time_ns())
    async with undisturbed() as middle:
        strand = link_of(middle, "reader").strands[0]
        for number, said in enumerate(words.words((Hello, Ping, Pong), decoder, 120)):
            if isinstance(said, Hello) and said.node in ("reader", "writer"):
                continue  # a newer life of a client replaces it: no number says that it is another node
            async with stranger(middle) as bad:
                with suppress(ConnectionError):
                    if number % 2:
                        await bad.greet()
                    await bad.send(said, said)
                    await bad.frame()
        assert abs(strand.offset.value) < NANOSECONDS
        await linked(middle, "reader", "writer")


async def test_a_neighbour_with_a_strange_clock_cannot_make_honest_nodes_refuse_each_other() -> None:
    """A send time far ahead, seen from a clock that shows 1970, is more than a number on the wire may be."""
    async with server("b1") as near, server("b2", near.addresses[0]) as far, client(far, "reader") as reader:
        heard = await reader.channel("news", "multicast")
        async with heard.subscribe() as events, stranger(near) as bad:
            await linked(near, "b2")
            link = host_of(far).links["b1"]
            await bad.send(Hello("stranger", 1, Role.CLIENT, "stranger", (), False, True, clock=1))
            await bad.send(Control(channel_id(Directory.name), Asked(1, Lookup("news"))))
            await linked(near, "b2", "stranger")
            made, split = make_body([b"late"], [])
            sequence, event = 0, None
            while event is None:  # until the nodes know the channel and where its listeners are
                sequence += 1
                stamp = Stamp("stranger", 1, sequence, sequence, 1, bytes(8))
                await bad.send(Parcel(Header(channel_id("news"), stamp, 2**63 - 1, split), made))
                with suppress(NoAnswer):
                    event = await events.next(timeout=0.2)
            assert event.payload == b"late"
            assert host_of(far).links.get("b1") is link
            assert "malformed frame" not in far.drops


async def test_a_flood_of_malformed_frames_counts_as_one_and_starts_no_work_for_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flood = encode(Control(LINK_CHANNEL, body=b"\xc1")) * 20_000
    with caplog.at_level(logging.WARNING, "gossamer"):
        async with undisturbed() as middle, stranger(middle) as bad:
            before = len(asyncio.all_tasks())
            await bad.send(flood)
            await until(lambda: bool(middle.drops))
            assert len(asyncio.all_tasks()) <= before + 1
            await bad.ended()
            assert middle.drops == {"malformed frame": 1}
    assert len(caplog.records) == 1


async def test_nothing_is_taken_from_a_connection_after_nonsense() -> None:
    async with undisturbed() as middle, stranger(middle) as bad:
        await bad.greet()
        await linked(middle, "reader", "stranger", "writer")
        await bad.send(encode(Control(LINK_CHANNEL, body=b"\xc1")) + encode(parcel("news")))
        await bad.ended()
        assert middle.drops == {"malformed frame": 1}


async def test_frames_before_the_greeting_are_not_taken() -> None:
    async with undisturbed() as middle, stranger(middle) as early:
        await early.send(parcel("news"), Control(channel_id(Directory.name), Nonsense("?")))
        await early.greet()
        await linked(middle, "reader", "stranger", "writer")
        assert middle.drops == {"frame before the greeting": 2}


@pytest.mark.parametrize("body", [b"\xc1", b"\x91" * 10_000, make_body([b"a", b"b"], [])[0].whole])
async def test_a_body_that_does_not_fit_its_header_is_dropped_where_it_is_opened(body: bytes) -> None:
    async with undisturbed() as middle:
        heard = await middle.channel("letters", "multicast")
        async with heard.subscribe() as events, stranger(middle) as odd:
            await odd.greet("odd")
            await odd.send(parcel("letters", body), parcel("letters", sequence=2))
            assert await take(events, 1) == [b"hostile"]
            assert middle.drops == {"body makes no sense": 1}


async def test_a_greeting_split_at_every_byte_is_understood() -> None:
    async with undisturbed() as middle:
        for cut in range(1, len(HELLO)):
            async with stranger(middle) as slow:
                await slow.send(HELLO[:cut])
                await slow.frame()
                await slow.send(HELLO[cut:])
                await linked(middle, "reader", "stranger", "writer")
            await linked(middle, "reader", "writer")
        assert middle.drops == {}


async def test_frames_cut_off_at_every_byte_are_forgotten() -> None:
    async with undisturbed() as middle:
        for cut in range(len(HELLO)):
            async with stranger(middle) as gone:
                await gone.send(HELLO[:cut])
        async with stranger(middle) as last:
            await last.greet("last")
            await linked(middle, "last", "reader", "writer")
        await linked(middle, "reader", "writer")
        assert middle.drops == {}


async def test_claims_of_size_take_no_memory() -> None:
    async with undisturbed() as middle, AsyncExitStack() as crowd:
        strangers = [await crowd.enter_async_context(stranger(middle)) for _ in range(20)]
        with traced() as peak:
            for bad in strangers:
                await bad.send(prelude(PARCEL, 4096, 16 * 1024 * 1024))
            await answered(await crowd.enter_async_context(stranger(middle)))
        assert peak() < 12 * 1024 * 1024


async def test_a_flood_for_a_channel_that_nobody_knows_takes_little_memory() -> None:
    async with undisturbed() as middle, stranger(middle) as bad:
        await bad.greet()
        with traced() as peak:
            for _ in range(500):
                await bad.send(parcel("no such channel", bytes(60_000)))
            await answered(bad)
        assert peak() < 12 * 1024 * 1024


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """How much memory was taken at most, above what was there before."""
    tracemalloc.start()
    try:
        found: list[int] = []
        yield lambda: found[0]
        found.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


async def answered(polite: Stranger) -> None:
    """Until the other side has answered, and so has read all that came before."""
    await polite.send(Ping(7))
    while True:
        item = decode(await polite.frame())
        if isinstance(item, Control) and item.channel == LINK_CHANNEL:
            message = decode_message(item, decoder)
            if isinstance(message, Pong) and message.sent == 7:
                return


async def test_messages_about_unknown_channels_are_held_within_bounds() -> None:
    async with undisturbed() as middle, stranger(middle) as bad:
        await bad.greet()
        for number in range(500):
            await bad.send(parcel(f"channel-{number}"))
        await until(lambda: middle.drops.get("unknown channel", 0) == 500 - 64)


async def test_a_forged_answer_reaches_no_application() -> None:
    async with server() as middle, client(middle, "writer") as writer:
        channel = await writer.channel("news", "multicast")
        async with channel.answers() as answers, stranger(middle) as bad:
            await bad.greet()
            await linked(middle, "stranger", "writer")
            incarnation = host_of(writer).engine.incarnation
            await bad.send(_answer("server/writer", incarnation), _answer("server/writer", incarnation - 1))
            await until(lambda: len(writer.drops) == 2)
            assert writer.drops == {"forged receipt": 1, "answers an earlier life of this node": 1}
            assert answers.pending == 0


def _answer(target: str, incarnation: int) -> Parcel:
    body, split = make_body([b"trust me"], [])
    answers = Answer(Stamp(target, incarnation, 1, 1, 1, bytes(8)), 1)
    stamp = Stamp("server/stranger", 1, 0, 1, 1, bytes(8))
    return Parcel(Header(channel_id("news"), stamp, 1, split, None, answers), body)


async def test_many_strangers_at_once_leave_nothing_behind() -> None:
    async with undisturbed() as middle:

        async def come_and_go(number: int) -> None:
            async with stranger(middle) as bad:
                if number % 3 == 0:
                    await bad.send(b"\x00" * 100)
                elif number % 3 == 1:
                    await bad.send(HELLO[:7])
                await bad.frame()

        await asyncio.gather(*(come_and_go(number) for number in range(60)))
        await until(lambda: len(host_of(middle).neighbours._strands) == 2)
        assert middle.drops == {"malformed frame": 20}


async def test_a_greeting_repeated_changes_nothing() -> None:
    async with undisturbed() as middle, stranger(middle) as bad:
        await bad.greet("one")
        await bad.greet("two")
        await bad.greet("writer")
        await linked(middle, "one", "reader", "writer")
        await bad.send(Control(LINK_CHANNEL, body=b"\xc1"))
        await bad.ended()
        assert middle.peers == ["reader", "writer"]


async def test_limits_of_silence_hold_for_those_who_only_trickle() -> None:
    limits = Limits(heartbeat=0.02, answer=0.1)
    async with server(limits=limits) as middle, stranger(middle) as slow:
        await slow.send(HELLO[:5])
        await slow.ended()
        assert middle.peers == []
