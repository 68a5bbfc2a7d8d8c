"""``gossamer sweep``: a scenario under many settings and seeds, on Spark."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from gossamer.cli.node import Json
from gossamer.cli.pubsub import value_of
from gossamer.cli.screen import screen
from gossamer.cli.spark import pipeline, spark_for
from gossamer.core.errors import ConfigError
from gossamer.simulator.scenario.run import load

MAX_CONFIGURATIONS = 1_000_000

One = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE, such as link.loss=0.1; may be repeated."),
]
Value = str | int | float | bool


def settings_of(texts: Iterable[str] | None) -> dict[str, list[Value]]:
    """Settings from texts such as ``link.loss=0,0.1,0.5``."""
    settings: dict[str, list[Value]] = {}
    for text in texts or ():
        key, separator, values = text.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"expected KEY=VALUE, not {text!r}", key="--set")
        if key.strip() in settings:
            raise ConfigError("it is given twice: list its values with commas", key=key.strip())
        settings[key.strip()] = [value_of(each.strip()) for each in values.split(",")]  # type: ignore[misc]
    return settings


def one_each(settings: dict[str, list[Value]]) -> dict[str, Value]:
    """The settings of a single run."""
    for key, values in settings.items():
        if len(values) != 1:
            raise ConfigError(f"one run has one value, not {len(values)}; for more, sweep", key=key)
    return {key: values[0] for key, values in settings.items()}


def numbers_of(text: str) -> list[int]:
    """Whole numbers from ``1..20``, ``1,2,5`` or both."""
    numbers: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:\.\.(\d+))?\s*", part)
        if not found:
            raise ConfigError(f"expected numbers such as 1..20 or 1,2,5, not {part!r}", key="--seeds")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < first + MAX_CONFIGURATIONS:
            raise ConfigError(f"{part.strip()} is not a range of at most {MAX_CONFIGURATIONS}", key="--seeds")
        numbers += range(first, last + 1)
    return list(dict.fromkeys(numbers))


def sweep(
    scenario: Annotated[Path, typer.Argument(help="TOML file that describes the run.")],
    out: Annotated[
        Path, typer.Option(help="Folder for rows and traces; begun again, it does what is missing.")
    ],
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE,VALUE,… such as link.loss=0,0.1,0.5; may be repeated."),
    ] = None,
    seeds: Annotated[str, typer.Option(help="How often, as numbers such as 1..20.")] = "1",
    seed: Annotated[int, typer.Option(min=0, help="Master seed: another one makes other runs.")] = 0,
    traces: Annotated[bool, typer.Option(help="Keep the traces.")] = True,
    master: Annotated[str | None, typer.Option(help="Spark master; this machine if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Run a scenario under many settings; exit code 1 if a promise was broken or a run failed."""
    with pipeline():  # Spark is heavy; only who sweeps pays for it
        from gossamer.pipeline.simulations import REPLICATE, Simulation
        from gossamer.pipeline.sweep import grid, run_sweep

    simulation = Simulation(load(scenario), traces)
    settings = settings_of(change)
    numbers = numbers_of(seeds)
    configurations = grid({**settings, REPLICATE: numbers})
    if len(configurations) > MAX_CONFIGURATIONS:
        raise ConfigError(f"{len(configurations)} configurations; at most {MAX_CONFIGURATIONS}", key="--set")
    for each in configurations[:: len(numbers)]:
        simulation.vary(each)  # a bad setting fails here, before Spark starts
    with spark_for(master, 0) as spark:  # Java has little to do here
        done = run_sweep(spark, configurations, simulation, out, seed=seed)
    rows = done.table.to_pylist()
    broken = sum(row["violations"] for row in rows)
    if as_json:
        told = {
            "configurations": len(configurations),
            "ran": done.ran,
            "violations": broken,
            "rows": rows,
            "failures": done.failures,
        }
        print(msgspec.json.encode(told).decode())
    else:
        _show([name for name, values in settings.items() if len(values) > 1], rows, out)
    for failure in done.failures:
        print(f"failed: {failure.reason}; replay with: {failure.replay}", file=sys.stderr)
    for row in [row for row in rows if row["violations"]][:5]:
        told = {name: row[name.replace(".", "_")] for name in settings}
        replay = simulation.replay(told, row["seed"])
        print(f"{row['violations']} violations; replay with: {replay}", file=sys.stderr)
    if broken or done.failures:
        raise typer.Exit(1)


def _show(settings: list[str], rows: list[dict[str, Any]], out: Path) -> None:
    """One line per combination of settings, over all its seeds."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name.replace(".", "_")] for name in settings), []).append(row)
    table = Table()
    for name in settings:
        table.add_column(name, justify="right")
    for name in ("runs", "delivered", "p50 ms", "p99 ms", "twice", "control", "violations"):
        table.add_column(name, justify="right")
    for values, same in groups.items():
        expected = sum(row["expected"] for row in same)
        share = f"{sum(row['delivered'] for row in same) / expected:.2%}" if expected else "–"
        table.add_row(
            *map(str, values),
            str(len(same)),
            share,
            f"{1000 * _mean(same, 'latency_p50'):.1f}",
            f"{1000 * _mean(same, 'latency_p99'):.1f}",
            str(sum(row["duplicates"] for row in same)),
            f"{_mean(same, 'control_messages'):.0f}",
            str(sum(row["violations"] for row in same)),
        )
    console = screen()
    console.print(table)
    console.print(f"{len(rows)} rows in {out / 'sweep.parquet'}")


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    return float(sum(row[name] for row in rows)) / len(rows)
