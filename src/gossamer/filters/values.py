"""Is there a value that meets some constraints on one attribute, and fails another?

Numbers, and texts that are only compared, need no search: where constraints set bounds, the least value that
answers the question is a bound or comes right behind one, so a few candidates decide. Texts with patterns are
searched by automata.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gossamer.core.event import Criteria, Value
from gossamer.core.pattern import Pattern
from gossamer.filters.automata import Automaton, GivenUp, Order, Pieces, search

Kind = tuple[type, ...]
KINDS: tuple[Kind, ...] = ((bool,), (int, float), (str,), (bytes,))
"""Types whose values can be compared with each other."""

BOUNDS = ("<", "<=", ">", ">=")
_COMPARED = ("=", "!=", *BOUNDS)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class Condition(NamedTuple):
    """One constraint of a filter. ``wanted`` is a value or a pattern, ``kinds`` the types that it takes."""

    name: str
    symbol: str
    wanted: Any
    test: Callable[[Any, Any], bool]
    kinds: Kind

    def holds(self, value: Value) -> bool:
        """Whether a value of a type that it takes meets it."""
        return self.test(value, self.wanted)


def conditions(criteria: Criteria) -> Iterator[Condition]:
    """The constraints of a filter, ready for questions."""
    for (name, symbol, _), (_, test, wanted, kinds) in zip(criteria.constraints, criteria.tests, strict=True):
        yield Condition(name, symbol, wanted, test, kinds)


def possible(held: Sequence[Condition], failed: Condition | None = None) -> bool:
    """Whether some value meets all of ``held`` and does not meet ``failed``; True if that takes too long."""
    try:
        return example(held, failed) is not None
    except GivenUp:
        return True


def example(held: Sequence[Condition], failed: Condition | None = None) -> Value | None:
    """A value that meets all of ``held`` and does not meet ``failed``, if there is one. Raises GivenUp."""
    compared = [each for each in held if each.symbol != "any"]
    for kind in KINDS:
        if all(kind[0] in each.kinds for each in compared):
            found = _example(kind, compared, failed)
            if found is not None:
                return found
    return None


def _example(kind: Kind, held: list[Condition], failed: Condition | None) -> Value | None:
    """The same for values of one kind, which all of ``held`` are about."""
    if failed is None or kind[0] not in failed.kinds:
        failed = None
    elif failed.symbol == "any" or failed in held:
        return None
    everything = [*held, failed] if failed else held
    for value in _candidates(kind, everything):
        if all(each.holds(value) for each in held) and not (failed and failed.holds(value)):
            return value
    compared = all(each.symbol in _COMPARED for each in everything)
    if compared or kind not in ((str,), (bytes,)) or any(each.symbol == "=" for each in held):
        return None
    automata = [_automaton(each) for each in held]
    letters = search(automata, _automaton(failed) if failed else None, text=kind == (str,))
    if letters is None:
        return None
    return "".join(map(chr, letters)) if kind == (str,) else bytes(letters)


def _candidates(kind: Kind, own: Sequence[Condition]) -> Iterator[Value]:
    """The least value of a kind, each bound, and what comes behind it; not a number, too, is a number."""
    bounds: list[Any] = [
        "".join(each.wanted.pieces) if each.symbol == "like" else each.wanted for each in own
    ]
    if kind == (bool,):
        yield from (False, True)
    elif kind == (int, float):
        yield from (-math.inf, math.nan, *bounds, *map(_behind, bounds))
    elif kind == (str,):
        yield from ("", *bounds, *(bound + "\0" for bound in bounds))
    else:
        yield from (b"", *bounds, *(bound + b"\0" for bound in bounds))


def _behind(number: float) -> float:
    """The least number that may travel, whole or not, above another."""
    above = float(number)
    if above <= number:
        above = math.nextafter(above, math.inf)
    if not math.isfinite(number):
        return above
    whole = math.floor(number) + 1
    return min(above, whole) if _SMALLEST <= whole <= _LARGEST else above


def _automaton(condition: Condition) -> Automaton:
    if condition.symbol in BOUNDS:
        return Order(condition.symbol, _letters(condition.wanted))
    return Pieces([_letters(piece) for piece in pieces(condition)], wanted=condition.symbol != "!=")


def pieces(condition: Condition) -> tuple[Any, ...]:
    """A constraint on texts as the literal pieces between the stars of a pattern."""
    wanted = condition.wanted
    if isinstance(wanted, Pattern):
        return wanted.pieces
    nothing = wanted[:0]
    match condition.symbol:
        case "prefix":
            return wanted, nothing
        case "suffix":
            return nothing, wanted
        case "contains":
            return (nothing, wanted, nothing) if wanted else (nothing, nothing)
    return (wanted,)


def _letters(text: str | bytes) -> tuple[int, ...]:
    return tuple(map(ord, text)) if isinstance(text, str) else tuple(text)
