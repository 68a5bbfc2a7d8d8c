"""Watches: who wants to hear of changes below a prefix.

An application's watch is told what is there and then what changes, each key never older after newer. On a
server the shelf tells it. A client's watch is kept by its server as a *watcher*: told step by step, each
step repeated until it is heard; it is forgotten when its client stops refreshing it. A client that has
moved asks its new server, which tells everything again, and what was told before is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.context import Context
from gossamer.core.control import Message
from gossamer.core.errors import Full, Refused
from gossamer.core.names import nanoseconds
from gossamer.overlay.registry.items import Item, ItemsAtOnce, Number, Prefix, Shelf, Version, batch

MAX_WATCHES = 1_000
"""Watches of applications on a node, and watches that it keeps for others."""
MAX_TOLD = 100_000
"""Keys of one watch whose versions are remembered; beyond it a value may be told twice."""
REFRESH = 10.0
"""Seconds after which a client says again what it watches."""
EXPIRY = 3 * REFRESH
"""Seconds without that after which its server forgets it."""
WATCH, TELL = "watch", "tell"
"""Names of the wakes."""


class Watch(Message, frozen=True):
    """Tell me what is there below this prefix and what changes."""

    number: Number
    prefix: Prefix


class Unwatch(Message, frozen=True):
    """Tell me no more."""

    number: Number


class Told(Message, frozen=True):
    """One step of what you watch; the first may be empty. A refusal ends the watch."""

    number: Number
    step: Number
    items: ItemsAtOnce
    refusal: Annotated[str, Meta(max_length=200)] = ""


class Heard(Message, frozen=True):
    """I have that step."""

    number: Number
    step: Number


class _Watch(msgspec.Struct):
    """A watch of an application here."""

    call: int
    prefix: str
    told: dict[str, Version]
    ready: bool = False
    """Whether the application has been told what is there."""
    by: str | None = None
    """The server that keeps it, once that has said something."""


class Watches:
    """The watches of this node's applications."""

    def __init__(self, retry: float) -> None:
        self.retry = retry
        self._watches: dict[int, _Watch] = {}
        self._number = 0
        self._due: int | None = None

    def __len__(self) -> int:
        return len(self._watches)

    def begin(self, ctx: Context, call: int, prefix: str, shelf: Shelf | None) -> None:
        """Watch a prefix; without a shelf that keeps everything, by the help of the server."""
        if len(self._watches) >= MAX_WATCHES:
            raise Full("the list of watches", MAX_WATCHES)
        self._number = max(self._number + 1, ctx.now)
        watch = self._watches[self._number] = _Watch(call, prefix, {})
        if shelf is not None:
            self._tell(ctx, watch, tuple(shelf.items(prefix)))
        else:
            self._ask(ctx, self._number, watch)
            self._wake(ctx)

    def _ask(self, ctx: Context, number: int, watch: _Watch) -> None:
        if ctx.server is not None:
            ctx.send(ctx.server, Watch(number, watch.prefix))

    def end(self, ctx: Context, call: int, remote: bool) -> None:
        """Watch no more."""
        for number, watch in tuple(self._watches.items()):
            if watch.call == call:
                del self._watches[number]
                ctx.reply(call)
                if remote and ctx.server is not None:
                    ctx.send(ctx.server, Unwatch(number))

    def refresh(self, ctx: Context) -> None:
        """Say to the server again what is watched."""
        for number, watch in self._watches.items():
            self._ask(ctx, number, watch)
        self._due = None
        self._wake(ctx)

    def _wake(self, ctx: Context) -> None:
        """Come back soon if a watch is kept nowhere; never push back a wake that comes earlier."""
        if self._watches:
            kept = all(watch.by is not None and watch.by == ctx.server for watch in self._watches.values())
            pause = REFRESH if kept else self.retry
            due = ctx.now + nanoseconds(pause)
            if self._due is None or due < self._due:
                self._due = due
                ctx.wake(WATCH, pause)

    def changed(self, ctx: Context, item: Item) -> None:
        """The shelf has something new."""
        for watch in self._watches.values():
            if watch.ready and item.key.startswith(watch.prefix):
                self._tell(ctx, watch, (item,))

    def told(self, ctx: Context, told: Told, sender: str) -> None:
        """The server has told a step; what it brings has been kept already."""
        watch = self._watches.get(told.number)
        if watch is None:
            ctx.send(sender, Unwatch(told.number))
        elif told.refusal:
            del self._watches[told.number]
            ctx.reply(watch.call, error=Refused(sender, told.refusal))
        else:
            watch.by = sender
            ctx.send(sender, Heard(told.number, told.step))
            self._tell(ctx, watch, told.items)

    def _tell(self, ctx: Context, watch: _Watch, items: Iterable[Item]) -> None:
        news = []
        for item in items:
            before = watch.told.get(item.key)
            if before is not None and before >= item.version:
                continue
            # a deletion is news only to who has heard of the key
            if before is not None or item.value is not None:
                news.append(item)
            if before is None and len(watch.told) >= MAX_TOLD:
                del watch.told[next(iter(watch.told))]
            watch.told[item.key] = item.version
        if news or not watch.ready:
            watch.ready = True
            ctx.reply(watch.call, tuple(news), more=True)


