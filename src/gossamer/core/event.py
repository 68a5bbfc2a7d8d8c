"""Events as applications see them: an envelope that can be read on the way, and a payload that cannot.

An envelope has attributes (small typed values that criteria look at) and quality of service. Its fields
travel in the header of the parcel, once for all its events, and only if somebody made one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gossamer.core.errors import BadEnvelope, TooLarge
from gossamer.core.pattern import Pattern

MAX_PAYLOAD = 8 * 1024 * 1024
MAX_ATTRIBUTES = 64
MAX_ATTRIBUTE_NAME = 64
MAX_ATTRIBUTE_BYTES = 4096
MAX_CONSTRAINTS = 64
DEFAULT_PRIORITY = 4
TEN_YEARS = 10 * 365 * 86400
MAX_CODEC = 65_535

Value = str | int | float | bool | bytes
Attributes = dict[str, Value]

_TYPES = (str, int, float, bool, bytes)


def check_attributes(attributes: Mapping[str, object]) -> None:
    """Raise unless every attribute can travel."""
    if len(attributes) > MAX_ATTRIBUTES:
        raise TooLarge("number of envelope attributes", len(attributes), MAX_ATTRIBUTES)
    for name, value in attributes.items():
        if type(name) is not str or not 0 < len(name) <= MAX_ATTRIBUTE_NAME:
            raise BadEnvelope("attribute name", name, f"1 to {MAX_ATTRIBUTE_NAME} characters")
        kind = type(value)
        if kind not in _TYPES:
            raise BadEnvelope(f"attribute {name!r}", value, "str, int, float, bool or bytes")
        if kind is int and not -(2**63) <= value < 2**63:  # type: ignore[operator]
            raise BadEnvelope(f"attribute {name!r}", value, "an int must fit 64 bits")
        if isinstance(value, str | bytes) and len(value) > MAX_ATTRIBUTE_BYTES:
            raise TooLarge(f"envelope attribute {name!r}", len(value), MAX_ATTRIBUTE_BYTES)
        if not (travels(name) and travels(value)):
            raise BadEnvelope(f"attribute {name!r}", value, "text must be Unicode without lone surrogates")


def travels(value: object) -> bool:
    """Whether a text can be encoded; values of other types can."""
    if type(value) is not str or value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class QoS(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The quality of service of an event. A field that keeps its default costs no bytes.

    priority
        0 (first to be given up) to 9; a subscription that discards by priority looks at it.
    expiry
        Seconds of life after publishing; an expired parcel is dropped where it is, and counted.
        ``None`` lives for ever.
    earliest
        Seconds after publishing before which no subscriber gets it.
    essential
        Whether it has to take a reliable connection; ``None`` leaves it to the binding of its channel.
    report
        Whether its source is told if it is given up somewhere; ``channel.drops()`` there counts it.
    retain
        Whether it becomes the last value of its channel, for those who ask later.
    codec
        How its payload was made; set where a channel has a codec.
    """

    priority: int = DEFAULT_PRIORITY
    expiry: float | None = None
    earliest: float | None = None
    essential: bool | None = None
    report: bool = False
    retain: bool = False
    codec: int = 0

    def __post_init__(self) -> None:
        if type(self.priority) is not int or not 0 <= self.priority <= 9:
            raise BadEnvelope("QoS 'priority'", self.priority, "a whole number from 0 to 9")
        for name in ("expiry", "earliest"):
            value = getattr(self, name)
            if value is not None and not (type(value) in (int, float) and 0 < value <= TEN_YEARS):
                raise BadEnvelope(f"QoS {name!r}", value, "seconds, more than 0 and at most ten years")
        if self.essential not in (None, True, False):
            raise BadEnvelope("QoS 'essential'", self.essential, "True, False or None")
        for name in ("report", "retain"):
            if type(getattr(self, name)) is not bool:
                raise BadEnvelope(f"QoS {name!r}", getattr(self, name), "True or False")
        if type(self.codec) is not int or not 0 <= self.codec <= MAX_CODEC:
            raise BadEnvelope("QoS 'codec'", self.codec, f"a whole number from 0 to {MAX_CODEC}")

    def within(self, wider: QoS) -> QoS:
        """These, and of a wider circle those that are not made here."""
        if wider == NO_QOS or self == wider:
            return self
        made = {name: value for name, value in _made(self).items() if value != getattr(NO_QOS, name)}
        return QoS(**{**_made(wider), **made})


