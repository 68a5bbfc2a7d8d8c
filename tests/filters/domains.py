"""Small worlds in which every value can be tried, and what hypothesis draws from them.

Bounds and pieces are made of a few letters or numbers; values also of what lies before, between and behind
those. So whatever relation does not hold is refuted by one of the values.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from gossamer.core.event import Constraint, Value

BIG = 2**53
"""Above it whole numbers are closer than floats."""
BOUNDS = [-math.inf, -1, 0, 0.5, 1, BIG, BIG + 1, BIG + 2, 2**63 - 1, math.inf, math.nan]
NUMBERS = [*BOUNDS, -1e300, -5.5, -0.5, 0.25, 0.75, 7, 2**62, 1e300]
TEXTS = ["".join(each) for length in range(7) for each in itertools.product("abc", repeat=length)]
ORDERED_TEXTS = ["".join(each) for length in range(6) for each in itertools.product("abcde", repeat=length)]

COMPARE = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
AFFIX = st.sampled_from(["=", "!=", "prefix", "suffix", "contains"])

number_constraints = st.tuples(st.just("x"), COMPARE, st.sampled_from(BOUNDS))
likes = st.tuples(st.just("x"), st.just("like"), st.text("ab*", max_size=5))
affixes = st.tuples(st.just("x"), AFFIX, st.text("ab", max_size=3))
orders = st.tuples(st.just("x"), COMPARE, st.text("bd", max_size=2))
ordered_likes = st.tuples(st.just("x"), st.just("like"), st.text("bd*", max_size=3))
flags = st.tuples(st.just("x"), COMPARE, st.booleans())

_MEANING: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda value, wanted: value == wanted,
    "!=": lambda value, wanted: value != wanted,
    "<": lambda value, wanted: value < wanted,
    "<=": lambda value, wanted: value <= wanted,
    ">": lambda value, wanted: value > wanted,
    ">=": lambda value, wanted: value >= wanted,
    "prefix": lambda value, wanted: value[: len(wanted)] == wanted,
    "suffix": lambda value, wanted: value[len(value) - len(wanted) :] == wanted and len(value) >= len(wanted),
    "contains": lambda value, wanted: wanted in value,
    "like": lambda value, wanted: bool(
        re.fullmatch(".*".join(map(re.escape, wanted.split("*"))), value, re.DOTALL)
    ),
}


def kind(value: Value) -> str:
    """Values of one kind can be compared."""
    return "number" if type(value) in (int, float) else type(value).__name__


def meets(constraints: list[Constraint], event: dict[str, Value]) -> bool:
    """What it means to meet constraints, said a second time."""
    for name, symbol, wanted in constraints:
        if name not in event:
            return False
        if symbol != "any" and (
            kind(event[name]) != kind(wanted) or not _MEANING[symbol](event[name], wanted)
        ):
            return False
    return True
