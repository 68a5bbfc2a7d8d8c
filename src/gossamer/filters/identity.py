"""A filter as bytes: equal for filters that say the same, and enough to make the filter again."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gossamer.core.errors import BadEnvelope, BadFilter, ProtocolError, TooLarge
from gossamer.core.event import MAX_CONSTRAINTS, Criteria

MAX_IDENTITY = 2 * 1024 * 1024
"""Bytes: as many constraints as there may be, with the longest texts."""

_decode = msgspec.msgpack.Decoder(
    Annotated[tuple[tuple[str, str, Any], ...], Meta(max_length=MAX_CONSTRAINTS)]
).decode


def identity(criteria: Criteria) -> bytes:
    """Constraints in an order of their own; 1, 1.0 and true are different."""
    constraints = sorted(map(msgspec.msgpack.encode, criteria.constraints))
    return msgspec.msgpack.encode([msgspec.Raw(each) for each in constraints])


def restored(identity: bytes) -> Criteria:
    """The filter that has an identity; raises ProtocolError if there is none."""
    try:
        return Criteria(*_decode(identity))
    except (
        msgspec.MsgspecError,
        BadEnvelope,
        BadFilter,
        TooLarge,
        RecursionError,
        UnicodeDecodeError,
    ) as error:
        raise ProtocolError("filter", str(error), "constraints that mean something") from None
