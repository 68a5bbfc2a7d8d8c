"""multicast://239.x.y.z:port?interface=127.0.0.1&ttl=1: the members of one IP multicast group.

``listen`` and ``connect`` both join the group, and every member has a connection to every other. A member
sends everything from one unicast socket, so that the source of a datagram is where its member is reached,
whether it came through the group or not. ``connection.send`` reaches one member, ``connection.group.send``
all of them with one transmission.

Members find each other by beacons: one on joining, one straight back to a member not yet known, then one
each ``BEACON`` seconds. A member not heard for ``SILENCE`` beacons is lost, and met anew when it is heard
again. A member that said or was told goodbye is not met again unless it joins again.

``connect`` waits for the first other member; those heard later go through ``accept`` as well. What it
joined it leaves with its last connection. Only IPv4; without ``interface`` the system's route decides.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from urllib.parse import parse_qsl, urlsplit

from gossamer.core.errors import AddressInUse, BadAddress, CannotConnect, NoAnswer
from gossamer.transports.base import Accept, Connection, Transport, host_and_port
from gossamer.transports.datagram import (
    GOODBYE,
    MAX_REMOTES,
    Address,
    DatagramConnection,
    SharedSocket,
    attached,
    check_size,
    opened,
)
from gossamer.transports.tcp import reason

BEACON = 1.0
"""Seconds from one beacon to the next."""
SILENCE = 3.5
"""Beacons missed, in a row, by a member that is lost: three may get lost on the way."""
CONNECT = 2.0
"""Beacons that ``connect`` waits for the first other member."""

_MARK = b"\x01"
_ID_BYTES = 8


@dataclass(frozen=True)
class Place:
    """A group, and the interface by which it is joined."""

    group: str
    port: int
    interface: str
    ttl: int


class Member(DatagramConnection):
    """The connection to one other member of the group."""

    def __init__(self, membership: Membership, address: Address, id: bytes | None, now: float) -> None:
        super().__init__(membership, address, f"{address[0]}:{address[1]}")
        self.group = membership
        self.id = id
        self.heard = now


class Membership(SharedSocket):
    """This member: its unicast socket, and the other members it hears. It is the ``group`` of them all."""

    connections: dict[Address, Member]  # type: ignore[assignment]

    def __init__(self, place: Place, own: Address, accept: Accept, beacon: float) -> None:
        super().__init__(accept)
        self.first: asyncio.Future[Connection] = self._loop.create_future()
        self._group: Address = (place.group, place.port)
        self._own = own
        self._period = beacon
        self._id = os.urandom(_ID_BYTES)
        self._dismissed: dict[Address, bytes | None] = {}

    async def begin(self, ear: socket.socket) -> None:
        """Start to hear and to be heard."""
        try:
            self._ear, _ = await self._loop.create_datagram_endpoint(lambda: Ear(self), sock=ear)
        except BaseException:
            self._transport.abort()
            raise
        self._last_beat = self._loop.time()
        self._beat()

    def send(self, frame: bytes) -> None:
        """One transmission to all members."""
        check_size(frame)
        self.transmit_frame(frame, self._group)

    # hearing

    def datagram_received(self, data: bytes, address: Address) -> None:
        if address == self._own:
            return
        known = self.connections.get(address)
        if known is not None:
            known.heard = self._loop.time()
        if len(data) == 1 + _ID_BYTES and data.startswith(_MARK):
            self._beacon_heard(known, address, data[1:])
        else:
            if data == GOODBYE and known is not None:
                self._remember(known)
            super().datagram_received(data, address)

    def _beacon_heard(self, known: Member | None, address: Address, id: bytes) -> None:
        if known is not None and known.id is None:
            known.id = id
        elif known is not None and known.id != id:
            self.drop(known)
            known = None
        if known is None and id != self._id and self._dismissed.get(address) != id:
            self._dismissed.pop(address, None)
            self._meet(address, id)

    def stranger(self, address: Address) -> DatagramConnection | None:
        if address in self._dismissed:
            self.transmit(GOODBYE, address)
            return None
        return self._meet(address, None)

    def _meet(self, address: Address, id: bytes | None) -> DatagramConnection | None:
        if not self.accepting:
            return None
        met = self.meet(Member(self, address, id, self._loop.time()))
        if met is not None:
            if met.open:
                self.transmit(_MARK + self._id, address)
            if not self.first.done():
                self.first.set_result(met)
        return met

    # being heard, and noticing who is not

    def _beat(self) -> None:
        now = self._loop.time()
        self._notice_silence(now)
        if self._transport.is_closing():
            return
        for address in [self._group] if self.accepting else list(self.connections):
            self.transmit(_MARK + self._id, address)
        self._last_beat = now
        self._timer = self._loop.call_later(self._period, self._beat)

    def _notice_silence(self, now: float) -> None:
        limit = SILENCE * self._period
        # When this process itself stood still, what the others said meanwhile is still to be read.
        late = now - self._last_beat > limit / 2
        for member in list(self.connections.values()):
            if late:
                member.heard = now
            elif now - member.heard > limit:
                self.drop(member, NoAnswer(f"beacons from {member.remote}", limit))

    # leaving

    def dismiss(self, connection: DatagramConnection) -> None:
        self._remember(connection)
        super().dismiss(connection)

    def _remember(self, connection: DatagramConnection) -> None:
        if connection.open and isinstance(connection, Member):
            self._dismissed[connection.address] = connection.id
            if len(self._dismissed) > MAX_REMOTES:
                del self._dismissed[next(iter(self._dismissed))]

    def finish(self) -> None:
        self._timer.cancel()
        self.transmit(GOODBYE, self._group)
        self._ear.close()
        super().finish()

    def stay_for_connections_only(self) -> None:
        self.lasting = False
        self.finish_if_unused()

    async def withdraw(self) -> None:
        """Meet nobody new, and go with the last connection."""
        self.accepting = False
        self.stay_for_connections_only()
        await self.settled()


class Ear(asyncio.DatagramProtocol):
    """The socket that joined the group; what it hears, the membership hears."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    def datagram_received(self, data: bytes, address: Address) -> None:
        self._membership.datagram_received(data, address)


