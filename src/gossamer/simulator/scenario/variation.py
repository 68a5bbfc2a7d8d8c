"""One scenario with some of its settings changed.

A setting is named by its path in the file: ``link.loss``, ``publish.0.rate``, ``channel.settings.window``.
In an array of tables a number chooses one of them, and without a number all are meant.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from gossamer.core.errors import ConfigError
from gossamer.simulator.scenario.run import Scenario

Value = str | int | float | bool


class Loaded(Protocol):
    """A struct that a file became."""

    @property
    def file(self) -> str: ...


Script = TypeVar("Script", bound=Loaded)


def varied(scenario: Script, settings: Mapping[str, Value]) -> Script:
    """The scenario with these settings; raises ConfigError naming the first that cannot be."""
    for key, value in settings.items():
        data: Any = msgspec.json.decode(msgspec.json.encode(scenario))
        _set(data, key.split("."), value, key, scenario.file)
        try:
            scenario = msgspec.convert(data, type(scenario))
        except msgspec.ValidationError as error:
            raise ConfigError(f"{value!r} does not fit: {error}", key=key, file=scenario.file) from None
    return scenario


def command(scenario: Scenario, settings: Mapping[str, Value], seed: int) -> str:
    """What does just this run again."""
    file = shlex.quote(scenario.file or scenario.name)
    changes = [f" --set {shlex.quote(f'{key}={_shown(value)}')}" for key, value in settings.items()]
    return f"gossamer simulate {file} --seed {seed}{''.join(changes)}"


def _shown(value: Value) -> str:
    """A value such that reading it gives the same type again."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def _set(data: Any, path: list[str], value: Value, key: str, file: str) -> None:
    step, *rest = path
    if isinstance(data, list):
        if not step.isdecimal():
            if not data:
                raise ConfigError(f"the scenario has none to set {step!r} in", key=key, file=file)
            for each in data:
                _set(each, path, value, key, file)
            return
        if int(step) >= len(data):
            raise ConfigError(f"there are only {len(data)}, counted from 0", key=key, file=file)
        _set(data[int(step)], rest, value, key, file) if rest else data.__setitem__(int(step), value)
    elif not isinstance(data, dict):
        raise ConfigError(f"nothing is below it, so there is no {step!r}", key=key, file=file)
    elif rest:
        if step not in data:
            raise ConfigError(f"there is no {step!r}; known: {', '.join(data)}", key=key, file=file)
        _set(data[step], rest, value, key, file)
    else:
        data[step] = value
