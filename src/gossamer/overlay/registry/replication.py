"""Lazy replication: a slow stream of items to the neighbours that keep a replica.

What is new or changed goes first, one hop at a time: to whom it is news passes it on. Then everything else,
round and round, which heals whatever was lost. All of it within a budget of bytes per second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gossamer.core.context import Context
from gossamer.core.control import Message
from gossamer.core.names import NANOSECONDS
from gossamer.overlay.registry.items import BYTES_AT_ONCE, ITEMS_AT_ONCE, Item, ItemsAtOnce, Shelf, batch

FEED = "feed"
"""Name of the wake."""
FRAME = 64
"""Bytes that a frame adds to its items at most."""


class Feed(Message, frozen=True):
    """Items you may not know; who sends it keeps a replica and wants to be fed too."""

    items: ItemsAtOnce


class Feeder:
    """Decides which items leave for whom, and when.

    budget, burst
        Bytes per second that leave this node, and most bytes at once: over any T seconds no more than
        burst + budget × T.
    period
        Seconds that one round over all items takes at least.
    """

    def __init__(self, budget: int, burst: int, period: float) -> None:
        self.budget, self.burst, self.period = budget, burst, period
        self.news: dict[str, dict[str, None]] = {}
        """Keys that each neighbour may not know in their present version, oldest first."""
        self._due: dict[str, dict[str, None]] = {}
        """Keys of the present step of the round that each neighbour has not been told."""
        self._purse = burst * NANOSECONDS
        self._filled = 0
        self._cursor = ""
        self._next_step: int | None = None

    def feed(self, neighbours: Iterable[str], shelf: Shelf) -> None:
        """These are to be fed from now on; a new one may not know anything."""
        wanted = sorted(neighbours)
        known, self.news = self.news, {}
        for each in wanted:
            self.news[each] = known[each] if each in known else dict.fromkeys(shelf.keys())
        self._due = {each: keys for each, keys in self._due.items() if each in self.news}

    def changed(self, key: str, sender: str | None) -> None:
        """A key is news to all but who told it."""
        for neighbour, keys in self.news.items():
            keys.pop(key, None)
            if neighbour != sender:
                keys[key] = None

    def behind(self, neighbour: str, key: str) -> None:
        """A neighbour told something older than what is known here."""
        if neighbour in self.news:
            self.news[neighbour][key] = None

    def run(self, ctx: Context, shelf: Shelf) -> None:
        """Send what may be sent now, and wake when there is more to do."""
        self._earn(ctx.now)
        wait = self._send(ctx, self.news, shelf)
        if wait is None:
            wait = self._send(ctx, self._due, shelf)
        if wait is None:
            wait = self._step(ctx, shelf)
        if wait is not None:
            ctx.wake(FEED, wait)

    def _send(self, ctx: Context, queues: dict[str, dict[str, None]], shelf: Shelf) -> float | None:
        """Send until the queues or the purse are empty; seconds to wait for the purse."""
        waiting = [each for each, keys in queues.items() if keys]
        while waiting:
            neighbour = waiting.pop(0)
            keys = queues[neighbour]
            items = tuple(self._affordable(_present(keys, shelf)))
            if not items:
                first = next(_present(keys, shelf), None)
                if first is not None:
                    return self._until(first.size + FRAME)
                keys.clear()
                continue
            for item in items:
                del keys[item.key]
            self._pay(ctx, neighbour, items)
            # who was served comes last next time, so that a long queue does not starve the others
            queues[neighbour] = queues.pop(neighbour)
            if keys:
                waiting.append(neighbour)
        return None

    def _step(self, ctx: Context, shelf: Shelf) -> float | None:
        """The next step of the round, if it is time; seconds to wait, None if there is nothing to tell."""
        if not self.news or not len(shelf):
            self._next_step = None
            return None
        batches = max(1, -(-len(shelf) // ITEMS_AT_ONCE), -(-shelf.size // BYTES_AT_ONCE))
        pause = round(self.period / batches * NANOSECONDS)
        if self._next_step is not None and ctx.now >= self._next_step:
            self._next_step = None
            items = batch(shelf.items(after=self._cursor)) or batch(shelf.items())
            self._cursor = items[-1].key
            self._due = {each: {item.key: None for item in items} for each in self.news}
            wait = self._send(ctx, self._due, shelf)
            if wait is not None:
                return wait
        if self._next_step is None:
            self._next_step = ctx.now + pause
        return (self._next_step - ctx.now) / NANOSECONDS

    # the budget, in bytes × nanoseconds so that nothing is rounded away

    def _earn(self, now: int) -> None:
        earned = max(0, now - self._filled) * self.budget
        self._purse = min(self.burst * NANOSECONDS, self._purse + earned)
        self._filled = now

    def _affordable(self, items: Iterator[Item]) -> Iterator[Item]:
        left = self._purse // NANOSECONDS - FRAME
        for item in batch(items):
            left -= item.size
            if left < 0:
                return
            yield item

    def _pay(self, ctx: Context, to: str, items: tuple[Item, ...]) -> None:
        self._purse -= (sum(item.size for item in items) + FRAME) * NANOSECONDS
        ctx.send(to, Feed(items))

    def _until(self, price: int) -> float:
        """Seconds until there is money for it; a little more, lest rounding ends in a short sleep."""
        return (price - self._purse / NANOSECONDS) / self.budget + 0.001


def _present(keys: Iterable[str], shelf: Shelf) -> Iterator[Item]:
    return (item for item in map(shelf.get, keys) if item is not None)
