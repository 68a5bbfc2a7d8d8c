"""Frames: what travels between nodes.

::

    magic 'gs' | version | kind | header length (2) | body length (4) | header | body

The prelude is fixed, so a stream can be cut into frames and every length checked before a byte of
memory is taken for it. Whatever does not fit raises ProtocolError with the field and its limit.
Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from gossamer.core.body import Body
from gossamer.core.control import Control, Message
from gossamer.core.errors import GossamerError, ProtocolError
from gossamer.core.parcel import (
    MAX_BODY,
    MAX_EVENTS,
    DependentHeader,
    Header,
    Parcel,
    PickedHeader,
    RelayedHeader,
)
from gossamer.core.receipt import MAX_NUMBER, Number

MAGIC = b"gs"
VERSION = 1
PARCEL, FEEDBACK, CONTROL = 1, 2, 3
KINDS = (PARCEL, FEEDBACK, CONTROL)
MAX_HEADER = 4096 + MAX_EVENTS // 8
MAX_CONTROL = 1024 * 1024

_PRELUDE = struct.Struct(">2sBBHI")
PRELUDE = _PRELUDE.size
MAX_FRAME = PRELUDE + MAX_HEADER + MAX_BODY


class ControlHeader(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a forwarder reads of a control message."""

    channel: Number


_encode = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(Header).decode
_decode_dependent = msgspec.msgpack.Decoder(DependentHeader).decode
_decode_picked = msgspec.msgpack.Decoder(PickedHeader).decode
_DEPENDENT = 0x90 + len(DependentHeader.__struct_fields__)
"""First byte of a header with dependencies: an array of one field more."""
_PICKED = 0x90 + len(PickedHeader.__struct_fields__)
_decode_relayed = msgspec.msgpack.Decoder(RelayedHeader).decode
_RELAYED = 0x90 + len(RelayedHeader.__struct_fields__)
_decode_control_header = msgspec.msgpack.Decoder(ControlHeader).decode

Item = Parcel | Control


def encode(item: Item) -> bytes:
    """The frame of an item; made once, and for what was received the very bytes that came."""
    frame = item._frame
    if frame is None:
        if isinstance(item, Parcel):
            frame = b"".join((_front(item), *item._body.pieces))
        else:
            body = _encode(item.message) if item.body is None else item.body
            frame = _frame(CONTROL, _control_header(item.channel), body)
        item._frame = frame
    return frame


def pieces(item: Item) -> Sequence[bytes | memoryview]:
    """The frame of an item as bytes that follow each other, none of which are copied for it."""
    if item._frame is None and isinstance(item, Parcel):
        item._body.own()  # who sends may have to keep them
        return (_front(item), *item._body.pieces)
    return (encode(item),)


def _front(parcel: Parcel) -> bytes:
    """Prelude and header."""
    if parcel._front is None:
        kind = PARCEL if parcel.header.answers is None else FEEDBACK
        header = _encode(parcel.header)
        parcel._front = _PRELUDE.pack(MAGIC, VERSION, kind, len(header), parcel.size) + header
    return parcel._front


def size(item: Item) -> int:
    """Bytes of an item's frame, which is not made for it."""
    if item._frame is not None:
        return len(item._frame)
    if isinstance(item, Parcel):
        return len(_front(item)) + item.size
    if item.body is not None:
        return len(encode(item))
    return PRELUDE + len(_control_header(item.channel)) + len(_encode(item.message))


@lru_cache(maxsize=4096)
def _control_header(channel: int) -> bytes:
    return _encode(ControlHeader(channel))


def _frame(kind: int, header: bytes, body: bytes) -> bytes:
    return b"".join((_PRELUDE.pack(MAGIC, VERSION, kind, len(header), len(body)), header, body))


