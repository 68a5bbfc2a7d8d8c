"""Scenarios as what a sweep runs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gossamer.pipeline.sweep import Settings, Value
from gossamer.simulator.scenario.run import Result, Scenario, run
from gossamer.simulator.scenario.variation import command, varied

REPLICATE = "replicate"
"""A setting that changes nothing but the seed."""


class Simulation:
    """Runs a scenario with other settings, as ``run_sweep`` wants it.

    A broken promise is a row with violations, not a failure.

    traces
        Whether to keep the traces.
    """

    def __init__(self, scenario: Scenario, traces: bool = True) -> None:
        self.scenario = scenario
        self.traces = traces
        plain = msgspec.structs.replace(scenario, file="")
        self.identity = msgspec.json.encode(plain, order="sorted").decode()

    def vary(self, settings: Settings) -> Scenario:
        """The scenario of a configuration; raises ConfigError naming the key."""
        return varied(self.scenario, _without_replicate(settings))

    def __call__(self, settings: Settings, seed: int, folder: Path) -> dict[str, Value | None]:
        result = run(self.vary(settings), seed, folder if self.traces else None)
        for written in list(folder.iterdir()):  # its run has another name there
            for file in written.iterdir():
                file.rename(folder / file.name)
            written.rmdir()
        return row(result)

    def replay(self, settings: Settings, seed: int) -> str:
        """The command that does one run again."""
        return command(self.scenario, _without_replicate(settings), seed)


def row(result: Result) -> dict[str, Value | None]:
    """A result in columns; what has an inner shape becomes JSON."""
    columns = {
        name: getattr(result, name) for name in result.__struct_fields__ if name not in ("file", "seed")
    }
    return {
        name: value if isinstance(value, Value) else msgspec.json.encode(value).decode()
        for name, value in columns.items()
    }


def _without_replicate(settings: Settings) -> Settings:
    return {key: value for key, value in settings.items() if key != REPLICATE}
