"""Finds what is installed: templates and transports, by their entry points.

A package adds a template or a transport by declaring it under ``gossamer.templates`` or
``gossamer.transports``; nothing here knows any of them by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from gossamer.core.errors import ConfigError
from gossamer.core.template import Template
from gossamer.transports.base import Transport

T = TypeVar("T")

TEMPLATES = "gossamer.templates"
TRANSPORTS = "gossamer.transports"


class Catalog(Mapping[str, type[T]]):
    """Classes by name, imported when first asked for."""

    def __init__(self, group: str, kind: type[T]) -> None:
        self._kind = kind
        self._points: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=group)}
        self._loaded: dict[str, type[T]] = {}

    def __getitem__(self, name: str) -> type[T]:
        found = self._loaded.get(name)
        if found is None:
            found = self._loaded[name] = self._load(self._points[name])
        return found

    def _load(self, point: EntryPoint) -> type[T]:
        try:
            found = point.load()
        except Exception as error:
            reason = f"{point.value} cannot be imported ({type(error).__name__}: {error})"
            raise ConfigError(reason, key=f"{point.group}.{point.name}") from error
        if not (isinstance(found, type) and issubclass(found, self._kind)):
            raise ConfigError(
                f"{point.value} is not a {self._kind.__name__}", key=f"{point.group}.{point.name}"
            )
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._points

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._points))

    def __len__(self) -> int:
        return len(self._points)


def templates() -> Mapping[str, type[Template[Any]]]:
    """Every installed template."""
    return Catalog(TEMPLATES, Template)


def transports() -> Mapping[str, type[Transport]]:
    """Every installed transport, by the scheme of its addresses."""
    return Catalog(TRANSPORTS, Transport)  # type: ignore[type-abstract]
