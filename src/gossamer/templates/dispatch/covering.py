"""Filters without those that others cover, which nobody farther away has to know (seed 002, section 2.2).

A filter that is covered is kept in the shade of the one that covers it. When that one goes, what it hid comes
out again, unless another covers it too. Each filter has a witness, an event that meets it: only who meets the
witness can cover the filter, so few have to be compared.
"""

from __future__ import annotations

from collections.abc import Iterable

from gossamer.core.event import Attributes, Criteria, Value
from gossamer.filters.automata import GivenUp
from gossamer.filters.index import Index
from gossamer.filters.relations import covers, witness

Place = tuple[str, bool, Value]
"""An attribute, whether its value is a bool, and the value: true is not 1."""
_UNKNOWN: Place = ("", False, 0)
"""Stands for a witness that was not found."""


class Shade:
    """Filters by their keys; ``shown`` are those that no other covers and that some event meets."""

    def __init__(self) -> None:
        self.shown: dict[bytes, Criteria] = {}
        self._index: Index[bytes] = Index()
        """Those that are shown."""
        self._witnesses: dict[bytes, Attributes | None] = {}
        """Of those that are shown; None where none was found in time."""
        self._met: dict[Place, dict[bytes, None]] = {}
        """By each value of their witnesses."""
        self._hidden: dict[bytes, dict[bytes, Criteria]] = {}
        """By the key of the filter that covers them, or their own if no event meets them."""
        self._behind: dict[bytes, bytes] = {}

    def __contains__(self, key: object) -> bool:
        return key in self.shown or key in self._behind

    def add(self, key: bytes, criteria: Criteria) -> None:
        """A filter is there; twice is once."""
        if key in self:
            return
        try:
            event = witness(criteria)
        except GivenUp:
            self._place(key, criteria, None, list(self.shown))
        else:
            if event is None:
                self._hide({key: criteria}, key)
            else:
                self._place(key, criteria, event, sorted(self._index.matching(event)))

    def _place(
        self, key: bytes, criteria: Criteria, event: Attributes | None, wider: Iterable[bytes]
    ) -> None:
        for other in wider:
            if covers(self.shown[other], criteria):
                self._hide({key: criteria}, other)
                return
        for other in self._narrower(criteria):
            if covers(criteria, self.shown[other]):
                self._hide({**self._hidden.pop(other, {}), other: self._unshow(other)}, key)
        self.shown[key] = criteria
        self._witnesses[key] = event
        for place in _places(event):
            self._met.setdefault(place, {})[key] = None
        self._index.add(criteria, key)

    def _narrower(self, criteria: Criteria) -> list[bytes]:
        """Those that a filter may cover: it meets their witness, which has the values that it asks for."""
        for name, symbol, value in criteria.constraints:
            if symbol == "=":
                some = [*self._met.get((name, type(value) is bool, value), ()), *self._met.get(_UNKNOWN, ())]
                break
        else:
            some = list(self._witnesses)
        events = ((other, self._witnesses[other]) for other in some)
        return [other for other, event in events if event is None or criteria.matches(event)]

    def remove(self, key: bytes) -> None:
        """A filter is gone; if it was not there, nothing happens."""
        if key in self._behind:
            del self._hidden[self._behind.pop(key)][key]
        elif key in self.shown:
            self._unshow(key)
            for other, criteria in self._hidden.pop(key, {}).items():
                del self._behind[other]
                self.add(other, criteria)

    def _hide(self, filters: dict[bytes, Criteria], behind: bytes) -> None:
        self._hidden.setdefault(behind, {}).update(filters)
        self._behind.update(dict.fromkeys(filters, behind))

    def _unshow(self, key: bytes) -> Criteria:
        for place in _places(self._witnesses.pop(key)):
            del self._met[place][key]
            if not self._met[place]:
                del self._met[place]
        self._index.remove(self.shown[key], key)
        return self.shown.pop(key)


def _places(event: Attributes | None) -> list[Place]:
    if event is None:
        return [_UNKNOWN]
    return [(name, type(value) is bool, value) for name, value in event.items()]
