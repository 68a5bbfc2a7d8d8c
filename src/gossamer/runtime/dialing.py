"""Links on demand: what is sent to a backbone node without a link waits while one is opened.

Templates and services may send to any backbone node they know of. What waits is bounded; a node that could
not be reached is left in peace for a moment, and what is sent to it meanwhile is lost and counted.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from gossamer.core.context import CONTACTS, NODES
from gossamer.core.errors import GossamerError
from gossamer.core.names import NANOSECONDS
from gossamer.core.wire import Item

if TYPE_CHECKING:
    from gossamer.runtime.host import Host
    from gossamer.runtime.link import Link

log = logging.getLogger("gossamer")

MAX_WAITING = 64
"""Items that wait for one link."""
PEACE = 1 * NANOSECONDS
"""How long a node that could not be reached is not tried again."""


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

    def _addresses(self, peer: str) -> tuple[str, ...]:
        for name in (NODES, CONTACTS):
            known: dict[str, tuple[str, ...]] = self._host.engine.containers.get(name) or {}
            if known.get(peer):
                return known[peer]
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
