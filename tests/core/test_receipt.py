"""Receipts cannot be made up: every field is sealed, and only the node that made one takes it back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.errors import BadEnvelope, ForgedReceipt
from gossamer.core.event import MAX_ATTRIBUTE_BYTES
from gossamer.core.names import channel_id
from gossamer.core.receipt import MAX_NUMBER, Notary, Receipt, Stamp, check_handback
from gossamer.testing.fake import parcel

NEWS = channel_id("news")
MINE, THEIRS = Notary(b"mine"), Notary(b"theirs")
STAMP = parcel("b1/s2/c", 3, 7, [b"", b"", b""], incarnation=2).stamp
RECEIPT = MINE.receipt("news", STAMP, 8, "ticket 9")


def altered(receipt: Receipt, field: str, value: Any) -> Receipt:
    if "." in field:
        stamp = msgspec.structs.replace(receipt.stamp, **{field.partition(".")[2]: value})
        return msgspec.structs.replace(receipt, stamp=stamp)
    return msgspec.structs.replace(receipt, **{field: value})


def test_a_receipt_is_taken_back_as_it_was_made() -> None:
    MINE.check(RECEIPT, "news")
    assert RECEIPT.source == "c"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("channel", "other"),
        ("number", 9),
        ("number", 8.0),
        ("number", "8"),
        ("number", 2**70),
        ("handback", "ticket 8"),
        ("handback", b"ticket 9"),
        ("handback", None),
        ("handback", object()),
        ("seal", b""),
        ("seal", bytes(16)),
        ("seal", "text"),
        ("seal", RECEIPT.seal[:-1] + bytes([RECEIPT.seal[-1] ^ 1])),
        ("stamp", None),
        ("stamp.source", "b1/s2/d"),
        ("stamp.incarnation", 3),
        ("stamp.sequence", 4),
        ("stamp.first", 6),
        ("stamp.count", 4),
        ("stamp.proof", bytes(8)),
    ],
)
def test_a_receipt_altered_in_any_field_is_refused(field: str, value: Any) -> None:
    forged = altered(RECEIPT, field, value)
    with pytest.raises(ForgedReceipt):
        MINE.check(forged, forged.channel)


def test_no_field_of_a_receipt_is_left_unsealed() -> None:
    tried = {"channel", "number", "handback", "seal", "stamp"}
    assert tried == set(Receipt.__struct_fields__)
    assert {"source", "incarnation", "sequence", "first", "count", "proof"} == set(Stamp.__struct_fields__)


def test_a_receipt_is_worth_nothing_on_another_channel_or_node() -> None:
    with pytest.raises(ForgedReceipt, match="belongs to channel 'news', not 'other'"):
        MINE.check(RECEIPT, "other")
    with pytest.raises(ForgedReceipt):
        THEIRS.check(RECEIPT, "news")


@pytest.mark.parametrize("thing", [None, 8, "receipt", (1, 2)])
def test_what_is_no_receipt_is_refused(thing: Any) -> None:
    with pytest.raises(ForgedReceipt):
        MINE.check(thing, "news")


# proofs


def proved(**changes: Any) -> Stamp:
    proof = MINE.prove(NEWS, 2, 3, 7, 3)
    return msgspec.structs.replace(Stamp("b1/s2/c", 2, 3, 7, 3, proof), **changes)


def test_a_source_knows_the_stamps_it_made_and_the_numbers_in_them() -> None:
    assert [n for n in range(20) if MINE.verify(NEWS, proved(), n)] == [7, 8, 9]


def test_a_stamp_stays_good_when_its_node_moves_to_another_server() -> None:
    assert MINE.verify(NEWS, proved(source="b9/c"), 7)


@pytest.mark.parametrize(
    "changes",
    [{"incarnation": 1}, {"sequence": 2}, {"first": 6}, {"count": 4}, {"proof": bytes(8)}, {"proof": b""}],
)
def test_a_stamp_altered_in_any_number_is_no_proof(changes: dict[str, Any]) -> None:
    assert not MINE.verify(NEWS, proved(**changes), 7)


def test_a_stamp_proves_nothing_on_another_channel_or_to_another_node() -> None:
    assert not MINE.verify(channel_id("other"), proved(), 7)
    assert not THEIRS.verify(NEWS, proved(), 7)


def test_fields_do_not_run_into_each_other() -> None:
    assert MINE.prove(1, 23, 4, 5, 6) != MINE.prove(12, 3, 4, 5, 6)
    assert MINE.prove(1, 1, 1, 12, 1) != MINE.prove(1, 1, 11, 2, 1)


# handbacks


@pytest.mark.parametrize(
    "handback", [2**63, -(2**63) - 5, [], {}, object(), "\ud800", "x" * (MAX_ATTRIBUTE_BYTES + 1)]
)
def test_a_handback_that_could_not_be_sealed_is_refused_at_once(handback: Any) -> None:
    with pytest.raises(BadEnvelope, match="handback"):
        check_handback(handback)


@given(
    st.none()
    | st.booleans()
    | st.integers(-MAX_NUMBER, MAX_NUMBER)
    | st.floats()
    | st.text(st.characters(codec="utf-8"))
    | st.binary()
)
def test_a_handback_that_is_taken_can_be_sealed(handback: Any) -> None:
    check_handback(handback)
    MINE.check(MINE.receipt("news", STAMP, 8, handback), "news")
