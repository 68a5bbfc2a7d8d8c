"""Identifiers of announcement threads, allotted by announcers that never talk to each other.

A thread is named by sixteen bytes: twelve of its announcer, four that the announcer counts. Two announcers
whose twelve bytes differ can never allot the same identifier, and one announcer never allots one twice. The
twelve bytes are drawn by the host, or made from a public key; of a billion announcers that draw, two are
alike with a probability below 10⁻¹¹ (n² / 2⁹⁷).
"""

from __future__ import annotations

from hashlib import blake2b

from gossamer.core.errors import BadName, TooLarge

ANNOUNCER_BYTES = 12
THREAD_BYTES = 16
MOST_THREADS = 2**32 - 1

Thread = bytes
"""The identifier of a thread; equal bytes, equal thread."""


class Allotter:
    """Allots the identifiers of one announcer, from ``first`` on."""

    __slots__ = ("allotted", "announcer")

    def __init__(self, announcer: bytes, first: int = 0) -> None:
        if len(announcer) != ANNOUNCER_BYTES:
            raise BadName("announcer", announcer.hex(), f"{ANNOUNCER_BYTES} bytes, not {len(announcer)}")
        self.announcer = announcer
        self.allotted = first

    def allot(self) -> Thread:
        """An identifier that nobody else has."""
        if self.allotted >= MOST_THREADS:
            raise TooLarge("number of threads of one announcer", self.allotted + 1, MOST_THREADS)
        self.allotted += 1
        return self.announcer + self.allotted.to_bytes(4, "big")


def announcer_of(public_key: bytes) -> bytes:
    """The announcer that a public key stands for: the same after every restart, and nobody else's."""
    return blake2b(public_key, digest_size=ANNOUNCER_BYTES, person=b"gossamer-gap").digest()
