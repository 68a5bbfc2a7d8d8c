"""Beacons, goodbyes and one transmission for all, on the loopback interface."""

from __future__ import annotations

import asyncio
import socket
from contextlib import contextmanager

import pytest

from gossamer.core.errors import CannotConnect, NoAnswer
from gossamer.testing.party import Party, Recorder, frame
from gossamer.transports.base import host_and_port
from gossamer.transports.datagram import GOODBYE
from gossamer.transports.multicast import MulticastTransport, join, parse

BEACON = 0.05
SLOW = 60.0


def free_group() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return f"multicast://239.255.72.1:{sock.getsockname()[1]}?interface=127.0.0.1"


@contextmanager
def stranger():
    """A socket that can speak to the group as a member would."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        sock.setblocking(False)
        yield sock


@pytest.fixture
async def party(request: pytest.FixtureRequest):
    """One listening member. Beacons are so rare that whoever is met was met without waiting for one."""
    party = Party(MulticastTransport(beacon=getattr(request, "param", SLOW)), free_group())
    await party.listen()
    yield party
    async with asyncio.timeout(10):
        await party.end()


often = pytest.mark.parametrize("party", [BEACON], indirect=True)


def beacon(id: bytes) -> bytes:
    return b"\x01" + id.ljust(8, b".")


async def heard(sock: socket.socket) -> bytes:
    return await asyncio.get_running_loop().sock_recv(sock, 70_000)


async def mesh(party: Party, count: int) -> list[list[Recorder]]:
    """So many members that joined one after another, each as the sinks it has."""
    members: list[list[Recorder]] = []
    complete = asyncio.Event()

    def joins(mine: list[Recorder]):
        def accept(connection):
            mine.append(party.greet(connection))
            if all(len(each) == count - 1 for each in members):
                complete.set()
            return mine[-1]

        return accept

    for number in range(count):
        members.append([])
        if number == 0:
            party.server = await party.transport.listen(party.asked, joins(members[0]))
        else:
            await party.transport.connect(party.asked, joins(members[number]))
    await complete.wait()
    return members


async def test_every_member_meets_every_other_at_once():
    party = Party(MulticastTransport(beacon=SLOW), free_group())
    members = await mesh(party, 5)
    remotes = [{each.connection.remote for each in member} for member in members]
    assert all(len(each) == 4 for each in remotes)
    assert len(set.union(*remotes)) == 5
    await party.end()


async def test_one_transmission_reaches_all_others_once_and_not_oneself():
    party = Party(MulticastTransport(beacon=SLOW), free_group())
    members = await mesh(party, 4)
    for number, member in enumerate(members):
        group = member[0].connection.group
        assert group is not None
        assert all(each.connection.group is group for each in member)
        group.send(frame(number, 65_000))
    everyone = [each for member in members for each in member]
    for each in everyone:
        await each.has(1)
    for number, member in enumerate(members):
        got = sorted(data for each in member for data in each.frames)
        assert got == sorted(frame(other, 65_000) for other in range(4) if other != number)
    await party.end()


async def test_a_frame_to_one_member_reaches_no_other():
    party = Party(MulticastTransport(beacon=SLOW), free_group())
    members = await mesh(party, 3)
    remotes = [{each.connection.remote for each in member} for member in members]
    own = [(remotes[one] & remotes[two]).pop() for one, two in ((1, 2), (0, 2), (0, 1))]
    chosen = members[0][0].connection
    chosen.send(frame(1))
    chosen.group.send(frame(2))
    target = own.index(chosen.remote)
    for number in (1, 2):
        (sink,) = (each for each in members[number] if each.connection.remote == own[0])
        expected = [frame(1), frame(2)] if number == target else [frame(2)]
        assert sorted(await sink.has(len(expected))) == expected
    await party.end()


async def test_the_group_refuses_a_frame_that_is_too_large(party: Party):
    near, _ = await party.pair()
    assert near.connection.group is not None
    with pytest.raises(ValueError):
        near.connection.group.send(bytes(near.connection.max_frame + 1))


async def test_a_beacon_to_the_group_is_answered_to_its_sender_only(party: Party):
    with stranger() as sock:
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        met = await party.accepts(1)
        answer = await heard(sock)
        assert (len(answer), answer[:1]) == (9, b"\x01")
        assert met.connection.remote == f"127.0.0.1:{sock.getsockname()[1]}"
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        sock.sendto(frame(1), host_and_port(party.asked))
        assert await met.has(1) == [frame(1)]
        with pytest.raises(BlockingIOError):
            sock.recv(100)


async def test_a_frame_of_an_unknown_member_makes_its_connection(party: Party):
    with stranger() as sock:
        sock.sendto(frame(1), host_and_port(party.asked))
        met = await party.accepts(1)
        assert await met.has(1) == [frame(1)]
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        sock.sendto(frame(2), host_and_port(party.asked))
        assert await met.has(2) == [frame(1), frame(2)]
        assert len(party.accepted) == 1


@often
async def test_a_silent_member_is_lost_and_met_anew_when_it_speaks(party: Party):
    with stranger() as sock:
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        met = await party.accepts(1)
        await met.is_lost()
        assert isinstance(met.losses[0], NoAnswer)
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        await party.accepts(2)


@often
async def test_beacons_keep_members_that_have_nothing_to_say(party: Party):
    near, far = await party.pair()
    with stranger() as sock:
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        mute = await party.accepts(2)
        await mute.is_lost()
    assert (near.losses, far.losses) == ([], [])


@often
async def test_a_closed_listener_still_beats_for_the_members_it_knows(party: Party):
    near, far = await party.pair()
    with stranger() as sock:
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        mute = await party.accepts(2)
        await party.server.close()
        await mute.is_lost()
        # The other still accepts; when it loses a second mute member, it would have lost the listener too.
        known = len(party.everyone)
        sock.sendto(beacon(b"two"), host_and_port(party.asked))
        near.connection.send(frame(1))
        assert await far.has(1) == [frame(1)]
        far.connection.send(frame(2))
        assert await near.has(1) == [frame(2)]
        (second,) = party.everyone[known:]
        await second.is_lost()
    assert near.losses == []


@often
async def test_who_leaves_says_goodbye_to_the_group_for_those_it_does_not_hear(party: Party):
    with stranger() as sock:
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        await (await party.accepts(1)).is_lost()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.setblocking(False)
        join(ear, parse(party.asked))
        await party.server.close()
        while await heard(ear) != GOODBYE:
            pass


async def test_goodbye_to_the_group_ends_the_connection(party: Party):
    with stranger() as sock:
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        met = await party.accepts(1)
        sock.sendto(GOODBYE, host_and_port(party.asked))
        await met.is_lost()
        assert met.losses == [None]


async def test_a_member_once_closed_is_not_met_again_until_it_joins_again(party: Party):
    with stranger() as sock, stranger() as other:
        there = host_and_port(party.asked)
        sock.sendto(beacon(b"one"), there)
        met = await party.accepts(1)
        assert (await heard(sock)).startswith(b"\x01")
        await met.connection.close()
        assert await heard(sock) == GOODBYE
        sock.sendto(frame(1), there)
        assert await heard(sock) == GOODBYE
        sock.sendto(beacon(b"one"), there)
        other.sendto(beacon(b"two"), there)
        await party.accepts(2)
        assert party.accepted[1].connection.remote == f"127.0.0.1:{other.getsockname()[1]}"
        sock.sendto(beacon(b"again"), there)
        await party.accepts(3)


async def test_another_member_at_the_same_address_is_another_connection(party: Party):
    with stranger() as sock:
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        first = await party.accepts(1)
        sock.sendto(beacon(b"two"), host_and_port(party.asked))
        await party.accepts(2)
        await first.is_lost()


async def test_who_finds_nobody_leaves_the_group():
    transport, address = MulticastTransport(beacon=0.01), free_group()
    party = Party(transport, address)
    with pytest.raises(CannotConnect):
        await transport.connect(address, party.greet)
    await party.listen()
    with stranger() as sock:
        sock.sendto(beacon(b"one"), host_and_port(address))
        await party.accepts(1)
    assert len(party.everyone) == 1
    await party.end()


async def test_over_the_limit_members_are_ignored(party: Party, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gossamer.transports.datagram.MAX_REMOTES", 1)
    near, far = await party.pair()
    with stranger() as sock:
        sock.sendto(beacon(b"one"), host_and_port(party.asked))
        near.connection.send(frame(1))
        assert await far.has(1) == [frame(1)]
    assert len(party.accepted) == 1


async def test_a_process_that_stood_still_does_not_blame_the_others(party: Party):
    _, far = await party.pair()
    membership = far.connection.group
    membership._notice_silence(membership._last_beat + 100 * SLOW)
    assert far.losses == []
    assert far.connection.open
