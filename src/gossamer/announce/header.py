"""The binary header that begins every packet of an announcement (seed 003, figure 1).

::

    0        1        2                 4                    20           24         26
    revision flags    bytes of options  thread (16 bytes)    version      sequence   options …  body …

The flags are the last-fragment bit and a code point: index, configuration, interest, or none for what
applications announce. Numbers are big-endian. An option is a kind, a length and so many bytes; kinds ascend.
Decoding is strict: whatever is not understood is refused with ProtocolError, except options below
``MUST_KNOW``, which are handed on. Every packet that can be decoded encodes to the same bytes again.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import msgspec

from gossamer.announce.identity import THREAD_BYTES, Thread
from gossamer.core.errors import ProtocolError

REVISION = 1
LAST = 0x80
MOST_OPTION_BYTES = 256
MOST_VERSION = 2**32 - 1
MOST_SEQUENCE = 2**16 - 1

WHOLE = 1
"""Option: length and digest of the whole announcement; on every packet of one that was cut."""
ERASURE = 130
"""Option: blocks, and of each block how many fragments there are and how many rebuild it."""
MUST_KNOW = 128
"""Options from here on change what the body means: who does not know one refuses the packet."""

_FIXED = Struct("!BBH16sIH")
HEADER_BYTES = _FIXED.size


class Code(IntEnum):
    """What an announcement is for: the code point in its flags."""

    DATA = 0x00
    INDEX = 0x40
    CONFIGURATION = 0x20
    INTEREST = 0x10


_CODES = {int(code): code for code in Code}
Option = tuple[int, bytes]


class Header(msgspec.Struct, frozen=True):
    """What a packet says about itself.

    thread, version
        Which announcement it belongs to; versions of a thread count from 1.
    sequence, last
        Which fragment it is, and whether it is the last (or only) one.
    options
        Kind and value of each, kinds ascending.
    """

    thread: Thread
    version: int
    sequence: int = 0
    last: bool = True
    code: Code = Code.DATA
    options: tuple[Option, ...] = ()

    def option(self, kind: int) -> bytes | None:
        return next((value for each, value in self.options if each == kind), None)


def encode(header: Header) -> bytes:
    """The bytes of a header; the body follows them."""
    options = b"".join(bytes((kind, len(value))) + value for kind, value in header.options)
    flags = int(header.code) | (LAST if header.last else 0)
    fixed = _FIXED.pack(REVISION, flags, len(options), header.thread, header.version, header.sequence)
    return fixed + options


def decode(packet: bytes) -> tuple[Header, bytes]:
    """Header and body of a packet; raises ProtocolError."""
    if len(packet) < HEADER_BYTES:
        raise ProtocolError("length of packet", len(packet), f"at least {HEADER_BYTES} bytes")
    revision, flags, length, thread, version, sequence = _FIXED.unpack_from(packet)
    if revision != REVISION:
        raise ProtocolError("revision", revision, str(REVISION))
    code = _CODES.get(flags & ~LAST)
    if code is None:
        raise ProtocolError("flags", flags, f"one code point of {', '.join(map(hex, _CODES))}")
    if version == 0:
        raise ProtocolError("version", version, "1 or more")
    end = HEADER_BYTES + length
    if length > MOST_OPTION_BYTES or end > len(packet):
        raise ProtocolError("bytes of options", length, f"at most {MOST_OPTION_BYTES}, and in the packet")
    options = _options(packet[HEADER_BYTES:end]) if length else ()
    return Header(thread, version, sequence, bool(flags & LAST), code, options), packet[end:]


def _options(data: bytes) -> tuple[Option, ...]:
    found: list[Option] = []
    at, before = 0, -1
    while at < len(data):
        if at + 2 > len(data):
            raise ProtocolError("option", data[at:].hex(), "a kind, a length and so many bytes")
        kind, length = data[at], data[at + 1]
        at += 2
        if kind <= before:
            raise ProtocolError("kind of option", kind, f"more than {before}, the one before")
        if at + length > len(data):
            raise ProtocolError("length of option", length, f"at most {len(data) - at}, what is left")
        if kind >= MUST_KNOW and kind != ERASURE:
            raise ProtocolError("kind of option", kind, f"{ERASURE} or below {MUST_KNOW}")
        found.append((kind, data[at : at + length]))
        at, before = at + length, kind
    return tuple(found)


assert _FIXED.size == 10 + THREAD_BYTES
