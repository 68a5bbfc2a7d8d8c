"""A log in memory: the same behaviour as one on disk, and it survives nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class AnyLog(Protocol):
    """What hosts ask of a log."""

    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...
    def append(self, records: Iterable[bytes]) -> int: ...
    def read(self, position: int, limit: int) -> tuple[int, list[bytes]]: ...
    def trim(self, position: int) -> int: ...
    def close(self) -> None: ...


class MemoryLog:
    """Records with consecutive positions from 0, for as long as the object lives; for one thread."""

    def __init__(self) -> None:
        self._records: list[bytes] = []
        self.begin = 0
        """Position of the oldest record that is there, if any is."""

    @property
    def end(self) -> int:
        """The next free position."""
        return self.begin + len(self._records)

    def append(self, records: Iterable[bytes]) -> int:
        """Add records; the position behind them."""
        self._records.extend(records)
        return self.end

    def read(self, position: int, limit: int) -> tuple[int, list[bytes]]:
        """Up to so many records from a position on, and where they begin: at ``begin`` if that is later."""
        position = max(position, self.begin)
        start = position - self.begin
        return position, self._records[start : start + max(limit, 0)]

    def trim(self, position: int) -> int:
        """Forget records before a position; where the log begins then."""
        gone = min(max(position - self.begin, 0), len(self._records))
        del self._records[:gone]
        self.begin += gone
        return self.begin

    def close(self) -> None:
        """Nothing is left to do."""
