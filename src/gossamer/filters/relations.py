"""Three questions about filters (seed 002, section 2.2). A filter is a Criteria, in whatever language.

Attributes do not depend on each other, so each answer is put together from one question about a single
attribute: is there a value that meets these constraints but not that one? Texts are taken to have any length.
"""

from __future__ import annotations

from collections.abc import Mapping

from gossamer.core.event import MAX_ATTRIBUTES, Attributes, Criteria, Value
from gossamer.filters.values import Condition, conditions, example, possible


def matches(wanted: Criteria, event: Mapping[str, Value]) -> bool:
    """Whether an event, given by its attributes, meets a filter."""
    return wanted.matches(event)


def covers(wide: Criteria, narrow: Criteria) -> bool:
    """Whether every event that meets ``narrow`` meets ``wide``.

    True is always true. False may also mean that the search was given up, which takes long patterns or
    several on one attribute.
    """
    held = _by_name(narrow)
    return not _satisfiable(held) or all(
        each.name in held and not possible(held[each.name], each) for each in conditions(wide)
    )


def compatible(wanted: Criteria, advertised: Criteria) -> bool:
    """Whether some event meets both a filter and an advertisement.

    False is always true. True may also mean that the search was given up, as in ``covers``.
    """
    return not _apart(wanted, advertised) and _satisfiable(_by_name(wanted, advertised))


def witness(wanted: Criteria) -> Attributes | None:
    """An event that meets a filter; None if none can. Raises GivenUp where finding one takes too long."""
    found: Attributes = {}
    for name, own in _by_name(wanted).items():
        value = example(own)
        if value is None:
            return None
        found[name] = value
    return found


def _apart(one: Criteria, other: Criteria) -> bool:
    """Whether both want the same attribute to be equal to different values: so most pairs are told apart."""
    fixed = {name: value for name, symbol, value in one.constraints if symbol == "="}
    return any(
        symbol == "=" and name in fixed and fixed[name] != value for name, symbol, value in other.constraints
    )


def _by_name(*filters: Criteria) -> dict[str, list[Condition]]:
    held: dict[str, list[Condition]] = {}
    for each in filters:
        for condition in conditions(each):
            held.setdefault(condition.name, []).append(condition)
    return held


def _satisfiable(held: Mapping[str, list[Condition]]) -> bool:
    return len(held) <= MAX_ATTRIBUTES and all(possible(own) for own in held.values())
