"""An index over many filters: whose filters does an event meet, without trying them all.

Filters hang in a tree. Each is a list of steps, one for a constraint or for the constraints on an attribute,
in an order that is the same for all: what few values meet comes first. A node of the tree keeps a handful of
filters as they are; when there are more, each goes down by its next step. An event goes down all branches
that it meets, each found by a finder, and is tried against the filters that it comes to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from gossamer.core.event import Criteria, Value
from gossamer.filters.finders import (
    HIGHEST,
    LOWEST,
    Beginnings,
    Ends,
    Finder,
    Parts,
    Present,
    Ranges,
    Unlike,
)
from gossamer.filters.identity import identity
from gossamer.filters.values import BOUNDS, Condition, Kind, conditions, pieces

HANDFUL = 8
"""Filters that a node tries one by one before it sends them down its branches."""

Holder = TypeVar("Holder", bound=Hashable)
_ORDER: tuple[type[Finder[Any]], ...] = (Finder, Beginnings, Ends, Parts, Ranges, Unlike, Present)


class Index(Generic[Holder]):
    """Filters and who holds them."""

    def __init__(self) -> None:
        self._entries: dict[bytes, _Entry[Holder]] = {}
        self._root: _Node[Holder] = _Node()

    def __len__(self) -> int:
        """The number of different filters."""
        return len(self._entries)

    def add(self, criteria: Criteria, holder: Holder) -> None:
        """A holder has a filter; twice is once."""
        key = identity(criteria)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(criteria)
            self._root.add(entry, 0, steps(criteria))
        entry.holders.add(holder)

    def remove(self, criteria: Criteria, holder: Holder) -> None:
        """A holder has a filter no more; if it had not, nothing happens."""
        key = identity(criteria)
        entry = self._entries.get(key)
        if entry is None or holder not in entry.holders:
            return
        entry.holders.discard(holder)
        if not entry.holders:
            del self._entries[key]
            self._root.remove(entry, 0, steps(criteria))

    def matching(self, event: Mapping[str, Value]) -> set[Holder]:
        """Who has a filter that an event, given by its attributes, meets."""
        found: set[Holder] = set()
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            for entry in node.entries:
                if not entry.holders <= found and entry.criteria.matches(event):
                    found |= entry.holders
            nodes.extend(node.met(event))
        return found


class Step(NamedTuple):
    """What must hold for one attribute, as a finder keeps it: a value of these types meets the key."""

    finder: type[Finder[Any]]
    name: str
    kinds: Kind
    key: Any


def steps(criteria: Criteria) -> list[Step]:
    """What must hold for a filter to be met, one step for each attribute and finder, best steps first.

    Steps need not say everything, for what they lead to is tried in full.
    """
    found: dict[tuple[type[Finder[Any]], str], Step] = {}
    for condition in conditions(criteria):
        step = _step(condition)
        known = found.get(step[:2])
        found[step[:2]] = step if known is None else _narrower(known, step)
    named = [name for finder, name in found if finder is not Present]
    useful = (each for each in found.values() if each.finder is not Present or each.name not in named)
    return sorted(useful, key=lambda step: (_ORDER.index(step.finder), step.name))


def _step(condition: Condition) -> Step:
    name, symbol, wanted, _, kinds = condition
    if symbol == "any" or wanted != wanted:  # not a number: nothing to sort by
        return Step(Present, name, kinds, None)
    if symbol == "=":
        return Step(Finder, name, kinds, wanted)
    if symbol == "!=":
        return Step(Unlike, name, kinds, wanted)
    if symbol in BOUNDS:
        lower, upper = LOWEST, HIGHEST
        if symbol in (">", ">="):
            lower = (0, wanted, int(symbol == ">"))
        else:
            upper = (0, wanted, -int(symbol == "<"))
        return Step(Ranges, name, kinds, (lower, upper))
    return _literal(condition)


def _literal(condition: Condition) -> Step:
    """The longest literal piece of a pattern, where it has to be."""
    own = pieces(condition)
    best = max(range(len(own)), key=lambda place: len(own[place]))
    finder: type[Finder[Any]] = Parts
    if len(own) == 1:
        finder = Finder
    elif not own[best]:
        return Step(Present, condition.name, condition.kinds, None)
    elif best == 0:
        finder = Beginnings
    elif best == len(own) - 1:
        finder = Ends
    return Step(finder, condition.name, condition.kinds, own[best])


def _narrower(known: Step, step: Step) -> Step:
    """One step out of two for the same finder and attribute; of two kinds no value is both."""
    if known.kinds != step.kinds:
        return known
    if step.finder is Ranges:
        (lower, upper), (other_lower, other_upper) = known.key, step.key
        return known._replace(key=(max(lower, other_lower), min(upper, other_upper)))
    if step.finder in (Beginnings, Ends, Parts):
        return max(known, step, key=lambda each: len(each.key))
    return known


class _Entry(Generic[Holder]):
    """A filter and who holds it."""

    __slots__ = ("criteria", "holders")

    def __init__(self, criteria: Criteria) -> None:
        self.criteria = criteria
        self.holders: set[Holder] = set()


class _Node(Generic[Holder]):
    """A place in the tree: filters that end here or have not been sent on, and branches."""

    __slots__ = ("branches", "entries")

    def __init__(self) -> None:
        self.entries: list[_Entry[Holder]] = []
        self.branches: dict[str, dict[tuple[type, Kind], Finder[_Node[Holder]]]] | None = None

    def met(self, event: Mapping[str, Value]) -> Iterator[_Node[Holder]]:
        """Nodes down the branches that an event meets."""
        if not self.branches:
            return
        for name, value in event.items():
            for (_, kinds), finder in self.branches.get(name, _NO_FINDERS).items():
                if type(value) in kinds:
                    yield from finder.find(value)

    def add(self, entry: _Entry[Holder], depth: int, own: list[Step]) -> None:
        if depth == len(own) or self.branches is None:
            self.entries.append(entry)
            if self.branches is None and len(self.entries) > HANDFUL:
                self._send_on(depth)
        else:
            self._below(own[depth]).add(entry, depth + 1, own)

    def _send_on(self, depth: int) -> None:
        self.branches = {}
        entries, self.entries = self.entries, []
        for entry in entries:
            self.add(entry, depth, steps(entry.criteria))

    def _below(self, step: Step) -> _Node[Holder]:
        """The node that a step leads to; it is made if there is none."""
        assert self.branches is not None
        finders = self.branches.setdefault(step.name, {})
        finder = finders.get((step.finder, step.kinds))
        if finder is None:
            finder = finders[step.finder, step.kinds] = step.finder()
        node = finder.under.get(step.key)
        if node is None:
            node = _Node()
            finder.put(step.key, node)
        return node

    def remove(self, entry: _Entry[Holder], depth: int, own: list[Step]) -> bool:
        """Take a filter out; whether nothing is left here."""
        if depth == len(own) or self.branches is None:
            self.entries.remove(entry)
        else:
            step = own[depth]
            finders = self.branches[step.name]
            finder = finders[step.finder, step.kinds]
            if finder.under[step.key].remove(entry, depth + 1, own):
                finder.remove(step.key)
                if not finder.under:
                    del finders[step.finder, step.kinds]
                if not finders:
                    del self.branches[step.name]
        return not self.entries and not self.branches


_NO_FINDERS: Mapping[Any, Any] = {}
