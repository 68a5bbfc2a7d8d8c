"""The order of a channel as parcels: a source of its own, named after the node that tells it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.consensus.messages import Entry, History, Number
from gossamer.consensus.node import APART, check_entry, check_history, check_term
from gossamer.core.context import Context
from gossamer.core.control import AHEAD, check_instants
from gossamer.core.errors import ProtocolError
from gossamer.core.parcel import Header, Parcel, make_body
from gossamer.core.receipt import PROOF_BYTES, Stamp

MAX_PLACES = 256
"""Entries of one parcel of the order."""
_NO_PROOF = bytes(PROOF_BYTES)


class Order(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is in a parcel of the order: the term of who leads, entries from an index of a history on, and how
    many parcels had a place before.
    """

    history: History
    term: Number
    first: Number
    number: Number
    entries: Annotated[tuple[Entry, ...], Meta(max_length=MAX_PLACES)]


_decode = msgspec.msgpack.Decoder(Order).decode
_encode = msgspec.msgpack.Encoder().encode


def order_parcel(ctx: Context, address: str, number: int, order: Order) -> Parcel:
    """A parcel of the order; nobody answers it, so that its stamp proves nothing."""
    body, split = make_body([_encode(order)], [])
    return Parcel(
        Header(ctx.id, Stamp(address, ctx.incarnation, number, number, 1, _NO_PROOF), ctx.now, split), body
    )


def check_order(order: Order, now: int, numbered: int) -> None:
    """Raise ProtocolError unless the numbers of a part of the order can be true.

    numbered
        How many parcels are known to have had a place.
    """
    check_instants(order, now)
    latest = now + AHEAD
    if not order.entries:
        raise ProtocolError("order.entries", 0, "at least one")
    check_history("history", order.history, order.first + len(order.entries) - 1, latest)
    check_term(order.term, latest)
    if order.number > numbered + APART:
        raise ProtocolError("order.number", order.number, f"at most {numbered + APART}")
    for entry in order.entries:
        check_entry(entry, latest)


def read_order(parcel: Parcel) -> Order:
    """What a parcel of the order says; raises ProtocolError if it makes no sense."""
    try:
        return _decode(parcel.payloads[0])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProtocolError("order", str(error), "entries from an index on") from None
