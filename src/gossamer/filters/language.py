"""Two languages for filters, and one for events. All become criteria or attributes.

Names and parameters (seed 002, section 2): ``*(Editor, *, Win*)`` is any event with three parameters of which
the first is Editor and the third begins with Win. A star stands for any run of characters; a backslash takes
the next character as it is. An event ``SoftwareReleased(Editor, 1.3, WinNT)`` has its name in the attribute
``event``, the number of its parameters under ``parameters``, and the parameters under ``1``, ``2`` and so on.

Typed constraints: ``symbol = ACME and price in [10, 20) and name prefix "Win"``. Numbers, ``true`` and
``false`` are what they look like; in quotes everything is text; ``x"00ff"`` is bytes. A range includes its
ends with square brackets and excludes them with round ones; an end that is left out is open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gossamer.core.errors import BadEnvelope, BadFilter, TooLarge
from gossamer.core.event import MAX_CONSTRAINTS, Attributes, Constraint, Criteria, Value, check_attributes

EVENT, PARAMETERS = "event", "parameters"
"""Attributes of the name of an event and the number of its parameters."""

_MOST_PARAMETERS = MAX_CONSTRAINTS - 2
_SIGNS = {"==": "=", "≠": "!=", "≤": "<=", "≥": ">=", "^=": "prefix"}
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "prefix", "suffix", "contains", "like", "any", "in")
_NAMED = re.compile(r"\s*(?:[^\s\\=<>!≠≤≥\"'()]|\\.)*\s*\(")
_NAME = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[\w./-]+))""", re.DOTALL
)
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>x?"(?:[^"\\]|\\.)*"|x?'(?:[^'\\]|\\.)*')
    |(?P<sign>==|=|!=|≠|<=|≤|<|>=|≥|>|\^=|[\[\](),])
    |(?P<word>(?:[^\s"'=!<>≠≤≥^\[\](),\\]|\\.)+))""",
    re.VERBOSE | re.DOTALL,
)


def parse(text: str) -> Criteria:
    """A filter in either language; raises BadFilter."""
    return named(text) if _NAMED.match(text) else typed(text)


# names and parameters


def named(text: str) -> Criteria:
    """``*(Editor, *, Win*)`` as criteria; raises BadFilter."""
    constraints: list[Constraint] = []
    for name, part, position in _parts(text):
        try:
            constraint = (name, "like", part)
            Criteria(constraint)
        except BadFilter as error:
            raise BadFilter(text, position + error.position, error.rule) from None
        except (BadEnvelope, TooLarge) as error:
            raise BadFilter(text, position, str(error)) from None
        constraints.append(constraint)
    return Criteria(*constraints, (PARAMETERS, "=", len(constraints) - 1))


def event(text: str) -> Attributes:
    """``SoftwareReleased(Editor, 1.3, WinNT)`` as attributes; raises BadFilter."""
    attributes: Attributes = {}
    for name, part, position in _parts(text):
        attributes[name] = re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL)
        try:
            check_attributes({name: attributes[name]})
        except (BadEnvelope, TooLarge) as error:
            raise BadFilter(text, position, str(error)) from None
    attributes[PARAMETERS] = len(attributes) - 1
    return attributes


def _parts(text: str) -> Iterator[tuple[str, str, int]]:
    """Attribute, text and position of the name and of each parameter, backslashes left in."""
    opening = _find(text, 0, "(")
    if opening == len(text):
        raise BadFilter(text, opening, "expected ( and the parameters, as in Name(first, second)")
    if not text[:opening].strip():
        raise BadFilter(text, 0, "expected a name before the (; * is any name")
    name = text[:opening].strip()
    yield EVENT, name, text.find(name)
    at, number = opening + 1, 0
    while True:
        end = _find(text, at, "(),")
        if end == len(text) or text[end] == "(":
            raise BadFilter(text, end, "expected , or ): write \\( for a bracket in a parameter")
        part = _stripped(text[at:end])
        number += 1
        if part or text[end] == "," or number > 1:
            if number > _MOST_PARAMETERS:
                raise BadFilter(text, at, f"at most {_MOST_PARAMETERS} parameters")
            yield str(number), part, at + text[at:end].find(part)
        if text[end] == ")":
            break
        at = end + 1
    if text[end + 1 :].strip():
        raise BadFilter(text, end + 1, "nothing may follow the )")


def _find(text: str, at: int, signs: str) -> int:
    """Where one of some signs stands next, unless a backslash is before it; the end if it does not."""
    while at < len(text) and text[at] not in signs:
        at += 2 if text[at] == "\\" else 1
    return min(at, len(text))


def _stripped(part: str) -> str:
    """Without spaces around it, but for one that a backslash has taken."""
    short = part.strip()
    if (len(short) - len(short.rstrip("\\"))) % 2 and len(part.lstrip()) > len(short):
        short += part.lstrip()[len(short)]
    return short


# typed constraints


def typed(text: str) -> Criteria:
    """``price >= 10 and symbol = ACME`` as criteria; an empty text wants everything. Raises BadFilter."""
    tokens = _Tokens(text)
    constraints: list[Constraint] = []
    while not tokens.ended:
        if constraints and not tokens.take("and", ","):
            raise tokens.error("expected 'and' before the next constraint")
        begin = tokens.at
        constraints += _clause(tokens)
        try:
            Criteria(*constraints)
        except BadFilter as error:
            raise BadFilter(text, begin, error.rule) from None
        except (BadEnvelope, TooLarge) as error:
            raise BadFilter(text, begin, str(error)) from None
    return Criteria(*constraints)


def _clause(tokens: _Tokens) -> list[Constraint]:
    name = tokens.name()
    symbol = tokens.operator()
    if symbol == "any":
        return [(name, "any", True)]
    if symbol == "in":
        return tokens.interval(name)
    if symbol in ("like", "prefix", "suffix", "contains"):
        return [(name, symbol, tokens.value(words_are_text=True))]
    return [(name, symbol, tokens.value())]


class _Tokens:
    """What is left of a text, word by word."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    @property
    def ended(self) -> bool:
        return not self._text[self.at :].strip()

    def error(self, rule: str) -> BadFilter:
        rest = self._text[self.at :]
        return BadFilter(self._text, self.at + len(rest) - len(rest.lstrip()), rule)

    def _next(self) -> re.Match[str] | None:
        return _TOKEN.match(self._text, self.at)

    def take(self, *signs: str) -> str:
        """The next word, if it is one of these."""
        found = self._next()
        if found is None or (found["word"] or found["sign"]) not in signs:
            return ""
        self.at = found.end()
        return found["word"] or found["sign"]

    def name(self) -> str:
        found = _NAME.match(self._text, self.at)
        if found is None:
            raise self.error("expected the name of an attribute; put it in quotes if it has signs in it")
        self.at = found.end()
        return found["word"] or str(_unquoted(found["quoted"]))

    def operator(self) -> str:
        sign = self.take(*_OPERATORS, *_SIGNS)
        if not sign:
            raise self.error(f"expected one of {' '.join(_OPERATORS)}")
        return _SIGNS.get(sign, sign)

    def value(self, words_are_text: bool = False) -> Value:
        found = self._next()
        if found is None or found["sign"]:
            raise self.error("expected a value; put it in quotes if it has spaces or signs in it")
        try:
            value = _unquoted(found["quoted"]) if found["quoted"] else _word(found["word"], words_are_text)
        except ValueError:
            rule = "bytes are pairs of hexadecimal digits, as in x'00ff'; whole numbers must fit 64 bits"
            raise self.error(rule) from None
        self.at = found.end()
        return value

    def interval(self, name: str) -> list[Constraint]:
        """``[10, 20)`` as two constraints."""
        begin = self.at
        opening = self.take("[", "(")
        if not opening:
            raise self.error("expected a range, as in [10, 20)")
        lower = None if self.take(",") else self.value()
        if lower is not None and not self.take(","):
            raise self.error("expected , between the ends of the range")
        closing = self.take("]", ")")
        upper = None if closing else self.value()
        if not closing and not (closing := self.take("]", ")")):
            raise self.error("expected ] or ) behind the range")
        found: list[Constraint] = []
        if lower is not None:
            found.append((name, ">=" if opening == "[" else ">", lower))
        if upper is not None:
            found.append((name, "<=" if closing == "]" else "<", upper))
        if not found:
            self.at = begin
            raise self.error("expected at least one end; 'any' takes every value")
        return found


def _unquoted(text: str) -> Value:
    inside = re.sub(r"\\(.)", r"\1", text.lstrip("x")[1:-1], flags=re.DOTALL)
    return bytes.fromhex(inside) if text[0] == "x" else inside


def _word(text: str, is_text: bool) -> Value:
    if is_text:
        return text
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return float(text)
    return text
