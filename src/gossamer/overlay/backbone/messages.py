"""What the linkstate services of a backbone say to each other, and their settings."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.control import Counter, Life, Message
from gossamer.core.names import MAX_NODE_NAME
from gossamer.core.template import Settings
from gossamer.overlay.backbone.flood_repair import AT_ONCE, Version
from gossamer.overlay.backbone.tree_codec import MAX_NODES, MAX_PLAN

MAX_ADDRESSES = 8
MAX_DEAD = 256
MAX_MEASURED = 1024
MAX_INTERVAL = 86_400

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Age = Annotated[int, Meta(ge=0, le=0xFF)]
Address = Annotated[str, Meta(min_length=1, max_length=200)]
Addresses = Annotated[tuple[Address, ...], Meta(max_length=MAX_ADDRESSES)]


class State(Message, frozen=True):
    """What a node publishes.

    incarnation, counter
        The higher is newer. The incarnation is that of the origin, or greater if the origin had to outdo a
        state that was invented in its name.
    interval
        Seconds until its next message, about.
    addresses
        Where the origin listens.
    plan
        The tree it carries, and follows.
    seen
        Per node of the tree, how long ago the origin knew it to live; one byte each.
    near
        Distances from the origin, four bytes each.
    dead
        Who was found silent lately, and how long ago.
    """

    origin: Name
    incarnation: Life
    counter: Counter
    interval: Annotated[int, Meta(ge=1, le=MAX_INTERVAL)]
    addresses: Addresses
    plan: Annotated[bytes, Meta(max_length=MAX_PLAN)]
    seen: Annotated[bytes, Meta(max_length=MAX_NODES)]
    near: Annotated[bytes, Meta(max_length=4 * MAX_MEASURED)]
    dead: Annotated[tuple[tuple[Name, Age], ...], Meta(max_length=MAX_DEAD)] = ()

    @property
    def version(self) -> Version:
        return self.incarnation, self.counter


class Person(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A living node: when it was last known to live, and where it listens."""

    name: Name
    age: Age
    addresses: Addresses


class Introduction(Message, frozen=True):
    """Living nodes that you seem not to know."""

    people: Annotated[tuple[Person, ...], Meta(max_length=AT_ONCE)]


class Offer(Message, frozen=True):
    """These messages I passed to you; which did not arrive?"""

    round: Number
    versions: Annotated[tuple[tuple[Name, Life, Counter], ...], Meta(max_length=AT_ONCE)]


class Wanted(Message, frozen=True):
    """Of your offer, send me these again."""

    round: Number
    origins: Annotated[tuple[Name, ...], Meta(max_length=AT_ONCE)]


class LinkstateSettings(Settings, frozen=True):
    """Settings of the linkstate service.

    interval
        Seconds between two messages of a node, at least.
    budget
        Bytes per second that a node receives of all others together; stretches the interval.
    trigger
        Seconds between two messages if there is news, at least.
    repair
        Seconds between offers of what was passed on.
    factor
        Of the spanner: how much longer than direct a way may be. Small is shallow and dear.
    measured
        How many measurements a message carries, those to tree neighbours aside.
    forget
        Seconds for which a dead node is remembered, and tried now and then.
    """

    interval: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    budget: Annotated[float, Meta(gt=0, le=1e9)] = 16_000.0
    trigger: Annotated[float, Meta(gt=0, le=3600)] = 1.0
    repair: Annotated[float, Meta(gt=0, le=3600)] = 2.0
    factor: Annotated[float, Meta(ge=1, le=1000)] = 1.5
    measured: Annotated[int, Meta(ge=1, le=256)] = 16
    forget: Annotated[float, Meta(gt=0, le=1e9)] = 3600.0
