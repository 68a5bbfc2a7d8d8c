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
from typing import Any

import msgspec

from gossamer.core.control import Control, Message
from gossamer.core.errors import GossamerError, ProtocolError
from gossamer.core.parcel import MAX_BODY, MAX_EVENTS, DependentHeader, Header, Parcel
from gossamer.core.receipt import MAX_NUMBER, Number

MAGIC = b"gs"
VERSION = 1
PARCEL, FEEDBACK, CONTROL = 1, 2, 3
KINDS = (PARCEL, FEEDBACK, CONTROL)
MAX_HEADER = 4096
MAX_CONTROL = 1024 * 1024

_PRELUDE = struct.Struct(">2sBBHI")
PRELUDE = _PRELUDE.size
MAX_FRAME = PRELUDE + MAX_HEADER + MAX_BODY
KEPT = 4
"""Times its capacity that a framer's room may have grown to and stay."""


class ControlHeader(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a forwarder reads of a control message."""

    channel: Number


_encode = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(Header).decode
_decode_dependent = msgspec.msgpack.Decoder(DependentHeader).decode
_DEPENDENT = 0x90 + len(DependentHeader.__struct_fields__)
"""First byte of a header with dependencies: an array of one field more."""
_decode_control_header = msgspec.msgpack.Decoder(ControlHeader).decode

Item = Parcel | Control


def encode(item: Item) -> bytes:
    """The frame of an item; made once, and for what was received the very bytes that came."""
    frame = item._frame
    if frame is None:
        if isinstance(item, Parcel):
            kind = PARCEL if item.header.answers is None else FEEDBACK
            frame = _frame(kind, _encode(item.header), item.body)
        else:
            body = _encode(item.message) if item.body is None else item.body
            frame = _frame(CONTROL, _encode(ControlHeader(item.channel)), body)
        item._frame = frame
    return frame


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


def decode(frame: bytes) -> Item:
    """Read the header of one whole frame; the body stays closed."""
    if len(frame) < PRELUDE:
        raise ProtocolError("frame length", len(frame), f"at least {PRELUDE} bytes")
    length = measure(frame)
    if len(frame) != length:
        raise ProtocolError("frame length", len(frame), f"{length} bytes, as its prelude says")
    _, _, kind, header_length, body_length = _PRELUDE.unpack_from(frame)
    end = PRELUDE + header_length
    head = memoryview(frame)[PRELUDE:end]
    if kind == CONTROL:
        return Control(checked(_decode_control_header, head, ControlHeader).channel, None, frame[end:], frame)
    if head[0] == _DEPENDENT:
        header: Header = checked(_decode_dependent, head, DependentHeader)
    else:
        header = checked(_decode_header, head, Header)
    _check(header, kind, body_length)
    return Parcel(header, frame[end:], frame)


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
    if (kind == FEEDBACK) != (header.answers is not None):
        raise ProtocolError("header.answers", header.answers, "present in feedback and nowhere else")
    if kind == FEEDBACK and depends:
        raise ProtocolError("header.depends", len(depends), "none in feedback")
    if (kind == FEEDBACK) != (stamp.sequence == 0):
        raise ProtocolError("header.stamp.sequence", stamp.sequence, "0 in feedback and nowhere else")
    if kind == FEEDBACK and stamp.count != 1:
        raise ProtocolError("header.stamp.count", stamp.count, "1 in feedback")


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


class Framer:
    """Cuts a stream of bytes into frames, wherever the stream was split. Holds at most one open frame.

    Whoever receives has the bytes put into ``room()`` and then says how many: a frame is copied once, out of
    there. The room begins with some capacity and grows, twofold, only when a frame has filled it; when it is
    empty, room for more than a few times the capacity is given back.
    """

    __slots__ = ("_begin", "_capacity", "_end", "_room", "_wanted", "error")

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._room = memoryview(bytearray(capacity))
        self._begin = self._end = 0
        self._wanted = PRELUDE
        self.error: ProtocolError | None = None
        """What broke the stream, once good frames before it have been handed out."""

    def room(self) -> memoryview:
        """Where the next bytes are to be put; never empty."""
        begin, end, size = self._begin, self._end, len(self._room)
        if begin == end:
            if size > KEPT * self._capacity:
                self._room = memoryview(bytearray(self._capacity))
            self._begin = self._end = 0
        elif end - begin == size:
            self._move(2 * size)
        elif begin and begin + self._wanted > size:
            self._move(size)
        return self._room[self._end :]

    def _move(self, size: int) -> None:
        """Begin the open frame at the front, in room of some size."""
        begin, end, room = self._begin, self._end, self._room
        if size != len(room):
            self._room = memoryview(bytearray(size))
        self._room[: end - begin] = room[begin:end]
        self._begin, self._end = 0, end - begin

    def filled(self, count: int) -> list[bytes]:
        """The frames completed by so many bytes that were put into the room.

        A stream that makes no sense raises ProtocolError, now and ever after. If good frames stand before
        the bad place they are returned first, and ``error`` is set.
        """
        if self.error is not None:
            raise self.error
        self._end += count
        frames: list[bytes] = []
        try:
            self._cut(frames)
        except ProtocolError as error:
            self.error = error
            self._begin = self._end = 0
            if not frames:
                raise
        return frames

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The frames completed by a piece that is elsewhere; errors as with ``filled``."""
        left, frames = memoryview(data), self.filled(0)
        while left and self.error is None:
            room = self.room()
            piece = left[: len(room)]
            room[: len(piece)] = piece
            try:
                frames += self.filled(len(piece))
            except ProtocolError:
                if not frames:
                    raise
            left = left[len(piece) :]
        return frames

    def _cut(self, frames: list[bytes]) -> None:
        begin, end, wanted, room = self._begin, self._end, self._wanted, self._room
        while end - begin >= wanted:
            if wanted == PRELUDE:
                wanted = measure(room[begin : begin + PRELUDE])
            else:
                after = begin + wanted
                frames.append(bytes(room[begin:after]))
                begin, wanted = after, PRELUDE
        self._begin, self._wanted = begin, wanted
