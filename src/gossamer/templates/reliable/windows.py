"""The sources that a node knows: their streams, and of those that are over only where they ended."""

from __future__ import annotations

from gossamer.core.receipt import SourceKey
from gossamer.templates.reliable.window import Stream

MAX_ENDED = 65_536
"""Sources that have been silent and complete, of which only a number is remembered."""


class Streams(dict[SourceKey, Stream]):
    """The streams of a node, and what comes next of those that were forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: dict[SourceKey, int] = {}
        self._torn: set[SourceKey] = set()
        self._unheard: set[SourceKey] = set()
        """Of those that are over, the ones that ended before anything here listened."""

    def begin(self, key: SourceKey, address: str, first: int) -> Stream:
        """A stream that was not here; it goes on where it was forgotten."""
        forgotten = self.ended.pop(key, 0)
        stream = self[key] = Stream(address, max(first, forgotten), key[1])
        stream.begun, stream.torn = bool(forgotten) and key not in self._unheard, key in self._torn
        self._torn.discard(key)
        self._unheard.discard(key)
        return stream

    def listen(self) -> None:
        """The first subscription begins here: what was delivered before it, or is missing, is not its own."""
        for stream in self.values():
            stream.begun = stream.torn = False
        self._torn.clear()
        self._unheard = set(self.ended)

    def forget(self, key: SourceKey) -> None:
        """Remember of a stream only what comes next; of the oldest not even that."""
        stream = self.pop(key)
        self.ended[key] = stream.next
        if stream.torn:
            self._torn.add(key)
        if not stream.begun:
            self._unheard.add(key)
        while len(self.ended) > MAX_ENDED:
            oldest = next(iter(self.ended))
            del self.ended[oldest]
            self._torn.discard(oldest)
            self._unheard.discard(oldest)

    def anew(self, key: SourceKey) -> bool:
        """Whether a source is known to live anew."""
        return any(node == key[0] and life > key[1] for node, life in self)

    def upto(self, key: SourceKey) -> int:
        """What comes next of a source; 0 if nothing is known."""
        stream = self.get(key)
        return stream.next if stream is not None else self.ended.get(key, 0)
