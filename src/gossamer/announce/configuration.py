"""Configuration announcements: which channel carries which thread, and which index lists which threads.

They are announced on a channel that everybody knows, the meeting place. A station has one page for its
indexes, and pages for the names of its threads; each page is a thread of its own.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.announce.identity import THREAD_BYTES
from gossamer.announce.index import MOST_ENTRIES
from gossamer.core.errors import ProtocolError

MOST_PAGE_ENTRIES = 4096

Identifier = Annotated[bytes, Meta(min_length=THREAD_BYTES, max_length=THREAD_BYTES)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
ChannelName = Annotated[str, Meta(min_length=1, max_length=300)]
Seconds = Annotated[float, Meta(ge=0.001, le=86_400)]


class Named(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A thread that applications may want."""

    thread: Identifier
    name: Name
    channel: ChannelName


class Listed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An index: where it is announced, and what it lists."""

    index: Identifier
    channel: ChannelName
    members: Annotated[tuple[Identifier, ...], Meta(max_length=MOST_ENTRIES)]


class Reports(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How listeners are asked to tell what they want: seldom, and not all of them.

    channel
        Where reports go.
    period
        Seconds from one throw of a listener's dice to the next, on average.
    probability
        That a throw makes a report.
    """

    channel: ChannelName
    period: Seconds = 600.0
    probability: Annotated[float, Meta(ge=0, le=1)] = 0.1


class Page(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One configuration announcement.

    refresh
        Seconds after which indexes and pages of this station are announced again though nothing has changed.
    """

    refresh: Seconds = 10.0
    named: Annotated[tuple[Named, ...], Meta(max_length=MOST_PAGE_ENTRIES)] = ()
    listed: Annotated[tuple[Listed, ...], Meta(max_length=MOST_PAGE_ENTRIES)] = ()
    reports: Reports | None = None


_decoder = msgspec.msgpack.Decoder(Page)


def encode(page: Page) -> bytes:
    return msgspec.msgpack.encode(page)


def decode(payload: bytes) -> Page:
    """A page; raises ProtocolError."""
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError("configuration", payload[:20].hex(), str(error)[:120]) from None
