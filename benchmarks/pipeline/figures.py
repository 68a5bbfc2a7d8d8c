"""What was measured, and what it should be."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec

HOLDS, MISSED = "holds", "missed"


class Figure(msgspec.Struct, frozen=True):
    """One line of the table.

    least, most
        The bounds that it is held against; a figure without any is told, not judged.
    """

    part: str
    what: str
    value: float
    unit: str = ""
    least: float | None = None
    most: float | None = None

    @property
    def said(self) -> str:
        value = f"{self.value:,.0f}" if self.value >= 1000 else f"{self.value:.3g}"
        return f"{value} {self.unit}".strip()

    @property
    def target(self) -> str:
        bounds = (("≥", self.least), ("≤", self.most))
        return " ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)

    @property
    def verdict(self) -> str:
        if not self.target:
            return ""
        low = self.least is None or self.value >= self.least
        return HOLDS if low and (self.most is None or self.value <= self.most) else MISSED


def seconds(action: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def medians(rounds: int, **actions: Callable[[], Any]) -> dict[str, float]:
    """The median of each action's seconds; they take turns, so that a noisy minute hits all of them."""
    found: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            found[name].append(seconds(action))
    return {name: statistics.median(each) for name, each in found.items()}
