"""Bytes from anybody: the stream is cut into frames wherever it was split, and nonsense ends only itself."""

from __future__ import annotations

import asyncio
import struct
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.core.body import Body
from gossamer.core.errors import ProtocolError
from gossamer.core.parcel import Parcel
from gossamer.core.wire import MAX_BODY, MAX_HEADER, Framer, decode, encode
from gossamer.testing.fake import parcel
from gossamer.testing.party import Party, frame
from gossamer.transports.base import host_and_port
from gossamer.transports.stream import RECEIVE_BYTES, Intake
from gossamer.transports.tcp import TcpTransport

FRAMES = [frame(1), frame(2, 40), frame(3), frame(4, 23)]
STREAM = b"".join(FRAMES)


def prelude(magic: bytes = b"gs", version: int = 1, kind: int = 1, header: int = 1, body: int = 1) -> bytes:
    return struct.pack(">2sBBHI", magic, version, kind, header, body)


HOSTILE = {
    "magic": prelude(magic=b"sg"),
    "version": prelude(version=2),
    "kind": prelude(kind=9),
    "no header": prelude(header=0),
    "long header": prelude(header=MAX_HEADER + 1),
    "long body": prelude(body=MAX_BODY + 1),
    "long control": prelude(kind=3, body=MAX_BODY),
}


@pytest.fixture
async def party():
    party = Party(TcpTransport(), "tcp://127.0.0.1:0")
    await party.listen()
    yield party
    async with asyncio.timeout(10):
        await party.end()


@pytest.mark.parametrize("first", range(len(STREAM) + 1))
def test_frames_come_out_whole_at_every_split(first: int):
    for second in range(first, len(STREAM) + 1):
        framer = Framer()
        pieces = STREAM[:first], STREAM[first:second], STREAM[second:]
        assert [each for piece in pieces for each in framer.feed(piece)] == FRAMES


@given(st.lists(st.integers(1, 30)))
def test_frames_come_out_whole_however_the_stream_is_split(sizes: list[int]):
    framer, found, position = Framer(), [], 0
    for size in [*sizes, len(STREAM)]:
        found += framer.feed(STREAM[position : position + size])
        position += size
    assert found == FRAMES


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_bad_prelude_is_refused_at_every_split(hostile: bytes):
    for split in range(len(hostile) + 1):
        framer = Framer()
        assert framer.feed(STREAM) == FRAMES
        with pytest.raises(ProtocolError):
            framer.feed(hostile[:split]), framer.feed(hostile[split:])


async def test_a_stream_written_byte_by_byte_gives_whole_frames(party: Party):
    _, writer = await asyncio.open_connection(*host_and_port(party.server.address))
    for position in range(len(STREAM)):
        writer.write(STREAM[position : position + 1])
        await writer.drain()
    writer.close()
    assert await (await party.accepts(1)).has(len(FRAMES)) == FRAMES
    await party.accepted[0].is_lost()


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
async def test_nonsense_ends_its_own_connection_with_a_protocol_error(party: Party, hostile: bytes):
    near, far = await party.pair()
    _, writer = await asyncio.open_connection(*host_and_port(party.server.address))
    writer.write(frame(1))
    stranger = await party.accepts(2)
    await stranger.has(1)
    writer.write(hostile + frame(2))
    await stranger.is_lost()
    assert isinstance(stranger.losses[0], ProtocolError)
    assert stranger.frames == [frame(1)]
    writer.close()
    near.connection.send(frame(5))
    assert await far.has(1) == [frame(5)]


async def test_closing_gives_up_on_an_end_that_never_reads(party: Party, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gossamer.transports.stream.PATIENCE", 0.05)
    near, far = await party.pair()
    far.connection.pause()
    for number in range(160):
        near.connection.send(frame(number, 256 * 1024))
    await near.connection.close()
    assert near.losses == [None]


@given(st.lists(st.integers(20, 300_000), min_size=1, max_size=8), st.integers(1, 200_000))
@settings(max_examples=30, deadline=None)
def test_frames_are_cut_out_of_whatever_pieces_a_stream_comes_in(sizes: list[int], step: int) -> None:
    sent = [frame(number, size) for number, size in enumerate(sizes)]
    stream, intake, came = b"".join(sent), Intake(), []
    while stream:
        room = intake.room
        assert room, "there is always room to read"
        count = min(len(room), step, len(stream))
        room[:count], stream = stream[:count], stream[count:]
        came += map(bytes, intake.filled(count))
        intake.make_room()
    assert came == sent
    assert intake.error is None


@given(
    st.lists(st.tuples(st.integers(20, 300_000), st.booleans()), min_size=1, max_size=12),
    st.integers(1000, 200_000),
    st.integers(1, 4),
)
@settings(max_examples=30, deadline=None)
def test_what_somebody_keeps_stays_what_it_was_whatever_is_read_later(
    sizes: list[tuple[int, bool]], step: int, window: int
) -> None:
    sent = [
        encode(parcel("s", number + 1, payloads=[b"%d" % number * size]))
        for number, (size, _) in enumerate(sizes)
    ]
    stream, intake = b"".join(sent), Intake()
    came, kept = 0, dict[int, Body]()
    while stream:
        room = intake.room
        count = min(len(room), step, len(stream))
        room[:count], stream = stream[:count], stream[count:]
        for each in intake.filled(count):
            body = cast(Parcel, decode(each))._body
            if sizes[came][1]:
                body.own()
                kept[came] = body
            came += 1
        intake.make_room()
        for number, body in kept.items():
            assert sent[number].endswith(bytes(body.view))
        for number in [each for each in kept if each < came - window]:
            del kept[number]
    assert came == len(sent)


def test_a_body_that_fills_its_buffer_is_not_copied_and_the_buffer_is_read_into_again_once_it_is_free() -> (
    None
):
    large = encode(parcel("s", 1, payloads=[b"x" * (RECEIVE_BYTES - 1000)]))
    intake, buffers = Intake(), []

    def read() -> Body:
        stream = large
        while True:
            room = intake.room
            count = min(len(room), len(stream))
            room[:count], stream = stream[:count], stream[count:]
            frames = intake.filled(count)
            body = cast(Parcel, decode(frames[0]))._body if frames else None
            if body is not None:
                body.own()
                (view,) = body.pieces
                assert isinstance(view, memoryview)
                buffers.append(id(view.obj))
            del frames, room
            intake.make_room()
            if body is not None:
                return body

    first, second = read(), read()
    assert len(set(buffers)) == 2, "both are kept"
    del first
    third = read()
    assert buffers[2] not in buffers[1:2]
    fourth = read()
    assert buffers[0] in buffers[2:], "the first was free"
    assert bytes(second.view) == bytes(third.view) == bytes(fourth.view)


def test_good_frames_before_a_broken_place_are_handed_out() -> None:
    good, intake = frame(1), Intake()
    both = good + b"nonsense that is long enough"
    intake.room[: len(both)] = both
    assert intake.filled(len(both)) == [good]
    assert intake.error is not None
