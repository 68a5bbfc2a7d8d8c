"""Pictures of a what-if report: lines for what was calculated, points with intervals for simulations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
from matplotlib import rc_context
from matplotlib.figure import Figure

from gossamer.pipeline.pictures import COLOURS, GREY, MAX_LINES, STYLE, svg
from gossamer.whatif import phrases as words
from gossamer.whatif.summary import Case

WIDTH, HEIGHT = 3.4, 2.5
"""Inches of one panel."""
MARKS = "osv^Dd*p"


class Panel(msgspec.Struct, frozen=True):
    """One picture among several side by side.

    figure
        The column that it shows.
    limit
        Where to draw a line that is not to be crossed.
    """

    title: str
    label: str
    figure: str
    scale: float = 1.0
    limit: float | None = None


def panels(shown: Sequence[Panel], series: dict[str, list[Case]], along: str, columns: int = 3) -> str:
    """Panels over the values of one setting, a colour for each series."""
    rows = math.ceil(len(shown) / columns)
    columns = min(columns, len(shown))
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows + 0.45), layout="constrained")
        drawn = figure.subplots(rows, columns, squeeze=False)
        for place, axes in enumerate(drawn.flat):
            if place < len(shown):
                _draw(axes, shown[place], series, along)
            else:
                axes.set_axis_off()
        handles, names = drawn.flat[0].get_legend_handles_labels()
        if len(names) > 1:
            figure.legend(handles, names, loc="outside upper center", ncols=min(4, len(names)), frameon=False)
        return svg(figure)


def _draw(axes: Any, panel: Panel, series: dict[str, list[Case]], along: str) -> None:
    places = _places(series, along)
    for number, (name, own) in enumerate(list(series.items())[:MAX_LINES]):
        colour = COLOURS[number % len(COLOURS)]
        xs = [places[_shown(case, along)] for case in own]
        line = [_finite(case.forecast(panel.figure), panel.scale) for case in own]
        axes.plot(xs, line, color=colour, lw=1.4, label=name or "calculated")
        told = [(x, found) for x, case in zip(xs, own, strict=True) if (found := case.estimate(panel.figure))]
        axes.errorbar(
            [x for x, _ in told],
            [each.mean * panel.scale for _, each in told],
            yerr=[_half(each.half) * panel.scale for _, each in told],
            fmt=MARKS[number % len(MARKS)],
            color=colour,
            markersize=3.5,
            elinewidth=1,
            capsize=2,
        )
    if panel.limit is not None:
        axes.axhline(panel.limit * panel.scale, color=GREY, ls="--", lw=1)
    if places and not all(isinstance(each, float) for each in places):
        axes.set_xticks(list(places.values()), [str(each) for each in places], rotation=20)
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(words.name(along))
    axes.set_ylabel(panel.label)
    axes.set_ylim(bottom=0)
    axes.grid(True, color="#e6e8eb", lw=0.7)
    axes.set_axisbelow(True)


def _places(series: dict[str, list[Case]], along: str) -> dict[Any, float]:
    """Where each value is on the axis: numbers at their place, words one after the other."""
    values = list(dict.fromkeys(_shown(case, along) for own in series.values() for case in own))
    if all(isinstance(each, float) for each in values):
        return {each: each for each in values}
    return {each: float(place) for place, each in enumerate(values)}


def _shown(case: Case, along: str) -> Any:
    value = case.settings.get(along, "")
    return float(value) if type(value) in (int, float) else str(value)


def _finite(value: float | None, scale: float) -> float:
    return math.nan if value is None or not math.isfinite(value) else value * scale


def _half(value: float) -> float:
    return value if math.isfinite(value) else 0.0
