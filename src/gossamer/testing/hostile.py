"""A stranger that speaks the protocol: valid messages with hostile values.

A stranger listens. What nodes say to each other gives it live tokens (relay numbers, histories, terms,
epochs, names of sources and sessions) and whole messages. It says these again with one value changed, or
makes messages from their types: zero, one, something plausible, and the greatest there is; names of nodes
around it, and names of no node at all; bytes that are noise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from gossamer.core.body import Body
from gossamer.core.control import AHEAD, Message
from gossamer.core.errors import ProtocolError
from gossamer.core.names import channel_id
from gossamer.core.parcel import (
    Answer,
    DependentHeader,
    Header,
    Parcel,
    PickedHeader,
    RelayedHeader,
    make_body,
)
from gossamer.core.receipt import Stamp
from gossamer.core.template import Template
from gossamer.core.wire import Item, decode, encode
from gossamer.overlay.backbone.tree_codec import encode_plan

NUMBERS = (0, 1, 2, 7, 63, 64, 65, 255, 1000, 2**20, 2**31, 2**32, 2**40, 2**53, 2**62, 2**63 - 2, 2**63 - 1)
STEPS = (-1, 1, 2, 63, 1000, 2**20, 2**31, 2**40, 2**62)
"""By how much a number that was heard is changed."""
FRACTIONS = (0.0, 0.5, 1.0, 1e9, 1e300)
SOME = 16
HEARD = 64
"""Values of one field, and messages of one kind, that a stranger remembers; the last ones."""


class Stranger:
    """Makes messages.

    names
        Names and addresses that fit the place of the node; others are mixed in.
    """

    def __init__(self, seed: int | str, names: tuple[str, ...], now: int = 0) -> None:
        self._dice = Random(f"stranger {seed}")
        self._names = (*names, "stranger", "x/y", "!x", "x" * 64)
        self.now = now
        """What clocks show, about; a message from more than a day ahead is refused before it can do harm."""
        self._heard: dict[type, deque[Message]] = {}
        self._values: dict[str, deque[Any]] = {}
        self._parcels: deque[Parcel] = deque(maxlen=HEARD)
        self._skipped = 0

    # listening

    def learn(self, item: Item) -> None:
        """Something was said nearby; of what is said often only some is remembered."""
        heard = self._parcels if isinstance(item, Parcel) else self._heard.get(type(item.message), ())
        self._skipped = (self._skipped + 1) % SOME if len(heard) == HEARD else 0
        if self._skipped:
            return
        if isinstance(item, Parcel):
            self._parcels.append(item)
            self._take_values(item.header)
        elif item.message is not None:
            self._heard.setdefault(type(item.message), deque(maxlen=HEARD)).append(item.message)
            self._take_values(item.message)

    def _take_values(self, value: Any, name: str = "") -> None:
        if isinstance(value, msgspec.Struct):
            for field in value.__struct_fields__:
                self._take_values(getattr(value, field), field)
        elif isinstance(value, tuple):
            for each in value:
                self._take_values(each, name)
        elif isinstance(value, int | str | bytes) and not isinstance(value, bool):
            known = self._values.setdefault(name, deque(maxlen=HEARD))
            if value not in known:
                known.append(value)

    # what is said

    def messages(self, template: type[Template[Any]], count: int) -> Iterator[Message]:
        """So many messages of a template's vocabulary, each of which its decoder takes."""
        vocabulary = template.vocabulary()
        return self.words(vocabulary, template.decoder(), count) if vocabulary else iter(())

    def words(
        self, vocabulary: Iterable[type[Message]], decoder: msgspec.msgpack.Decoder[Any], count: int
    ) -> Iterator[Message]:
        """So many messages of these kinds, each of which a decoder takes."""
        kinds = sorted(vocabulary, key=lambda kind: kind.__name__)
        while kinds and count:
            kind = self._dice.choice(kinds)
            heard = self._heard.get(kind)
            try:
                if heard and self._dice.random() < 0.7:
                    made = self._changed(self._dice.choice(heard))
                else:
                    made = self._struct(inspect.type_info(kind), 0)
                message = decoder.decode(msgspec.msgpack.encode(made))
            except (msgspec.MsgspecError, ValueError, OverflowError, TypeError):
                continue  # a value that the type refuses: such a frame never reaches a template
            count -= 1
            yield message

    def parcels(self, channel: str, count: int) -> Iterator[Parcel]:
        """So many parcels of a channel, of every kind of header, whose numbers are hostile."""
        while count:
            try:
                made = self._parcel(channel_id(channel))
                parcel = decode(encode(made))
            except (ProtocolError, ValueError, OverflowError, TypeError):
                continue  # the wire refuses it: such a frame never reaches a template
            assert isinstance(parcel, Parcel)
            count -= 1
            yield parcel

    def _parcel(self, channel: int) -> Parcel:
        dice = self._dice
        if self._parcels and dice.random() < 0.7:
            heard = dice.choice(self._parcels)
            header = self._changed(heard.header) if dice.random() < 0.6 else heard.header
            body: bytes | Body = heard.body
            if dice.random() < 0.4:
                made, split = make_body([self._payload(each) for each in heard.payloads], heard.attributes)
                header, body = msgspec.structs.replace(header, split=split), made
            return Parcel(msgspec.structs.replace(header, channel=channel), body)
        body, split = make_body((b"hostile",), ())
        incarnation, sequence, first = map(self._number_of, ("incarnation", "sequence", "first"))
        source = dice.choice([*self._names, *self._values.get("source", ())])
        stamp = Stamp(
            source, incarnation, sequence, first, dice.choice((1, 1, self.number(0, None))), dice.randbytes(8)
        )
        front = (channel, stamp, self._number_of("sent"), split, None)
        match dice.randrange(5):
            case 0:
                return Parcel(Header(*front), body)
            case 1:
                return Parcel(DependentHeader(*front, None, self._depends()), body)
            case 2:
                return Parcel(PickedHeader(*front, None, self._depends(), b"\x80"), body)
            case 3:
                relay = (self._number_of("relay"), self._number_of("number"))
                bound = dice.choice((None, (self._name(), self._number_of("serial"), self.number(0, None))))
                return Parcel(RelayedHeader(*front, None, (), relay, bound), body)
            case _:
                answer = Answer(msgspec.structs.replace(stamp), self._number_of("first"))
                stamp = msgspec.structs.replace(stamp, sequence=0, count=1)
                return Parcel(Header(channel, stamp, *front[2:], answer), body)

    def _payload(self, payload: bytes) -> bytes:
        """What a template has put into its own parcel with one value changed, or the payload as it was."""
        try:
            inside = msgspec.msgpack.decode(payload)
        except (msgspec.MsgspecError, ValueError):
            return payload
        return msgspec.msgpack.encode(self._changed(_tuples(inside)))

    def _depends(self) -> tuple[tuple[str, int, int], ...]:
        return tuple(
            (self._name(), self._number_of("incarnation"), self._number_of("sequence"))
            for _ in range(self._dice.choice((0, 1, 3)))
        )

    def _name(self) -> str:
        return self._dice.choice([each for each in self._names if "/" not in each])

    def _changed(self, value: Any, name: str = "") -> Any:
        """The same with one value changed."""
        dice = self._dice
        if isinstance(value, msgspec.Struct) and value.__struct_fields__:
            field = dice.choice(value.__struct_fields__)
            return msgspec.structs.replace(value, **{field: self._changed(getattr(value, field), field)})
        if isinstance(value, tuple) and value:
            at = dice.randrange(len(value))
            changed = self._changed(value[at], name)
            return (*value[:at], changed, *value[at + 1 :]) if dice.random() < 0.9 else value[:at]
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return self._near(value) if dice.random() < 0.7 else self._number_of(name)
        if isinstance(value, str):
            return dice.choice([*self._names, *(each for each in self._values.get(name, ()))])
        if isinstance(value, bytes):
            known = [each for each in self._values.get(name, ()) if isinstance(each, bytes)]
            return dice.choice([*known, dice.randbytes(8), value[:-1]])
        return value

    def _near(self, value: int) -> int:
        return max(0, value + self._dice.choice(STEPS))

    def _number_of(self, name: str) -> int:
        """A number for a field: one that was heard there, one near it, or any."""
        known = [each for each in self._values.get(name, ()) if isinstance(each, int)]
        chance = self._dice.random()
        if known and chance < 0.5:
            value = self._dice.choice(known)
            return value if chance < 0.3 else self._near(value)
        return self.number(0, None)

    def number(self, least: float | None, most: float | None) -> int:
        """A whole number within limits, seldom a harmless one."""
        low, high = int(least or 0), int(most if most is not None else 2**63 - 1)
        fitting = [each for each in NUMBERS if low <= each <= high] or [low]
        return self._dice.choice([*fitting, low, high])

    def _struct(self, kind: Any, depth: int) -> Any:
        values: dict[str, Any] = {}
        for field in kind.fields:
            if field.required or self._dice.random() < 0.8:
                values[field.name] = self._value(field.type, depth + 1, field.name)
        if values.keys() >= {"nodes", "parents", "marks"} and self._dice.random() < 0.7:
            values |= self._tree()
        return kind.cls(**values)

    def _tree(self) -> dict[str, tuple[Any, ...]]:
        """A tree of some nodes around, and of others that nobody knows: deep or flat."""
        dice, count = self._dice, self._dice.choice((1, 3, 8, 100))
        around = list(dict.fromkeys(each for each in self._names if "/" not in each))
        dice.shuffle(around)
        nodes = (around + [f"n{number}" for number in range(count)])[:count]
        deep = dice.random() < 0.5
        parents = (max(0, each - 1) if deep else dice.randrange(max(1, each)) for each in range(count))
        return {
            "nodes": tuple(nodes),
            "parents": tuple(parents),
            "marks": tuple(dice.randrange(4) for _ in nodes),
        }

    def _plan(self) -> bytes:
        """A tree of the backbone that can be read."""
        tree = self._tree()
        nodes = tree["nodes"]
        return encode_plan(nodes, ((nodes[tree["parents"][at]], nodes[at]) for at in range(1, len(nodes))))

    def _instant(self, unit: int, name: str) -> int:
        """Mostly an instant that a clock may show; now and then one that none can."""
        known = [each for each in self._values.get(name, ()) if isinstance(each, int)]
        if known and self._dice.random() < 0.5:
            return int(self._dice.choice(known))
        ahead = self._dice.choice((-AHEAD, -1, 0, 1, AHEAD // 2, AHEAD - 1, 2 * AHEAD))
        return max(0, self.now + ahead) // unit

    def _value(self, kind: Any, depth: int, name: str = "") -> Any:
        dice = self._dice
        match kind:
            case inspect.Metadata():
                unit = (kind.extra or {}).get("nanoseconds")
                return self._value(kind.type, depth, name) if unit is None else self._instant(unit, name)
            case inspect.StructType():
                return self._struct(kind, depth)
            case inspect.UnionType():
                return self._value(dice.choice(kind.types), depth, name)
            case inspect.IntType():
                known = [each for each in self._values.get(name, ()) if isinstance(each, int)]
                if known and dice.random() < 0.5:
                    value = dice.choice(known)
                    return value if dice.random() < 0.5 else self._near(value)
                return self.number(kind.ge if kind.ge is not None else kind.gt, kind.le)
            case inspect.FloatType():
                return dice.choice(FRACTIONS)
            case inspect.BoolType():
                return dice.random() < 0.5
            case inspect.StrType():
                least, most = kind.min_length or 0, kind.max_length or 200
                texts = [each for each in self._values.get(name, ()) if isinstance(each, str)]
                fitting = [each for each in (*self._names, *texts) if least <= len(each) <= most]
                return dice.choice(fitting or ["x" * least])
            case inspect.BytesType():
                least = kind.min_length or 0
                if name == "plan" and dice.random() < 0.7:
                    return self._plan()
                noise = [each for each in self._values.get(name, ()) if isinstance(each, bytes)]
                if noise and dice.random() < 0.5:
                    return dice.choice(noise)
                return dice.randbytes(min(least + dice.choice((0, 1, 8, 40)), kind.max_length or 1000))
            case inspect.TupleType():
                return tuple(self._value(each, depth + 1, name) for each in kind.item_types)
            case inspect.VarTupleType() | inspect.ListType():
                length = max(kind.min_length or 0, min(dice.choice((0, 1, 2, 5)), kind.max_length or 5))
                items = range(length if depth < 8 else 0)
                return tuple(self._value(kind.item_type, depth + 1, name) for _ in items)
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


def _tuples(value: Any) -> Any:
    """The same with tuples for lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
