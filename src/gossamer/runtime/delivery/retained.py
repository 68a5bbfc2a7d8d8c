"""The last value of a channel, for those who come later: kept in the registry, where every node finds it.

It outlives its publisher. Of what is retained in quick succession only the last is written down. Channels
that never leave their node keep theirs on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.core.errors import GossamerError, UnknownKey
from gossamer.core.names import channel_id
from gossamer.core.parcel import Parcel
from gossamer.core.wire import decode, encode
from gossamer.overlay.registry.api import Get, List, Set
from gossamer.overlay.registry.items import MAX_VALUE, Item
from gossamer.overlay.registry.service import Registry

if TYPE_CHECKING:
    from gossamer.runtime.host import Host

MAX_RETAINED = 32 * 1024
"""Bytes of a payload; with attributes and header it has to fit an item of the registry."""
PREFIX = "gossamer-last/"


class Retained:
    """The last value of one channel."""

    def __init__(self, host: Host, channel: str, local: bool) -> None:
        self._host = host
        self._key = f"{PREFIX}{channel_id(channel):016x}"
        self._local = local
        self._latest: Parcel | None = None
        self._writing = False

    def keep(self, parcel: Parcel) -> None:
        """The last event of a parcel that was published here is the last value now."""
        self._latest = parcel
        if not self._writing:
            self._writing = True
            self._host.spawn(self._write())

    async def _write(self) -> None:
        try:
            while self._latest is not None:
                parcel, self._latest = self._latest, None
                frame = encode(parcel.picked([parcel.stamp.count - 1]))
                if len(frame) > MAX_VALUE:
                    self._host.faults["too large to be retained"] += 1
                    continue
                await self._host.ask(
                    Registry.name, Set(self._key, frame, "local" if self._local else "global")
                )
        finally:
            self._writing = False
            self._host.changed()

    async def written(self) -> None:
        """Wait until the last value is where others find it."""
        await self._host.until(lambda: not self._writing or self._host.closed)

    async def last(self) -> Parcel | None:
        """The last value, unless it has expired or there is none."""
        value = await self._read()
        try:
            item = decode(value) if value else None
            if not isinstance(item, Parcel) or item.attributes is None:
                return None
        except GossamerError:
            return None
        return item if item.deadline is None or self._host.now() <= item.deadline else None

    async def _read(self) -> bytes | None:
        if self._local:
            try:
                item: Item = await self._host.ask(Registry.name, Get(self._key))
            except UnknownKey:
                return None
            return item.value
        page: tuple[Item, ...] = await self._host.ask(Registry.name, List(self._key))
        return next((each.value for each in page if each.key == self._key), None)


class Recalled:
    """What a subscription has had of the last value: it comes by another way, and may come live as well."""

    def __init__(self) -> None:
        self._live = False
        self._source = ("", 0)
        self._number = 0

    def takes(self, parcel: Parcel, index: int) -> bool:
        """The last value is here; whether it comes in time."""
        if not self._live:
            self._source, self._number = parcel.stamp.key, parcel.stamp.first + index
        return not self._live

    def newer(self, parcel: Parcel, picks: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Of what comes live, what is newer than the last value of the same source."""
        self._live = True
        stamp = parcel.stamp
        if self._source != stamp.key or self._number < stamp.first:
            return picks
        every = range(stamp.count) if picks is None else picks
        return tuple(each for each in every if stamp.first + each > self._number)
