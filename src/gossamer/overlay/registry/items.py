"""Items of the registry: a key, a value and a version, and a bounded shelf of them.

Versions are (counter, writer). A greater one wins, so an old value never replaces a newer one, in whatever
order they come. The counter is the writer's clock, or one more than the greatest it knows of the key: who
writes later wins, also with a clock that lags. A claim counts down instead: of two claims to one key the
earlier wins. Deleting leaves a tombstone, a version without a value.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gossamer.core.control import AHEAD
from gossamer.core.errors import BadName, Full, ProtocolError, TooLarge
from gossamer.core.names import MAX_CHANNEL_NAME, MAX_NODE_NAME

MAX_OWN_KEY = 200
"""Characters of a key that an application uses."""
CHANNELS = "channel/"
"""Keys below this are the directory's."""
MAX_KEY = len(CHANNELS) + max(MAX_OWN_KEY, MAX_CHANNEL_NAME)
MAX_VALUE = 64 * 1024
LATEST = 2**63 - 1
SOMETIME = LATEST // 2 - AHEAD
"""The present of a node that cannot tell the time: later than any clock, earlier than any claim."""
ITEMS_AT_ONCE = 50
BYTES_AT_ONCE = 16 * 1024
"""A message takes no more items once it has so many bytes of them; the last may be as long as an item is."""
ITEM_OVERHEAD = 32
"""Bytes that the wire adds to key, writer and value at most."""

Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY)]
Prefix = Annotated[str, Meta(max_length=MAX_KEY)]
Value = Annotated[bytes, Meta(max_length=MAX_VALUE)]
Number = Annotated[int, Meta(ge=0, le=LATEST)]
Writer = Annotated[str, Meta(max_length=MAX_NODE_NAME)]

Version = tuple[int, str]

_KEY = re.compile(rf"[^\s\x00-\x1f\x7f\ud800-\udfff]{{1,{MAX_OWN_KEY}}}")


class Item(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A key with one version of its value; None says that it was deleted."""

    key: Key
    counter: Number
    writer: Writer
    value: Value | None

    @property
    def version(self) -> Version:
        return self.counter, self.writer

    def beats(self, other: Item | None) -> bool:
        """Whether this is the newer one. Equal versions of different values are settled by the value."""
        return other is None or self._rank > other._rank

    @property
    def _rank(self) -> tuple[int, str, bool, bytes]:
        return self.counter, self.writer, self.value is None, self.value or b""

    @property
    def size(self) -> int:
        """Bytes on the wire, at most."""
        return len(self.key.encode()) + len(self.writer) + len(self.value or b"") + ITEM_OVERHEAD


ItemsAtOnce = Annotated[tuple[Item, ...], Meta(max_length=ITEMS_AT_ONCE)]

encode_item = msgspec.msgpack.Encoder().encode
_decode_item = msgspec.msgpack.Decoder(Item).decode


def decode_item(data: bytes) -> Item | None:
    """An item from bytes; None if they are none."""
    try:
        return _decode_item(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def check_key(key: Any) -> str:
    """The key, if an application may use it."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise BadName(
            "registry key", str(key), f"1 to {MAX_OWN_KEY} characters, none of them blank or invisible"
        )
    return key


def check_prefix(prefix: Any) -> str:
    """The prefix, if a key may begin so; the empty one means all keys."""
    return check_key(prefix) if prefix else ""


def check_value(value: Any) -> bytes:
    """The value, if the registry may hold it."""
    if not isinstance(value, bytes):
        raise BadName("registry value", repr(value), "bytes; encode text or objects first")
    if len(value) > MAX_VALUE:
        raise TooLarge("registry value", len(value), MAX_VALUE)
    return value


def stamped(now: int, writer: str, key: str, value: bytes | None, known: Item | None) -> Item:
    """A new version, newer than the known one."""
    return Item(key, max(now, known.counter + 1 if known else 0), writer, value)


def plausible(item: Item, now: int) -> bool:
    """Whether some clock may show the version of an item."""
    claim = item.key.startswith(CHANNELS) and item.counter > LATEST // 2
    instant = LATEST - item.counter if claim else item.counter
    return instant <= now + AHEAD


