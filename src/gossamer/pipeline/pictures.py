"""Pictures of a report, as SVG text: numbers in, a picture out; nothing here knows Spark."""

from __future__ import annotations

import io
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
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
    """Nodes and links; thicker is more bytes. The busiest node is in the middle, others by distance."""
    near: dict[str, list[str]] = defaultdict(list)
    for a, b in sorted(links):
        near[a].append(b)
        near[b].append(a)
    names = sorted({*near, *loads}, key=lambda name: (-loads.get(name, 0), name))
    if not names:
        return svg(Figure(figsize=(4, 1)))
    places = _places(names, near)
    with rc_context(STYLE):
        figure = Figure(figsize=(6.2, 5.2))
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
                axes.annotate(name, (x, y), (0, -13), textcoords="offset points", ha="center", fontsize=8)
        axes.margins(0.12)
        return svg(figure)


def distribution(samples: Series, label: str) -> str:
    """Which share of deliveries came within how much time: points of value and share."""
    with rc_context(STYLE):
        figure, axes = _axes()
        for (name, points), colour in zip(_few(samples), _colours(), strict=False):
            axes.plot([x for x, _ in points], [y for _, y in points], color=colour, label=name, lw=1.6)
        axes.set_xlabel(label)
        axes.set_ylabel("share of deliveries")
        axes.set_ylim(0, 1.02)
        if any(x > 0 for points in samples.values() for x, _ in points):
            axes.set_xscale("log")
        return _finished(figure, axes, samples)


def over_time(lines: Series, label: str) -> str:
    """Something per second, over seconds since the beginning of the run."""
    with rc_context(STYLE):
        figure, axes = _axes()
        for (name, points), colour in zip(_few(lines), _colours(), strict=False):
            axes.plot([x for x, _ in points], [y for _, y in points], color=colour, label=name, lw=1.3)
        axes.set_xlabel("seconds since the beginning")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        return _finished(figure, axes, lines)


def _axes() -> tuple[Figure, Any]:
    figure = Figure(figsize=(6.2, 2.9), layout="constrained")
    return figure, figure.add_subplot()


def _finished(figure: Figure, axes: Any, lines: Series) -> str:
    axes.grid(True, color="#e6e8eb", lw=0.7)
    axes.set_axisbelow(True)
    if lines:
        more = f" (and {len(lines) - MAX_LINES} more)" if len(lines) > MAX_LINES else ""
        axes.legend(frameon=False, fontsize=8, title=more or None)
    return svg(figure)


def _few(lines: Series) -> list[tuple[str, Sequence[tuple[float, float]]]]:
    """The greatest by their sum, in order of name."""
    greatest = sorted(lines.items(), key=lambda item: -sum(y for _, y in item[1]))[:MAX_LINES]
    return sorted(greatest)


def _colours() -> Iterable[str]:
    return COLOURS


def _places(names: Sequence[str], near: Mapping[str, Sequence[str]]) -> dict[str, tuple[float, float]]:
    """Rings around the first: a node is as far out as it is hops away, near the one it was reached from."""
    places: dict[str, tuple[float, float]] = {}
    leaves = _leaves(names, near)
    left = 0.0
    for root in names:
        if root in places:
            continue
        tree, depths = _tree(root, near, places)
        places[root] = (left, 0.0)
        spans = {root: (0.0, 2 * math.pi)}
        for node in tree:
            begin, end = spans[node]
            whole = sum(leaves[child] for child in tree[node]) or 1
            for child in tree[node]:
                share = (end - begin) * leaves[child] / whole
                spans[child] = (begin, begin + share)
                angle = begin + share / 2
                radius = depths[child]
                places[child] = (left + radius * math.cos(angle), radius * math.sin(angle))
                begin += share
        left += 2 * max(depths.values()) + 1.5
    return places


def _tree(
    root: str, near: Mapping[str, Sequence[str]], known: Mapping[str, object]
) -> tuple[dict[str, list[str]], dict[str, int]]:
    tree: dict[str, list[str]] = {root: []}
    depths = {root: 0}
    queue = deque([root])
    while queue:
        node = queue.popleft()
        for other in near.get(node, ()):
            if other not in depths and other not in known:
                depths[other] = depths[node] + 1
                tree[node].append(other)
                tree[other] = []
                queue.append(other)
    return tree, depths


def _leaves(names: Sequence[str], near: Mapping[str, Sequence[str]]) -> dict[str, int]:
    return {name: max(1, len(near.get(name, ())) - 1) for name in names}


def svg(figure: Figure) -> str:
    """The text of a picture; the same for the same figure."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    whole = text.getvalue()
    return whole[whole.index("<svg") :]