class MulticastListener:
    """Closed, its member is no longer announced to the group, but goes on beating for those it knows."""

    def __init__(self, address: str, membership: Membership) -> None:
        self.address = address
        self._membership = membership

    async def close(self) -> None:
        await self._membership.withdraw()


class MulticastTransport(Transport):
    """beacon: seconds between beacons, the same for all members of a group."""

    scheme = "multicast"

    def __init__(self, beacon: float = BEACON) -> None:
        self._beacon = beacon

    async def listen(self, address: str, accept: Accept) -> MulticastListener:
        return MulticastListener(address, await self._join(address, accept))

    async def connect(self, address: str, accept: Accept) -> Connection:
        membership = await self._join(address, accept)
        seconds = CONNECT * self._beacon
        try:
            async with asyncio.timeout(seconds):
                connection = await asyncio.shield(membership.first)
        except BaseException as error:
            await membership.withdraw()
            if not isinstance(error, TimeoutError):
                raise
            raise CannotConnect(address, f"no other member was heard within {seconds:g} s") from None
        membership.stay_for_connections_only()
        return connection

    async def _join(self, address: str, accept: Accept) -> Membership:
        place = parse(address)
        try:
            with opened(socket.AF_INET) as ear, opened(socket.AF_INET) as mouth:
                join(ear, place)
                speak(mouth, place)
                membership = Membership(place, mouth.getsockname(), accept, self._beacon)
                await attached(membership, mouth)
                await membership.begin(ear)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(address) from None
            raise BadAddress(address, reason(error)) from None
        return membership


def parse(address: str) -> Place:
    """The group an address names; raises BadAddress."""
    host, port = host_and_port(address)
    options = dict(parse_qsl(urlsplit(address).query, keep_blank_values=True))
    interface, ttl = options.pop("interface", ""), options.pop("ttl", "1")
    for name in options:
        raise BadAddress(address, f"unknown option {name!r}; known: interface, ttl")
    if port == 0:
        raise BadAddress(address, "a group needs a port that all its members know")
    if not (ttl.isdecimal() and int(ttl) <= 255):
        raise BadAddress(address, f"ttl is {ttl!r}, expected 0 to 255 hops")
    try:
        if not IPv4Address(host).is_multicast:
            raise BadAddress(address, "expected a group from 224.0.0.0 to 239.255.255.255")
        return Place(host, port, str(IPv4Address(interface)) if interface else route(host, port), int(ttl))
    except AddressValueError as error:
        raise BadAddress(address, str(error)) from None
    except OSError as error:
        raise BadAddress(address, f"{reason(error)}; name an interface with ?interface=") from None


def route(group: str, port: int) -> str:
    """The interface by which the system would send to the group; to ask sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((group, port))
        return str(probe.getsockname()[0])


def join(ear: socket.socket, place: Place) -> None:
    """Hear what is sent to the group, beside other members on this machine."""
    ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    ear.bind((place.group, place.port))
    both = socket.inet_aton(place.group) + socket.inet_aton(place.interface)
    ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, both)


def speak(mouth: socket.socket, place: Place) -> None:
    """Send to the group and to members from one address."""
    mouth.bind((place.interface, 0))
    mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(place.interface))
    mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, place.ttl)
    mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
