"""One hash for a whole trace: equal exactly if all rows are equal, in the same order."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from gossamer.core.trace import Row


class TraceHash:
    """Takes rows (call it like a function)."""

    _ROWS = 4096

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._open: list[Row] = []
        self._encoder = msgspec.msgpack.Encoder()

    def __call__(self, row: Row) -> None:
        self._open.append(row)
        if len(self._open) >= self._ROWS:
            self._hash.update(self._encoder.encode(self._open))
            self._open.clear()

    def hexdigest(self) -> str:
        """The hash of the rows so far; taking it changes nothing."""
        whole = self._hash.copy()
        if self._open:
            whole.update(self._encoder.encode(self._open))
        return whole.hexdigest()
