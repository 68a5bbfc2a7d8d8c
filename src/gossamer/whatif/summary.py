"""Many runs of a configuration become one case: what was calculated beside what was simulated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

import msgspec

from gossamer.whatif.inquiry import RUN
from gossamer.whatif.script import Question

_STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)
"""Student's t for 95 % and 1, 2, 3 … degrees of freedom."""

Settings = dict[str, Any]


class Estimate(msgspec.Struct, frozen=True):
    """A mean over runs and how far it may be off, with a confidence of 95 %; one run alone does not tell."""

    mean: float
    half: float
    runs: int

    @property
    def highest(self) -> float:
        """The upper end of the interval."""
        return self.mean + (self.half if math.isfinite(self.half) else 0.0)


class Case(msgspec.Struct, frozen=True):
    """One configuration.

    settings
        Those that are swept.
    calculated
        The row of the analysis.
    simulated
        The rows of all simulations.
    """

    settings: Settings
    calculated: Mapping[str, Any]
    simulated: Sequence[Mapping[str, Any]]

    def estimate(self, figure: str) -> Estimate | None:
        """A figure over all simulations; None if there are none, or it is not told."""
        values = [float(run[figure]) for run in self.simulated if run.get(figure) is not None]
        return estimate(values) if values else None

    def forecast(self, figure: str) -> float | None:
        """A figure as it was calculated."""
        value = self.calculated.get(figure)
        return None if value is None else float(value)

    def expected(self, figure: str) -> float | None:
        """What to reckon with: the upper end of what was simulated, or what was calculated."""
        found = self.estimate(figure)
        return found.highest if found else self.forecast(figure)

    @property
    def checked(self) -> list[bool]:
        """For each run that was also made with the template, whether both agreed."""
        return [bool(run["agrees"]) for run in self.simulated if run.get("agrees") is not None]


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and confidence interval of independent runs."""
    count = len(values)
    if count < 2:
        return Estimate(values[0], math.nan, count)
    student = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else 1.96 + 2.5 / (count - 1)
    return Estimate(fmean(values), student * stdev(values) / math.sqrt(count), count)


def cases(question: Question, rows: Iterable[Mapping[str, Any]]) -> list[Case]:
    """Rows of a sweep by configuration, in its order."""
    columns = {key: key.replace(".", "_") for key in question.sweep}
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns.values()), []).append(row)
    found = []
    for values, same in groups.items():
        calculated: Mapping[str, Any] = next((row for row in same if row[RUN] == 0), {})
        runs = [row for row in same if row[RUN] > 0]
        found.append(Case(dict(zip(columns, values, strict=True)), calculated, runs))
    return found
