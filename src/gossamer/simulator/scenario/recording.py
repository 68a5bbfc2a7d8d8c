"""The trace of one run: counted, hashed, and perhaps written in place of an earlier one of its name."""

from __future__ import annotations

from pathlib import Path

from gossamer.core.trace import Row
from gossamer.traces.digest import TraceHash
from gossamer.traces.writer import TraceWriter

NAME = "world"


class Recording:
    """Takes rows (call it like a function). Before ``begin`` no file is touched: a build may still fail."""

    __slots__ = ("_early", "_hash", "_writer", "count")

    def __init__(self) -> None:
        self.count = 0
        self._hash = TraceHash()
        self._writer: TraceWriter | None = None
        self._early: list[Row] | None = []

    def begin(self, folder: Path | None, run: str) -> None:
        """Write what has come so far and will come to ``folder/run=RUN``, in place of what was there."""
        early, self._early = self._early or [], None
        if folder is not None:
            for pattern in (f"{NAME}-*.parquet", f"{NAME}.json", f".{NAME}*.tmp"):
                for stale in sorted((folder / f"run={run}").glob(pattern)):
                    stale.unlink()
            self._writer = TraceWriter(folder, run, NAME)
            for row in early:
                self._writer(row)

    def __call__(self, row: Row) -> None:
        self.count += 1
        self._hash(row)
        if self._writer is not None:
            self._writer(row)
        elif self._early is not None:
            self._early.append(row)

    def close(self) -> None:
        """The run has come to its end; say so beside what was written."""
        if self._writer is not None:
            self._writer.close()

    @property
    def digest(self) -> str:
        """The hash of all rows."""
        return self._hash.hexdigest()
