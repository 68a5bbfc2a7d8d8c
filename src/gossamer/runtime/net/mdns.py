"""Finding peers of a channel on the local network, by multicast DNS (RFC 6762 and 6763).

Who runs a channel is a service of type ``_gossamer._tcp``, with a subtype for the channel, so that only those
are heard of. Addresses are in its text, as nodes tell them. Nothing leaves by other interfaces than those
that the node listens at.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from zeroconf import IPVersion, ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from gossamer.core.errors import BadName, ConfigError
from gossamer.core.names import channel_id, check_node
from gossamer.runtime.net.handshake import MAX_LISTENS

if TYPE_CHECKING:
    from gossamer.runtime.host import Host
    from gossamer.runtime.net.discovery import Contacts

log = logging.getLogger("gossamer")

SERVICE = "_gossamer._tcp.local."
ANSWER = 3000
"""Milliseconds that a service may take to say its addresses."""
MAX_TEXT = 250
"""Bytes of one entry of a service's text."""


def service(channel: str) -> str:
    """The type of those that run a channel."""
    return f"_{channel_id(channel):x}"[:16] + f"._sub.{SERVICE}"


class LanFinder:
    """One node on its local networks."""

    def __init__(self, node: str, listens: list[str], host: Host, contacts: Contacts) -> None:
        self._node, self._host, self._contacts = node, host, contacts
        self._listens = [each for each in listens if len(each) <= MAX_TEXT][:MAX_LISTENS]
        places = [(urlsplit(each).hostname or "", urlsplit(each).port) for each in listens]
        self._at = sorted({host for host, port in places if port and _usable(host)})
        self._port = next((port for host, port in places if host in self._at), 0)
        if not self._at:
            raise ConfigError(
                f"on the LAN needs an IPv4 address to listen at that others can reach, not {listens}",
                key="discover",
            )
        self._zeroconf: AsyncZeroconf | None = None
        self._browsers: list[AsyncServiceBrowser] = []
        self._names: dict[str, str] = {}

    async def seek(self, channel: str) -> None:
        if self._zeroconf is None:
            self._zeroconf = AsyncZeroconf(interfaces=self._at, ip_version=IPVersion.V4Only)
        kind = service(channel)
        browser = AsyncServiceBrowser(self._zeroconf.zeroconf, kind, handlers=[self._changed])
        self._browsers.append(browser)
        label = blake2b(f"{self._node}/{channel}".encode(), digest_size=8).hexdigest()
        text = {"node": self._node, **{f"at{n}": each for n, each in enumerate(self._listens)}}
        info = AsyncServiceInfo(
            kind,
            f"{label}.{SERVICE}",
            port=self._port,
            addresses=[socket.inet_aton(each) for each in self._at],
            properties=text,
            server=f"{label}.local.",
        )
        await (await self._zeroconf.async_register_service(info))

    def _changed(
        self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange
    ) -> None:
        if state_change is ServiceStateChange.Removed:
            self._contacts.lose(self._names.pop(name, ""))
        elif not self._host.closed:
            self._host.spawn(self._resolve(zeroconf, service_type, name))

    async def _resolve(self, zeroconf: Zeroconf, kind: str, name: str) -> None:
        info = AsyncServiceInfo(kind, name)
        if not await info.async_request(zeroconf, ANSWER):
            return
        text = info.decoded_properties
        node = text.get("node") or ""
        addresses = tuple(each for key, each in sorted(text.items()) if key.startswith("at") and each)
        try:
            self._names[name] = check_node(node)
        except BadName as error:
            log.debug("%s is no peer of ours: %s", name, error)
        else:
            self._contacts.meet(node, addresses[:MAX_LISTENS])

    async def close(self) -> None:
        for browser in self._browsers:
            await browser.async_cancel()
        if self._zeroconf is not None:
            await self._zeroconf.async_unregister_all_services()
            await self._zeroconf.async_close()


def _usable(host: str) -> bool:
    """Whether others can be told to connect to a host."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.version == 4 and not address.is_unspecified
