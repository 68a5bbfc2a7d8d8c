"""IP multicast groups that packets of announcements are sent to and heard from; nobody is met."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv4Address
from urllib.parse import urlsplit

from gossamer.core.errors import AddressInUse, BadAddress
from gossamer.transports.datagram import BEST_DATAGRAM, MAX_DATAGRAM, opened
from gossamer.transports.multicast import Place, join, parse, speak
from gossamer.transports.tcp import reason

SCHEME = "multicast://"
LINUX = sys.platform == "linux"
IP_MTU, IP_MTU_DISCOVER, IP_PMTUDISC_DO = 14, 10, 2
"""Of Linux; Python names them only since 3.13."""
OVERHEAD = 28
"""Bytes of the headers of IP and UDP."""
AT_ONCE = 64
"""Packets read from one group before others have their turn."""


class Groups:
    """Sends to groups and hears those that are joined. ``drops`` counts what the system did not take."""

    def __init__(self, hears: Callable[[bytes], None]) -> None:
        self.drops: Counter[str] = Counter()
        self._hears = hears
        self._loop = asyncio.get_running_loop()
        self._places: dict[str, Place] = {}
        self._mouths: dict[tuple[str, int], socket.socket] = {}
        self._ears: dict[str, socket.socket] = {}

    def check(self, address: str) -> None:
        """Raises BadAddress if there can be no such group."""
        self._place(address)

    def send(self, address: str, data: bytes) -> None:
        """One transmission to whoever has joined; a system that has no room loses it."""
        place = self._place(address)
        mouth = self._mouths.get((place.interface, place.ttl)) or self._mouth(address, place)
        try:
            mouth.sendto(data, (place.group, place.port))
        except OSError as error:
            self.drops[f"not sent: {errno.errorcode.get(error.errno or 0, 'unknown')}"] += 1

    def join(self, address: str) -> None:
        """Hear a group from now on; raises BadAddress or AddressInUse."""
        if address in self._ears:
            return
        place = self._place(address)
        try:
            with opened(socket.AF_INET) as ear:
                join(ear, place)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(address) from None
            raise BadAddress(address, reason(error)) from None
        self._ears[address] = ear
        self._loop.add_reader(ear.fileno(), self._read, ear)

    def leave(self, address: str) -> None:
        """Hear it no longer."""
        ear = self._ears.pop(address, None)
        if ear is not None:
            self._loop.remove_reader(ear.fileno())
            ear.close()

    def close(self) -> None:
        for address in list(self._ears):
            self.leave(address)
        for mouth in self._mouths.values():
            mouth.close()
        self._mouths.clear()

    def _read(self, ear: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                data = ear.recv(MAX_DATAGRAM)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # the group was left meanwhile
                return
            self._hears(data)

    def _place(self, address: str) -> Place:
        place = self._places.get(address)
        if place is None:
            place = self._places[address] = parse(address)
        return place

    def _mouth(self, address: str, place: Place) -> socket.socket:
        try:
            with opened(socket.AF_INET) as mouth:
                speak(mouth, place)
                if LINUX:  # a packet that is too long is lost, and not cut on the way
                    mouth.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        except OSError as error:
            raise BadAddress(address, reason(error)) from None
        self._mouths[place.interface, place.ttl] = mouth
        return mouth


def path_mtu(address: str) -> int:
    """Bytes that a packet to a group may have: what the first network takes, and no more than most take.

    Beyond the first network nobody would tell: routers do not answer datagrams that go to a group.
    """
    place = parse(address)
    if not LINUX:
        return BEST_DATAGRAM
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            speak(probe, place)
            probe.connect((place.group, place.port))
            return min(BEST_DATAGRAM, probe.getsockopt(socket.IPPROTO_IP, IP_MTU) - OVERHEAD)
        except OSError:
            return BEST_DATAGRAM


def beside(meeting: str, count: int, first: int) -> list[str]:
    """So many addresses that follow a meeting place: groups after its group, or channels named after it."""
    if not meeting.startswith(SCHEME):
        return [f"{meeting}/{first + number}" for number in range(count)]
    parts = urlsplit(meeting)
    base = IPv4Address(parse(meeting).group)
    last = base + first + count - 1
    if not last.is_multicast:
        raise BadAddress(meeting, f"{first + count} groups are needed after it, and {last} is none")
    query = f"?{parts.query}" if parts.query else ""
    return [f"{SCHEME}{base + first + number}:{parts.port}{query}" for number in range(count)]
