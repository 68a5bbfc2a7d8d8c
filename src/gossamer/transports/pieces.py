"""Frames that are larger than a datagram: cut into pieces by who sends, put together by who receives.

::

    mark (1) | number of the frame (4) | index (1) | count (1) | bytes

A frame of which a piece is lost is lost, as any datagram may be. What is half here is bounded in bytes: when
there is too much, the frame that began first is given up.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator

MARK = b"\x02"
"""First byte of a piece; that of a frame is another."""
MAX_PIECES = 8
MAX_OPEN = 8 * 1024 * 1024
"""Bytes of frames that are not complete, of all who send to one socket."""

_HEAD = struct.Struct(">cIBB")
HEAD = _HEAD.size


def cut(frame: bytes, number: int, size: int) -> Iterator[bytes]:
    """The pieces of a frame, none larger than a size."""
    step = size - HEAD
    count = -(-len(frame) // step)
    for index in range(count):
        head = _HEAD.pack(MARK, number % 2**32, index, count)
        yield head + frame[index * step : (index + 1) * step]


class Assembly:
    """Pieces that wait for the others of their frame.

    given_up
        Frames that were begun and never completed, because there was no room or because they made no sense.
    """

    def __init__(self) -> None:
        self.given_up = 0
        self._open: dict[tuple[Hashable, int], dict[int, bytes]] = {}
        self._counts: dict[tuple[Hashable, int], int] = {}
        self._bytes = 0

    def add(self, sender: Hashable, piece: bytes) -> bytes | None:
        """A piece has come; the frame if it was the last that was missing."""
        if len(piece) <= HEAD:
            return None
        _, number, index, count = _HEAD.unpack_from(piece)
        key = (sender, number)
        if not index < count <= MAX_PIECES or self._counts.setdefault(key, count) != count:
            self._forget(key)
            return None
        some = self._open.setdefault(key, {})
        if index not in some:
            some[index] = piece[HEAD:]
            self._bytes += len(piece) - HEAD
        if len(some) == count:
            frame = b"".join(some[each] for each in range(count))
            self._close(key)
            return frame
        while self._bytes > MAX_OPEN:
            self._forget(next(iter(self._open)))
        return None

    def _forget(self, key: tuple[Hashable, int]) -> None:
        self.given_up += 1
        self._close(key)

    def _close(self, key: tuple[Hashable, int]) -> None:
        self._counts.pop(key, None)
        self._bytes -= sum(map(len, self._open.pop(key, {}).values()))
