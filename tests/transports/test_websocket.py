"""Origins, text, and strangers who speak something else."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from gossamer.core.errors import BadAddress, CannotConnect, ProtocolError
from gossamer.core.wire import MAX_FRAME
from gossamer.testing.party import Party, frame
from gossamer.transports.base import host_and_port
from gossamer.transports.websocket import WebsocketTransport

PAGE = "https://example.org"


@pytest.fixture
async def party(request: pytest.FixtureRequest):
    party = Party(WebsocketTransport(), f"ws://127.0.0.1:0{getattr(request, 'param', '')}")
    await party.listen()
    yield party
    async with asyncio.timeout(10):
        await party.end()


def listening(query: str):
    return pytest.mark.parametrize("party", [query], indirect=True)


async def test_a_page_is_refused(party: Party):
    with pytest.raises(InvalidStatus) as refused:
        await connect(party.server.address, origin=PAGE, proxy=None)
    assert refused.value.response.status_code == 403
    assert party.accepted == []


@listening(f"?origin={PAGE}&origin=http://localhost:8000")
@pytest.mark.parametrize("origin", [PAGE, "http://localhost:8000", None])
async def test_a_page_that_was_named_is_accepted_and_so_are_programs(party: Party, origin: str | None):
    async with connect(party.server.address, origin=origin, proxy=None) as socket:
        await socket.send(frame(1))
        assert await (await party.accepts(1)).has(1) == [frame(1)]


@listening(f"?origin={PAGE}")
@pytest.mark.parametrize("origin", ["https://example.org.evil", "http://example.org", "null"])
async def test_a_page_that_was_not_named_is_refused_beside_one_that_was(party: Party, origin: str):
    with pytest.raises(InvalidStatus):
        await connect(party.server.address, origin=origin, proxy=None)


@pytest.mark.parametrize("query", ["?colour=red", "?origin="])
async def test_an_option_nobody_knows_is_a_bad_address(query: str):
    with pytest.raises(BadAddress):
        await WebsocketTransport().listen(f"ws://127.0.0.1:0{query}", Party.accept)


async def test_text_closes_the_connection(party: Party):
    async with connect(party.server.address, proxy=None) as socket:
        await socket.send(frame(1))
        far = await party.accepts(1)
        await far.has(1)
        await socket.send("text")
        await socket.send(frame(2))
        with pytest.raises(ConnectionClosedError) as closed:
            await socket.recv()
        assert closed.value.rcvd.code == 1003
    await far.is_lost()
    assert isinstance(far.losses[0], ProtocolError)
    assert far.frames == [frame(1)]


async def test_a_message_over_the_largest_frame_closes_the_connection(party: Party):
    socket = await connect(party.server.address, proxy=None, compression=None)
    far = await party.accepts(1)
    with suppress(ConnectionClosedError):
        await socket.send(bytes(MAX_FRAME + 1))
    await far.is_lost()
    assert far.losses[0] is not None
    assert far.frames == []
    with pytest.raises(ConnectionClosedError):
        await socket.recv()


async def test_strangers_leave_no_line_in_the_log(
    party: Party, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
):
    caplog.set_level(logging.INFO)
    get = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    for piece in (get, b"\xff" * 3000, b"POST / HTTP/1.1\r\n\r\n", b"GET / HT", b""):
        reader, writer = await asyncio.open_connection(*host_and_port(party.server.address))
        writer.write(piece)
        writer.write_eof()
        await reader.read()
        writer.close()
    near, far = await party.pair()
    near.connection.send(frame(1))
    assert await far.has(1) == [frame(1)]
    assert caplog.records == []
    assert capsys.readouterr() == ("", "")


async def test_nonsense_within_a_connection_ends_it_quietly(party: Party, caplog: pytest.LogCaptureFixture):
    async with connect(party.server.address, proxy=None) as socket:
        far = await party.accepts(1)
        socket.transport.write(b"\xff" * 100)
        await far.is_lost()
    assert far.losses[0] is not None
    assert caplog.records == []


async def answering(answer: bytes) -> tuple[asyncio.Server, str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 404 Not Found\r\n\r\n", b"what?\r\n\r\n", b""])
async def test_a_server_of_another_kind_cannot_be_connected_to(answer: bytes):
    server, address = await answering(answer)
    async with asyncio.timeout(10), server:
        with pytest.raises(CannotConnect):
            await WebsocketTransport().connect(address, Party.greet)


async def test_a_server_cannot_send_us_elsewhere(party: Party):
    moved = f"HTTP/1.1 302 Found\r\nLocation: {party.server.address}/\r\n\r\n"
    server, address = await answering(moved.encode())
    async with server:
        with pytest.raises(CannotConnect):
            await party.transport.connect(address, party.greet)
    assert party.accepted == []


async def test_an_accept_that_fails_is_reported_and_ends_the_connection(party: Party):
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))

    def fail(connection) -> None:
        party.everyone.clear()
        party.accepted.clear()
        raise RuntimeError("on purpose")

    party.on_accept = fail
    socket = await connect(party.server.address, proxy=None)
    with pytest.raises(ConnectionClosedError):
        await socket.recv()
    assert [str(each["exception"]) for each in problems] == ["on purpose"]
