"""Heartbeats clockwise: each member asks the one on its right, and hears from the one on its left.

Silence is counted in beats of this node, so that no jump of a clock makes anybody look dead.
"""

from __future__ import annotations

from collections.abc import Iterable


class Pulse:
    """Who of those that this node looks after has been silent for too long.

    patience
        Beats without a sign of life after which a node is missing.
    """

    __slots__ = ("_silent", "patience")

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self._silent: dict[str, int] = {}

    def watch(self, nodes: Iterable[str]) -> None:
        """Look after these; who was looked after before keeps its count."""
        self._silent = {node: self._silent.get(node, 0) for node in nodes if node}

    def look(self, node: str) -> None:
        """Look after one more."""
        self._silent.setdefault(node, 0)

    def ignore(self, node: str) -> None:
        """Do not look after it any more."""
        self._silent.pop(node, None)

    def beat(self) -> None:
        """A beat has passed."""
        for node in self._silent:
            self._silent[node] += 1

    def alive(self, node: str) -> None:
        """A node has given a sign of life."""
        if node in self._silent:
            self._silent[node] = 0

    def gone(self, node: str) -> None:
        """The link to a node broke: it is missing until it says something."""
        if node in self._silent:
            self._silent[node] = self.patience + 1

    @property
    def watched(self) -> tuple[str, ...]:
        return tuple(self._silent)

    @property
    def missing(self) -> frozenset[str]:
        """Who is missing."""
        return frozenset(node for node, beats in self._silent.items() if beats > self.patience)
