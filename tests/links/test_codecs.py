"""Codecs: what goes in comes out, the id says how, and who does not use one pays nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gossamer.core.errors import BadEnvelope, ProtocolError, UnknownCodec
from gossamer.core.event import NO_QOS, QoS
from gossamer.core.receipt import Notary
from gossamer.core.sealer import Sealer
from gossamer.core.wire import encode
from gossamer.links import codecs

PLAIN = [None, 7, "text", [1, 2.5, True], {"a": {"b": [1]}}]


class Backwards:
    id, name = 99, "backwards"

    def encode(self, value: Any) -> bytes:
        return bytes(value.encode()[::-1])

    def decode(self, payload: bytes) -> Any:
        return payload[::-1].decode()


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> codecs.Codec:
    monkeypatch.setattr(codecs, "_known", dict(codecs._known))
    made = Backwards()
    codecs.register(made)
    return made


@pytest.mark.parametrize("name", ["msgpack", "json"])
@pytest.mark.parametrize("value", PLAIN)
def test_plain_values_come_back(name: str, value: object) -> None:
    codec = codecs.named(name)
    assert codecs.decode(codec.id, codecs.encode(codec, value)) == value


def test_bytes_stay_as_they_are() -> None:
    assert codecs.decode(0, codecs.encode(codecs.named("raw"), b"as it is")) == b"as it is"


def test_tables_and_record_batches_come_back_as_tables() -> None:
    table = pa.table({"n": [1, 2, 3], "word": ["a", None, "c"]})
    codec = codecs.named("arrow")
    assert codecs.decode(codec.id, codecs.encode(codec, table)) == table
    assert codecs.decode(codec.id, codecs.encode(codec, table.to_batches()[0])) == table


def test_an_application_adds_its_own(own: codecs.Codec) -> None:
    assert codecs.decode(own.id, codecs.encode(own, "abc")) == "abc"
    assert codecs.encode(own, "abc") == b"cba"
    assert codecs.named("backwards") is own
    codecs.register(Backwards())  # the same again


@pytest.mark.parametrize(
    ("number", "name"), [(3, "mine"), (70_000, "mine"), (99, "mine"), (100, "backwards")]
)
def test_ids_and_names_belong_to_one(own: codecs.Codec, number: int, name: str) -> None:
    other = type("Other", (), {"id": number, "name": name})()
    with pytest.raises(BadEnvelope):
        codecs.register(other)


def test_what_is_not_known_is_said_with_what_is() -> None:
    with pytest.raises(UnknownCodec, match=r"codec 4321.*not registered.*json"):
        codecs.decode(4321, b"")
    with pytest.raises(UnknownCodec, match=r"did you mean 'json'"):
        codecs.named("jsno")


@pytest.mark.parametrize(("name", "value"), [("raw", "text"), ("json", object()), ("arrow", [1])])
def test_a_value_that_a_codec_does_not_take_is_named(name: str, value: object) -> None:
    with pytest.raises(BadEnvelope, match=name):
        codecs.encode(codecs.named(name), value)


@pytest.mark.parametrize("name", ["msgpack", "json", "arrow"])
def test_a_payload_that_makes_no_sense_is_the_other_sides_error(name: str) -> None:
    with pytest.raises(ProtocolError, match=name):
        codecs.decode(codecs.named(name).id, b"\xc1 makes no sense")


def size(qos: QoS) -> int:
    sealer = Sealer("news", 1, Notary(b"secret"))
    sealer.add(b"payload", None, qos)
    (parcel,) = sealer.seal("n1", 0)
    return len(encode(parcel))


def test_what_is_not_wished_for_costs_no_bytes() -> None:
    bare = size(NO_QOS)
    assert bare == size(QoS(codec=0)) < size(QoS(priority=7)) < size(QoS(priority=7, codec=2))
