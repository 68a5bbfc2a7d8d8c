"""``gossamer simulate``: a scenario in virtual time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import Progress
from rich.table import Table

from gossamer.cli.node import Json
from gossamer.cli.screen import marked, screen
from gossamer.cli.sweep import One, one_each, settings_of
from gossamer.simulator.scenario.run import Result, Scenario, load, run
from gossamer.simulator.scenario.variation import command, varied


def simulate(
    scenario: Annotated[Path, typer.Argument(help="TOML file that describes the run.")],
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same run.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for the trace.")] = None,
    change: One = None,
    as_json: Json = False,
) -> None:
    """Run a scenario in virtual time; exit code 1 if a promise was broken."""
    settings = one_each(settings_of(change))
    loaded = varied(load(scenario), settings)
    result = with_progress(loaded, seed, out)
    if as_json:
        print(msgspec.json.encode(result).decode())
    else:
        _show(result, out)
    if result.violations:
        print(
            f"{result.violations} violations; replay with: {command(loaded, settings, seed)}", file=sys.stderr
        )
        raise typer.Exit(1)


def with_progress(scenario: Scenario, seed: int, out: Path | None) -> Result:
    """Run a scenario; people at a terminal see how far it is."""
    console = screen(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"simulating {scenario.name}, seed {seed}", total=scenario.duration)
        return run(scenario, seed, out, lambda seconds: progress.update(task, completed=seconds))


def _show(result: Result, out: Path | None) -> None:
    console = screen()
    console.print(
        marked(result.scenario, f", seed {result.seed}: {result.virtual_seconds:g} virtual seconds")
    )
    table = Table(show_header=False)
    share = f" ({result.delivered / result.expected:.1%})" if result.expected else ""
    rows = {
        "published": f"{result.published}",
        "expected": f"{result.expected} (event and subscriber pairs)",
        "delivered": f"{result.delivered}{share}",
        "duplicates": f"{result.duplicates}",
        "answers": f"{result.feedback} of {result.answered}",
        "latency": f"p50 {result.latency_p50 * 1000:.1f} ms, p99 {result.latency_p99 * 1000:.1f} ms",
        "data": f"{result.data_messages} messages, {result.data_bytes} bytes",
        "control": f"{result.control_messages} messages, {result.control_bytes} bytes",
        "dropped": ", ".join(f"{count} {reason}" for reason, count in result.drops.items()) or "nothing",
        "promises": f"{result.violations} violations" if result.violations else "kept",
        "trace hash": result.trace_hash,
    }
    if result.unchecked:
        rows["not checked"] = ", ".join(result.unchecked)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    for violation in result.examples:
        console.print(f"  violated: {violation}")
    if out is not None:
        console.print(f"{result.rows} rows of trace in {out}")
