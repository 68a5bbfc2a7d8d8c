"""The registry as an application holds it: ``node.registry``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gossamer.core.effect import Reply
from gossamer.core.errors import Closed, NoAnswer
from gossamer.overlay.registry.api import Follow, Get, List, Scope, Set, Unfollow
from gossamer.overlay.registry.items import Item
from gossamer.overlay.registry.service import Registry

if TYPE_CHECKING:
    from gossamer.runtime.api.node import Node
    from gossamer.runtime.host import Host


class NodeRegistry:
    """Attribute-value pairs of this node (``scope="local"``) and of the network (``scope="global"``)."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def get(self, key: str) -> bytes:
        """The value of a key: this node's own, else the network's as known nearby; raises UnknownKey."""
        item: Item = await self._node.ask(Registry.name, Get(key), f"getting {key!r}")
        assert item.value is not None
        return item.value

    async def set(self, key: str, value: bytes, *, scope: Scope = "global") -> None:
        """Give a key a value; returns when a server keeps it, on disk if that has a state folder."""
        await self._node.ask(Registry.name, Set(key, value, scope), f"setting {key!r}")

    async def delete(self, key: str, *, scope: Scope = "global") -> None:
        """Delete a key; it need not exist."""
        await self._node.ask(Registry.name, Set(key, None, scope), f"deleting {key!r}")

    async def list(self, prefix: str = "") -> list[Item]:
        """Global items with a prefix, by key, as the nearest server knows them."""
        found: list[Item] = []
        after = ""
        while True:
            page: tuple[Item, ...] = await self._node.ask(
                Registry.name, List(prefix, after), "listing the registry"
            )
            if not page:
                return [item for item in found if item.value is not None]
            found.extend(page)
            after = page[-1].key

    def watch(self, prefix: str = "") -> Watch:
        """Global items with a prefix: those that are there, then each change; use it with ``async with``."""
        return self._node.watch(prefix)


class Watch:
    """Changes, oldest first: ``async for item in changes``; a value of None means deleted.

    A reader that is slower than the changes gets the newest value of each key.
    """

    def __init__(self, host: Host, prefix: str) -> None:
        self.prefix = prefix
        self._host = host
        self._call = 0
        self._ready = False
        self._ended = False
        self._changes: dict[str, Item] = {}
        self._error: Exception | None = None

    async def __aenter__(self) -> Watch:
        host, seconds = self._host, self._host.limits.answer
        self._call = host.follow(Registry.name, Follow(self.prefix), self._take)
        try:
            async with asyncio.timeout(seconds):
                await host.until(lambda: self._ready or self._error is not None or host.closed)
        except TimeoutError:
            await self.close()
            raise NoAnswer(f"watching {self.prefix!r}", seconds) from None
        except BaseException:
            await self.close()
            raise
        self._check()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Watch no more; what waits can still be read."""
        if not self._ended and not self._host.closed:
            self._ended = True
            await self._host.ask(Registry.name, Unfollow(self._call))

    def _take(self, reply: Reply) -> None:
        self._ready = True
        self._ended = self._ended or not reply.more
        self._error = self._error or reply.error
        for item in reply.value or ():
            self._changes.pop(item.key, None)
            self._changes[item.key] = item
        self._host.changed()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._host.closed:
            raise Closed(f"the watch of {self.prefix!r}")

    async def next(self, timeout: float | None = None) -> Item:
        """The next change; raises NoAnswer after so many seconds."""
        host = self._host
        try:
            async with asyncio.timeout(timeout):
                await host.until(lambda: bool(self._changes) or self._ended or host.closed)
        except TimeoutError:
            raise NoAnswer(f"waiting for changes of {self.prefix!r}", timeout or 0) from None
        if not self._changes:
            self._check()
            raise Closed(f"the watch of {self.prefix!r}")
        return self._changes.pop(next(iter(self._changes)))

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.next()
        except Closed:
            raise StopAsyncIteration from None
