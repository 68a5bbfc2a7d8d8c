"""What a transport is: it opens connections, and a connection sends, receives and closes.

A connection moves whole frames and never looks inside. ``send`` takes a frame at once and never waits;
``pending`` says how many bytes it holds that the network has not taken, and its sink's ``drained`` is
called when that falls to nothing after having been more than ``HIGH_WATER``. Whoever sends decides what
to do when too much is pending.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol
from urllib.parse import urlsplit

from gossamer.core.errors import BadAddress
from gossamer.core.wire import MAX_FRAME

HIGH_WATER = 256 * 1024
"""Bytes pending above which a connection promises to call ``drained`` later."""


Frame = bytes | memoryview
"""A view is lent: it shows the frame until ``received`` returns, and something else after that."""


class Sink(Protocol):
    """Who is told what happens on a connection. ``lost`` is called exactly once, and last."""

    def received(self, frames: Sequence[Frame]) -> None: ...
    def drained(self) -> None: ...
    def lost(self, error: Exception | None) -> None: ...


class Connection(ABC):
    """Frames to and from one other node.

    remote
        Where the other end is, for people to read.
    local
        The address of this machine that the connection uses; empty if that is not known.
    reliable
        Whether frames arrive, once and in order, as long as the connection lives. Only a reliable
        connection can be paused.
    max_frame
        Largest frame it carries; one byte more is refused with ``ValueError``.
    best_frame
        Size up to which a frame travels in one piece.
    group
        Something shared by connections over which one transmission reaches all of them, else None.
    """

    remote: str
    local: str = ""
    reliable: bool = True
    max_frame: int = MAX_FRAME
    best_frame: int = MAX_FRAME
    group: Group | None = None

    @property
    @abstractmethod
    def pending(self) -> int:
        """Bytes accepted by ``send`` that the network has not taken yet."""

    @property
    def ending(self) -> bool:
        """Whether it takes nothing more, because it was closed or aborted, or is about to be lost."""
        return False

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Take a frame; after the connection is lost, do nothing."""

    def send_pieces(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Take a frame that lies in memory in pieces; who can send it as it is overrides this."""
        self.send(b"".join(pieces))

    @abstractmethod
    def pause(self) -> None:
        """Stop receiving, so that the other end has to wait."""

    @abstractmethod
    def resume(self) -> None:
        """Go on receiving."""

    @abstractmethod
    async def close(self) -> None:
        """Send what is pending, then close. Safe to call twice."""

    @abstractmethod
    def abort(self) -> None:
        """Close at once; what is pending is lost."""


class Group(Protocol):
    """One transmission for many connections."""

    def send(self, frame: bytes) -> None: ...


class Listener(Protocol):
    """An address that accepts connections."""

    @property
    def address(self) -> str:
        """Where others connect to, with the port that was really taken."""
        ...

    async def close(self) -> None:
        """Accept no more; connections that were accepted live on."""
        ...


Accept = Callable[[Connection], Sink]
"""Called for each new connection; the sink it returns is told everything from then on."""


class Transport(ABC):
    """Makes connections for addresses of one scheme."""

    scheme: ClassVar[str]

    @abstractmethod
    async def listen(self, address: str, accept: Accept) -> Listener:
        """Accept connections; raises AddressInUse or BadAddress."""

    @abstractmethod
    async def connect(self, address: str, accept: Accept) -> Connection:
        """Open a connection; raises CannotConnect or BadAddress."""


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of ``scheme://host:port``; raises BadAddress."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")
    except ValueError as error:
        raise BadAddress(address, str(error)) from None
    if not host or "\0" in host or port is None:
        raise BadAddress(address, "expected scheme://host:port, such as tcp://127.0.0.1:7400")
    return host, port


def joined(scheme: str, host: str, port: int) -> str:
    """An address from its parts."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
