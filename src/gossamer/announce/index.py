"""Index announcements, and the acyclic graph of who lists whom.

An index is a table of threads and their latest versions, and nothing else: which channel carries a thread is
told by configuration announcements. A thread may be in several indexes, and an index may be in others; one
that would list itself, at once or through others, is refused. Version 0 means that nothing has been announced
yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from struct import Struct

from gossamer.announce.identity import THREAD_BYTES, Thread
from gossamer.announce.reliability import MOST_BYTES
from gossamer.core.errors import Cyclic, ProtocolError, TooLarge

_ENTRY = Struct(f"!{THREAD_BYTES}sI")
ENTRY_BYTES = _ENTRY.size
MOST_ENTRIES = MOST_BYTES // ENTRY_BYTES


def encode(table: Mapping[Thread, int]) -> bytes:
    """The payload of an index: pairs of thread and version, threads ascending."""
    if len(table) > MOST_ENTRIES:
        raise TooLarge("number of entries in an index", len(table), MOST_ENTRIES)
    return b"".join(_ENTRY.pack(thread, table[thread]) for thread in sorted(table))


def decode(payload: bytes) -> dict[Thread, int]:
    """The table of an index; raises ProtocolError."""
    if len(payload) % ENTRY_BYTES:
        raise ProtocolError("length of index", len(payload), f"a multiple of {ENTRY_BYTES}")
    pairs = list(_ENTRY.iter_unpack(payload))
    for (before, _), (after, _) in pairwise(pairs):
        if before >= after:
            raise ProtocolError("thread in index", after.hex(), f"more than {before.hex()}, the one before")
    return dict(pairs)


class Graph:
    """Who lists whom."""

    def __init__(self) -> None:
        self._members: dict[Thread, set[Thread]] = {}
        self._listed: dict[Thread, set[Thread]] = {}

    def __contains__(self, index: Thread) -> bool:
        return index in self._members

    def add(self, index: Thread, members: Iterable[Thread] = ()) -> None:
        """An index lists these from now on, too. Raises Cyclic, and then nothing has changed."""
        added = set(members)
        for member in added:
            path = self._path(member, index)
            if path:
                raise Cyclic(each.hex()[-8:] for each in (index, *path))
        self._members.setdefault(index, set()).update(added)
        for member in added:
            self._listed.setdefault(member, set()).add(index)

    def _path(self, start: Thread, goal: Thread) -> list[Thread]:
        """Along entries from one to another; empty if there is no way."""
        came: dict[Thread, Thread | None] = {start: None}
        open_ = [start]
        while open_:
            at = open_.pop()
            if at == goal:
                path = [at]
                while (before := came[path[-1]]) is not None:
                    path.append(before)
                return path[::-1]
            for member in self._members.get(at, ()):
                if member not in came:
                    came[member] = at
                    open_.append(member)
        return []

    def drop(self, index: Thread) -> None:
        """An index is gone, with its entries."""
        for member in self._members.pop(index, ()):
            self._listed[member].discard(index)
            if not self._listed[member]:
                del self._listed[member]

    def members(self, index: Thread) -> set[Thread]:
        return self._members.get(index, set())

    def listing(self, thread: Thread) -> set[Thread]:
        """The indexes that list a thread."""
        return self._listed.get(thread, set())
