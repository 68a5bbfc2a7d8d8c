"""``gossamer audit``, ``report`` and ``watch``: what traces prove, in words and pictures, later or live."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gossamer.cli.node import Json
from gossamer.cli.screen import marked, screen
from gossamer.cli.spark import Master, pipeline, spark_for

if TYPE_CHECKING:
    from gossamer.pipeline.audit.auditing import Outcome
    from gossamer.pipeline.reading import Survey

Traces = Annotated[str, typer.Argument(help="Folder or address of traces, or of one run.")]
Runs = Annotated[list[str] | None, typer.Option("--run", help="Only this run; may be repeated.")]

SHOWN = 20


def audit(
    traces: Traces,
    run: Runs = None,
    master: Master = None,
    plain: Annotated[bool, typer.Option(help="Use plain queries where there are kernels too.")] = False,
    as_json: Json = False,
) -> None:
    """Hold traces against what their channels promised.

    Exit code 0: every promise of every channel was kept, and the traces are whole. 1: one was broken.
    2: the traces are incomplete, so nobody can tell.
    """
    look = _survey(traces, run, deep=plain)
    with spark_for(master, look.rows) as spark:
        from gossamer.pipeline.audit.auditing import audit as hold

        outcome = hold(spark, look, plain=plain)
    if as_json:
        print(msgspec.json.encode({**msgspec.to_builtins(outcome), "result": outcome.word}).decode())
    else:
        show(outcome, screen())
    raise typer.Exit(outcome.code)


def report(
    traces: Traces,
    run: Runs = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    master: Master = None,
) -> None:
    """Make one page with pictures of what happened: topology, latency, load, promises."""
    look = _survey(traces, run, deep=True)  # Spark would fail at a page that cannot be read
    with spark_for(master, look.rows) as spark:
        from gossamer.pipeline.report import report as make

        page, _ = make(spark, look)
    out.write_text(page)
    runs = "1 run" if len(look.runs) == 1 else f"{len(look.runs)} runs"
    said = f"{out}: {len(page) // 1024} KiB, {runs}, {look.rows} rows{_left_out(look.quarantined)}"
    screen().print(said, soft_wrap=True)


def watch(
    traces: Traces,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 2.0,
    once: Annotated[bool, typer.Option(help="Show what is there, and end.")] = False,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Follow the traces of a running overlay: scorecards and violations, kept current. Ctrl-C ends it."""
    from gossamer.cli.watch_table import follow

    with spark_for(master, 0) as spark:
        follow(spark, traces, interval, once, as_json)


def show(outcome: Outcome, console: Console) -> None:
    """Print an outcome for people."""
    table = Table("run", "channel", "promise", "result")
    for verdict in outcome.verdicts:
        if verdict.violations:
            word = marked(f"{verdict.violations} violations", style="bold red")
        elif not verdict.judged:
            word = marked("cannot be told", style="yellow")
        else:
            word = Text("kept" if outcome.complete else "kept, as far as rows go")
        table.add_row(verdict.run, verdict.channel, verdict.promise, word)
    console.print(table)
    for each in outcome.violations[:SHOWN]:
        console.print(
            f"  {each.run} {each.channel}: {each.promise} broken at {each.node} by number {each.number} of "
            f"{each.source or 'nobody'}, instant {each.at}; expected: {each.expected}",
            soft_wrap=True,
        )
    if outcome.total > SHOWN:
        console.print(f"  … and {outcome.total - SHOWN} more")
    for fault in outcome.faults[:SHOWN]:
        console.print(
            f"  incomplete: {fault.run}, {fault.file or fault.writer}: {fault.reason}", soft_wrap=True
        )
    if len(outcome.faults) > SHOWN:
        console.print(f"  … and {len(outcome.faults) - SHOWN} more")
    damaged = _left_out(sum(fault.quarantined for fault in outcome.faults))
    console.print(
        marked(outcome.word, f": {outcome.checked.rows} rows, {outcome.checked.events} events{damaged}")
    )


def _left_out(files: int) -> str:
    return f", {files} damaged files left out" if files else ""


def _survey(traces: str, runs: list[str] | None, deep: bool = False) -> Survey:
    with pipeline():
        from gossamer.pipeline.reading import survey
    look = survey(traces, deep)
    return look.only(runs) if runs else look
