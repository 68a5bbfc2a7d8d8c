"""Settings files: TOML text into typed values, with errors that name the key and the line."""

from __future__ import annotations

import re
import tomllib
from typing import Any, TypeVar

import msgspec

from gossamer.core.errors import ConfigError

T = TypeVar("T")

Path = tuple[str | int, ...]
"""Where a value stands: names of tables and keys, and positions in arrays."""


def parse(text: str, shape: type[T], file: str = "") -> T:
    """Read TOML into a struct; raises ConfigError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else max(1, len(text.splitlines()))
        reason = re.sub(r" \(at .*\)$", "", str(error))
        raise ConfigError(reason, file=file, line=line, key=_key_on(text, line)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"a number is too long or a value too deep: {error}", file=file) from None
    try:
        return msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        reason, path = _found(error)
        if Ellipsis in path:
            path = _named(data, shape, path, str(error))
        absent = re.search(r"(unknown|missing required) field `([^`]+)`", reason)
        steps = tuple(step for step in path if step is not Ellipsis)
        named = (*steps, absent[2]) if absent else steps
        raise wrong(reason, named, text, file) from None


def wrong(reason: str, path: Path, text: str = "", file: str = "") -> ConfigError:
    """The error for a value of a settings file, or of settings made without one."""
    key = ".".join(step for step in path if isinstance(step, str))
    return ConfigError(reason, file=file, key=key, line=_line_of(text, path))


def _found(error: msgspec.ValidationError) -> tuple[str, tuple[Any, ...]]:
    """The reason, and the path to the value; msgspec says ``[...]`` for a key of a mapping."""
    reason, _, place = str(error).partition(" - at `$")
    path: list[Any] = []
    for name, position in re.findall(r"\.([\w-]+)|\[(\d+|\.\.\.)\]", place):
        path.append(name or (Ellipsis if position == "..." else int(position)))
    return reason, tuple(path)


def _named(data: Any, shape: Any, path: tuple[Any, ...], error: str) -> tuple[Any, ...]:
    """The path with the first unnamed key of a mapping named: the one that fails alone as well."""
    at = path.index(Ellipsis)
    mapping: Any = data
    for step in path[:at]:
        mapping = mapping[step]
    kept = dict(mapping)
    for key in kept:
        mapping.clear()
        mapping[key] = kept[key]
        try:
            msgspec.convert(data, shape)
        except msgspec.ValidationError as same:
            if str(same) == error:
                rest = (*path[:at], key, *path[at + 1 :])
                return _named(data, shape, rest, error) if Ellipsis in rest else rest
    return path


def _key_on(text: str, line: int) -> str:
    lines = text.splitlines()
    found = re.match(r"\s*\[*\s*([\w.\"'-]+)", lines[line - 1]) if 0 < line <= len(lines) else None
    return found[1] if found else ""


def _line_of(text: str, path: Path) -> int:
    """Where a value stands, or else the innermost table or key around it; 0 if there is none."""
    places = _places(text)
    for depth in range(len(path), 0, -1):
        if path[:depth] in places:
            return places[path[:depth]]
    return 0


_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_KEYS = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\s*(\[\[?)\s*({_KEYS})\s*\]")
_VALUE = re.compile(rf"\s*({_KEYS})\s*=")


def _places(text: str) -> dict[Path, int]:
    """The line of every table and key; tables of an array are counted."""
    places: dict[Path, int] = {}
    last: dict[Path, int] = {}
    table: Path = ()
    quote = ""
    for number, line in enumerate(text.splitlines(), 1):
        inside, quote = quote, _open_quote(line, quote)
        if inside:
            continue
        if header := _TABLE.match(line):
            table = ()
            *outer, name = _names(header[2])
            for each in outer:
                table = (*table, each)
                table = (*table, last[table]) if table in last else table
            table = (*table, name)
            if header[1] == "[[":
                last[table] = last.get(table, -1) + 1
                table = (*table, last[table])
            places[table] = number
        elif value := _VALUE.match(line):
            path = table
            for each in _names(value[1]):
                path = (*path, each)
                places.setdefault(path, number)
    return places


def _names(keys: str) -> list[str]:
    return [key.strip("\"'") for key in re.findall(_KEY, keys)]


def _open_quote(line: str, quote: str) -> str:
    """The multi-line quote that is open at the end of a line."""
    for mark in re.findall(r'"""|' + "'''", line):
        quote = "" if mark == quote else quote or mark
    return quote
