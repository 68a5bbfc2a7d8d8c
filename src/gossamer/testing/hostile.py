"""A stranger that speaks the protocol: valid messages with hostile values, made from the message types.

Every number that a type allows may arrive: zero, one, something plausible, and the greatest there is. Names
are those of the node and its neighbours, and names of no node at all; bytes are noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from gossamer.core.control import Message
from gossamer.core.errors import ProtocolError
from gossamer.core.names import channel_id
from gossamer.core.parcel import Header, Parcel, make_body
from gossamer.core.receipt import Stamp
from gossamer.core.template import Template
from gossamer.core.wire import decode, encode

NUMBERS = (0, 1, 2, 7, 63, 64, 65, 255, 1000, 2**20, 2**31, 2**32, 2**40, 2**53, 2**62, 2**63 - 2, 2**63 - 1)
FRACTIONS = (0.0, 0.5, 1.0, 1e9, 1e300)


class Stranger:
    """Makes messages.

    names
        Names and addresses that fit the place of the node; others are mixed in.
    """

    def __init__(self, seed: int, names: tuple[str, ...]) -> None:
        self._dice = Random(f"stranger {seed}")
        self._names = (*names, "stranger", "x/y", "!x", "x" * 64)

    def messages(self, template: type[Template[Any]], count: int) -> Iterator[Message]:
        """So many messages of a template's vocabulary, each of which its decoder takes."""
        kinds = sorted(template.vocabulary(), key=lambda kind: kind.__name__)
        decoder = template.decoder()
        while kinds and count:
            made = self._struct(inspect.type_info(self._dice.choice(kinds)), 0)
            try:
                message = decoder.decode(msgspec.msgpack.encode(made))
            except (msgspec.MsgspecError, ValueError, OverflowError):
                continue  # a value that the type refuses: such a frame never reaches a template
            count -= 1
            yield message

    def parcels(self, channel: str, count: int) -> Iterator[Parcel]:
        """So many parcels of a channel whose stamps have hostile numbers."""
        while count:
            body, split = make_body((b"hostile",), ())
            incarnation, sequence, first, events = (self.number(0, None) for _ in range(4))
            source, proof = self._dice.choice(self._names), self._dice.randbytes(8)
            stamp = Stamp(source, incarnation, sequence, first, events, proof)
            header = Header(channel_id(channel), stamp, self.number(0, None), split)
            try:
                parcel = decode(encode(Parcel(header, body)))
            except (ProtocolError, ValueError, OverflowError):
                continue  # the wire refuses it: such a frame never reaches a template
            assert isinstance(parcel, Parcel)
            count -= 1
            yield parcel

    def number(self, least: float | None, most: float | None) -> int:
        """A whole number within limits, seldom a harmless one."""
        low, high = int(least or 0), int(most if most is not None else 2**63 - 1)
        fitting = [each for each in NUMBERS if low <= each <= high] or [low]
        return self._dice.choice([*fitting, low, high])

    def _struct(self, kind: Any, depth: int) -> Any:
        values: dict[str, Any] = {}
        for field in kind.fields:
            if field.required or self._dice.random() < 0.8:
                values[field.name] = self._value(field.type, depth + 1)
        return kind.cls(**values)

    def _value(self, kind: Any, depth: int) -> Any:
        dice = self._dice
        match kind:
            case inspect.Metadata():
                return self._value(kind.type, depth)
            case inspect.StructType():
                return self._struct(kind, depth)
            case inspect.UnionType():
                return self._value(dice.choice(kind.types), depth)
            case inspect.IntType():
                return self.number(kind.ge if kind.ge is not None else kind.gt, kind.le)
            case inspect.FloatType():
                return dice.choice(FRACTIONS)
            case inspect.BoolType():
                return dice.random() < 0.5
            case inspect.StrType():
                least, most = kind.min_length or 0, kind.max_length or 200
                return dice.choice(
                    [each for each in self._names if least <= len(each) <= most] or ["x" * least]
                )
            case inspect.BytesType():
                least = kind.min_length or 0
                return dice.randbytes(min(least + dice.choice((0, 1, 8, 40)), kind.max_length or 1000))
            case inspect.TupleType():
                return tuple(self._value(each, depth + 1) for each in kind.item_types)
            case inspect.VarTupleType() | inspect.ListType():
                length = max(kind.min_length or 0, min(dice.choice((0, 1, 2, 5)), kind.max_length or 5))
                return tuple(
                    self._value(kind.item_type, depth + 1) for _ in range(length if depth < 8 else 0)
                )
            case inspect.DictType():
                pairs = range(dice.choice((0, 1, 3)))
                return {
                    self._value(kind.key_type, depth + 1): self._value(kind.value_type, depth + 1)
                    for _ in pairs
                }
            case inspect.EnumType():
                return dice.choice(list(kind.cls))
            case inspect.LiteralType():
                return dice.choice(kind.values)
            case inspect.NoneType() | inspect.CustomType():
                return None
            case _:
                return dice.choice((None, 1, "x", b"x"))
