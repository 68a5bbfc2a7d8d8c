"""Settings files: TOML text into typed values, with errors that name the key and the line."""

from __future__ import annotations

import re
import tomllib
from typing import Any, TypeVar

import msgspec

from gossamer.core.errors import ConfigError

T = TypeVar("T")


def parse(text: str, shape: type[T], file: str = "") -> T:
    """Read TOML into a struct; raises ConfigError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        reason = re.sub(r" \(at .*\)$", "", str(error))
        raise ConfigError(reason, file=file, line=line, key=_key_on(text, line)) from None
    try:
        return msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        steps: list[str] = re.findall(r"\[(?:\d+|\.\.\.)\]|\w+", path)
        unknown = re.search(r"unknown field `([^`]+)`", reason)
        if unknown:
            steps.append(unknown[1])
        missing = re.search(r"missing required field `([^`]+)`", reason)
        line = _line_of(text, data, steps)
        if missing:
            steps.append(missing[1])
        key = ".".join(step for step in steps if not step.startswith("["))
        raise ConfigError(reason, file=file, key=key, line=line) from None


def _key_on(text: str, line: int) -> str:
    lines = text.splitlines()
    found = re.match(r"\s*\[*\s*([\w.\"'-]+)", lines[line - 1]) if 0 < line <= len(lines) else None
    return found[1] if found else ""


def _line_of(text: str, data: dict[str, Any], steps: list[str]) -> int:
    """Where a key stands: walk tables in order of the file, then look for the key itself; 0 if not found."""
    names = [step for step in steps if not step.startswith("[")]
    indexes = [int(step[1:-1]) for step in steps if re.fullmatch(r"\[\d+\]", step)]
    nth = indexes[0] if indexes else 0
    lines = text.splitlines()
    for depth in range(len(names), 0, -1):
        table, keys = ".".join(names[: depth - 1]), names[depth - 1]
        here, seen, table_line = "", -1, 0
        for number, line in enumerate(lines, 1):
            header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
            if header:
                here = header[1].replace('"', "").replace(" ", "")
                if here == table:
                    seen, table_line = seen + 1, number
                if here == ".".join(names[:depth]) and depth == len(names) and not indexes:
                    return number
                continue
            if (
                here == table
                and seen in (nth, -1)
                and re.match(rf"\s*[\"']?{re.escape(keys)}[\"']?\s*=", line)
            ):
                return number
        if table_line and depth == len(names):
            return table_line if seen <= nth else _nth_table(lines, table, nth)
    return 0


def _nth_table(lines: list[str], table: str, nth: int) -> int:
    found = [n for n, line in enumerate(lines, 1) if re.match(rf"\s*\[\[\s*{re.escape(table)}\s*\]\]", line)]
    return found[nth] if nth < len(found) else 0
