"""Addresses that other nodes can use, for a node that listens at all interfaces of its machine.

A node that listens at ``0.0.0.0`` or ``[::]`` must not tell others that address: at every other machine it
means that machine. Instead it tells the addresses at which links have already reached it, then those of its
network interfaces, and loopback only if it has nothing else. A deployment behind a translated address says
itself what to tell: ``advertise`` in the node's file.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

import ifaddr

from gossamer.transports.base import joined

WILDCARDS = {"0.0.0.0": 4, "::": 6}


def reachable(listens: Iterable[str], advertise: Iterable[str], arrived: Iterable[str]) -> tuple[str, ...]:
    """What a node tells others of where it listens.

    arrived
        Addresses of this machine by which links came or went, the earliest first.
    """
    told = tuple(advertise)
    if told:
        return told
    found: dict[str, None] = {}
    for address in listens:
        parts = urlsplit(address)
        version = WILDCARDS.get(parts.hostname or "")
        if version is None or parts.port is None:
            found[address] = None
            continue
        query = f"?{parts.query}" if parts.query else ""
        for host in _hosts(version, arrived):
            found[joined(parts.scheme, host, parts.port) + query] = None
    return tuple(found)


def _hosts(version: int, arrived: Iterable[str]) -> list[str]:
    """Addresses of this machine of one version of the protocol; loopback only if there are no others."""
    interfaces = [
        each.ip if isinstance(each.ip, str) else each.ip[0]
        for adapter in ifaddr.get_adapters()
        for each in adapter.ips
    ]
    known = dict.fromkeys((*arrived, *interfaces))
    fitting = [each for each in known if _fits(each, version)]
    outside = [each for each in fitting if not ip_address(each).is_loopback]
    return outside or fitting or (["127.0.0.1"] if version == 4 else ["::1"])


def _fits(host: str, version: int) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # an address of one link alone needs the name of the link, which is another on every machine
    return address.version == version and not address.is_link_local and not address.is_unspecified
