"""What sender and receivers know of each other besides the messages: a few numbers in shared memory.

Each receiver writes how far it is, the sender reads it: so that a system without flow control can be kept
from losing messages, and whoever measures sees when all is there. The first byte of a message says whether it
is ordinary (0) or a mark; receivers look at it, so each message is seen by Python code.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterator
from pathlib import Path

ORDINARY, MARK, LAST, PROBE = range(4)
"""First bytes: nothing special; say how far you are; this was all; say that you are there."""
SLOT = 4
SEEN, READY, DONE, ENDED = range(SLOT)
"""What a receiver writes: messages seen, whether a probe and the last message came, when a mark last did."""
WORD = 8

PIECE = 256 * 1024
"""Bytes that a sender sends between two looks at the clock, and at most BATCH messages."""
BATCH = 64
WINDOW_BYTES = 8 * 1024 * 1024
WINDOW = 64 * BATCH
"""How far receivers may be behind, where the sender has to look after that."""
NAP = 0.0002
MAX_MESSAGES = 100_000_000


class Board:
    """The shared memory: a slot of numbers for each receiver."""

    def __init__(self, path: Path, receivers: int, create: bool = False) -> None:
        size = receivers * SLOT * WORD
        if create:
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self.receivers = receivers
        self._words = memoryview(self._map).cast("Q")

    def write(self, receiver: int, what: int, value: int) -> None:
        self._words[receiver * SLOT + what] = value

    def read(self, what: int) -> list[int]:
        return self._words[what::SLOT].tolist()

    def clear(self) -> None:
        """Before the next messages: nobody has seen any."""
        for receiver in range(self.receivers):
            for what in (SEEN, DONE, ENDED):
                self.write(receiver, what, 0)

    def close(self) -> None:
        self._words.release()
        self._map.close()


class Book:
    """A receiver's count. Whoever receives adds one to ``seen`` and hands over marks."""

    __slots__ = ("_board", "_receiver", "seen")

    def __init__(self, board: Board, receiver: int) -> None:
        self._board = board
        self._receiver = receiver
        self.seen = 0

    def marked(self, mark: int) -> None:
        """The message just counted was not an ordinary one."""
        board, me = self._board, self._receiver
        if mark == PROBE:
            self.seen -= 1
            board.write(me, READY, 1)
            return
        board.write(me, SEEN, self.seen)
        board.write(me, ENDED, time.monotonic_ns())
        if mark == LAST:
            board.write(me, DONE, 1)


class Load:
    """What a sender sends: batches of equal messages until its time is over, and a last one."""

    def __init__(self, board: Board, size: int, seconds: float, front: bytes = b"") -> None:
        self._board = board
        self._seconds = seconds
        self._front = front
        self._size = size
        self._length = max(1, min(BATCH, PIECE // size))
        self._window = max(2 * self._length, min(WINDOW, WINDOW_BYTES // size))
        self.sent = 0
        self.began = 0

    def message(self, mark: int) -> bytes:
        """A message of the wanted size, behind what the system puts in front."""
        return self._front + bytes([mark]) + bytes(self._size - 1)

    def batches(self) -> Iterator[list[bytes]]:
        """What to send; a batch counts as sent when the next one is asked for."""
        batch = [*[self.message(ORDINARY)] * (self._length - 1), self.message(MARK)]
        self.began = time.monotonic_ns()
        end = self.began + round(self._seconds * 1e9)
        while time.monotonic_ns() < end and self.sent < MAX_MESSAGES:
            yield batch
            self.sent += len(batch)
        yield [self.message(LAST)]
        self.sent += 1

    @property
    def ahead(self) -> bool:
        """Whether a receiver is too far behind; for systems that would lose messages."""
        return self.sent - min(self._board.read(SEEN)) > self._window

    def wait(self) -> None:
        """Wait, blocking, until no receiver is."""
        while self.ahead:
            time.sleep(NAP)
