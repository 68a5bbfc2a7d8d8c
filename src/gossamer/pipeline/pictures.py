"""Pictures of a report, as SVG text: numbers in, a picture out; nothing here knows Spark."""

from __future__ import annotations

import io
import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

Series = Mapping[str, Sequence[tuple[float, float]]]
"""Lines by name, each a list of points."""

COLOURS = ("#2f6690", "#d1495b", "#66a182", "#edae49", "#7d5ba6", "#3d405b", "#81b29a", "#e07a5f")
GREY = "#8a8f98"
MAX_LINES = 8
MAX_NAMES = 60
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gossamer",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
}


def topology(links: Mapping[tuple[str, str], float], loads: Mapping[str, float]) -> str:
    """Nodes and links; thicker is more bytes. The busiest node is in the middle, others by hops around it."""
    near: dict[str, list[str]] = defaultdict(list)
    for a, b in sorted(links):
        near[a].append(b)
        near[b].append(a)
    names = sorted({*near, *loads}, key=lambda name: (-loads.get(name, 0), name))
    if not names:
        return svg(Figure(figsize=(4, 1)))
    places = _places(names, near)
    with rc_context(STYLE):
        figure = Figure(figsize=(6.2, 4.2))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_aspect("equal")
        most = max(links.values(), default=1) or 1
        for (a, b), weight in sorted(links.items()):
            (ax, ay), (bx, by) = places[a], places[b]
            axes.plot(
                [ax, bx], [ay, by], color=GREY, lw=0.6 + 3.4 * weight / most, zorder=1, solid_capstyle="round"
            )
        heaviest = max(loads.values(), default=1) or 1
        for name in names:
            x, y = places[name]
            size = 60 + 240 * loads.get(name, 0) / heaviest
            axes.scatter([x], [y], s=size, color=COLOURS[0], zorder=2)
            if len(names) <= MAX_NAMES:
                below = (0, -math.sqrt(size) / 2 - 10)
                axes.annotate(name, (x, y), below, textcoords="offset points", ha="center", fontsize=8)
        axes.margins(0.12)
        return svg(figure)


def distribution(samples: Series, label: str) -> str:
    """Which share of deliveries came within how much time: points of value and share."""
    with rc_context(STYLE):
        axes = _axes(samples)
        for (name, points), colour in zip(_few(samples), COLOURS, strict=False):
            axes.plot([x for x, _ in points], [y for _, y in points], color=colour, label=name, lw=1.6)
        axes.set_xlabel(label)
        axes.set_ylabel("share of deliveries")
        axes.set_ylim(0, 1.02)
        if any(x > 0 for points in samples.values() for x, _ in points):
            axes.set_xscale("log")
        return _finished(axes, samples)


def over_time(lines: Series, label: str) -> str:
    """Something per second, over seconds since the beginning of the run."""
    with rc_context(STYLE):
        axes = _axes(lines)
        for (name, points), colour in zip(_few(lines), COLOURS, strict=False):
            axes.plot([x for x, _ in points], [y for _, y in points], color=colour, label=name, lw=1.3)
        axes.set_xlabel("seconds since the beginning")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        return _finished(axes, lines)


def _axes(lines: Series) -> Any:
    """Room for a legend on the right by the length of its names: to measure them takes as long as to draw."""
    width, height = 6.2, 2.9
    named = max((len(name) for name, _ in _few(lines)), default=0)
    legend = min(0.6 * width, 0.55 + 0.065 * max(named, len(_said(lines)))) if lines else 0.1
    return Figure(figsize=(width, height)).add_axes((0.7 / width, 0.16, 1 - (0.7 + legend) / width, 0.79))


def _finished(axes: Any, lines: Series) -> str:
    axes.grid(True, color="#e6e8eb", lw=0.7)
    axes.set_axisbelow(True)
    if lines:
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.3}
        axes.legend(frameon=False, fontsize=8, title=_said(lines) or None, title_fontsize=8, **beside)
    return svg(axes.figure)


def _said(lines: Series) -> str:
    """Above a legend that does not have all of them."""
    return f"busiest {MAX_LINES} of {len(lines)}" if len(lines) > MAX_LINES else ""


def _few(lines: Series) -> list[tuple[str, Sequence[tuple[float, float]]]]:
    """The greatest by their sum, in order of name."""
    greatest = sorted(lines.items(), key=lambda item: -sum(y for _, y in item[1]))[:MAX_LINES]
    return sorted(greatest)


def _places(names: Sequence[str], near: Mapping[str, Sequence[str]]) -> dict[str, tuple[float, float]]:
    """Who is connected, together, the busiest first; to the right, below each other, who is alone."""
    places: dict[str, tuple[float, float]] = {}
    left = 0.0
    lonely = [name for name in names if not near.get(name)]
    for root in names:
        if root in places or root in lonely:
            continue
        around = _around(root, near, names)
        shift = left - min(x for x, _ in around.values())
        places |= {name: (x + shift, y) for name, (x, y) in around.items()}
        left = max(x for x, _ in places.values()) + 1.0
    top = (len(lonely) - 1) / 2
    return places | {name: (left, top - index) for index, name in enumerate(lonely)}


def _around(
    root: str, near: Mapping[str, Sequence[str]], names: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Rings around a node: others are as far out as they have hops to it, near who they were reached from."""
    places = {root: (0.0, 0.0)}
    leaves = {name: max(1, len(near.get(name, ())) - 1) for name in names}
    tree, depths = _tree(root, near)
    spans = {root: (0.0, 2 * math.pi)}
    for node in tree:
        begin, end = spans[node]
        whole = sum(leaves[child] for child in tree[node]) or 1
        for child in tree[node]:
            share = (end - begin) * leaves[child] / whole
            spans[child] = (begin, begin + share)
            angle = begin + share / 2
            places[child] = (depths[child] * math.cos(angle), depths[child] * math.sin(angle))
            begin += share
    return places


def _tree(root: str, near: Mapping[str, Sequence[str]]) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Children and hops of every node that can be reached from one, nearest first."""
    tree: dict[str, list[str]] = {root: []}
    depths = {root: 0}
    queue = deque([root])
    while queue:
        node = queue.popleft()
        for other in near.get(node, ()):
            if other not in depths:
                depths[other] = depths[node] + 1
                tree[node].append(other)
                tree[other] = []
                queue.append(other)
    return tree, depths


def svg(figure: Figure) -> str:
    """The text of a picture; the same for the same figure."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    whole = text.getvalue()
    return whole[whole.index("<svg") :]
