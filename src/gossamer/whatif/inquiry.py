"""A question as what a sweep runs: one configuration at a time, calculated or simulated."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from gossamer.pipeline.sweep import Settings, grid
from gossamer.simulator.scenario.variation import varied
from gossamer.whatif import model, worlds
from gossamer.whatif.forecast import forecast
from gossamer.whatif.measures import Measures, Row, row
from gossamer.whatif.script import Question, check

RUN = "run"
"""The setting that numbers the simulations of a configuration; 0 is the calculation."""


class Inquiry:
    """Answers a question for one configuration, as ``run_sweep`` wants it."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.identity = msgspec.json.encode(_essence(question), order="sorted").decode()

    def configurations(self) -> list[Settings]:
        """Every combination of what is swept, calculated once and simulated as often as asked."""
        return grid({**self.question.sweep, RUN: range(self.question.runs + 1)})

    def vary(self, settings: Settings) -> Question:
        """The question of a configuration; raises ConfigError naming the key."""
        own = {key: value for key, value in settings.items() if key != RUN}
        question = varied(msgspec.structs.replace(self.question, sweep={}), own)
        check(question)
        return question

    def __call__(self, settings: Settings, seed: int, folder: Path) -> Row:
        question, run = self.vary(settings), int(settings[RUN])
        if run == 0:
            return row(forecast(question), question)
        if question.engine == "template":
            return row(worlds.simulate(question, seed), question)
        found = model.simulate(question, seed)
        checked = question.engine == "both" and question.topology.has_template and run <= question.checked
        agrees = alike(found, worlds.simulate(question, seed)) if checked else None
        return {**row(found, question), "agrees": agrees}

    def replay(self, settings: Settings, seed: int) -> str:
        """The command that answers the question again."""
        return f"gossamer whatif {shlex.quote(self.question.file or self.question.name)}"


def alike(one: Measures, other: Measures) -> bool:
    """Whether two simulations of the same workload brought the same events and filters to all dispatchers.

    What is on its way when the window ends may differ by a few events, since frames differ by a few bytes.
    """
    near = all(abs(a - b) <= max(2.0, 0.002 * a) for a, b in zip(one.loads, other.loads, strict=True))
    return near and (one.filters, one.extra) == (other.filters, other.extra)


def _essence(question: Question) -> Question:
    """All that decides results, and nothing else."""
    plain = Question()
    return msgspec.structs.replace(
        question,
        **{
            name: getattr(plain, name)
            for name in ("name", "about", "file", "limits", "prefer", "runs", "sweep")
        },
    )
