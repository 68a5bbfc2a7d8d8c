"""A ring of bytes in memory that two processes share: one writes, the other reads.

Both ends of a connection map the same memory. Each direction has a ring and two counters that only grow: how
much was written, which the writer sets, and how much was read, which the reader sets. Nothing that the other
side wrote is trusted: counters that cannot be are a ProtocolError. The memory has no name, so none is left
when both processes have ended, however they did; and it is sealed: neither can take it away under the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os

from gossamer.core.errors import ProtocolError

RING = 8 * 1024 * 1024
"""Bytes on their way in one direction: enough to keep both sides busy, few enough to stay in the cache."""
_FRONT = mmap.PAGESIZE
SIZE = _FRONT + 2 * RING
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_APART = 16
"""Words between counters, so that each has cache lines of its own."""


def make() -> int:
    """Memory for one connection; its file descriptor."""
    descriptor = os.memfd_create("gossamer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, SIZE)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor


class Memory:
    """The memory of one connection as one end sees it; ``opened`` if this end made it.

    Raises ProtocolError unless it has the size it should have and keeps it.
    """

    def __init__(self, descriptor: int, opened: bool) -> None:
        try:
            seals, size = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS), os.fstat(descriptor).st_size
        except OSError as error:
            raise ProtocolError("shared memory", str(error), "sealed memory") from None
        if size != SIZE or seals & _SEALS != _SEALS:
            raise ProtocolError("shared memory", size, f"{SIZE} bytes, sealed")
        self._map = mmap.mmap(descriptor, SIZE)
        self._view = memoryview(self._map)
        first, second = (
            (self._view[_FRONT : _FRONT + RING], 0),
            (self._view[_FRONT + RING :], 2 * _APART),
        )
        mine, theirs = (first, second) if opened else (second, first)
        self._words = self._view[:_FRONT].cast("Q")
        self._out, self._out_written = mine
        self._in, self._in_written = theirs
        self._written = self._read = 0

    def write(self, data: memoryview) -> int:
        """Write as much as there is room for; how much that was."""
        taken = self._words[self._out_written + _APART]
        used = self._written - taken
        if not 0 <= used <= RING:
            raise ProtocolError("shared memory: read", taken, f"{RING} bytes behind {self._written} at most")
        count = min(len(data), RING - used)
        begin = self._written % RING
        first = min(count, RING - begin)
        self._out[begin : begin + first] = data[:first]
        self._out[: count - first] = data[first:count]
        self._written += count
        self._words[self._out_written] = self._written
        return count

    def peek(self) -> memoryview:
        """What can be read in one piece; it stays there until it is ``taken``."""
        written = self._words[self._in_written]
        ready = written - self._read
        if not 0 <= ready <= RING:
            raise ProtocolError("shared memory: written", written, f"{RING} bytes after {self._read} at most")
        begin = self._read % RING
        return self._in[begin : begin + min(ready, RING - begin)]

    @property
    def straight(self) -> int:
        """Bytes that will be in one piece from what is read next on."""
        return RING - self._read % RING

    def taken(self, count: int) -> None:
        """The first bytes of what was seen are not needed any more."""
        self._read += count
        self._words[self._in_written + _APART] = self._read

    def close(self) -> None:
        """Give the memory back; where somebody still looks at a piece of it, when that has ended."""
        for view in (self._words, self._out, self._in, self._view):
            view.release()
        with contextlib.suppress(BufferError):
            self._map.close()
