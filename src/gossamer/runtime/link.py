"""A link to one neighbour: greeting, signs of life, and waiting where the way is full.

Waiting: a link that holds more than its limit is *congested*. Links whose parcels feed it stop reading
until it has drained, so that nothing is lost to a burst. If it takes nothing for the node's patience it is
*stalled*: it then loses what is meant for it, and nobody waits. On a tree nobody can wait in a circle,
because a parcel never goes back where it came from.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from gossamer.core.control import LINK_CHANNEL, Control, Message
from gossamer.core.errors import GossamerError, ProtocolError, Refused
from gossamer.core.names import MAX_ADDRESS, MAX_NODE_NAME, NODE_PATTERN, Role
from gossamer.core.wire import Item, decode, decode_message, encode
from gossamer.transports.base import HIGH_WATER, Connection

if TYPE_CHECKING:
    from gossamer.runtime.host import Host

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
GREETING_RETRY = 0.25
"""Seconds between greetings on a connection that may lose them."""


class Hello(Message, frozen=True):
    """Who I am, and where I listen; ``heard`` if I know who you are."""

    node: Annotated[str, Meta(max_length=MAX_NODE_NAME, pattern=rf"\A{NODE_PATTERN}\Z")]
    incarnation: Number
    role: Role
    address: Annotated[str, Meta(min_length=1, max_length=MAX_ADDRESS)]
    listens: Annotated[tuple[Annotated[str, Meta(max_length=200)], ...], Meta(max_length=8)]
    heard: bool


class Ping(Message, frozen=True):
    """Are you there? The number comes back."""

    sent: Number


class Pong(Message, frozen=True):
    """I am."""

    sent: Number


class Bye(Message, frozen=True):
    """I am closing this connection, and why; an empty reason means that all is well."""

    reason: Annotated[str, Meta(max_length=500)]


_decoder = msgspec.msgpack.Decoder(Hello | Ping | Pong | Bye)


class Link:
    """One connection to one neighbour, as the host sees it; it is the connection's sink."""

    def __init__(self, host: Host, connection: Connection, opened_here: bool) -> None:
        self.connection = connection
        self.opened_here = opened_here
        self.hello: Hello | None = None
        self.greeted: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()
        self.refusal = ""
        """Why the other side ended the link, if it said so."""
        self.latency: int | None = None
        """Nanoseconds one way, half of the last round trip; None before the first."""
        self.heard_at = host.now()
        self.stalled = False
        self.waiters: set[Link] = set()
        """Links that stopped reading because this one is congested."""
        self._host = host
        self._refused = False
        self._obstacles: set[object] = set()
        self._backlog: list[bytes] = []
        self._patience: asyncio.TimerHandle | None = None
        self._greeting: asyncio.TimerHandle | None = None
        self._greet()

    @property
    def peer(self) -> str:
        """The neighbour's name, once it has greeted."""
        return self.hello.node if self.hello else self.connection.remote

    # greeting

    def _greet(self) -> None:
        self.say(self._host.hello(heard=False))
        if not self.connection.reliable:
            self._greeting = asyncio.get_running_loop().call_later(GREETING_RETRY, self._greet)

    def say(self, message: Message) -> None:
        """Send a message about the link itself."""
        self.connection.send(encode(Control(LINK_CHANNEL, message)))

    def refuse(self, reason: str) -> None:
        """Tell the other side why, and close; nothing more is taken from it."""
        if self._refused:
            return
        self._refused = True
        self.say(Bye(reason[:500]))
        self.fail(Refused(self.peer, reason))
        self._host.spawn(self.connection.close())

    def fail(self, error: Exception) -> None:
        if not self.greeted.done():
            self.greeted.set_exception(error)
            self.greeted.exception()  # somebody may be waiting, or nobody: both are fine
            self._host.changed()

    # the connection tells

    def received(self, frames: list[bytes]) -> None:
        self.heard_at = self._host.now()
        for position, frame in enumerate(frames):
            if self._refused:
                return
            if self._obstacles:
                self._backlog.extend(frames[position:])
                return
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        try:
            item = decode(frame)
            if isinstance(item, Control) and item.channel == LINK_CHANNEL:
                self._supervise(decode_message(item, _decoder))
            elif self.hello is not None:
                self._host.receive(self, item)
            else:
                self._host.unexpected("before the greeting")
        except ProtocolError as error:
            self._host.malformed(self, error)

    def _supervise(self, message: Message) -> None:
        match message:
            case Hello():
                if not message.heard:
                    self.say(self._host.hello(heard=True))
                if self.hello is None and self._host.admit(self, message):
                    self.hello = message
                    if self._greeting:
                        self._greeting.cancel()
                    if not self.greeted.done():
                        self.greeted.set_result(message)
                    self._host.linked(self)
            case Ping():
                self.say(Pong(message.sent))
            case Pong():
                self.latency = max(0, self._host.now() - message.sent) // 2
            case Bye():
                self.refusal = message.reason
                if message.reason:
                    self.fail(Refused(self.peer, message.reason))
                self._host.spawn(self.connection.close())

    def drained(self) -> None:
        self.stalled = False
        if self._patience:
            self._patience.cancel()
            self._patience = None
        self._release_waiters()
        self._host.changed()

    def lost(self, error: Exception | None) -> None:
        for timer in (self._patience, self._greeting):
            if timer:
                timer.cancel()
        self._patience = self._greeting = None
        self.gone.set()
        self.fail(error if isinstance(error, GossamerError) else ConnectionError("connection closed"))
        self._release_waiters()
        self._host.unlinked(self, error)

    # sending

    @property
    def congested(self) -> bool:
        """More is pending than may be, but there is hope."""
        return self._patience is not None

    def send(self, item: Item, origin: Link | None) -> str | None:
        """Send an item that came from a link (or from here); why not, if it cannot be sent."""
        frame = encode(item)
        if len(frame) > self.connection.max_frame:
            return "too large for the link"
        if self.stalled:
            return "link stalled"
        self.connection.send(frame)
        if self.connection.pending > max(self._host.limits.queue_bytes, HIGH_WATER):
            self._congest(origin)
        return None

    def _congest(self, origin: Link | None) -> None:
        if self._patience is None:
            self._be_patient()
        if origin is not None and origin.connection.reliable:
            self.waiters.add(origin)
            origin.wait_for(self)

    def _be_patient(self) -> None:
        patience, pending = self._host.limits.patience, self.connection.pending
        self._patience = asyncio.get_running_loop().call_later(patience, self._judge, pending)

    def _judge(self, pending: int) -> None:
        """Patience has ended: a link that took something meanwhile gets more, one that did not is stalled."""
        if self.connection.pending < pending:
            self._be_patient()
            return
        self._patience = None
        self.stalled = True
        self._release_waiters()
        self._host.changed()

    def _release_waiters(self) -> None:
        waiters, self.waiters = self.waiters, set()
        for origin in waiters:
            origin.go_on(self)

    # reading waits

    @property
    def waiting(self) -> bool:
        """Whether reading has stopped, so that silence means nothing."""
        return bool(self._obstacles)

    def wait_for(self, obstacle: object) -> None:
        """Stop reading until the obstacle is gone."""
        if not self._obstacles:
            self.connection.pause()
        self._obstacles.add(obstacle)

    def go_on(self, obstacle: object) -> None:
        """The obstacle is gone; take what was read meanwhile, then read on."""
        if obstacle not in self._obstacles:
            return
        self._obstacles.discard(obstacle)
        while self._backlog and not self._obstacles:
            frames, self._backlog = self._backlog, []
            self.received(frames)
        if not self._obstacles:
            self.heard_at = self._host.now()
            self.connection.resume()
