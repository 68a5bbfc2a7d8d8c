"""Frames: whatever was sealed comes out again, and whatever makes no sense is a ProtocolError."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from gossamer.core.control import Control, Message
from gossamer.core.errors import ProtocolError
from gossamer.core.event import QoS
from gossamer.core.parcel import MAX_BODY, MAX_DEPENDS, MAX_EVENTS, Header, Parcel, make_body
from gossamer.core.receipt import MAX_NUMBER
from gossamer.core.wire import (
    CONTROL,
    FEEDBACK,
    MAX_CONTROL,
    MAX_HEADER,
    PARCEL,
    PRELUDE,
    ControlHeader,
    Framer,
    decode,
    decode_message,
    encode,
    pieces,
)
from gossamer.overlay.directory.service import Directory, Entry, Learn
from gossamer.testing.fake import answer, parcel
from tests.core.strategies import feedback, numbers, parcels


class Hello(Message, frozen=True):
    """A message for these tests."""

    words: Annotated[tuple[Annotated[str, Meta(max_length=10)], ...], Meta(max_length=4)]
    number: Annotated[int, Meta(ge=0, le=9)]


HELLO = msgspec.msgpack.Decoder(Hello)
RICH = parcel(
    "b1/s2/c",
    3,
    7,
    [b"one", b"", b"three"],
    attributes=[{"symbol": "ACME", "price": 10.5}, None, {"raw": b"\xff", "yes": True, "n": -3}],
    qos=QoS(priority=9, expiry=2),
    sent=12345,
)
FRAMES = {
    "plain": encode(parcel("a")),
    "rich": encode(RICH),
    "dependent": encode(RICH.depending_on((("a", 1, 5), ("b", 2**40, 300)))),
    "picked": encode(RICH.picked([0, 2])),
    "relayed": encode(RICH.relayed((7, 3), ("b1", 2, 1))),
    "feedback": encode(answer("c", RICH, 1)),
    "control": encode(Control(5, Hello(("a", "bc"), 3))),
    "directory": encode(Control(5, Learn((Entry("news", "multicast", {"window": 9, "x": "y"}, 4, "a"),)))),
}


def frame(kind: int, header: bytes, body: bytes, version: int = 1, magic: bytes = b"gs") -> bytes:
    return struct.pack(">2sBBHI", magic, version, kind, len(header), len(body)) + header + body


def open_fully(data: bytes) -> Any:
    """Decode a frame and everything in it, as its receivers would."""
    item = decode(data)
    if isinstance(item, Parcel):
        return item.header, item.payloads, item.attributes
    for decoder in (HELLO, Directory.decoder()):
        try:
            return decode_message(item, decoder)
        except ProtocolError as error:
            assert_tells(error)
    return None


def assert_tells(error: ProtocolError) -> None:
    assert error.field
    assert error.limit
    assert error.field in str(error)
    assert error.limit in str(error)
    assert not error.retry


def refused(data: bytes, how: Callable[[bytes], Any] = open_fully) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        how(data)
    assert_tells(caught.value)
    return caught.value


# what goes in comes out


def test_a_frame_that_is_lent_is_copied_before_it_is_sent_on_and_not_to_be_read() -> None:
    whole = encode(parcel("a", 1, 1, [b"one", b"two"]))
    memory = bytearray(whole)
    read, passed = decode(memoryview(memory)), decode(memoryview(memory))
    assert isinstance(read, Parcel)
    assert read.payloads == [b"one", b"two"]
    sent = pieces(passed)
    memory[:] = bytes(len(memory))
    assert b"".join(sent) == whole
    assert read.payloads == [b"one", b"two"]


@given(st.one_of(parcels(), feedback()))
def test_any_parcel_comes_out_as_it_went_in(sent: Parcel) -> None:
    got = decode(encode(sent))
    assert isinstance(got, Parcel)
    assert got.header == sent.header
    assert got.payloads == sent.payloads
    assert got.attributes == sent.attributes
    assert got.qos == sent.qos
    assert got.deadline == sent.deadline
    assert encode(got) == encode(sent)


@given(numbers, st.lists(st.text(st.characters(codec="utf-8"), max_size=10), max_size=4), st.integers(0, 9))
def test_any_control_message_comes_out_as_it_went_in(channel: int, words: list[str], number: int) -> None:
    got = decode(encode(Control(channel, Hello(tuple(words), number))))
    assert isinstance(got, Control)
    assert got.channel == channel
    assert got.message is None, "a forwarder does not open it"
    assert decode_message(got, HELLO) == Hello(tuple(words), number)


def test_what_was_received_is_passed_on_as_the_very_same_bytes() -> None:
    for data in FRAMES.values():
        item = decode(data)
        assert encode(item) is data


def test_a_frame_is_asked_for_once() -> None:
    item = parcel("a")
    assert encode(item) is encode(item)


# streams


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_cut_short_anywhere_is_refused(name: str) -> None:
    whole = FRAMES[name]
    for end in range(len(whole)):
        refused(whole[:end], decode)
    refused(whole + b"\0", decode)


def test_a_stream_split_at_every_byte_gives_the_same_frames() -> None:
    frames = list(FRAMES.values())
    stream = b"".join(frames)
    for cut in range(len(stream) + 1):
        framer = Framer()
        assert framer.feed(stream[:cut]) + framer.feed(stream[cut:]) == frames


def test_a_stream_that_arrives_byte_by_byte_gives_the_same_frames() -> None:
    frames = list(FRAMES.values())
    framer = Framer()
    got = [each for byte in b"".join(frames) for each in framer.feed(bytes([byte]))]
    assert got == frames


@given(st.lists(st.integers(0, 400), max_size=12), st.sampled_from([bytes, bytearray, memoryview]))
def test_a_stream_split_anywhere_gives_the_same_frames(cuts: list[int], kind: Callable[[bytes], Any]) -> None:
    frames = [*FRAMES.values(), *FRAMES.values()]
    stream = b"".join(frames)
    edges = sorted({0, len(stream), *(cut * 3 % len(stream) for cut in cuts)})
    framer = Framer()
    got: list[bytes] = []
    for start, end in pairwise(edges):
        got += framer.feed(kind(stream[start:end]))
    assert got == frames
    assert all(type(each) is bytes for each in got)


def test_a_stream_that_goes_wrong_is_noticed_at_the_first_wrong_prelude() -> None:
    good = FRAMES["plain"]
    for cut in range(len(good) + PRELUDE):
        framer = Framer()
        stream = good + b"HTTP/1.1 200 OK\r\n"

        def fed(_: bytes, framer: Framer = framer, stream: bytes = stream, cut: int = cut) -> None:
            framer.feed(stream[:cut])
            framer.feed(stream[cut:])
            framer.feed(b"")

        assert refused(b"", fed).field == "magic"


# damage


@pytest.mark.parametrize("name", FRAMES)
def test_a_flipped_bit_gives_a_protocol_error_or_a_valid_item_and_nothing_else(name: str) -> None:
    whole = FRAMES[name]
    refusals = 0
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            try:
                open_fully(bytes(damaged))
            except ProtocolError as error:
                assert_tells(error)
                refusals += 1
    assert refusals


@pytest.mark.parametrize("name", FRAMES)
def test_a_replaced_byte_gives_a_protocol_error_or_a_valid_item_and_nothing_else(name: str) -> None:
    whole = FRAMES[name]
    for position in range(len(whole)):
        for byte in range(256):
            damaged = whole[:position] + bytes([byte]) + whole[position + 1 :]
            try:
                open_fully(damaged)
            except ProtocolError as error:
                assert_tells(error)


@settings(max_examples=400)
@given(
    st.sampled_from([PARCEL, FEEDBACK, CONTROL]),
    st.binary(min_size=1, max_size=40),
    st.binary(max_size=60),
)
def test_noise_behind_a_good_prelude_is_refused_or_valid(kind: int, header: bytes, body: bytes) -> None:
    try:
        open_fully(frame(kind, header, body))
    except ProtocolError as error:
        assert_tells(error)


@settings(max_examples=400)
@given(st.booleans(), st.binary(max_size=80))
def test_noise_as_a_body_is_refused_or_valid(split: bool, noise: bytes) -> None:
    header = Header(1, RICH.stamp, 0, len(noise) // 2 if split else 0)
    try:
        open_fully(frame(PARCEL, msgspec.msgpack.encode(header), noise or b"\0"))
    except ProtocolError as error:
        assert_tells(error)


# limits, before memory is taken


def peak_of(action: Callable[[], Any]) -> int:
    action()  # whatever is cached on first use is not what is measured
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


HUGE = b"\xff\xff\xff\xff"
ARRAY, MAP, BYTES, TEXT, EXT = b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"
FEW = 64 * 1024


@pytest.mark.parametrize("kind", [PARCEL, FEEDBACK, CONTROL])
def test_a_prelude_that_claims_four_gigabytes_is_refused_before_memory_is_taken(kind: int) -> None:
    claim = struct.pack(">2sBBHI", b"gs", 1, kind, 10, 2**32 - 1)

    def claimed() -> None:
        assert refused(claim, lambda data: Framer().feed(data)).field == "body length"
        assert refused(claim, decode).field == "body length"

    assert peak_of(claimed) < FEW


def test_a_frame_that_is_allowed_takes_only_the_memory_that_has_arrived() -> None:
    claim = struct.pack(">2sBBHI", b"gs", 1, PARCEL, 10, MAX_BODY)
    assert peak_of(lambda: Framer().feed(claim)) < FEW


@pytest.mark.parametrize(
    ("kind", "header", "body", "field"),
    [
        (PARCEL, MAX_HEADER + 1, 0, "header length"),
        (PARCEL, 0, 10, "header length"),
        (PARCEL, 10, MAX_BODY + 1, "body length"),
        (FEEDBACK, 10, MAX_BODY + 1, "body length"),
        (CONTROL, 10, MAX_CONTROL + 1, "body length"),
        (0, 10, 10, "kind"),
        (4, 10, 10, "kind"),
    ],
)
def test_a_length_over_its_limit_is_refused_by_name(kind: int, header: int, body: int, field: str) -> None:
    claim = struct.pack(">2sBBHI", b"gs", 1, kind, header, body)
    assert refused(claim, lambda data: Framer().feed(data)).field == field


@pytest.mark.parametrize("claim", [ARRAY, MAP, BYTES, TEXT, EXT])
def test_a_header_that_claims_billions_of_items_is_refused_before_memory_is_taken(claim: bytes) -> None:
    def claimed() -> None:
        for header in (claim + HUGE, b"\x96\x01" + claim + HUGE, b"\x96\x01\x96" + claim + HUGE):
            refused(frame(PARCEL, header, b"\x90"))
            refused(frame(CONTROL, header, b"\x90"))

    assert peak_of(claimed) < FEW


@pytest.mark.parametrize("claim", [ARRAY, MAP, BYTES, TEXT, EXT])
def test_a_body_that_claims_billions_of_items_is_refused_before_memory_is_taken(claim: bytes) -> None:
    def claimed() -> None:
        for front in (b"", claim + HUGE, b"\x91" + claim + HUGE, b"\x91\x81\xa1a" + claim + HUGE):
            for back in (claim + HUGE, b"\x91" + claim + HUGE):
                header = Header(1, parcel("a").stamp, 0, len(front))
                refused(frame(PARCEL, msgspec.msgpack.encode(header), front + back))

    assert peak_of(claimed) < FEW


@pytest.mark.parametrize("claim", [ARRAY, MAP, BYTES, TEXT, EXT])
def test_a_control_message_that_claims_billions_of_items_is_refused_before_memory_is_taken(
    claim: bytes,
) -> None:
    def claimed() -> None:
        for body in (
            claim + HUGE,
            b"\x92" + claim + HUGE,
            b"\x93\xa5Hello" + claim + HUGE,
            b"\x93\xa5Hello\x91" + claim + HUGE,
            b"\x92\xa5Learn" + claim + HUGE,
            b"\x92\xa5Learn\x91" + claim + HUGE,
            b"\x92\xa5Learn\x91\x95\xa1a\xa1b" + claim + HUGE,
        ):
            item = decode(frame(CONTROL, msgspec.msgpack.encode(ControlHeader(1)), body))
            assert isinstance(item, Control)
            for decoder in (HELLO, Directory.decoder()):
                with pytest.raises(ProtocolError) as caught:
                    decode_message(item, decoder)
                assert_tells(caught.value)

    assert peak_of(claimed) < FEW


@pytest.mark.parametrize("nest", [b"\x91", b"\x81\xa1a", b"\xdc\x00\x01"])
def test_deep_nesting_is_refused(nest: bytes) -> None:
    deep = nest * 100_000
    refused(frame(PARCEL, nest * 300, b"\x90"))
    stamp = parcel("a").stamp
    refused(frame(PARCEL, msgspec.msgpack.encode(Header(1, stamp, 0, 0)), deep))
    front = b"\x91\x81\xa1a" + deep
    refused(frame(PARCEL, msgspec.msgpack.encode(Header(1, stamp, 0, len(front))), front + b"\x91\xc4\x00"))
    item = decode(frame(CONTROL, b"\x91\x01", deep))
    assert isinstance(item, Control)
    with pytest.raises(ProtocolError):
        decode_message(item, Directory.decoder())


def test_a_number_of_events_over_the_limit_is_refused() -> None:
    body = make_body([b""] * (MAX_EVENTS + 1), [])[0].whole
    stamp = parcel("a").stamp
    too_many = msgspec.structs.replace(stamp, count=MAX_EVENTS + 1)
    error = refused(frame(PARCEL, msgspec.msgpack.encode(Header(1, too_many, 0, 0)), body))
    assert error.field == "header.stamp.count"
    lying = msgspec.structs.replace(stamp, count=MAX_EVENTS)
    assert refused(frame(PARCEL, msgspec.msgpack.encode(Header(1, lying, 0, 0)), body)).field == "body"


# errors name the field


def header_with(**changes: Any) -> bytes:
    fields = {name: getattr(RICH.header, name) for name in Header.__struct_fields__}
    return msgspec.msgpack.encode(list({**fields, **changes}.values()))


def stamp_with(**changes: Any) -> list[Any]:
    fields = {name: getattr(RICH.stamp, name) for name in RICH.stamp.__struct_fields__}
    return list({**fields, **changes}.values())


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"channel": -1}, "header.channel"),
        ({"channel": "news"}, "header.channel"),
        ({"sent": -1}, "header.sent"),
        ({"sent": 2**63}, "header.sent"),
        ({"split": MAX_BODY + 1}, "header.split"),
        ({"split": len(RICH.body)}, "header.split"),
        ({"qos": {"priority": 10}}, "header"),
        ({"qos": {"expiry": -1.0}}, "header"),
        ({"qos": {"hurry": 1}}, "header.qos"),
        ({"qos": 3}, "header.qos"),
        ({"stamp": stamp_with(source="")}, "header.stamp.source"),
        ({"stamp": stamp_with(source="x" * 195)}, "header.stamp.source"),
        ({"stamp": stamp_with(incarnation=-1)}, "header.stamp.incarnation"),
        ({"stamp": stamp_with(sequence=0)}, "header.stamp.sequence"),
        ({"stamp": stamp_with(first=0)}, "header.stamp.first"),
        ({"stamp": stamp_with(first=MAX_NUMBER)}, "header.stamp.first"),
        ({"stamp": stamp_with(count=0)}, "header.stamp.count"),
        ({"stamp": stamp_with(proof=b"short")}, "header.stamp.proof"),
        ({"stamp": [*stamp_with(), 1]}, "header.stamp"),
        ({"stamp": stamp_with()[:4]}, "header.stamp"),
        ({"answers": [stamp_with(), 1]}, "header.answers"),
        ({"answers": [stamp_with(proof=b""), 1]}, "header.answers.stamp.proof"),
        ({"depends": 1}, "header.depends"),
        ({"depends": [["a", 1]]}, "header.depends.0"),
        ({"depends": [["a", 1, -1]]}, "header.depends.0.2"),
        ({"depends": [["x" * 65, 1, 1]]}, "header.depends.0.0"),
        ({"depends": [["a", 1, 1]] * (MAX_DEPENDS + 1)}, "header.depends"),
        ({"depends": [], "picks": 1}, "header.picks"),
        ({"depends": [], "relay": b"\x80", "bound": None}, "header.relay"),
        ({"depends": [], "relay": [1, -1], "bound": None}, "header.relay.1"),
        ({"depends": [], "relay": [1, 1], "bound": ["", 1, 1]}, "header.bound.0"),
        ({"depends": [], "relay": [1, 1], "bound": None, "extra": 1}, "header"),
        ({"depends": [], "stamp": stamp_with(count=0)}, "header.stamp.count"),
    ],
)
def test_an_error_names_the_field_of_the_header(changes: dict[str, Any], field: str) -> None:
    assert refused(frame(PARCEL, header_with(**changes), RICH.body)).field == field


def test_the_kind_of_a_frame_and_its_header_must_agree() -> None:
    plain, reply = RICH.header, answer("c", RICH).header
    encoded = msgspec.msgpack.encode
    assert refused(frame(FEEDBACK, encoded(plain), RICH.body)).field == "header.answers"
    assert refused(frame(PARCEL, encoded(reply), RICH.body)).field == "header.answers"
    two = msgspec.structs.replace(reply, stamp=msgspec.structs.replace(reply.stamp, count=2))
    assert refused(frame(FEEDBACK, encoded(two), RICH.body)).field == "header.stamp.count"
    sequenced = msgspec.structs.replace(reply, stamp=msgspec.structs.replace(reply.stamp, sequence=4))
    assert refused(frame(FEEDBACK, encoded(sequenced), RICH.body)).field == "header.stamp.sequence"


def test_an_answer_depends_on_nothing() -> None:
    reply = answer("c", RICH)
    wrong = msgspec.msgpack.encode(reply.depending_on((("a", 1, 5),)).header)
    assert refused(frame(FEEDBACK, wrong, reply.body)).field == "header.depends"


def test_a_parcel_without_dependencies_pays_nothing_for_them_and_without_events_it_must_have_some() -> None:
    assert msgspec.msgpack.encode(parcel("a").header)[0] == 0x96
    blank = msgspec.structs.replace(RICH.stamp, count=0)
    header = msgspec.structs.replace(RICH.header, stamp=blank, split=0)
    assert refused(frame(PARCEL, msgspec.msgpack.encode(header), b"\x90")).field == "header.stamp.count"
    sent = Parcel(header, b"\x90").depending_on((("a", 1, 5),))
    assert open_fully(encode(sent)) == (sent.header, [], [])


def test_another_version_is_refused_and_says_which() -> None:
    error = refused(frame(PARCEL, b"\x90", b"", version=2))
    assert (error.field, error.value) == ("version", 2)


@pytest.mark.parametrize(
    ("front", "back"),
    [
        (b"\x91\x81\xa1\xff\x01", b"\x91\xc4\x01x"),  # a name that is no text
        (b"\x91\x81\x01\x01", b"\x91\xc4\x01x"),  # a name that is a number
        (b"\x91\x81\xa1a\x90", b"\x91\xc4\x01x"),  # a value that is a list
        (b"\x91\x81\xa1a\xc0", b"\x91\xc4\x01x"),  # a value that is nothing
        (b"\x91\x81\xa1a\xd6\xff\0\0\0\0", b"\x91\xc4\x01x"),  # a value that is an instant
        (b"\x91\x81\xa1a\xcf" + b"\xff" * 8, b"\x91\xc4\x01x"),  # over 64 bits signed
        (b"\x91\x81\xa0\x01", b"\x91\xc4\x01x"),  # a name without characters
        (b"\x92\xc0\xc0", b"\x91\xc4\x01x"),  # more envelopes than events
        (b"\x90", b"\x91\xc4\x01x"),  # fewer envelopes than events
        (b"\x91\xc0\x00", b"\x91\xc4\x01x"),  # something left over
        (b"", b"\x92\xc4\x00\xc4\x00"),  # more events than the header says
        (b"", b"\x90"),
        (b"", b"\x91\x90"),  # a payload that is a list
        (b"", b"\x91\xc4\x01x\x00"),
    ],
)
def test_a_body_that_does_not_fit_is_refused(front: bytes, back: bytes) -> None:
    header = msgspec.msgpack.encode(Header(1, parcel("a").stamp, 0, len(front)))
    assert refused(frame(PARCEL, header, front + back)).field == "body"


def test_a_message_nobody_knows_is_refused() -> None:
    item = decode(encode(Control(1, Hello((), 1))))
    assert isinstance(item, Control)
    with pytest.raises(ProtocolError) as caught:
        decode_message(item, Directory.decoder())
    assert_tells(caught.value)


def test_an_error_names_the_place_in_a_message() -> None:
    item = decode(frame(CONTROL, b"\x91\x01", msgspec.msgpack.encode(["Hello", ["x" * 11], 1])))
    assert isinstance(item, Control)
    with pytest.raises(ProtocolError) as caught:
        decode_message(item, HELLO)
    assert caught.value.field == "message.1.0"
    assert "10" in caught.value.limit


# quality of service


def test_quality_of_service_costs_bytes_only_where_it_is_asked_for() -> None:
    def length(qos: QoS) -> int:
        return len(encode(parcel("a", qos=qos)))

    none = length(QoS())
    assert none == len(encode(parcel("a")))
    assert length(QoS(priority=4)) == none, "the default costs nothing"
    one = length(QoS(priority=9))
    other = length(QoS(expiry=2.5))
    both = length(QoS(priority=9, expiry=2.5))
    assert none < one < other < both
    assert both - none == (one - none) + (other - none)


def test_attributes_cost_bytes_only_where_they_are_given() -> None:
    bare = len(encode(parcel("a", 1, 1, [b"x", b"y"])))
    one = len(encode(parcel("a", 1, 1, [b"x", b"y"], attributes=[None, {"a": 1}])))
    assert one - bare == len(msgspec.msgpack.encode([None, {"a": 1}]))


def test_good_frames_before_garbage_are_handed_out_however_the_stream_was_cut() -> None:
    good = encode(Control(7, None, b"\x91\xa1x"))
    for cut in range(len(good), len(good) + 12):
        framer, frames = Framer(), []
        stream = good + b"garbage that is long enough"
        for piece in (stream[:cut], stream[cut:]):
            with contextlib.suppress(ProtocolError):
                frames += framer.feed(piece)
        assert frames == [good]
        with pytest.raises(ProtocolError):
            framer.feed(b"")
