"""``gossamer bench``: figures of this machine, beside those of other systems."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gossamer.bench.peers import RECEIVERS, SIZES, Plan, Result, Row, compare
from gossamer.bench.scaling import BASE, work
from gossamer.cli.node import Json
from gossamer.cli.screen import marked, screen
from gossamer.cli.session import until_stopped
from gossamer.cli.spark import pipeline
from gossamer.core.errors import ConfigError

app = typer.Typer(
    add_completion=False, help="Measure gossamer beside other systems, on this machine.", no_args_is_help=True
)


@app.callback()
def bench() -> None:
    """Measure gossamer beside other systems, on this machine."""


@app.command()
def peers(
    systems: Annotated[str, typer.Option(help="Names with commas between; all that are installed.")] = "",
    sizes: Annotated[str, typer.Option(help="Bytes of a message, with commas between.")] = "",
    receivers: Annotated[str, typer.Option(help="Numbers of receivers, with commas between.")] = "",
    repeat: Annotated[int, typer.Option(min=1, max=100, help="Repetitions, interleaved.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.01, max=60, help="How long each sends.")] = 0.5,
    full: Annotated[
        bool, typer.Option("--full", help="All sizes and numbers of receivers; takes an hour.")
    ] = False,
    round_trips: Annotated[bool, typer.Option(help="Measure round trips too.")] = True,
    chart: Annotated[Path | None, typer.Option(help="Page of charts to write.")] = None,
    as_json: Json = False,
) -> None:
    """Compare rates, losses, processor time and round trips; exit code 1 if a message was lost.

    Sender and receivers are separate processes, and every message is handed to Python code in each receiver.
    Ctrl-C stops, and shows what there is.
    """
    usual = Plan()
    plan = Plan(
        systems=tuple(each.strip() for each in systems.split(",")) if systems else usual.systems,
        sizes=_numbers(sizes, "--sizes") or (SIZES if full else usual.sizes),
        receivers=_numbers(receivers, "--receivers") or (RECEIVERS if full else usual.receivers),
        repeat=repeat,
        seconds=seconds,
        round_trips=round_trips,
    )
    result = Result(plan)
    finished = until_stopped(lambda: _compare(result))
    rows = result.rows()
    if as_json:
        print(told(result, rows))
    else:
        show(result, rows)
    if chart is not None:
        with pipeline():  # matplotlib is heavy; only who draws pays for it
            from gossamer.bench.charts import page
        chart.write_text(page(result))
    if not finished:
        raise typer.Exit(130)
    if result.problems or any(row.loss for row in rows):
        raise typer.Exit(1)


RINGS = ("gossamer-multiring", "gossamer-direct")


@app.command()
def rings(
    systems: Annotated[str, typer.Option(help="Systems beside the ring, with commas between.")] = "pyzmq",
    sizes: Annotated[str, typer.Option(help="Bytes of a message, with commas between.")] = "",
    receivers: Annotated[str, typer.Option(help="Numbers of receivers, with commas between.")] = "",
    repeat: Annotated[int, typer.Option(min=1, max=100, help="Repetitions, interleaved.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.01, max=60, help="How long each sends.")] = 0.5,
    chart: Annotated[Path | None, typer.Option(help="Page of charts to write.")] = None,
    as_json: Json = False,
) -> None:
    """A ring of peers, beside direct links and other systems: one sender, 1 to 11 receivers, up to 100 kB."""
    beside = tuple(each.strip() for each in systems.split(",") if each.strip())
    peers(
        systems=",".join((*RINGS, *beside)),
        sizes=sizes or ",".join(map(str, SIZES)),
        receivers=receivers or ",".join(map(str, RECEIVERS)),
        repeat=repeat,
        seconds=seconds,
        full=False,
        round_trips=False,
        chart=chart,
        as_json=as_json,
    )


async def _compare(result: Result) -> bool:
    console = screen(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=result.plan.steps)
        await compare(result, lambda what, done: progress.update(task, description=what, completed=done))
    return True


def _numbers(text: str, key: str) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in text.split(",")) if text else ()
    except ValueError:
        raise ConfigError(f"expected numbers with commas between, not {text!r}", key=key) from None


def told(result: Result, rows: list[Row]) -> str:
    """The result for programs."""
    whole = {
        "rows": rows,
        "round_trips": result.round_trips(),
        "not_installed": result.missing,
        "problems": result.problems,
    }
    return msgspec.json.encode(whole).decode()


# for people


def show(result: Result, rows: list[Row]) -> None:
    """Tables: rates with ratios to the fastest peer, processor time, round trips."""
    console = screen()
    found = {(row.system, row.size, row.receivers): row for row in rows}
    for receivers in result.plan.receivers:
        to = f"{receivers} receiver{'s' if receivers > 1 else ''}"
        title = f"messages/s per receiver (× fastest peer) · {to}"
        console.print(_table(title, result, found, receivers, _rate))
        console.print(_table(f"processor µs per delivered message · {to}", result, found, receivers, _cpu))
    most = max(result.plan.receivers)
    if most > BASE and (ratios := work(rows, most)):
        title = f"work per delivered message · {most} receivers relative to {BASE}"
        text = {(name, size): f"{ratio:.2f}" for name, points in ratios.items() for size, ratio in points}
        console.print(_table(title, result, found, most, lambda row: text.get((row.system, row.size), "–")))
    if result.calls:
        table = Table("system", title="round trip of 100 bytes, µs")
        for name in ("p50", "p99", "calls"):
            table.add_column(name, justify="right")
        for row in result.round_trips():
            table.add_row(row.system, f"{row.p50:.0f}", f"{row.p99:.0f}", str(row.calls))
        console.print(table)
    lost = sum(row.loss for row in rows)
    console.print(f"lost: {lost or 'nothing'}; medians of {result.plan.repeat} interleaved repetitions")
    for name, problem in result.problems.items():
        console.print(marked(name, f": {problem}", "red"), soft_wrap=True)


Cells = dict[tuple[str, int, int], Row]


def _table(
    title: str, result: Result, found: Cells, receivers: int, text: Callable[[Row], str | Text]
) -> Table:
    table = Table("system", title=title)
    for size in result.plan.sizes:
        table.add_column(f"{size} B", justify="right")
    for name in result.plan.systems:
        if name in result.missing:
            table.add_row(name, *["not installed"] * len(result.plan.sizes), style="dim")
            continue
        own = [found.get((name, size, receivers)) for size in result.plan.sizes]
        table.add_row(name, *("–" if row is None else text(row) for row in own))
    return table


def _rate(row: Row) -> Text:
    share = f" ({row.ratio:.2f}×)" if row.ratio is not None else ""
    lost = f" {row.loss} lost" if row.loss else ""
    return Text.assemble(_short(row.rate), share, (lost, "red"))


def _short(rate: float) -> str:
    if rate >= 1e6:
        return f"{rate / 1e6:.2f}M"
    return f"{rate / 1e3:.1f}k" if rate >= 1e3 else f"{rate:.0f}"


def _cpu(row: Row) -> str:
    return "?" if row.cpu is None else f"{row.cpu:.1f}"
