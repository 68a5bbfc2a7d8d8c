"""Every control message is frozen, and every length in it has a limit that holds before memory is taken."""

from __future__ import annotations

import importlib
import sys
import typing
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from gossamer.core.control import Message
from tests.laws import checks


def import_everything() -> None:
    """Messages may be defined anywhere; a module whose optional third party is missing has no say."""
    for module, _ in checks.modules():
        name = module.removesuffix(".__init__")
        if name.endswith("__main__"):
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "gossamer").startswith("gossamer"):
                raise


def all_messages() -> list[type[Message]]:
    import_everything()
    return sorted(_below(Message), key=lambda each: (each.__module__, each.__name__))


def _below(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        if each.__module__.startswith("gossamer."):
            yield each
        yield from _below(each)


def unbounded(kind: Any, path: str, seen: frozenset[Any] = frozenset()) -> list[str]:
    """Where a type lets somebody send more than a stated length."""
    limit, kind = _limit(kind)
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    found: list[str] = []
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind in seen:
            return []
        if not kind.__struct_config__.frozen:
            found.append(f"{path}: {kind.__name__} is not frozen")
        for field in msgspec.structs.fields(kind):
            found += unbounded(field.type, f"{path}.{field.name}", seen | {kind})
        return found
    if kind is Any or kind is msgspec.Raw or kind is object:
        return [f"{path}: anything may come"]
    sized = kind in (str, bytes, bytearray, list, tuple, dict, set, frozenset) or origin in (
        list,
        dict,
        set,
        frozenset,
        tuple,
    )
    fixed = origin is tuple and Ellipsis not in arguments
    if sized and not fixed and limit is None:
        found.append(f"{path}: {kind} has no max_length")
    if origin is not None and origin is not typing.Literal:
        for index, each in enumerate(arguments):
            if each is not Ellipsis:
                found += unbounded(each, f"{path}[{index}]", seen)
    elif isinstance(kind, UnionType):
        for each in kind.__args__:
            found += unbounded(each, path, seen)
    return found


def _limit(kind: Any) -> tuple[int | None, Any]:
    limit: int | None = None
    while typing.get_origin(kind) is Annotated:
        kind, *metas = typing.get_args(kind)
        for meta in metas:
            if isinstance(meta, Meta) and meta.max_length is not None:
                limit = meta.max_length
    return limit, kind


def test_there_are_messages_to_check() -> None:
    assert {"Interest", "Learn", "Asked"} <= {each.__name__ for each in all_messages()}


@pytest.mark.parametrize("message", all_messages(), ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_every_length_in_a_message_has_a_limit(message: type[Message]) -> None:
    assert unbounded(message, message.__name__) == []


@pytest.mark.parametrize("message", all_messages(), ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_a_message_is_a_frozen_tagged_array_that_takes_nothing_unknown(message: type[Message]) -> None:
    config = message.__struct_config__
    assert config.frozen
    assert config.array_like
    assert config.tag == message.__name__
    assert config.forbid_unknown_fields


class Loose(msgspec.Struct):
    """A nested value without limits."""

    text: str


def test_the_check_sees_through_nesting_unions_and_mappings() -> None:
    def faults(kind: Any) -> int:
        return len(unbounded(kind, "x"))

    short = Annotated[str, Meta(max_length=3)]
    assert faults(short) == 0
    assert faults(str) == 1
    assert faults(bytes | None) == 1
    assert faults(short | int | None) == 0
    assert faults(list[int]) == 1
    assert faults(Annotated[list[str], Meta(max_length=3)]) == 1
    assert faults(Annotated[list[short], Meta(max_length=3)]) == 0
    assert faults(tuple[int, int]) == 0
    assert faults(Annotated[tuple[short, ...], Meta(max_length=3)]) == 0
    assert faults(Annotated[dict[short, str | int], Meta(max_length=3)]) == 1
    assert faults(Annotated[dict[short, Any], Meta(max_length=3)]) == 1
    assert faults(Annotated[list[Loose], Meta(max_length=3)]) == 2


def test_importing_every_module_needs_no_order() -> None:
    import_everything()
    assert "gossamer.core.engine" in sys.modules
