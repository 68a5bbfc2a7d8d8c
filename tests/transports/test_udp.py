"""Goodbyes, limits and refusals of udp."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gossamer.core.errors import BadAddress
from gossamer.testing.party import Party, frame
from gossamer.transports.base import host_and_port
from gossamer.transports.datagram import BEST_DATAGRAM, GOODBYE, LARGEST
from gossamer.transports.udp import UdpListener, UdpTransport


@pytest.fixture
async def party():
    party = Party(UdpTransport(), "udp://127.0.0.1:0")
    await party.listen()
    yield party
    async with asyncio.timeout(10):
        await party.end()


@pytest.fixture
def raw():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        yield sock


async def heard(raw: socket.socket) -> bytes:
    return await asyncio.get_running_loop().sock_recv(raw, 70_000)


async def test_a_connection_says_what_it_carries(party: Party):
    near, far = await party.pair()
    for each in (near.connection, far.connection):
        assert (each.reliable, each.max_frame, each.best_frame) == (False, LARGEST, BEST_DATAGRAM)
        assert each.group is None


async def test_the_first_datagram_makes_a_connection_and_goodbye_ends_it(party: Party, raw: socket.socket):
    raw.sendto(b"any bytes", host_and_port(party.server.address))
    await party.accepts(1)
    assert await party.accepted[0].has(1) == [b"any bytes"]
    raw.sendto(GOODBYE, host_and_port(party.server.address))
    await party.accepted[0].is_lost()
    assert party.accepted[0].losses == [None]


async def test_closing_says_goodbye_and_says_it_again_to_a_remote_that_did_not_hear(
    party: Party, raw: socket.socket
):
    there = host_and_port(party.server.address)
    raw.sendto(frame(1), there)
    await party.accepts(1)
    await party.accepted[0].connection.close()
    assert await heard(raw) == GOODBYE
    raw.sendto(frame(2), there)
    assert await heard(raw) == GOODBYE
    assert len(party.accepted) == 1


async def test_after_a_while_a_closed_remote_may_come_back(
    party: Party, raw: socket.socket, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("gossamer.transports.udp.QUIET", 0.0)
    raw.sendto(frame(1), host_and_port(party.server.address))
    await party.accepts(1)
    await party.accepted[0].connection.close()
    raw.sendto(frame(2), host_and_port(party.server.address))
    await party.accepts(2)
    assert await party.accepted[1].has(1) == [frame(2)]


async def test_goodbyes_and_empty_datagrams_of_strangers_make_no_connection(party: Party, raw: socket.socket):
    for piece in (GOODBYE, b"", GOODBYE, frame(1)):
        raw.sendto(piece, host_and_port(party.server.address))
    await party.accepts(1)
    assert await party.accepted[0].has(1) == [frame(1)]
    assert len(party.accepted) == 1


async def test_over_the_limit_strangers_are_ignored_and_counted(
    party: Party, raw: socket.socket, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("gossamer.transports.datagram.MAX_REMOTES", 2)
    (near, far), _ = await party.pair(), await party.pair()
    raw.sendto(frame(1), host_and_port(party.server.address))
    near.connection.send(frame(2))
    assert await far.has(1) == [frame(2)]
    assert isinstance(party.server, UdpListener)
    assert (party.server.ignored, len(party.accepted)) == (1, 2)
    await far.connection.close()
    raw.sendto(frame(3), host_and_port(party.server.address))
    await party.accepts(3)


async def test_a_machine_that_says_nobody_listens_ends_the_connection(party: Party, raw: socket.socket):
    host, port = raw.getsockname()
    raw.close()
    connection = await party.transport.connect(f"udp://{host}:{port}", party.greet)
    sink = party.everyone[-1]
    connection.send(frame(1))
    await sink.is_lost()
    assert isinstance(sink.losses[0], ConnectionRefusedError)


async def test_datagrams_of_others_do_not_reach_a_connected_socket(party: Party, raw: socket.socket):
    near, far = await party.pair()
    host, port = far.connection.remote.split(":")
    raw.sendto(frame(1), (host, int(port)))
    raw.sendto(GOODBYE, (host, int(port)))
    far.connection.send(frame(2))
    assert await near.has(1) == [frame(2)]


async def test_port_0_cannot_be_connected_to(party: Party):
    with pytest.raises(BadAddress):
        await party.transport.connect("udp://127.0.0.1:0", party.greet)
