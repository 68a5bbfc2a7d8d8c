"""Parcels of which only some events are sent on: numbers and proof stay, bytes that nobody wants do not."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.errors import ProtocolError
from gossamer.core.parcel import LARGE, MAX_EVENTS, Parcel, PickedHeader, make_body
from gossamer.core.wire import decode, encode
from gossamer.testing.fake import answer, notary, parcel
from tests.core.strategies import parcels

COLOURS = parcel(
    "a",
    4,
    11,
    [b"one", b"two", b"three"],
    attributes=[{"colour": "red"}, None, {"colour": "blue"}],
)


def arrived(sent: Parcel) -> Parcel:
    item = decode(encode(sent))
    assert isinstance(item, Parcel)
    return item


def test_picked_events_keep_their_numbers_and_the_proof_of_their_source() -> None:
    got = arrived(COLOURS.picked([0, 2]))
    assert got.picks == (0, 2)
    assert [got.payloads[each] for each in got.picks] == [b"one", b"three"]
    assert [got.attributes[each] for each in got.picks] == [{"colour": "red"}, {"colour": "blue"}]
    assert got.stamp == COLOURS.stamp
    assert notary("a").verify(got.header.channel, got.stamp, 13)


def test_a_whole_parcel_pays_nothing_and_says_that_nothing_is_left_out() -> None:
    assert COLOURS.picks is None
    assert b"two" not in encode(COLOURS.picked([0, 2]))


@given(parcels().filter(lambda each: each.stamp.count > 0), st.data())
def test_any_events_can_be_picked_and_picked_again(sent: Parcel, data: st.DataObject) -> None:
    every = range(sent.stamp.count)
    some = sorted(data.draw(st.sets(st.sampled_from(every), min_size=1)))
    fewer = sorted(data.draw(st.sets(st.sampled_from(some), min_size=1)))
    got = arrived(arrived(sent.picked(some)).picked(fewer))
    assert got.picks == tuple(fewer)
    for index in every:
        if index in fewer:
            assert got.payloads[index] == sent.payloads[index]
            assert (
                not sent.attributes
                or (got.attributes or [None] * len(every))[index] == sent.attributes[index]
            )
        else:
            assert got.payloads[index] == b""


def test_as_many_events_as_there_may_be_can_be_picked() -> None:
    many = parcel("a", payloads=[b""] * MAX_EVENTS)
    assert arrived(many.picked(range(1, MAX_EVENTS, 2))).picks == tuple(range(1, MAX_EVENTS, 2))


@pytest.mark.parametrize("picks", [b"\x00", b"\x10", b"\x80\x00", b"\xe1"])
def test_picks_that_do_not_fit_the_stamp_are_refused(picks: bytes) -> None:
    good = COLOURS.picked([0])
    bad = Parcel(msgspec.structs.replace(good.header, picks=picks), good.body)
    with pytest.raises(ProtocolError, match="picks"):
        decode(encode(bad))


def test_a_body_with_more_events_than_were_picked_is_refused() -> None:
    plain = parcel("a", payloads=[b"one", b"two"])
    bad = Parcel(plain.picked([0]).header, plain.body)
    with pytest.raises(ProtocolError, match="1, as its header says"):
        _ = arrived(bad).payloads


def test_of_feedback_nothing_can_be_left_out() -> None:
    whole = answer("b", COLOURS)
    header = whole.header
    fields = (header.channel, header.stamp, header.sent, header.split, header.qos, header.answers, ())
    with pytest.raises(ProtocolError, match="picks"):
        decode(encode(Parcel(PickedHeader(*fields, b"\x80"), whole.body)))


@given(st.lists(st.integers(0, 70_000), min_size=1, max_size=20))
def test_a_body_of_large_payloads_has_the_same_bytes_and_holds_those_payloads(
    sizes: list[int],
) -> None:
    payloads = [bytes(size) for size in sizes]
    body, split = make_body(payloads, [])
    if min(sizes) >= LARGE:
        assert all(any(each is piece for piece in body.pieces) for each in payloads)
    assert (body.whole, split) == (msgspec.msgpack.encode(payloads), 0)
    assert body.size == len(body.whole) == len(body.view)
    assert body.pieces == (body.whole,)  # and the pieces are not kept beside it
    with_attributes, split = make_body(payloads, [{"x": 1}] * len(payloads))
    assert with_attributes.whole == msgspec.msgpack.encode([{"x": 1}] * len(payloads)) + body.whole
    assert with_attributes.whole[split:] == body.whole


@pytest.mark.parametrize("count", [1, 15, 16, 40])
def test_a_list_of_any_length_is_encoded_as_msgpack_has_it(count: int) -> None:
    payloads = [bytes(LARGE)] * count
    assert make_body(payloads, [])[0].whole == msgspec.msgpack.encode(payloads)


def test_a_parcel_that_was_closed_can_be_opened_again() -> None:
    made = arrived(parcel("a", payloads=[b"x", b"y"]))
    inside = made.payloads
    made.close()
    assert made.payloads == inside
    assert made.payloads is not inside


@pytest.mark.parametrize(("sent", "shown"), [(-1, 0), (7, 7), (2**63, 2**63 - 1), (2**65, 2**63 - 1)])
def test_a_send_time_seen_from_another_clock_fits_the_wire(sent: int, shown: int) -> None:
    """The clock of a neighbour may show 1970, and a send time be the greatest number there is."""
    seen = decode(encode(parcel("a", 1).sent_at(sent)))
    assert isinstance(seen, Parcel)
    assert seen.header.sent == shown
