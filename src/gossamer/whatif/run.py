"""A question answered: the sweep on Spark, its cases, and the page about them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gossamer.pipeline.sweep import TABLE, Failure, run_sweep
from gossamer.whatif.advice import Verdict, advise
from gossamer.whatif.inquiry import Inquiry
from gossamer.whatif.report import page
from gossamer.whatif.script import Question
from gossamer.whatif.summary import Case, cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "report.html"


class Answer(msgspec.Struct, frozen=True):
    """What came of a question.

    report, table
        The page, and the Parquet table of every run.
    ran
        Runs that were made now, and not found done.
    """

    cases: list[Case]
    verdicts: list[Verdict]
    failures: tuple[Failure, ...]
    report: Path
    table: Path
    ran: int


def ask(spark: SparkSession, question: Question, out: str | Path, *, progress: bool | None = None) -> Answer:
    """Calculate and simulate every configuration that has no row in ``out`` yet, and write the page."""
    folder = Path(out)
    inquiry = Inquiry(question)
    done = run_sweep(spark, inquiry.configurations(), inquiry, folder, seed=question.seed, progress=progress)
    found = cases(question, done.table.to_pylist())
    verdicts = advise(question, found)
    report = folder / PAGE
    report.write_text(page(question, found, verdicts, done.failures), encoding="utf-8")
    return Answer(found, verdicts, done.failures, report, folder / TABLE, done.ran)
