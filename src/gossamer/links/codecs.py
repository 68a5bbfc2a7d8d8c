"""Codecs: how values become payloads and come back, each with an id that both sides know (seed 004, 3.2).

The id travels in the header, ahead of the data, once for all events of a parcel, and only if it is not 0:
plain bytes pay nothing. Ids below 64 belong to gossamer; an application registers its own from there on, in
every program that publishes or reads with it::

    class Money:
        id, name = 64, "money"

        def encode(self, value): return b"%d" % value.cents
        def decode(self, payload): return Cents(int(payload))

    register(Money())
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from gossamer.core.errors import BadEnvelope, GossamerError, ProtocolError, UnknownCodec
from gossamer.core.event import MAX_CODEC

FIRST_OWN = 64
"""Ids from here on belong to applications."""


class Codec(Protocol):
    """Makes payloads of values and values of payloads; whatever it raises names the value."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    def encode(self, value: Any) -> bytes: ...
    def decode(self, payload: bytes) -> Any: ...


class Raw:
    """Bytes as they are."""

    id, name = 0, "raw"

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise TypeError("bytes; give the channel a codec for other values")
        return value

    def decode(self, payload: bytes) -> bytes:
        return payload


class MessagePack:
    """Plain values, structs and dataclasses, small and fast."""

    id, name = 1, "msgpack"

    def encode(self, value: Any) -> bytes:
        return msgspec.msgpack.encode(value)

    def decode(self, payload: bytes) -> Any:
        return msgspec.msgpack.decode(payload)


class Json:
    """The same for programs of other languages."""

    id, name = 2, "json"

    def encode(self, value: Any) -> bytes:
        return msgspec.json.encode(value)

    def decode(self, payload: bytes) -> Any:
        return msgspec.json.decode(payload)


class Arrow:
    """Record batches and tables, as an Arrow stream; comes back as a table."""

    id, name = 3, "arrow"

    def encode(self, value: Any) -> bytes:
        import pyarrow as pa  # heavy; only who uses it pays for it

        if not isinstance(value, pa.RecordBatch | pa.Table):
            raise TypeError("a pyarrow RecordBatch or Table")
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write(value)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def decode(self, payload: bytes) -> Any:
        import pyarrow as pa

        with pa.ipc.open_stream(payload) as reader:
            return reader.read_all()


_OWN: tuple[Codec, ...] = (Raw(), MessagePack(), Json(), Arrow())
_known = {each.id: each for each in _OWN}


def register(codec: Codec) -> None:
    """Make a codec of one's own known to this program; the same again changes nothing."""
    if not (isinstance(codec.id, int) and FIRST_OWN <= codec.id <= MAX_CODEC):
        raise BadEnvelope("codec id", codec.id, f"a whole number from {FIRST_OWN} to {MAX_CODEC}")
    for other in _known.values():
        if type(other) is not type(codec) and (other.id == codec.id or other.name == codec.name):
            raise BadEnvelope("codec", f"{codec.id} {codec.name!r}", f"not taken, as by {other.name!r}")
    _known[codec.id] = codec


def named(name: str) -> Codec:
    """A codec by name; raises UnknownCodec."""
    for codec in _known.values():
        if codec.name == name:
            return codec
    raise UnknownCodec(name, names())


def names() -> list[str]:
    """The codecs that this program knows."""
    return [codec.name for codec in _known.values()]


def encode(codec: Codec, value: Any) -> bytes:
    """The payload of a value; raises BadEnvelope if the codec does not take it."""
    try:
        payload = codec.encode(value)
    except GossamerError:
        raise
    except Exception as error:
        raise BadEnvelope("payload", value, f"what codec {codec.name!r} takes: {error}") from error
    if not isinstance(payload, bytes):
        raise BadEnvelope("payload", payload, f"bytes; codec {codec.name!r} made something else")
    return payload


def decode(number: int, payload: bytes) -> Any:
    """The value of a payload by the id that came ahead of it; raises UnknownCodec or ProtocolError."""
    codec = _known.get(number)
    if codec is None:
        raise UnknownCodec(number, names())
    try:
        return codec.decode(payload)
    except Exception as error:
        raise ProtocolError("payload", payload[:32], f"a value of codec {codec.name!r}: {error}") from error
