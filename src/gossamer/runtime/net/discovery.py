"""Finding peers of a channel without an address: in the registry of a backbone, or on the local network.

Templates that look at contacts are told of whoever runs the same channel. What is found is only a hint: a
contact that does not answer costs a question.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal, Protocol, get_args

import msgspec

from gossamer.core.context import CONTACTS
from gossamer.core.errors import BadName, ConfigError, GossamerError
from gossamer.core.names import NANOSECONDS, channel_id
from gossamer.runtime.net.handshake import MAX_LISTENS

if TYPE_CHECKING:
    from gossamer.runtime.api.node import Node
    from gossamer.runtime.host import Host

log = logging.getLogger("gossamer")

Way = Literal["lan", "registry"]
MAX_CONTACTS = 256
"""Peers that a node is told of; those it heard of first are forgotten."""
PEERS_KEY = "peers"
REFRESH = 300.0
"""Seconds after which a peer says in the registry again that it is there; after three of them it is not."""

_decode = msgspec.json.Decoder(tuple[str, ...]).decode


class Finder(Protocol):
    """One way to find peers."""

    async def seek(self, channel: str) -> None:
        """Be found by others that run a channel, and find them, until cancelled."""

    async def close(self) -> None:
        """Be found no more."""


class Contacts:
    """Those a node was told of."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def meet(self, name: str, addresses: tuple[str, ...]) -> None:
        """A peer is said to be somewhere."""
        engine = self._host.engine
        known: dict[str, tuple[str, ...]] = engine.containers.get(CONTACTS) or {}
        if name == engine.node or not addresses or known.get(name) == addresses:
            return
        others = {each: where for each, where in known.items() if each != name}
        surplus = [each for each in others if each != engine.node and each not in self._host.links]
        for each in surplus[: max(0, len(others) - MAX_CONTACTS)]:
            del others[each]
        self._host.tell(lambda now: engine.set(now, CONTACTS, {**others, name: addresses}))

    def lose(self, name: str) -> None:
        """A peer is said to be gone."""
        engine = self._host.engine
        known: dict[str, tuple[str, ...]] = engine.containers.get(CONTACTS) or {}
        if name in known and name != engine.node and name not in self._host.links:
            rest = {each: where for each, where in known.items() if each != name}
            self._host.tell(lambda now: engine.set(now, CONTACTS, rest))


class RegistryFinder:
    """By the registry that all linked to one backbone share: ``peers/CHANNEL-ID/NODE`` has addresses."""

    def __init__(self, node: Node, host: Host, contacts: Contacts) -> None:
        self._node, self._host, self._contacts = node, host, contacts
        self._keys: list[str] = []

    async def seek(self, channel: str) -> None:
        prefix = f"{PEERS_KEY}/{channel_id(channel):016x}/"
        key = prefix + self._node.name
        self._keys.append(key)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._show(key))
            tasks.create_task(self._look(prefix))

    async def _show(self, key: str) -> None:
        while True:
            listens = msgspec.json.encode(self._node.addresses[:MAX_LISTENS])
            await self._node.registry.set(key, listens)
            await asyncio.sleep(REFRESH)

    async def _look(self, prefix: str) -> None:
        async with self._node.registry.watch(prefix) as changes:
            async for item in changes:
                name = item.key.removeprefix(prefix)
                old = self._host.now() - item.counter > 3 * REFRESH * NANOSECONDS
                if item.value is None or old:
                    self._contacts.lose(name)
                    continue
                try:
                    self._contacts.meet(name, _decode(item.value))
                except msgspec.MsgspecError as error:
                    log.warning("the registry has no addresses at %s: %s", item.key, error)

    async def close(self) -> None:
        for key in self._keys:
            await self._node.registry.delete(key)


class Discovery:
    """The ways that a node was asked to take."""

    def __init__(self, node: Node, host: Host, ways: tuple[Way, ...]) -> None:
        contacts = Contacts(host)
        self._host = host
        self._finders: list[Finder] = []
        for way in dict.fromkeys(ways):
            if way == "registry":
                self._finders.append(RegistryFinder(node, host, contacts))
            elif way == "lan":
                self._finders.append(_lan(node, host, contacts))
            else:
                raise BadName("way to discover peers", way, f"one of {', '.join(get_args(Way))}")

    def seek(self, channel: str) -> None:
        """A channel looks for others that run it."""
        for finder in self._finders:
            self._host.spawn(finder.seek(channel))

    async def close(self) -> None:
        for finder in self._finders:
            try:
                await finder.close()
            except GossamerError as error:
                log.debug("could not take back where we listen: %s", error)


def _lan(node: Node, host: Host, contacts: Contacts) -> Finder:
    try:
        from gossamer.runtime.net.mdns import LanFinder
    except ModuleNotFoundError:
        raise ConfigError("needs the package zeroconf: pip install 'gossamer[lan]'", key="discover") from None
    return LanFinder(node.name, node.addresses, host, contacts)
