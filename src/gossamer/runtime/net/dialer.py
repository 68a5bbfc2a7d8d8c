"""Links on demand, and the further connections of a link.

What is sent to a backbone node without a link waits while one is opened: templates and services may send to
any backbone node they know of. What waits is bounded; a node that could not be reached is left in peace for
a moment, and what is sent to it meanwhile is lost and counted.

A link that is up gets a connection for each transport that a binding asks for and the neighbour listens
with, and gets it back when it breaks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from gossamer.core.context import CONTACTS, NODES, PEERS
from gossamer.core.errors import GossamerError
from gossamer.core.names import NANOSECONDS
from gossamer.core.parcel import Parcel
from gossamer.core.wire import Item
from gossamer.links.binding import asked_for

if TYPE_CHECKING:
    from gossamer.runtime.host import Host
    from gossamer.runtime.net.link import Link
    from gossamer.runtime.net.links import Neighbours

log = logging.getLogger("gossamer")

MAX_WAITING = 64
"""Items that wait for one link."""
PEACE = 1 * NANOSECONDS
"""How long a node that could not be reached is not tried again."""
SOONEST, LATEST = 0.25, 10.0
"""Seconds until a connection that could not be opened is tried again: at first, and at most."""


class Dialer:
    """Opens links to known backbone nodes.

    dial
        Opens a link to an address; raises a GossamerError.
    """

    def __init__(self, host: Host, dial: Callable[[str], Awaitable[Link]]) -> None:
        self._host = host
        self._dial = dial
        self._waiting: dict[str, list[Item]] = {}
        self._failed: dict[str, int] = {}

    def send(self, peer: str, item: Item) -> str | None:
        """Keep an item until there is a link; why not, if there will be none."""
        waiting = self._waiting.get(peer)
        if waiting is None:
            addresses = self._addresses(peer)
            if not addresses or self._host.now() - self._failed.get(peer, -PEACE) < PEACE:
                return "no link"
            waiting = self._waiting[peer] = []
            self._host.spawn(self._open(peer, addresses))
        if len(waiting) >= MAX_WAITING:
            return "too much waits for a link"
        waiting.append(item)
        return None

    @property
    def pending(self) -> int:
        """Parcels that wait for a link."""
        return sum(isinstance(item, Parcel) for items in self._waiting.values() for item in items)

    def _addresses(self, peer: str) -> tuple[str, ...]:
        containers = self._host.engine.containers
        told = [name for name in containers if name.startswith(PEERS)]
        for name in (NODES, CONTACTS, *told):
            known: dict[str, tuple[str, ...]] = containers.get(name) or {}
            found = tuple(each for each in known.get(peer, ()) if not self._host.neighbours.meets(each))
            if found:
                return found
        return ()

    async def _open(self, peer: str, addresses: tuple[str, ...]) -> None:
        try:
            for address in addresses:
                try:
                    link = await self._dial(address)
                except GossamerError as error:
                    log.debug("%s", error)
                    continue
                if link.peer == peer:
                    break
                log.debug("%s is %s, not %s", address, link.peer, peer)
        finally:
            items = self._waiting.pop(peer)
            if peer not in self._host.links:
                self._failed[peer] = self._host.now()
            for item in items:
                self._host.send(peer, item)


class Opener:
    """Keeps links complete.

    dial
        Opens a connection to an address and returns the link that it joined; raises a GossamerError.
    """

    def __init__(self, around: Neighbours, dial: Callable[[str], Awaitable[Link]]) -> None:
        self._around = around
        self._dial = dial
        self._busy: set[Link] = set()
        self._astray: set[tuple[str, str]] = set()
        """Addresses that neighbours told us of and where somebody else answers."""

    def complete(self, link: Link) -> None:
        """Open what a link lacks, as long as it is up."""
        if link not in self._busy and self._missing(link):
            self._busy.add(link)
            self._around.spawn(self._open(link))

    def _missing(self, link: Link) -> list[str]:
        """Addresses to dial, for what bindings ask for and for what was open once."""
        hello = link.hello
        wanted = dict(link.dialled)
        for scheme in asked_for(self._around.bindings, hello.role):
            listens = (each for each in hello.listens if each.startswith(f"{scheme}://"))
            wanted.setdefault(scheme, next(listens, ""))
        for strand in link.strands:
            wanted.pop(strand.transport, None)
        if self._in_group(link):  # what is essential should not depend on datagrams
            wanted.setdefault("", next((each for each in hello.listens if not self._around.meets(each)), ""))
        return [
            each
            for each in wanted.values()
            if each and (link.peer, each) not in self._astray and not self._around.meets(each)
        ]

    async def _open(self, link: Link) -> None:
        delay = SOONEST
        try:
            if self._in_group(link):  # the other side may be dialling already
                await self._pause(link, delay)
            while link.strands and (missing := self._missing(link)):
                for address in missing:
                    await self._try(link, address)
                if self._missing(link):
                    await self._pause(link, delay)
                    delay = min(2 * delay, LATEST)
        finally:
            self._busy.discard(link)

    def _in_group(self, link: Link) -> bool:
        """Whether the two met in a group, and have no connection of their own."""
        return all(strand.connection.group for strand in link.strands)

    async def _pause(self, link: Link, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(link.gone.wait(), seconds)

    async def _try(self, link: Link, address: str) -> None:
        try:
            reached = await self._dial(address)
        except GossamerError as error:
            log.debug("%s", error)
            return
        if reached.peer != link.peer:
            self._astray.add((link.peer, address))
            log.warning("%s says that it listens at %s, but %s does", link.peer, address, reached.peer)
