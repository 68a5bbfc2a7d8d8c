"""Control messages: what template instances of one channel say to each other.

A template defines its own as frozen structs (``class Join(Message, frozen=True): ...``); the class name
is the tag on the wire. Every list, text and mapping in a message has a stated ``max_length``: limits hold
before memory is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

LINK_CHANNEL = 0
"""Control on this channel is about the link itself and never reaches a template."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Base of all control messages."""


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
