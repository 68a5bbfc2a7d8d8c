"""Control messages: what template instances of one channel say to each other.

A template defines its own as frozen structs (``class Join(Message, frozen=True): ...``); the class name
is the tag on the wire. Every list, text and mapping in a message has a stated ``max_length``: limits hold
before memory is taken. A field that counts instants is an ``Instant`` or a ``Life``, also within tuples and
nested structs: a message with one more than a day ahead of this node's clock is dropped before any handler
sees it, since later honest numbers would have to be greater still. The link that it came by goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, inspect

from gossamer.core.errors import ProtocolError
from gossamer.core.names import NANOSECONDS

AHEAD = 86_400 * NANOSECONDS
"""By how much clocks of different nodes may differ."""
_LARGEST = 2**63 - 1
Instant = Annotated[int, Meta(ge=0, le=_LARGEST, extra={"nanoseconds": 1})]
"""Nanoseconds since 1970, or a number that is counted on from there."""
Life = Annotated[int, Meta(ge=0, le=_LARGEST, extra={"nanoseconds": 1_000_000})]
"""The incarnation of a node: milliseconds since 1970 when it began."""
MOST = 2**31 - 1
"""More of anything than a node says in one life: one a second takes 68 years."""
Counter = Annotated[int, Meta(ge=0, le=MOST)]
"""Counts what a node says within one life or epoch; a node that reaches ``MOST`` begins a new one."""
LINK_CHANNEL = 0
"""Control on this channel is about the link itself and never reaches a template."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Base of all control messages."""


Check = Callable[[Any, int], None]
"""Raises ProtocolError if a value counts from an instant that is later than the given one."""


def check_instants(message: msgspec.Struct, now: int) -> None:
    """Raise ProtocolError if a message counts from an instant that no clock can show yet."""
    check = _check_of(type(message))
    if check is not None:
        check(message, now + AHEAD)


@cache
def _check_of(kind: type[msgspec.Struct]) -> Check | None:
    """What to look at in a message of a type; None if nothing in it counts instants."""
    return _check(inspect.type_info(kind), "message")


def _check(kind: inspect.Type, path: str) -> Check | None:
    match kind:
        case inspect.Metadata():
            unit = (kind.extra or {}).get("nanoseconds")
            return _check(kind.type, path) if unit is None else _instant(unit, path)
        case inspect.StructType():
            fields = [(each.name, _check(each.type, f"{path}.{each.name}")) for each in kind.fields]
            return _struct([(name, check) for name, check in fields if check is not None])
        case inspect.TupleType():
            items = [(at, _check(each, f"{path}[{at}]")) for at, each in enumerate(kind.item_types)]
            return _tuple([(at, check) for at, check in items if check is not None])
        case inspect.VarTupleType() | inspect.ListType():
            return _each(_check(kind.item_type, f"{path}[]"))
        case inspect.UnionType():
            return _union(kind.types, path)
        case _:
            return None


def _instant(unit: int, path: str) -> Check:
    def check(value: int, latest: int) -> None:
        if value * unit > latest:
            raise ProtocolError(path, value, f"at most {latest // unit}, a day ahead")

    return check


def _struct(fields: list[tuple[str, Check]]) -> Check | None:
    def check(value: Any, latest: int) -> None:
        for name, each in fields:
            each(getattr(value, name), latest)

    return check if fields else None


def _tuple(items: list[tuple[int, Check]]) -> Check | None:
    def check(value: Any, latest: int) -> None:
        for at, each in items:
            each(value[at], latest)

    return check if items else None


def _each(item: Check | None) -> Check | None:
    if item is None:
        return None

    def check(value: Any, latest: int) -> None:
        for each in value:
            item(each, latest)

    return check


def _union(kinds: Iterable[inspect.Type], path: str) -> Check | None:
    """Structs are told apart by their class; of anything else a union has at most one kind."""
    structs: dict[type, Check] = {}
    others: list[Check] = []
    for kind in kinds:
        found = _check(kind, path)
        if found is not None and isinstance(kind, inspect.StructType):
            structs[kind.cls] = found
        elif found is not None:
            others.append(found)

    def check(value: Any, latest: int) -> None:
        if isinstance(value, msgspec.Struct):
            of_kind = structs.get(type(value))
            if of_kind is not None:
                of_kind(value, latest)
        elif value is not None:
            for each in others:
                each(value, latest)

    return check if structs or others else None


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
