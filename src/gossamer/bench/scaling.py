"""What the size of the group does to a system: rates and work relative to three receivers, and what arrives.

The figures of the seed's sixth chapter (004, 6.2.3.2, 6.2.4.3 and 6.2.4.4).
"""

from __future__ import annotations

import statistics
from collections import defaultdict

from gossamer.bench.peers import Result, Row

BASE = 3
"""Receivers that others are compared with: with fewer there is no ring."""

Points = dict[str, list[tuple[int, float]]]
"""By system: places on an axis and figures, in order."""


def relative(rows: list[Row], base: int = BASE) -> Points:
    """Rates by numbers of receivers, relative to those of the base, on average over all sizes."""
    rates = {(row.system, row.size, row.receivers): row.rate for row in rows}
    ratios: dict[tuple[str, int], list[float]] = defaultdict(list)
    for (system, size, receivers), rate in rates.items():
        compared = rates.get((system, size, base))
        if compared and receivers >= base:
            ratios[system, receivers].append(rate / compared)
    return _points({key: statistics.mean(own) for key, own in ratios.items()})


def work(rows: list[Row], receivers: int, base: int = BASE) -> Points:
    """Processor time per delivered message by size, relative to that with the base: what a hop costs."""
    costs = {(row.system, row.size, row.receivers): row.cpu for row in rows}
    return _points(
        {
            (system, size): cost / compared
            for (system, size, number), cost in costs.items()
            if number == receivers and cost and (compared := costs.get((system, size, base)))
        }
    )


def reliability(result: Result) -> Points:
    """Percent of what was sent that arrived, by size, over all receivers and repetitions."""
    sent: dict[tuple[str, int], int] = defaultdict(int)
    seen: dict[tuple[str, int], int] = defaultdict(int)
    for (system, size, _), outcomes in result.outcomes.items():
        for each in outcomes:
            sent[system, size] += each.sent * len(each.seen)
            seen[system, size] += sum(each.seen)
    return _points({key: 100 * seen[key] / count for key, count in sent.items() if count})


def data_rates(rows: list[Row], receivers: int) -> Points:
    """Bytes per second that each receiver got, by size."""
    return _points(
        {(row.system, row.size): row.rate * row.size for row in rows if row.receivers == receivers}
    )


def _points(figures: dict[tuple[str, int], float]) -> Points:
    points: Points = defaultdict(list)
    for system, place in sorted(figures):
        points[system].append((place, figures[system, place]))
    return dict(points)
