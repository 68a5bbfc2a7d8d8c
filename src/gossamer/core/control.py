"""Control messages: what template instances of one channel say to each other.

A template defines its own as frozen structs (``class Join(Message, frozen=True): ...``); the class name
is the tag on the wire. Every list, text and mapping in a message has a stated ``max_length``: limits hold
before memory is taken. A field that counts instants is an ``Instant`` or a ``Life``: a message with one more
than a day ahead of this node's clock is refused before any handler sees it, since later honest numbers would
have to be greater still.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from gossamer.core.errors import ProtocolError
from gossamer.core.names import NANOSECONDS

AHEAD = 86_400 * NANOSECONDS
"""By how much clocks of different nodes may differ."""
_LARGEST = 2**63 - 1
Instant = Annotated[int, Meta(ge=0, le=_LARGEST, extra={"nanoseconds": 1})]
"""Nanoseconds since 1970, or a number that is counted on from there."""
Life = Annotated[int, Meta(ge=0, le=_LARGEST, extra={"nanoseconds": 1_000_000})]
"""The incarnation of a node: milliseconds since 1970 when it began."""
LINK_CHANNEL = 0
"""Control on this channel is about the link itself and never reaches a template."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Base of all control messages."""


@cache
def _instants(kind: type[Message]) -> tuple[tuple[str, int], ...]:
    """Fields of a message that count instants, each with its unit."""
    found = []
    for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined]
        if isinstance(field.type, msgspec.inspect.Metadata) and "nanoseconds" in (field.type.extra or {}):
            found.append((field.name, field.type.extra["nanoseconds"]))  # type: ignore[index]
    return tuple(found)


def check_instants(message: Message, now: int) -> None:
    """Raise ProtocolError if a message counts from an instant that no clock can show yet."""
    for name, unit in _instants(type(message)):
        value = getattr(message, name)
        if value * unit > now + AHEAD:
            raise ProtocolError(f"message.{name}", value, f"at most {(now + AHEAD) // unit}, a day ahead")


class Control:
    """A control message on its way: decoded only by the template it is for."""

    __slots__ = ("_frame", "body", "channel", "message")

    def __init__(
        self,
        channel: int,
        message: Message | None = None,
        body: bytes | None = None,
        frame: bytes | None = None,
    ) -> None:
        self.channel = channel
        self.message = message
        self.body = body
        self._frame = frame

    def __repr__(self) -> str:
        return f"<control {self.message!r}>"


Handler = TypeVar("Handler", bound=Callable[..., None])


def on(*messages: type[Message]) -> Callable[[Handler], Handler]:
    """Mark a template's method as the handler of control messages of some kinds."""

    def mark(handler: Handler) -> Handler:
        handler.handles = messages  # type: ignore[attr-defined]
        return handler

    return mark


def handlers_of(template: type[Any]) -> dict[type[Message], str]:
    """Which method of a template takes which message; a subclass may override by either."""
    found: dict[type[Message], str] = {}
    for base in reversed(template.__mro__):
        for name, member in vars(base).items():
            for message in getattr(member, "handles", ()):
                found[message] = name
    return found
