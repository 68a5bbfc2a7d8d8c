"""The header says what it says, and hostile packets get a clear error and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gossamer.announce.header import (
    ERASURE,
    HEADER_BYTES,
    MUST_KNOW,
    Code,
    Header,
    decode,
    encode,
)
from gossamer.core.errors import ProtocolError

THREAD = bytes(range(16))

kinds = st.lists(st.sampled_from([*range(MUST_KNOW), ERASURE]), unique=True, max_size=5).map(sorted)
options = kinds.flatmap(
    lambda found: st.tuples(*[st.tuples(st.just(kind), st.binary(max_size=40)) for kind in found])
)
headers = st.builds(
    Header,
    st.binary(min_size=16, max_size=16),
    st.integers(1, 2**32 - 1),
    st.integers(0, 2**16 - 1),
    st.booleans(),
    st.sampled_from(Code),
    options,
)


@given(headers, st.binary(max_size=100))
def test_what_is_encoded_is_decoded(header: Header, body: bytes) -> None:
    assert decode(encode(header) + body) == (header, body)


def refused_or_the_same_again(packet: bytes) -> None:
    try:
        header, body = decode(packet)
    except ProtocolError:
        return
    assert encode(header) + body == packet


@settings(max_examples=400)
@given(
    st.binary(max_size=300)
    | headers.map(encode).flatmap(lambda good: st.binary(max_size=9).map(good.__add__))
)
@example(b"")
@example(b"\x01\x80\xff\xff" + bytes(40))
def test_any_bytes_are_refused_or_encode_to_the_same_again(packet: bytes) -> None:
    refused_or_the_same_again(packet)


@given(headers, st.data())
def test_a_packet_with_a_changed_byte_is_refused_or_means_just_what_it_says(
    header: Header, data: st.DataObject
) -> None:
    good = bytearray(encode(header))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    refused_or_the_same_again(bytes(good))


def test_the_fields_stand_where_the_paper_has_them() -> None:
    packet = encode(Header(THREAD, 0x01020304, 0x0506, True, Code.INDEX, ((7, b"ab"),)))
    assert packet == b"\x01\xc0\x00\x04" + THREAD + b"\x01\x02\x03\x04\x05\x06" + b"\x07\x02ab"
    assert len(packet) == HEADER_BYTES + 4


def broken(at: int, value: int, more: bytes = b"") -> bytes:
    packet = bytearray(encode(Header(THREAD, 1)))
    packet[at] = value
    return bytes(packet) + more


@pytest.mark.parametrize(
    ("packet", "field"),
    [
        (b"\x01\x80", "length of packet"),
        (broken(0, 2), "revision"),
        (broken(1, 0x60), "flags"),
        (broken(1, 0x01), "flags"),
        (broken(23, 0), "version"),
        (broken(3, 1), "bytes of options"),
        (broken(2, 255, bytes(70_000)), "bytes of options"),
        (broken(3, 1, b"\x01"), "option"),
        (broken(3, 3, b"\x01\x02a"), "length of option"),
        (broken(3, 4, b"\x05\x00\x05\x00"), "kind of option"),
        (broken(3, 4, b"\x05\x00\x04\x00"), "kind of option"),
        (broken(3, 2, b"\xc8\x00"), "kind of option"),
    ],
)
def test_an_error_names_the_field(packet: bytes, field: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode(packet)
    assert refused.value.field == field
