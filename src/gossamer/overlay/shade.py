"""Filters without those that others cover, which nobody farther away has to know (seed 002, section 2.2).

A filter that is covered is kept in the shade of the one that covers it. When that one goes, what it hid comes
out again, unless another covers it too.
"""

from __future__ import annotations

from gossamer.core.event import Criteria
from gossamer.filters.relations import covers


class Shade:
    """Filters by their keys; ``shown`` are those that no other covers."""

    def __init__(self) -> None:
        self.shown: dict[bytes, Criteria] = {}
        self._hidden: dict[bytes, dict[bytes, Criteria]] = {}
        """By the key of the filter that covers them."""
        self._behind: dict[bytes, bytes] = {}

    def __contains__(self, key: object) -> bool:
        return key in self.shown or key in self._behind

    def add(self, key: bytes, criteria: Criteria) -> None:
        """A filter is there; twice is once."""
        if key in self:
            return
        for other, wide in self.shown.items():
            if covers(wide, criteria):
                self._hidden.setdefault(other, {})[key] = criteria
                self._behind[key] = other
                return
        hidden: dict[bytes, Criteria] = {}
        for other in [other for other, narrow in self.shown.items() if covers(criteria, narrow)]:
            hidden |= self._hidden.pop(other, {}) | {other: self.shown.pop(other)}
        self.shown[key] = criteria
        if hidden:
            self._hidden[key] = hidden
            self._behind |= dict.fromkeys(hidden, key)

    def remove(self, key: bytes) -> None:
        """A filter is gone; if it was not there, nothing happens."""
        if key in self._behind:
            del self._hidden[self._behind.pop(key)][key]
        elif self.shown.pop(key, None) is not None:
            for other, criteria in self._hidden.pop(key, {}).items():
                del self._behind[other]
                self.add(other, criteria)
