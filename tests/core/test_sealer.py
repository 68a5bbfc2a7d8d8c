"""The open parcel: numbers without gaps, groups alike in wishes, sizes within the limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.errors import BadEnvelope, TooLarge
from gossamer.core.event import MAX_ATTRIBUTE_BYTES, MAX_PAYLOAD, NO_QOS, Envelope, QoS
from gossamer.core.names import MAX_ADDRESS, channel_id
from gossamer.core.parcel import MAX_BODY, MAX_DEPENDS, MAX_EVENTS, Answer, Parcel
from gossamer.core.receipt import MAX_NUMBER
from gossamer.core.sealer import PARCEL_EVENTS, Sealer
from gossamer.core.wire import MAX_HEADER, decode, encode
from gossamer.testing.fake import answer, notary, parcel
from gossamer.transports.datagram import MAX_DATAGRAM
from tests.core.strategies import events
from tests.core.strategies import qos as any_wishes

LONGEST = "/".join("x" * 64 for _ in range(3))


def sealer(limit: int = 60 * 1024) -> Sealer:
    return Sealer("news", 1, notary("a"), limit)


def opened(parcels: list[Parcel]) -> list[tuple[int, bytes, Any, QoS]]:
    """Number, payload, attributes and wishes of all events, in order, as a receiver sees them."""
    found = []
    for each in parcels:
        got = decode(encode(each))
        assert isinstance(got, Parcel)
        envelopes = got.attributes or [None] * len(got.payloads)
        for index, (payload, attributes) in enumerate(zip(got.payloads, envelopes, strict=True)):
            found.append((got.stamp.first + index, payload, attributes, got.qos))
    return found


@given(st.lists(st.tuples(events, st.just(NO_QOS) | any_wishes), max_size=30), st.integers(420, 900))
def test_events_come_out_as_they_went_in_in_order_and_numbered(content: list[Any], limit: int) -> None:
    box = sealer(limit)
    sealed: list[Parcel] = []
    for position, ((payload, attributes), qos) in enumerate(content, 1):
        assert box.next_number == position
        assert box.add(payload, attributes, qos) == position
        if position % 7 == 0:
            sealed += box.seal("a", position)
    sealed += box.seal("a", 99)
    assert not box.waiting
    assert opened(sealed) == [
        (number, payload, attributes or None, qos)
        for number, ((payload, attributes), qos) in enumerate(content, 1)
    ]
    assert [each.stamp.sequence for each in sealed] == list(range(1, len(sealed) + 1))
    for each in sealed:
        assert len(encode(each)) <= limit or each.stamp.count == 1


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=30),
            st.none()
            | st.dictionaries(st.text("aü€𝄞", min_size=1, max_size=9), st.text("aü€𝄞", max_size=30)),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_a_parcel_is_never_over_its_limit_unless_one_event_alone_is(content: list[Any]) -> None:
    box = sealer(700)
    qos = QoS(priority=9, expiry=12345.678)
    for payload, attributes in content:
        box.add(payload, attributes, qos)
    for each in box.seal(LONGEST, MAX_NUMBER):
        assert len(encode(each)) <= 700 or each.stamp.count == 1


@given(st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=40), max_size=8), st.integers(420, 900))
def test_many_in_one_step_are_as_if_they_had_come_one_by_one(runs: list[list[bytes]], limit: int) -> None:
    box, slow = sealer(limit), sealer(limit)
    for number, run in enumerate(runs):
        qos = QoS(priority=number // 3)
        done = 0
        while done < len(run):
            taken, _ = box.add_run(run[done:], qos)
            if not taken:
                taken = 1
                box.add(run[done], None, qos)
            done += taken
        for payload in run:
            slow.add(payload, None, qos)
    assert box.next_number == slow.next_number
    sealed = box.seal("a", 0)
    assert opened(sealed) == opened(slow.seal("a", 0))
    assert all(len(encode(each)) <= limit for each in sealed)


def test_what_has_to_be_looked_at_is_not_taken_in_one_step() -> None:
    box = sealer()
    box.add(b"first", {"a": 1})
    assert box.add_run([b"x"], NO_QOS) == (0, 0), "the open parcel has attributes"
    box.seal("a", 0)
    box.admit = lambda attributes: None
    assert box.add_run([b"x"], NO_QOS) == (0, 0), "where attributes say where parcels go"


def test_together_is_one_parcel_or_none() -> None:
    box = sealer(1000)
    box.add(b"before")
    assert box.add_together([(b"1", {}, NO_QOS), (b"2", {"a": 1}, NO_QOS)]) == range(2, 4)
    box.add(b"after")
    assert [[each[1] for each in opened([one])] for one in box.seal("a", 0)] == [
        [b"before"],
        [b"1", b"2"],
        [b"after"],
    ]
    with pytest.raises(TooLarge):
        box.add_together([(bytes(500), {}, NO_QOS)] * 2)
    with pytest.raises(BadEnvelope, match="alike"):
        box.add_together([(b"", {}, NO_QOS), (b"", {}, QoS(priority=7))])
    assert box.next_number == 5


def test_the_longest_header_fits_its_allowance_and_its_limit() -> None:
    assert len(LONGEST) == MAX_ADDRESS
    reply = answer(LONGEST, parcel(LONGEST, MAX_NUMBER, MAX_NUMBER, incarnation=MAX_NUMBER))
    assert len(encode(reply)) - len(reply.body) <= MAX_HEADER
    box = Sealer("news", MAX_NUMBER, notary("a"), 10_000)
    for _ in range(400):
        box.add(b"x" * 18, None, QoS(priority=9, expiry=12345.678))
    assert all(len(encode(each)) <= 10_000 for each in box.seal(LONGEST, MAX_NUMBER))


@pytest.mark.parametrize(
    "attributes",
    [{"𝄞" * 64: 2**62}, {"a": "𝄞" * 64}, {"a": b"\xff" * 64}, {str(n): 0.1 for n in range(20)}],
)
def test_the_size_of_attributes_is_never_taken_for_less_than_it_is(attributes: Any) -> None:
    box = sealer(3000)
    for _ in range(60):
        box.add(b"", attributes)
    sealed = box.seal(LONGEST, MAX_NUMBER)
    assert all(each.stamp.count > 1 and len(encode(each)) <= 3000 for each in sealed)


def test_the_largest_event_fits_a_frame() -> None:
    box = sealer()
    attributes: Any = {f"{n:02}" + "𝄞" * 62: "𝄞" * MAX_ATTRIBUTE_BYTES for n in range(64)}
    box.add(b"x" * MAX_PAYLOAD, attributes)
    (only,) = box.seal("a", 1)
    assert len(only.body) <= MAX_BODY
    assert decode(encode(only)).payloads == [b"x" * MAX_PAYLOAD]  # type: ignore[union-attr]


def test_a_payload_over_the_limit_is_refused_and_takes_no_number() -> None:
    box = sealer()
    with pytest.raises(TooLarge):
        box.add(b"x" * (MAX_PAYLOAD + 1))
    assert box.next_number == 1
    assert not box.waiting


def test_a_change_of_wishes_begins_a_new_parcel() -> None:
    box = sealer()
    high = QoS(priority=9)
    for qos in (NO_QOS, NO_QOS, high, high, NO_QOS):
        box.add(b"x", None, qos)
    sealed = box.seal("a", 1)
    assert [(each.stamp.first, each.stamp.count, each.qos) for each in sealed] == [
        (1, 2, NO_QOS),
        (3, 2, high),
        (5, 1, NO_QOS),
    ]


def test_a_full_parcel_says_so_and_an_open_one_does_not() -> None:
    box = sealer(500)
    box.add(b"x" * 20)
    assert box.waiting
    assert not box.full
    box.add(b"x" * 90)
    assert box.full
    box.seal("a", 1)
    assert not box.full
    assert not box.waiting


def test_an_event_larger_than_the_limit_travels_alone() -> None:
    box = sealer(500)
    for size in (1, 5000, 1):
        box.add(b"x" * size)
    assert [each.stamp.count for each in box.seal("a", 1)] == [1, 1, 1]


def test_no_parcel_holds_more_events_than_a_receiver_takes() -> None:
    box = sealer(2**30)
    for _ in range(PARCEL_EVENTS + 1):
        box.add(b"")
    sealed = box.seal("a", 1)
    assert [each.stamp.count for each in sealed] == [PARCEL_EVENTS, 1]
    assert PARCEL_EVENTS <= MAX_EVENTS
    assert all(len(opened([each])) == each.stamp.count for each in sealed)


@pytest.mark.parametrize("having", [[0], [1], [2], [0, 2], [1, 2], [0, 1, 2], []])
def test_attributes_stay_with_their_event_when_only_some_have_any(having: list[int]) -> None:
    box = sealer()
    for index in range(3):
        box.add(bytes([index]), {"i": index} if index in having else {})
    (only,) = box.seal("a", 1)
    assert [each[2] for each in opened([only])] == [{"i": i} if i in having else None for i in range(3)]
    assert bool(only.header.split) is bool(having)


def test_sealing_nothing_makes_no_parcel_and_no_number() -> None:
    box = sealer()
    assert box.seal("a", 1) == []
    box.add(b"x")
    assert [each.stamp.sequence for each in box.seal("a", 1)] == [1]


def test_parcels_without_events_come_first_and_take_sequence_numbers_only() -> None:
    one = sealer()
    assert one.seal("a", 1, blanks=2) == [], "nothing waits, so nothing leaves"
    one.add(b"x")
    parcels = one.seal("a", 1, blanks=2)
    told = [(each.stamp.sequence, each.stamp.first, each.stamp.count) for each in parcels]
    assert told == [(1, 1, 0), (2, 1, 0), (3, 1, 1)]
    assert [each.payloads for each in parcels] == [[], [], [b"x"]]


def test_the_most_and_longest_dependencies_fit_a_header_and_with_them_a_full_parcel_a_datagram() -> None:
    one = sealer()
    for _ in range(1000):
        one.add(bytes(100), None, QoS(priority=9, expiry=1.5))
    largest = max(one.seal(LONGEST, MAX_NUMBER), key=lambda each: len(each.body))
    sent = encode(largest.depending_on((("x" * 64, MAX_NUMBER, MAX_NUMBER),) * MAX_DEPENDS))
    assert len(sent) <= MAX_DATAGRAM
    assert decode(sent)


def test_every_stamp_is_proved() -> None:
    box = sealer()
    box.add(b"x")
    box.add(b"y")
    (only,) = box.seal("a", 1)
    early = box.stamp("a", 2)
    assert notary("a").verify(channel_id("news"), only.stamp, 2)
    assert notary("a").verify(channel_id("news"), early, 2)
    assert not notary("a").verify(channel_id("news"), early, 1)


def test_answers_are_numbered_apart_from_events() -> None:
    box = sealer()
    box.add(b"x")
    question = Answer(parcel("b").stamp, 1)
    first = box.answer(question, "a", 5, b"yes", Envelope({"k": 1}, QoS(priority=8)))
    second = box.answer(question, "a", 6, b"no")
    assert [each.stamp.first for each in (first, second)] == [1, 2]
    assert (first.header.answers, first.qos, first.attributes) == (
        question,
        QoS(priority=8),
        [{"k": 1}],
    )
    assert second.attributes == []
    assert box.next_number == 2
    with pytest.raises(TooLarge):
        box.answer(question, "a", 7, b"x" * (MAX_PAYLOAD + 1))


def test_the_parcels_of_the_testing_kit_are_just_like_sealed_ones() -> None:
    box = sealer()
    qos = QoS(priority=2)
    box.add(b"one", {"a": 1}, qos)
    box.add(b"two", None, qos)
    (real,) = box.seal("a", 17)
    made = parcel("a", 1, 1, [b"one", b"two"], attributes=[{"a": 1}, None], qos=qos, sent=17)
    assert encode(made) == encode(real)
    replied = box.answer(Answer(real.stamp, 2), "a", 18, b"yes")
    assert encode(answer("a", real, 1, b"yes", sent=18)) == encode(replied)
