"""What applications ask of the registry, and its settings."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gossamer.core.template import Settings
from gossamer.overlay.registry.items import ITEM_OVERHEAD, MAX_KEY, MAX_VALUE
from gossamer.overlay.registry.replication import FRAME

Scope = Literal["global", "local"]
LARGEST = 4 * MAX_KEY + 64 + MAX_VALUE + ITEM_OVERHEAD + FRAME
"""Bytes of the frame with the largest item."""

Seconds = Annotated[float, Meta(gt=0, le=86400)]
Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Bytes = Annotated[int, Meta(ge=LARGEST, le=2**40)]


class RegistrySettings(Settings, frozen=True):
    """Settings of a node's registry.

    budget, burst
        Bytes per second with which a server feeds its neighbours, and most bytes at once: never more than
        burst + budget × T in T seconds. Items × bytes × neighbours / budget is how long a round takes.
    period
        Seconds that a round over all items takes at least; what was lost comes again after it.
    retry
        Seconds after which a question that was not answered is repeated.
    patience
        Seconds after which a question is given up.
    items, bytes
        Most items that a server keeps, and most bytes of them.
    cache_items, cache_bytes
        The same of a client, which forgets what it used least recently.
    cache_age
        Seconds for which a client takes its cache for current; then it asks again.
    """

    budget: Annotated[int, Meta(ge=1, le=2**40)] = 32 * 1024
    burst: Bytes = 128 * 1024
    period: Seconds = 30.0
    retry: Seconds = 0.5
    patience: Seconds = 30.0
    items: Count = 100_000
    bytes: Bytes = 256 * 1024 * 1024
    cache_items: Count = 10_000
    cache_bytes: Bytes = 16 * 1024 * 1024
    cache_age: Seconds = 10.0


class Get(msgspec.Struct, frozen=True):
    """The item under a key: a local one, or the global one."""

    key: str


class Set(msgspec.Struct, frozen=True):
    """Give a key a value; None deletes it. The reply is the item."""

    key: str
    value: bytes | None
    scope: Scope = "global"


class List(msgspec.Struct, frozen=True):
    """Some items with a prefix, those after a key; deleted ones are among them."""

    prefix: str
    after: str = ""


class Follow(msgspec.Struct, frozen=True):
    """What is there with a prefix, in a first reply, and in further ones what changes."""

    prefix: str


class Unfollow(msgspec.Struct, frozen=True):
    """End the watch that was begun with a call."""

    call: int


Request = Get | Set | List | Follow | Unfollow
