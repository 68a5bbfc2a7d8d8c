"""What carries announcements: IP multicast groups (``multicast://…``), or channels of a node by name."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from gossamer.core.errors import BadAddress, GossamerError
from gossamer.core.names import check_channel
from gossamer.runtime.api.channel import Channel
from gossamer.runtime.api.event import ReceivedEvent
from gossamer.runtime.api.node import Node
from gossamer.runtime.api.subscription import Subscription
from gossamer.runtime.net.ip_multicast import SCHEME, Groups

TEMPLATE = "multicast"
"""Of channels that do not exist yet: losses are healed by announcing again, so nothing dearer is needed."""
MOST_WAITING = 1024
"""Packets that wait for a channel to be opened."""
PENDING = 4096


class Carriers:
    """Sends and hears on any address. ``drops`` counts packets that were not sent."""

    def __init__(self, hears: Callable[[bytes], None], node: Node | None = None) -> None:
        self._groups = Groups(hears)
        self._channels = Channels(node, hears) if node is not None else None

    def _of(self, address: str) -> Groups | Channels:
        if address.startswith(SCHEME):
            return self._groups
        if self._channels is None or "://" in address:
            hint = "expected multicast://GROUP:PORT, or the name of a channel and a node to carry it"
            raise BadAddress(address, hint)
        return self._channels

    def send(self, address: str, data: bytes) -> None:
        self._of(address).send(address, data)

    def join(self, address: str) -> None:
        self._of(address).join(address)

    def leave(self, address: str) -> None:
        self._of(address).leave(address)

    def check(self, *addresses: str) -> None:
        """Raises BadAddress if nothing here carries one of them."""
        for address in addresses:
            self._of(address).check(address)

    @property
    def drops(self) -> Counter[str]:
        return self._groups.drops + (self._channels.drops if self._channels else Counter())

    async def close(self) -> None:
        self._groups.close()
        if self._channels is not None:
            await self._channels.close()


class Channels:
    """Channels of a node, opened when they are first needed; to join one is to subscribe to it."""

    def __init__(self, node: Node, hears: Callable[[bytes], None]) -> None:
        self.drops: Counter[str] = Counter()
        self._node, self._hears = node, hears
        self._open: dict[str, Channel] = {}
        self._waiting: dict[str, list[bytes]] = {}
        self._joined: set[str] = set()
        self._subscriptions: dict[str, Subscription] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, name: str) -> None:
        """Raises BadName if no channel may be called so."""
        check_channel(name)

    def send(self, name: str, data: bytes) -> None:
        channel = self._open.get(name)
        if channel is not None:
            self._publish(channel, data)
            return
        waiting = self._waiting.get(name)
        if waiting is None:
            waiting = self._begin(name)
        if len(waiting) < MOST_WAITING:
            waiting.append(data)
        else:
            self.drops["channel not open yet"] += 1

    def join(self, name: str) -> None:
        self._joined.add(name)
        if name in self._open:
            self._subscribe(name)
        elif name not in self._waiting:
            self._begin(name)

    def leave(self, name: str) -> None:
        self._joined.discard(name)
        subscription = self._subscriptions.pop(name, None)
        if subscription is not None:
            self._spawn(subscription.close())

    def _begin(self, name: str) -> list[bytes]:
        waiting = self._waiting[name] = []
        self._spawn(self._opening(name))
        return waiting

    async def _opening(self, name: str) -> None:
        try:
            channel = await self._node.channel(name, TEMPLATE)
        except GossamerError as error:
            self.drops[f"channel not opened: {type(error).__name__}"] += len(self._waiting.pop(name, []))
            return
        self._open[name] = channel
        for data in self._waiting.pop(name, []):
            self._publish(channel, data)
        if name in self._joined:
            self._subscribe(name)

    def _subscribe(self, name: str) -> None:
        if name not in self._subscriptions:
            made = self._open[name].subscribe(
                callback=self._event, max_pending=PENDING, on_full="drop_oldest"
            )
            self._subscriptions[name] = made.open()

    def _event(self, event: ReceivedEvent) -> None:
        self._hears(event.payload)

    def _publish(self, channel: Channel, data: bytes) -> None:
        try:
            channel.try_publish(data)
        except GossamerError as error:
            self.drops[f"not sent: {type(error).__name__}"] += 1

    def _spawn(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for name in list(self._subscriptions):
            self.leave(name)
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
