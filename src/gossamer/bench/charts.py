"""Charts of a comparison, on one page without anything from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from gossamer.bench.peers import Result, Row
from gossamer.bench.scaling import BASE, Points, data_rates, relative, reliability
from gossamer.bench.systems import NAMES
from gossamer.pipeline.pictures import COLOURS, STYLE, svg

COLUMNS = 3
WIDTH, HEIGHT = 3.6, 2.8
"""Inches of one panel."""
MARKS = "osv^Dd*pPXh<"

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>gossamer and its peers</title>
<style>
body{{font:15px/1.5 sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}}
svg{{max-width:100%;height:auto}}
</style></head><body>
<h1>gossamer and its peers</h1>
<p>{about}</p>
{parts}
</body></html>
"""
Figures = Callable[[Row], float | None]


def page(result: Result) -> str:
    """The page: rates over sizes, rates and costs over receivers, scaling, reliability, round trips."""
    rows, plan = result.rows(), result.plan
    parts = [
        _part("Messages per second and receiver, by size", _by_size(rows, plan.receivers)),
        _part(
            "Messages per second and receiver, by receivers",
            _by_receivers(rows, plan.sizes, lambda r: r.rate),
        ),
        _part(
            "Processor time per delivered message, µs, by receivers",
            _by_receivers(rows, plan.sizes, lambda r: r.cpu),
        ),
    ]
    parts.append(_part("Bytes per second and receiver, by size", _data(rows, plan.receivers)))
    scaling = relative(rows)
    if scaling:
        title = f"Rate by receivers, relative to {BASE} receivers, mean of all sizes"
        parts.append(_part(title, _single(scaling, "receivers", "linear")))
    arrived = _single(reliability(result), "bytes", "log")
    parts.append(_part("Percent of what was sent that arrived, by size", arrived))
    if result.calls:
        parts.append(_part("Round trip of 100 bytes, µs: p50 and p99", _round_trips(result)))
    lost = sum(row.loss for row in rows)
    about = f"Medians of {plan.repeat} interleaved repetitions of {plan.seconds:g} s. Messages lost: {lost}."
    return PAGE.format(about=escape(about), parts="\n".join(parts))


def _part(title: str, picture: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{picture}"


def _by_size(rows: list[Row], receivers: Sequence[int]) -> str:
    def draw(axes: Any, count: int) -> None:
        for name in _names(rows):
            own = [row for row in rows if row.system == name and row.receivers == count]
            _line(axes, name, [(row.size, row.rate) for row in own])
        axes.set_title(f"{count} receivers")
        axes.set_xscale("log")
        axes.set_xlabel("bytes")

    return _panels(receivers, draw)


def _by_receivers(rows: list[Row], sizes: Sequence[int], figure: Figures) -> str:
    def draw(axes: Any, size: int) -> None:
        for name in _names(rows):
            own = [(row, figure(row)) for row in rows if row.system == name and row.size == size]
            _line(axes, name, [(row.receivers, value) for row, value in own if value is not None])
        axes.set_title(f"{size} bytes")
        axes.set_xlabel("receivers")

    return _panels(sizes, draw)


def _data(rows: list[Row], receivers: Sequence[int]) -> str:
    def draw(axes: Any, count: int) -> None:
        _lines(axes, data_rates(rows, count))
        axes.set_title(f"{count} receivers")
        axes.set_xscale("log")
        axes.set_xlabel("bytes")

    return _panels(receivers, draw)


def _single(points: Points, label: str, scale: str) -> str:
    """One picture whose figures begin at nothing, so that small differences look small."""
    with rc_context(STYLE):
        figure = Figure(figsize=(2 * WIDTH, HEIGHT + 0.8), layout="constrained")
        axes = figure.add_subplot()
        _lines(axes, points)
        axes.set_xscale(scale)
        axes.set_xlabel(label)
        axes.set_ylim(bottom=0)
        axes.grid(True, color="#e6e8eb", lw=0.7)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
        return svg(figure)


def _lines(axes: Any, points: Points) -> None:
    for name in NAMES:
        if name in points:
            _line(axes, name, points[name])


def _round_trips(result: Result) -> str:
    rows = result.round_trips()
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH * 2, 0.4 * len(rows) + 0.8), layout="constrained")
        axes = figure.add_subplot()
        for place, row in enumerate(rows):
            axes.barh(place, row.p50, color=_colour(row.system))
            axes.plot([row.p50, row.p99], [place, place], color=_colour(row.system), marker="|")
        axes.set_yticks(range(len(rows)), [row.system for row in rows])
        axes.invert_yaxis()
        return svg(figure)


def _panels(values: Sequence[int], draw: Callable[[Any, int], None]) -> str:
    columns = min(COLUMNS, len(values))
    lines = math.ceil(len(values) / columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH * columns, HEIGHT * lines + 0.8), layout="constrained")
        panels = list(figure.subplots(lines, columns, squeeze=False).flat)
        for axes, value in zip(panels, values, strict=False):
            draw(axes, value)
            axes.set_yscale("log")
            axes.grid(True, color="#e6e8eb", lw=0.7)
        for axes in panels[len(values) :]:
            axes.set_axis_off()
        handles, names = panels[0].get_legend_handles_labels()
        if names:
            figure.legend(handles, names, loc="outside upper center", ncols=4, frameon=False)
        return svg(figure)


def _line(axes: Any, name: str, points: list[tuple[int, float]]) -> None:
    style = "-" if name.startswith("gossamer") else "--"
    mark = MARKS[NAMES.index(name) % len(MARKS)]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    axes.plot(xs, ys, style, color=_colour(name), marker=mark, markersize=4, lw=1.4, label=name)


def _names(rows: list[Row]) -> list[str]:
    present = {row.system for row in rows}
    return [name for name in NAMES if name in present]


def _colour(name: str) -> str:
    return COLOURS[NAMES.index(name) % len(COLOURS)]
