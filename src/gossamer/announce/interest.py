"""Interest reports: what listeners want, told seldom and by few, and collected for whoever builds indexes.

A report is an announcement of its own, one packet that is not repeated: a sample may miss some. Who made it
is an announcer drawn anew by each listener's host, so a report says that the same somebody wants these
threads, not who.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gossamer.announce.configuration import Reports
from gossamer.announce.header import HEADER_BYTES, Code, Header, encode
from gossamer.announce.identity import ANNOUNCER_BYTES, THREAD_BYTES, Allotter, Thread
from gossamer.announce.sender import Packet
from gossamer.core.context import Dice
from gossamer.core.errors import ProtocolError
from gossamer.core.names import nanoseconds

MOST_BYTES = 1_400
MOST_REPORTED = (MOST_BYTES - HEADER_BYTES) // THREAD_BYTES
"""Threads in a report; who wants more reports so many of them, drawn by lot."""
MOST_LISTENERS = 100_000


class Reporter:
    """Decides by dice whether and when a listener reports."""

    def __init__(self, allotter: Allotter, dice: Dice) -> None:
        self.sent = 0
        self._thread = allotter.allot()
        self._dice = dice
        self._asked: Reports | None = None
        self._at: int | None = None

    def ask(self, now: int, asked: Reports | None) -> None:
        """What a station asks of listeners."""
        if asked != self._asked:
            self._asked, self._at = asked, None
            if asked is not None:
                self._later(now, asked)

    def _later(self, now: int, asked: Reports) -> None:
        self._at = now + nanoseconds(asked.period * (0.5 + self._dice.random()))

    @property
    def wake(self) -> int | None:
        return self._at

    def due(self, now: int, wanted: Iterable[Thread]) -> list[Packet]:
        """A report, if it is time, the dice say so, and there is something to tell."""
        if self._asked is None or self._at is None or now < self._at:
            return []
        self._later(now, self._asked)
        threads = sorted(wanted)
        if not threads or self._dice.random() >= self._asked.probability:
            return []
        if len(threads) > MOST_REPORTED:
            self._dice.shuffle(threads)
            threads = sorted(threads[:MOST_REPORTED])
        self.sent += 1
        head = encode(Header(self._thread, self.sent, code=Code.INTEREST))
        return [Packet(self._asked.channel, head + b"".join(threads))]


def decode(payload: bytes) -> list[Thread]:
    """The threads of a report; raises ProtocolError."""
    if not payload or len(payload) % THREAD_BYTES or len(payload) > MOST_BYTES:
        raise ProtocolError(
            "length of report", len(payload), f"a multiple of {THREAD_BYTES}, at most {MOST_BYTES}"
        )
    return [payload[at : at + THREAD_BYTES] for at in range(0, len(payload), THREAD_BYTES)]


class Collector:
    """The latest report of each listener; of too many, those heard longest ago are forgotten."""

    def __init__(self, listeners: int = MOST_LISTENERS) -> None:
        self._limit = listeners
        self._reports: dict[bytes, list[Thread]] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def put(self, thread: Thread, payload: bytes) -> None:
        """Take a report; raises ProtocolError."""
        threads = decode(payload)
        listener = thread[:ANNOUNCER_BYTES]
        self._reports.pop(listener, None)
        self._reports[listener] = threads
        if len(self._reports) > self._limit:
            del self._reports[next(iter(self._reports))]

    def rows(self) -> Iterator[tuple[str, str]]:
        """Listener and thread, for a job that clusters them."""
        for listener, threads in self._reports.items():
            for thread in threads:
                yield listener.hex(), thread.hex()
