"""Packets in, whole announcements out: once each, in bounded memory, and nothing but what was announced.

An announcement that was cut is handed on only if it has the length and the digest that all its packets name.
What contradicts a packet that came before it is refused. Of announcements that never get whole the oldest
make room.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import msgspec

from gossamer.announce import erasure
from gossamer.announce.header import ERASURE, WHOLE, Code, Header
from gossamer.announce.identity import Thread
from gossamer.announce.reliability import DIGEST_BYTES, ERASURE_FORMAT, MOST_BYTES, WHOLE_FORMAT
from gossamer.core.errors import ProtocolError

MOST_PENDING = 256
"""Announcements of which some fragments have come."""
MOST_PENDING_BYTES = 16 * 1024 * 1024
MOST_DONE = 65_536
"""Announcements remembered, so that they are handed on once."""

Key = tuple[Thread, int]


class Announcement(msgspec.Struct, frozen=True):
    """A whole announcement."""

    thread: Thread
    version: int
    code: Code
    payload: bytes


class Assembler:
    """Puts announcements together. ``drops`` counts what came to nothing, by reason."""

    def __init__(self, pending: int = MOST_PENDING, pending_bytes: int = MOST_PENDING_BYTES) -> None:
        self.drops: Counter[str] = Counter()
        self._limit, self._limit_bytes = pending, pending_bytes
        self._partial: dict[Key, _Partial] = {}
        self._bytes = 0
        self._done: dict[Key, None] = {}

    def put(self, header: Header, body: bytes) -> Announcement | None:
        """Take a packet; the announcement if that made it whole. Raises ProtocolError."""
        key = (header.thread, header.version)
        if key in self._done:
            return None
        about = header.option(WHOLE)
        if about is None:
            if header.sequence or not header.last or header.option(ERASURE) is not None:
                raise ProtocolError("sequence", header.sequence, "0, the last one, or to tell of the whole")
            return self._whole(key, header.code, body)
        partial = self._partial.get(key)
        if partial is None:
            partial = _Partial(header, about)
        before = partial.size
        partial.add(header, body)
        self._partial[key] = partial
        self._bytes += partial.size - before
        if not partial.complete:
            self._make_room(key)
            return None
        self._forget(key)
        payload = partial.rebuilt()
        if payload is None:
            self.drops["digest differs"] += 1
            return None
        return self._whole(key, header.code, payload)

    def has(self, thread: Thread, version: int) -> bool:
        return (thread, version) in self._done

    def again(self, thread: Thread) -> None:
        """Hand announcements of a thread on once more, should they be heard once more."""
        for key in [each for each in self._done if each[0] == thread]:
            del self._done[key]

    def _whole(self, key: Key, code: Code, payload: bytes) -> Announcement:
        self._done[key] = None
        if len(self._done) > MOST_DONE:
            del self._done[next(iter(self._done))]
        return Announcement(*key, code, payload)

    def _forget(self, key: Key) -> None:
        self._bytes -= self._partial.pop(key).size

    def _make_room(self, newest: Key) -> None:
        while len(self._partial) > self._limit or self._bytes > self._limit_bytes:
            oldest = next(iter(self._partial))
            self._forget(oldest)
            self.drops["no room for fragments"] += 1
            if oldest == newest:
                return


class _Partial:
    """What has come of one announcement."""

    __slots__ = ("_code", "_count", "_digest", "_erasure", "_fragments", "_length", "_options", "size")

    def __init__(self, header: Header, about: bytes) -> None:
        if len(about) != WHOLE_FORMAT.size:
            raise ProtocolError("option of the whole", about.hex(), f"{WHOLE_FORMAT.size} bytes")
        self._options, self._code = header.options, header.code
        self._length, self._digest = WHOLE_FORMAT.unpack(about)
        if self._length > MOST_BYTES:
            raise ProtocolError("length of announcement", self._length, f"at most {MOST_BYTES}")
        self._fragments: dict[int, bytes] = {}
        self._count: int | None = None
        self._erasure = _shape(self._length, header.option(ERASURE))
        self.size = 0

    def add(self, header: Header, body: bytes) -> None:
        if header.options != self._options or header.code != self._code:
            raise ProtocolError("options", header.options, "those of the fragments that came before")
        if self._erasure:
            self._check_coded(header, body)
        else:
            self._check_plain(header, body)
        if header.sequence not in self._fragments:
            self._fragments[header.sequence] = body
            self.size += len(body)

    def _check_coded(self, header: Header, body: bytes) -> None:
        assert self._erasure
        shape, made = self._erasure
        final = made * shape.blocks - 1
        if header.sequence > final or header.last != (header.sequence == final):
            raise ProtocolError("sequence", header.sequence, f"at most {final}, which is the last")
        if len(body) != shape.size:
            raise ProtocolError("length of fragment", len(body), f"{shape.size} bytes")

    def _check_plain(self, header: Header, body: bytes) -> None:
        count = header.sequence + 1 if header.last else self._count
        if count is not None and (
            header.sequence >= count
            or max(self._fragments, default=0) >= count
            or self._count not in (None, count)
        ):
            raise ProtocolError("sequence", header.sequence, f"below {count}, as the last fragment says")
        new = 0 if header.sequence in self._fragments else len(body)
        if not body or self.size + new > self._length:
            raise ProtocolError("length of fragment", len(body), f"1 to {self._length - self.size} bytes")
        self._count = count

    @property
    def complete(self) -> bool:
        if not self._erasure:
            return len(self._fragments) == self._count
        shape, _ = self._erasure
        if len(self._fragments) < shape.blocks * shape.needed:
            return False
        there = Counter(sequence % shape.blocks for sequence in self._fragments)
        return all(there[block] >= shape.needed for block in range(shape.blocks))

    def rebuilt(self) -> bytes | None:
        """The payload, or None if its length or digest is not what was announced."""
        if self._erasure:
            shape, made = self._erasure
            blocks: dict[int, dict[int, bytes]] = {}
            for sequence, body in self._fragments.items():
                blocks.setdefault(sequence % shape.blocks, {})[sequence // shape.blocks] = body
            payload = erasure.decoded(shape, made, blocks)
        else:
            payload = b"".join(self._fragments[i] for i in range(len(self._fragments)))
        digest = blake2b(payload, digest_size=DIGEST_BYTES).digest()
        return payload if (len(payload), digest) == (self._length, self._digest) else None


def _shape(length: int, about: bytes | None) -> tuple[erasure.Shape, int] | None:
    if about is None:
        return None
    if len(about) != ERASURE_FORMAT.size:
        raise ProtocolError("option of the erasure code", about.hex(), f"{ERASURE_FORMAT.size} bytes")
    blocks, needed, made = ERASURE_FORMAT.unpack(about)
    if not 1 <= blocks <= erasure.MOST_BLOCKS or needed > made:
        raise ProtocolError("erasure code", (blocks, needed + 1, made + 1), "1 to 256 blocks, k at most n")
    return erasure.fitted(length, blocks, needed + 1), made + 1