def measure(data: bytes | bytearray | memoryview) -> int:
    """Length of the frame whose prelude stands at the beginning of the data."""
    magic, version, kind, header, body = _PRELUDE.unpack_from(data)
    if magic != MAGIC:
        raise ProtocolError("magic", magic, f"{MAGIC!r}: is this a gossamer node?")
    if version != VERSION:
        raise ProtocolError("version", version, f"{VERSION}: both sides must speak the same")
    if kind not in KINDS:
        raise ProtocolError("kind", kind, f"one of {KINDS}")
    if not 0 < header <= MAX_HEADER:
        raise ProtocolError("header length", header, f"1 to {MAX_HEADER} bytes")
    limit = MAX_CONTROL if kind == CONTROL else MAX_BODY
    if body > limit:
        raise ProtocolError("body length", body, f"at most {limit} bytes")
    return PRELUDE + header + body  # type: ignore[no-any-return]


def decode(frame: bytes | memoryview) -> Item:
    """Read the header of one whole frame; the body stays closed, and lent if the frame is a view.

    Whoever lends may write there at any time: what decisions depend on is copied before it is looked at.
    """
    if len(frame) < PRELUDE:
        raise ProtocolError("frame length", len(frame), f"at least {PRELUDE} bytes")
    prelude = bytes(frame[:PRELUDE])
    length = measure(prelude)
    if len(frame) != length:
        raise ProtocolError("frame length", len(frame), f"{length} bytes, as its prelude says")
    _, _, kind, header_length, body_length = _PRELUDE.unpack(prelude)
    end = PRELUDE + header_length
    if kind == CONTROL:
        whole = bytes(frame)
        channel = checked(_decode_control_header, whole[PRELUDE:end], ControlHeader).channel
        return Control(channel, None, whole[end:], whole)
    front = frame if isinstance(frame, bytes) else bytes(frame[:end])
    head = memoryview(front)[PRELUDE:end]
    if head[0] == _DEPENDENT:
        header: Header = checked(_decode_dependent, head, DependentHeader)
    elif head[0] == _PICKED:
        header = checked(_decode_picked, head, PickedHeader)
    elif head[0] == _RELAYED:
        header = checked(_decode_relayed, head, RelayedHeader)
    else:
        header = checked(_decode_header, head, Header)
    _check(header, kind, body_length)
    if isinstance(frame, bytes):
        return Parcel(header, Body(memoryview(frame)[end:]), frame)
    parcel = Parcel(header, Body(frame[end:], lent=True))
    parcel._front = front
    return parcel


def _check(header: Header, kind: int, body_length: int) -> None:
    stamp = header.stamp
    depends = header.depends if isinstance(header, DependentHeader) else ()
    if not (0 if depends else 1) <= stamp.count <= MAX_EVENTS:
        raise ProtocolError("header.stamp.count", stamp.count, f"1 to {MAX_EVENTS} events")
    last = MAX_NUMBER - stamp.count + 1
    if not 1 <= stamp.first <= last:
        raise ProtocolError("header.stamp.first", stamp.first, f"1 to {last}")
    if header.split >= body_length:
        raise ProtocolError("header.split", header.split, f"less than the body's {body_length} bytes")
    if isinstance(header, PickedHeader):
        _check_picks(header, kind)
    if (kind == FEEDBACK) != (header.answers is not None):
        raise ProtocolError("header.answers", header.answers, "present in feedback and nowhere else")
    if kind == FEEDBACK and depends:
        raise ProtocolError("header.depends", len(depends), "none in feedback")
    if kind == FEEDBACK and isinstance(header, RelayedHeader):
        raise ProtocolError("header.relay", header.relay, "none in feedback")
    if (kind == FEEDBACK) != (stamp.sequence == 0):
        raise ProtocolError("header.stamp.sequence", stamp.sequence, "0 in feedback and nowhere else")
    if kind == FEEDBACK and stamp.count != 1:
        raise ProtocolError("header.stamp.count", stamp.count, "1 in feedback")


def _check_picks(header: PickedHeader, kind: int) -> None:
    count, picks = header.stamp.count, header.picks
    spare = 8 * len(picks) - count
    fits = 0 <= spare < 8 and not picks[-1] & (1 << spare) - 1
    if not fits or not any(picks) or kind == FEEDBACK:
        raise ProtocolError(
            "header.picks", picks[:32], f"a bit for each of {count} events, and some of them set"
        )


