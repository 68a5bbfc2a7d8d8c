"""``gossamer whatif``: designs of a dispatching network compared, with a recommendation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from gossamer.cli.node import Json
from gossamer.cli.screen import screen
from gossamer.cli.spark import Master, pipeline, spark_for
from gossamer.cli.sweep import One, one_each, settings_of
from gossamer.simulator.scenario.variation import varied

if TYPE_CHECKING:
    from gossamer.whatif.run import Answer


def whatif(
    scenario: Annotated[Path, typer.Argument(help="TOML file that says what to compare.")],
    out: Annotated[
        Path, typer.Option(help="Folder for the page and the rows; begun again, it does what is missing.")
    ] = Path("whatif"),
    change: One = None,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Calculate and simulate designs side by side; writes OUT/report.html and OUT/sweep.parquet.

    Exit code 1 if a run failed, or the lean model disagreed with the template.
    """
    with pipeline():  # Spark is heavy; only who asks pays for it
        from gossamer.whatif.run import ask
        from gossamer.whatif.script import check, load

    question = varied(load(scenario), one_each(settings_of(change)))
    check(question)
    with spark_for(master, 0) as spark:
        answer = ask(spark, question, out)
    if as_json:
        told = {"verdicts": answer.verdicts, "cases": answer.cases, "report": str(answer.report)}
        print(msgspec.json.encode(told).decode())
    else:
        _show(answer)
    for failure in answer.failures:
        print(f"failed: {failure.reason}", file=sys.stderr)
    if answer.failures or not all(agreed for case in answer.cases for agreed in case.checked):
        raise typer.Exit(1)


def _show(answer: Answer) -> None:
    from gossamer.whatif import phrases as words

    console = screen()
    table = Table("design", "limits kept", "worst", "saturates at", "full first")
    for each in answer.verdicts:
        worst = ", ".join(
            f"{words.LIMITS[name][0]} {words.number(value, words.LIMITS[name][2])} {words.LIMITS[name][1]}"
            for name, value in each.worst.items()
        )
        saturates = each.calculated if each.saturates is None else each.saturates
        table.add_row(
            words.settings(each.design),
            f"{each.kept} of {each.cases}",
            worst,
            "–" if saturates is None else f"{saturates:.3g}",
            each.bottleneck or "–",
        )
    console.print(table)
    checked = [agreed for case in answer.cases for agreed in case.checked]
    if checked:
        console.print(
            f"the dispatch template agreed with the lean model in {sum(checked)} of {len(checked)} runs"
        )
    console.print(f"{answer.report}, {answer.table}", soft_wrap=True)