NO_QOS = QoS()
_made = msgspec.structs.asdict


class Envelope(msgspec.Struct, frozen=True):
    """What may be read on the way: ``Envelope({"symbol": "ACME", "price": 10.5}, QoS(expiry=2))``."""

    attributes: Attributes = {}
    qos: QoS = NO_QOS

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, dict):
            raise BadEnvelope("attributes", self.attributes, "a dict of names and values")
        if not isinstance(self.qos, QoS):
            raise BadEnvelope("qos", self.qos, "a QoS object")
        if self.attributes:
            check_attributes(self.attributes)
            # a copy: the event waits in the open parcel, and the caller may go on using the dict
            msgspec.structs.force_setattr(self, "attributes", dict(self.attributes))


NO_ENVELOPE = Envelope()


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "prefix": lambda value, wanted: value.startswith(wanted),
    "suffix": lambda value, wanted: value.endswith(wanted),
    "contains": lambda value, wanted: wanted in value,
    "like": lambda value, pattern: pattern.matches(value),
    "any": lambda value, wanted: True,
}
_TEXT_OPERATORS = ("prefix", "suffix", "contains")

Constraint = tuple[str, str, Value]
Test = tuple[str, Callable[[Any, Any], bool], Any, tuple[type, ...]]
"""A constraint made ready: name, operator, what that compares with, and the types of values that it takes."""


class Criteria:
    """Which envelopes a subscriber wants: every constraint must hold.

    ``Criteria(("price", ">", 10.0), symbol="ACME")`` wants events whose attribute *price* is over 10
    and whose *symbol* is ACME. Operators: ``= != < <= > >= prefix suffix contains like any``; ``like``
    takes a pattern (``Win*``), ``any`` asks only that the attribute is there. An attribute that is missing or
    of another kind (a number against a text) does not match. Without constraints everything matches.
    """

    __slots__ = ("constraints", "tests")

    def __init__(self, *constraints: Constraint, **equal: Value) -> None:
        self.constraints: tuple[Constraint, ...] = (
            *constraints,
            *((name, "=", value) for name, value in equal.items()),
        )
        if len(self.constraints) > MAX_CONSTRAINTS:
            raise TooLarge("number of constraints", len(self.constraints), MAX_CONSTRAINTS)
        self.tests = tuple(_test(constraint) for constraint in self.constraints)

    def matches(self, attributes: Mapping[str, Value]) -> bool:
        """Whether an envelope with these attributes is wanted."""
        for name, test, wanted, kinds in self.tests:
            value = attributes.get(name)
            if type(value) not in kinds or not test(value, wanted):
                return False
        return True

    def __bool__(self) -> bool:
        return bool(self.constraints)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Criteria) and self.constraints == other.constraints

    def __hash__(self) -> int:
        return hash(self.constraints)

    def __repr__(self) -> str:
        return f"Criteria{self.constraints!r}"


def _test(constraint: Constraint) -> Test:
    try:
        name, symbol, wanted = constraint
    except (TypeError, ValueError):
        raise BadEnvelope("constraint", constraint, "a (name, operator, value) triple") from None
    check_attributes({name: wanted})
    if symbol not in _OPERATORS:
        raise BadEnvelope(f"constraint on {name!r}", symbol, f"one of {' '.join(_OPERATORS)}")
    if symbol in _TEXT_OPERATORS and not isinstance(wanted, str | bytes):
        raise BadEnvelope(f"constraint on {name!r}", wanted, f"{symbol} needs a str or bytes value")
    if symbol == "like":
        if not isinstance(wanted, str):
            raise BadEnvelope(f"constraint on {name!r}", wanted, "like needs a str with a pattern")
        return name, _OPERATORS[symbol], Pattern(wanted), (str,)
    kinds: tuple[type, ...] = (int, float) if type(wanted) in (int, float) else (type(wanted),)
    return name, _OPERATORS[symbol], wanted, _TYPES if symbol == "any" else kinds
