"""Shared memory between processes: what is left of one that died, and what one that lies can do."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile

import pytest

from gossamer.core.errors import BadAddress, ProtocolError
from gossamer.testing.party import Party, frame
from gossamer.transports import ring
from gossamer.transports.memory import GREETING, MemoryTransport

OTHER = """
import asyncio, sys
from gossamer.testing.party import Party, frame
from gossamer.transports.memory import MemoryTransport

async def main():
    party = Party(MemoryTransport(), sys.argv[1])
    if sys.argv[2] == "listen":
        await party.listen()
    else:
        near = await party.transport.connect(sys.argv[1], party.greet)
        near.send(frame(1))
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def somewhere() -> str:
    return f"memory://{tempfile.mkdtemp(prefix='gossamer-')}/socket"


async def other(address: str, what: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OTHER, address, what, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def killed(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def test_the_death_of_who_connected_is_noticed_and_what_it_had_sent_arrives() -> None:
    party = Party(MemoryTransport(), somewhere())
    await party.listen()
    process = await other(party.server.address, "connect")
    far = await party.accepts(1)
    assert await far.has(1) == [frame(1)]
    await killed(process)
    await far.is_lost()
    assert isinstance(far.losses[0], ConnectionResetError)
    await party.end()


async def test_the_death_of_who_listened_is_noticed_and_its_address_can_be_taken() -> None:
    address = somewhere()
    process = await other(address, "listen")
    party = Party(MemoryTransport(), address)
    near = await party.transport.connect(address, party.greet)
    await killed(process)
    near.send(frame(1))
    await near._gone  # type: ignore[attr-defined]
    await party.listen()
    near, far = await party.pair()
    near.connection.send(frame(2))
    assert await far.has(1) == [frame(2)]
    await party.end()


@pytest.mark.parametrize("lie", [ring.RING + 1, 2**63])
async def test_who_says_that_more_was_written_than_can_be_is_left(lie: int) -> None:
    party = Party(MemoryTransport(), somewhere())
    await party.listen()
    near, far = await party.pair()
    near.connection._memory._words[near.connection._memory._out_written] = lie  # type: ignore[attr-defined]
    near.connection._say(b"d")  # type: ignore[attr-defined]
    await far.is_lost()
    assert isinstance(far.losses[0], ProtocolError)
    await party.end()


async def test_who_says_that_it_read_what_was_never_written_is_left() -> None:
    party = Party(MemoryTransport(), somewhere())
    await party.listen()
    near, far = await party.pair()
    memory = near.connection._memory  # type: ignore[attr-defined]
    memory.taken(5)
    far.connection.send(frame(1))
    await far.is_lost()
    assert isinstance(far.losses[0], ProtocolError)
    await party.end()


@pytest.mark.parametrize("size", [0, 4096, ring.SIZE])
async def test_memory_that_could_be_taken_away_is_refused(size: int) -> None:
    party = Party(MemoryTransport(), somewhere())
    await party.listen()
    descriptor = os.memfd_create("other", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(party.server.address.removeprefix("memory://"))
        socket.send_fds(sock, [GREETING], [descriptor])
        sock.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(sock, 1) == b""
    os.close(descriptor)
    assert party.accepted == []
    await party.end()


async def test_a_folder_that_is_not_there_is_a_bad_address() -> None:
    party = Party(MemoryTransport(), somewhere() + "/not/there")
    with pytest.raises(BadAddress, match="no such file"):
        await party.listen()