def check_version(item: Item, now: int) -> None:
    """Raise ProtocolError if the version of an item is beyond what any clock can show: it could never be
    replaced by a newer one.
    """
    if not plausible(item, now):
        raise ProtocolError("item.counter", item.counter, f"an instant, at most {now + AHEAD}")


def batch(items: Iterable[Item]) -> tuple[Item, ...]:
    """As many of them, from the first on, as one message takes."""
    chosen: list[Item] = []
    size = 0
    for item in items:
        chosen.append(item)
        size += item.size
        if size >= BYTES_AT_ONCE or len(chosen) >= ITEMS_AT_ONCE:
            break
    return tuple(chosen)


class Shelf:
    """Items in bounded memory, by key.

    count, size
        Most items, and most bytes of them.
    forgets
        A cache makes room by forgetting what was used least recently. Otherwise the oldest tombstones go,
        and if there is none a new key is refused with Full.
    """

    def __init__(self, count: int, size: int, forgets: bool = False) -> None:
        self.count, self.limit, self.forgets = count, size, forgets
        self.size = 0
        self._items: dict[str, Item] = {}
        self._checked: dict[str, int] = {}
        self._keys: list[str] = []
        self._tombstones: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return (self._items[key] for key in self._keys)

    def get(self, key: str, since: int = 0) -> Item | None:
        """The item, if it is here and was known to be current at that instant or later."""
        item = self._items.get(key)
        if item is None or self._checked[key] < since:
            return None
        if self.forgets:
            self._items[key] = self._items.pop(key)
        return item

    def keys(self, prefix: str = "", after: str = "") -> Iterator[str]:
        """Keys with a prefix, in order, those after one."""
        start = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after) if after else 0)
        for position in range(start, len(self._keys)):
            if not self._keys[position].startswith(prefix):
                return
            yield self._keys[position]

    def items(self, prefix: str = "", after: str = "") -> Iterator[Item]:
        """Items whose keys have a prefix, in order of key, those after one."""
        return (self._items[key] for key in self.keys(prefix, after))

    def load(self, prefix: str, stored: Mapping[str, bytes], now: int) -> int:
        """Take in what was stored below a prefix; how many make no sense or find no room.

        A version that no clock can show at this instant makes no sense: honest nodes would refuse it.
        """
        unreadable = 0
        for data in (data for name, data in stored.items() if name.startswith(prefix)):
            item = decode_item(data)
            full = item is not None and (len(self) >= self.count or self.size + item.size > self.limit)
            if item is None or full or not plausible(item, now):
                unreadable += 1
            else:
                self.keep(item, 0)
        return unreadable

    def keep(self, item: Item, now: int) -> tuple[str, ...] | None:
        """Keep an item if it is news; the keys given up for it, None if it is no news. Raises Full."""
        known = self._items.get(item.key)
        if not item.beats(known):
            if item == known:
                self._checked[item.key] = now
            return None
        given_up = self._make_room(item, known)
        if known is None:
            insort(self._keys, item.key)
        else:
            self.size -= known.size
            del self._items[item.key]
        self._items[item.key] = item
        self._checked[item.key] = now
        self.size += item.size
        self._tombstones.pop(item.key, None)
        if item.value is None:
            self._tombstones[item.key] = None
        return given_up

    def _make_room(self, item: Item, known: Item | None) -> tuple[str, ...]:
        count = len(self._items) + (known is None)
        size = self.size + item.size - (known.size if known else 0)
        given_up = []
        for key in self._items if self.forgets else self._tombstones:
            if count <= self.count and size <= self.limit:
                break
            if key != item.key:
                given_up.append(key)
                count, size = count - 1, size - self._items[key].size
        # a deletion always finds room: it is how room is made
        if (count > self.count or size > self.limit) and item.value is not None:
            raise Full("the registry of this node", self.count if count > self.count else self.limit)
        for key in given_up:
            self.size -= self._items.pop(key).size
            del self._checked[key], self._keys[bisect_left(self._keys, key)]
            self._tombstones.pop(key, None)
        return tuple(given_up)