class _Watcher(msgspec.Struct):
    """A watch kept for a neighbour.

    due
        Keys to tell.
    step, flying, heard
        The last step, its keys, and whether the neighbour has it.
    """

    prefix: str
    until: int
    due: dict[str, None]
    step: int = 0
    flying: tuple[str, ...] = ()
    heard: bool = True


class Watchers:
    """Watches kept for the nodes below."""

    def __init__(self, retry: float) -> None:
        self.retry = retry
        self._watchers: dict[tuple[str, int], _Watcher] = {}
        self._telling = False

    def __len__(self) -> int:
        return len(self._watchers)

    def begin(self, ctx: Context, watch: Watch, sender: str, shelf: Shelf) -> None:
        """A neighbour watches, or says again that it does."""
        until = ctx.now + nanoseconds(EXPIRY)
        known = self._watchers.get((sender, watch.number))
        if known is None and len(self._watchers) >= MAX_WATCHES:
            self._expire(ctx)
        if known is not None:
            known.until = until
        elif len(self._watchers) >= MAX_WATCHES:
            ctx.send(sender, Told(watch.number, 0, (), f"it keeps its limit of {MAX_WATCHES} watches"))
        else:
            due = dict.fromkeys(shelf.keys(watch.prefix))
            self._watchers[sender, watch.number] = _Watcher(watch.prefix, until, due)
            self._next(ctx, (sender, watch.number), shelf)

    def end(self, sender: str, number: int) -> None:
        """A neighbour watches no more."""
        self._watchers.pop((sender, number), None)

    def gone(self, neighbour: str) -> None:
        """A neighbour is gone, and with it all that it watches."""
        self._watchers = {name: each for name, each in self._watchers.items() if name[0] != neighbour}

    def changed(self, ctx: Context, item: Item, shelf: Shelf) -> None:
        """The shelf has something new."""
        for name, watcher in self._watchers.items():
            if item.key.startswith(watcher.prefix):
                watcher.due[item.key] = None
                if watcher.heard:
                    self._next(ctx, name, shelf)

    def heard(self, ctx: Context, heard: Heard, sender: str, shelf: Shelf) -> None:
        """A neighbour has a step; tell the next."""
        watcher = self._watchers.get((sender, heard.number))
        if watcher is not None and heard.step == watcher.step:
            watcher.flying, watcher.heard = (), True
            if watcher.due:
                self._next(ctx, (sender, heard.number), shelf)

    def _next(self, ctx: Context, name: tuple[str, int], shelf: Shelf) -> None:
        watcher = self._watchers[name]
        taken: list[str] = []
        items = batch(_items(watcher.due, shelf, taken))
        for key in taken:
            del watcher.due[key]
        watcher.step += 1
        watcher.flying, watcher.heard = tuple(item.key for item in items), False
        ctx.send(name[0], Told(name[1], watcher.step, items))
        if not self._telling:
            self._telling = True
            ctx.wake(TELL, self.retry)

    def repeat(self, ctx: Context, shelf: Shelf) -> None:
        """Tell again what was not heard, and forget whoever has stopped asking."""
        self._telling = False
        self._expire(ctx)
        for (neighbour, number), watcher in self._watchers.items():
            if not watcher.heard:
                items = tuple(_items(watcher.flying, shelf, []))
                ctx.send(neighbour, Told(number, watcher.step, items))
                self._telling = True
        if self._telling:
            ctx.wake(TELL, self.retry)

    def _expire(self, ctx: Context) -> None:
        self._watchers = {name: each for name, each in self._watchers.items() if each.until > ctx.now}


def _items(keys: Iterable[str], shelf: Shelf, taken: list[str]) -> Iterator[Item]:
    """The items of keys that are still there; notes the keys that were looked at."""
    for key in keys:
        taken.append(key)
        item = shelf.get(key)
        if item is not None:
            yield item
