"""The bytes of a parcel's body, and the memory that they came in.

Whoever reads frames lends the memory that they are in for as long as a node looks at them; who keeps a body
owns its bytes.
"""

from __future__ import annotations


class Buffer(bytearray):
    """Memory that frames are read into, and lent from.

    kept
        Whether a body that takes up most of it stays there for good: then nothing else is read into it.
    """

    __slots__ = ("kept",)

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.kept = False


class Body:
    """The bytes of a body where they are: payloads as they were published, or a part of the frame that came.

    Nobody copies them until somebody wants them in one piece, or to keep them.

    lent
        Whether they are in memory that will soon hold something else: whoever keeps the body has to ``own``.
    """

    __slots__ = ("__weakref__", "lent", "pieces", "size")

    def __init__(self, *pieces: bytes | memoryview, lent: bool = False) -> None:
        self.pieces = pieces
        self.size = sum(map(len, pieces))
        self.lent = lent

    def own(self) -> None:
        """Have the bytes for good: a copy, or the whole buffer where they are most of it."""
        if self.lent:
            self.lent = False
            (view,) = self.pieces
            buffer = view.obj if isinstance(view, memoryview) else None
            if isinstance(buffer, Buffer) and 2 * self.size >= len(buffer):
                buffer.kept = True
            else:
                self.pieces = (self.whole,)

    @property
    def view(self) -> memoryview:
        """All of it to look at, without a copy where it is in one piece."""
        return memoryview(self.pieces[0] if len(self.pieces) == 1 else self.whole)

    @property
    def whole(self) -> bytes:
        """All of it in one piece, which it then consists of: two copies would be kept else."""
        whole = self.pieces[0]
        if len(self.pieces) > 1 or not isinstance(whole, bytes):
            whole = b"".join(self.pieces)
            self.pieces = (whole,)
        return whole