def decode_message(control: Control, decoder: msgspec.msgpack.Decoder[Any]) -> Message:
    """The message inside a control frame, in the vocabulary of one template."""
    if control.message is None:
        control.message = checked(decoder.decode, control.body or b"", None)
    return control.message


def checked(decode_part: Any, data: bytes | memoryview, shape: type[msgspec.Struct] | None) -> Any:
    """Decode, and turn whatever is wrong into a ProtocolError that names the field."""
    try:
        return decode_part(data)
    except (msgspec.MsgspecError, GossamerError, RecursionError, UnicodeDecodeError) as error:
        field, limit = _where(str(error), shape)
        raise ProtocolError(field, bytes(data[:32]), limit) from None


_PATH = re.compile(r" - at `\$((?:\[[^\]]*\]|\.\w+)*)`$")


def _where(text: str, shape: type[msgspec.Struct] | None) -> tuple[str, str]:
    """From msgspec's ``Expected … - at `$[1][3]` `` to ``header.stamp.first`` and the limit."""
    found = _PATH.search(text)
    name = "message" if shape is None else "header"
    if not found:
        return name, text
    for step in re.findall(r"\[(\d+)\]|\.(\w+)", found[1]):
        if shape is not None and step[0]:
            fields = msgspec.structs.fields(shape)
            field = fields[int(step[0])]
            name += f".{field.name}"
            shape = _struct_in(field.type)
        else:
            name += f".{step[0] or step[1]}"
    return name, text[: found.start()]


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    for each in (kind, *getattr(kind, "__args__", ())):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return each
    return None


def cut(view: memoryview, frames: list[memoryview]) -> tuple[int, int]:
    """Cut whole frames off the beginning of a view; where the rest begins, and the bytes of a frame that
    begins there, as far as that can be told. Nothing is copied.
    """
    position, size = 0, len(view)
    while size - position >= PRELUDE:
        length = measure(view[position : position + PRELUDE])
        if size - position < length:
            return position, length
        frames.append(view[position : position + length])
        position += length
    return position, PRELUDE


class Framer:
    """Cuts a stream of bytes into frames, wherever the stream was split. Holds at most one open frame."""

    __slots__ = ("_buffer", "_wanted", "error")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = PRELUDE
        self.error: ProtocolError | None = None
        """What broke the stream, once good frames before it have been handed out."""

    @property
    def missing(self) -> int:
        """Bytes that the open frame lacks, as far as that can be told; 0 if none is open."""
        return self._wanted - len(self._buffer) if self._buffer else 0

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The frames completed by this piece.

        A stream that makes no sense raises ProtocolError, now and ever after. If good frames stand before
        the bad place they are returned first, and ``error`` is set.
        """
        if self.error is not None:
            raise self.error
        frames: list[bytes] = []
        try:
            self._cut(memoryview(data), frames)
        except ProtocolError as error:
            self.error = error
            if not frames:
                raise
        return frames

    def _cut(self, view: memoryview, frames: list[bytes]) -> None:
        position = 0
        if self._buffer:
            position = self._fill(view, frames)
        if position == len(view):
            return
        whole: list[memoryview] = []
        try:
            end, self._wanted = cut(view[position:], whole)
        finally:
            frames += map(bytes, whole)
        self._buffer += view[position + end :]

    def _fill(self, view: memoryview, frames: list[bytes]) -> int:
        """Complete the open frame as far as the piece reaches; where the rest begins."""
        position = 0
        while self._buffer and position < len(view):
            missing = self._wanted - len(self._buffer)
            piece = view[position : position + missing]
            self._buffer += piece
            position += len(piece)
            if len(self._buffer) < self._wanted:
                break
            if self._wanted == PRELUDE:
                self._wanted = measure(self._buffer)
            if len(self._buffer) == self._wanted:
                frames.append(bytes(self._buffer))
                self._buffer.clear()
                self._wanted = PRELUDE
        return position
