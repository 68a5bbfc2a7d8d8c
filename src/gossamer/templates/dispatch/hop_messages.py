"""What neighbours say to each other about what they hand over in order."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gossamer.core.control import Life, Message

MAX_HOLES = 64
"""Holes that one acknowledgement lists."""

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Begin(Message, frozen=True):
    """I am going to hand things over to you; nothing of an earlier relay counts any more."""

    life: Life
    serial: Number


class Begun(Message, frozen=True):
    """Number your things from 1 and put this number on them: so I know that they are meant for me."""

    life: Life
    serial: Number
    relay: Number


class Sent(Message, frozen=True):
    """There are things up to this number, and you have not said that you have them."""

    relay: Number
    last: Number


class Got(Message, frozen=True):
    """I have everything up to a number; these did not come, as (first, how many)."""

    relay: Number
    upto: Number
    missing: Annotated[tuple[tuple[Number, Number], ...], Meta(max_length=MAX_HOLES)] = ()


class Ended(Message, frozen=True):
    """I know no relay of this number."""

    relay: Number
