"""What two nodes say to each other about a connection itself; no template hears of it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.control import Instant, Life, Message
from gossamer.core.names import MAX_ADDRESS, MAX_NODE_NAME, NODE_PATTERN, Role

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
MAX_LISTENS = 8


class Hello(Message, frozen=True):
    """Who I am, and where I listen; ``heard`` if I know who you are, ``opened`` if I opened this connection.

    Said again when something in it has changed.
    """

    node: Annotated[str, Meta(max_length=MAX_NODE_NAME, pattern=rf"\A{NODE_PATTERN}\Z")]
    incarnation: Life
    role: Role
    address: Annotated[str, Meta(min_length=1, max_length=MAX_ADDRESS)]
    listens: Annotated[tuple[Annotated[str, Meta(max_length=200)], ...], Meta(max_length=MAX_LISTENS)]
    heard: bool
    opened: bool = False
    clock: Instant = 0
    """What my clock shows; 0 says nothing."""


class Ping(Message, frozen=True):
    """Are you there? The number comes back."""

    sent: Number


class Pong(Message, frozen=True):
    """I am, and my clock shows this."""

    sent: Number
    clock: Instant


class Bye(Message, frozen=True):
    """I am closing this connection, and why; an empty reason means that all is well."""

    reason: Annotated[str, Meta(max_length=500)]


decoder = msgspec.msgpack.Decoder(Hello | Ping | Pong | Bye)
