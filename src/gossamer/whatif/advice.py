"""Which design to take: those that keep the limits, the best first; and where each of them saturates.

What is swept falls into two parts. Traffic is what will come and nobody can choose; the rest is the design. A
design is held against its worst case over all traffic that was tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from gossamer.whatif.script import Limits, Question
from gossamer.whatif.summary import Case

GIVEN = "traffic."
"""Settings that begin like this are not for the designer to choose."""
PREFERENCES = {"latency": "latency", "load": "dispatcher", "traffic": "traffic", "control": "control"}
"""What to prefer, and the figure that says it."""


class Breach(msgspec.Struct, frozen=True):
    """A limit that a design does not keep: which, under what traffic, and what is reached instead."""

    limit: str
    most: float
    reached: float
    traffic: dict[str, Any]


class Verdict(msgspec.Struct, frozen=True):
    """How one design does.

    design
        Its settings.
    kept
        In how many of the cases all limits are kept.
    until
        The last value along the axis up to which they are kept in all cases; None if not even at the first.
    breaches
        For each limit that is not kept, the worst.
    worst
        The largest of each limited figure, and of the preferred one.
    saturates, calculated
        The traffic at which something is asked for more than it can do, along the axis: simulated and
        calculated; None if that does not happen.
    bottleneck
        What is full first, in the worst case.
    fullest
        How far that is used in the worst case.
    """

    design: dict[str, Any]
    cases: int
    kept: int
    until: float | None
    breaches: tuple[Breach, ...]
    worst: dict[str, float]
    saturates: float | None
    calculated: float | None
    bottleneck: str
    fullest: float
    preferred: float

    @property
    def good(self) -> bool:
        """Whether it keeps all limits in all cases."""
        return self.kept == self.cases


def advise(question: Question, found: Sequence[Case]) -> list[Verdict]:
    """Verdicts on all designs, the best first."""
    designs: dict[tuple[Any, ...], list[Case]] = {}
    for case in found:
        own = tuple((key, value) for key, value in case.settings.items() if not key.startswith(GIVEN))
        designs.setdefault(own, []).append(case)
    verdicts = [_judged(question, dict(design), own) for design, own in designs.items()]
    return sorted(verdicts, key=lambda each: (-each.kept / each.cases, each.preferred))


def axis(question: Question) -> str:
    """The setting along the axis of pictures: the first traffic that is swept, or the first of all."""
    several = [key for key, values in question.sweep.items() if len(values) > 1]
    numbers = [key for key in several if all(type(each) in (int, float) for each in question.sweep[key])]
    first = [key for key in numbers if key.startswith(GIVEN)]
    return next(iter([*first, *numbers, *several, *question.sweep]), "")


def _judged(question: Question, design: dict[str, Any], own: Sequence[Case]) -> Verdict:
    breaches: dict[str, Breach] = {}
    broken = [list(_breaches(question.limits, case)) for case in own]
    for all_ in broken:
        for each in all_:
            if each.limit not in breaches or each.reached > breaches[each.limit].reached:
                breaches[each.limit] = each
    figure = PREFERENCES[question.prefer]
    figures = {*_asked(question.limits), figure}
    fullest = max(own, key=lambda case: case.expected("fullest") or 0.0)
    row = fullest.simulated[0] if fullest.simulated else fullest.calculated
    along = axis(question)
    return Verdict(
        design=design,
        cases=len(own),
        kept=sum(not each for each in broken),
        until=_until([(case.settings.get(along), not each) for case, each in zip(own, broken, strict=True)]),
        breaches=tuple(breaches.values()),
        worst={name: _worst(own, name) for name in sorted(figures)},
        saturates=_crossing(own, along, simulated=True),
        calculated=_crossing(own, along, simulated=False),
        bottleneck=str(row.get("bottleneck") or ""),
        fullest=fullest.expected("fullest") or 0.0,
        preferred=_worst(own, figure),
    )


def _until(kept: Sequence[tuple[Any, bool]]) -> float | None:
    """The last of the values up to which all is well."""
    last = None
    if not all(type(at) in (int, float) for at, _ in kept):
        return None
    for at in sorted({float(at) for at, _ in kept}):
        if not all(well for other, well in kept if other == at):
            break
        last = at
    return last


def _asked(limits: Limits) -> dict[str, float]:
    return {name: most for name, most in msgspec.structs.asdict(limits).items() if most is not None}


def _breaches(limits: Limits, case: Case) -> Iterable[Breach]:
    for name, most in _asked(limits).items():
        reached = case.expected(name)
        if reached is not None and not reached <= most:
            traffic = {key: value for key, value in case.settings.items() if key.startswith(GIVEN)}
            yield Breach(name, most, reached, traffic)


def _worst(own: Sequence[Case], figure: str) -> float:
    values = [value for case in own if (value := case.expected(figure)) is not None]
    return max(values, default=math.inf)


def _crossing(own: Sequence[Case], along: str, simulated: bool) -> float | None:
    """Where along the axis the fullest thing reaches 1, between two cases by a straight line."""
    if not all(type(case.settings.get(along)) in (int, float) for case in own):
        return None
    highest: dict[float, float] = {}
    for case in own:
        told = case.estimate("fullest") if simulated else None
        value = told.mean if told else case.forecast("fullest")
        if value is not None and not (simulated and told is None):
            at = float(case.settings[along])
            highest[at] = max(value, highest.get(at, 0.0))
    points = sorted(highest.items())
    if points and points[0][1] >= 1:
        return points[0][0]
    for (x, y), (further, more) in pairwise(points):
        if y < 1 <= more:
            return x + (further - x) * (1 - y) / (more - y)
    return None
