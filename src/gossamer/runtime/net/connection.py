"""A strand: one connection of a link, as the host sees it. It greets, shows signs of life, and waits.

Waiting: what the network does not take at once waits here, and leaves the most important first. A strand that
holds more than its limit is *congested*. Strands whose parcels feed it stop reading until it has drained, so
that nothing is lost to a burst. If it takes nothing for the node's patience it is *stalled*: it then loses
what is meant for it, and nobody waits. On a tree nobody can wait in a circle, because a parcel never goes
back where it came from; what goes back was asked for, and nobody waits for itself: two who ask each other for
much would both stop reading what they asked for.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

from gossamer.core.body import Body
from gossamer.core.control import LINK_CHANNEL, Control, Message, check_instants
from gossamer.core.errors import GossamerError, ProtocolError, Refused
from gossamer.core.names import NANOSECONDS
from gossamer.core.parcel import Parcel
from gossamer.core.wire import Item, decode, decode_message, encode, pieces, size
from gossamer.links.clocks import Offset
from gossamer.links.outbox import Outbox
from gossamer.links.selector import smoothed
from gossamer.runtime.net.handshake import Bye, Hello, Ping, Pong, decoder
from gossamer.transports.base import HIGH_WATER, Connection, Frame

if TYPE_CHECKING:
    from gossamer.runtime.net.link import Link
    from gossamer.runtime.net.links import Neighbours

GREETING_RETRY = 0.25
"""Seconds between greetings on a connection that may lose them."""


class Strand:
    """One connection to one neighbour; it is the connection's sink.

    transport
        The scheme of the addresses that such connections are opened by.
    dialled
        The address by which it was opened here; empty if it was accepted.
    """

    def __init__(self, around: Neighbours, connection: Connection, transport: str, dialled: str) -> None:
        self.connection = connection
        self.transport = transport
        self.dialled = dialled
        self.reliable = connection.reliable
        self.link: Link | None = None
        self.hello: Hello | None = None
        self.known = connection.reliable
        """Whether the other side takes what is sent: it has said that it knows us, or gets that first."""
        self.greeted: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()
        self.parting = False
        """Whether one of the two has said goodbye."""
        self.refusal = ""
        """Why the other side ended the connection, if it said so."""
        self.latency: int | None = None
        """Nanoseconds one way, half of a round trip, smoothed; None before the first."""
        self.offset = Offset()
        self.heard_at = around.now()
        self.sent = self.received_frames = 0
        self.stalled = False
        self.waiters: set[Strand] = set()
        """Strands that stopped reading because this one is congested."""
        self._around = around
        self._refused = False
        self._obstacles: set[object] = set()
        self._backlog: list[bytes] = []
        self._outbox = Outbox()
        """What waits because the network has enough for now."""
        self._handed = 0
        """Bytes of items that the connection was given."""
        self._unflushed: deque[tuple[int, Parcel]] = deque()
        """Parcels published here that the network may not have taken, by ``_handed`` behind each."""
        self._unread: Counter[int] = Counter()
        """By channel: events published here that the connection was given, and no ping behind them."""
        self._asked: Counter[int] = Counter()
        """By channel: those ahead of a ping that is not answered."""
        self._pinged = 0
        """When that ping was sent."""
        self._patience: asyncio.TimerHandle | None = None
        self._greeting: asyncio.TimerHandle | None = None
        self._greet()

    @property
    def opened_here(self) -> bool:
        return bool(self.dialled)

    @property
    def peer(self) -> str:
        """The neighbour's name, once it has greeted."""
        return self.hello.node if self.hello else self.connection.remote

    @property
    def life(self) -> tuple[str, int] | None:
        """Which node in which of its lives is at the other end; None before it has greeted."""
        return (self.hello.node, self.hello.incarnation) if self.hello else None

    # greeting

    def _greet(self) -> None:
        self.say(self._around.hello(self, heard=False))
        if not self.reliable:
            self._greeting = asyncio.get_running_loop().call_later(GREETING_RETRY, self._greet)

    def say(self, message: Message) -> None:
        """Send a message about the connection itself."""
        self.connection.send(encode(Control(LINK_CHANNEL, message)))

    def ping(self) -> None:
        """Ask for a sign of life, and measure how long it takes."""
        sent = self._around.now()
        if not self._asked:
            self._asked, self._unread, self._pinged = self._unread, Counter(), sent
        self.say(Ping(sent))

    def unread(self, channel: int) -> int:
        """Events of a channel, published here, that the neighbour has not shown to have read.

        It takes what comes on a reliable connection in order: an answer to a ping shows that all ahead of it
        was read.
        """
        return self._asked[channel] + self._unread[channel]

    def ask(self) -> None:
        """Have the neighbour show that it has read everything, unless it is asked already."""
        if not self._asked:
            self.ping()

    def part(self, reason: str = "") -> None:
        """Say goodbye and close, once what is pending has left."""
        if not self.parting:
            self.parting = True
            self.flush()
            self.say(Bye(reason[:500]))
            self._around.spawn(self.connection.close())

    def refuse(self, reason: str) -> None:
        """Tell the other side why, and close; nothing more is taken from it."""
        if not self._refused:
            self._refused = True
            self.part(reason)
            self.fail(Refused(self.peer, reason))

    def fail(self, error: Exception) -> None:
        if not self.greeted.done():
            self.greeted.set_exception(error)
            self.greeted.exception()  # somebody may be waiting, or nobody: both are fine
            self._around.changed()

    # the connection tells

    def received(self, frames: Sequence[Frame]) -> None:
        self.heard_at = self._around.now()
        self.received_frames += len(frames)
        self._take_all(frames)

    def _take_all(self, frames: Sequence[Frame]) -> None:
        for position, frame in enumerate(frames):
            if self._refused:
                return
            if self._obstacles:
                self._backlog.extend(map(bytes, frames[position:]))
                return
            body = self._take(frame)
            if body is not None and (kept := body()) is not None:
                kept.own()

    def _take(self, frame: Frame) -> ReferenceType[Body] | None:
        """Pass on what came; the body of a parcel, if anybody keeps it."""
        body = None
        try:
            item = decode(frame)
            if isinstance(item, Control) and item.channel == LINK_CHANNEL:
                message = decode_message(item, decoder)
                if self._plausible(message):
                    self._supervise(message)
            elif self.link is not None:
                if isinstance(item, Parcel):
                    body = ref(item._body)
                    if self.offset.value:
                        item = item.sent_at(item.header.sent - self.offset.value)
                    self.link.came(item, self)
                self._around.receive(self, item)
            elif self.hello is None:
                self._around.unexpected("before the greeting")
            # else it is what somebody said to a group, of whom we are no neighbour
        except ProtocolError as error:
            self._around.malformed(self, error)
        return body

    def _plausible(self, message: Message) -> bool:
        """Whether a message makes sense at this instant. Who greets in a way that does not is refused; of a
        neighbour it is counted, and the link goes on.
        """
        try:
            check_instants(message, self._around.now())
        except ProtocolError:
            if self.hello is None:
                raise
            self._around.unexpected("that makes no sense")
            return False
        return True

    def _supervise(self, message: Message) -> None:
        match message:
            case Hello():
                if not message.heard:
                    self.say(self._around.hello(self, heard=True))
                elif self._greeting:
                    self._greeting.cancel()
                    self._greeting = None
                self._greeted_by(message)
            case Ping():
                self.say(Pong(message.sent, self._around.now()))
            case Pong():
                now = self._around.now()
                if message.sent == self._pinged:
                    self._asked.clear()
                self.latency = smoothed(self.latency, max(0, now - message.sent) // 2)
                self.offset.exchanged(message.sent, message.clock, now)
                if self.link:
                    self.link.reconsider()
            case Bye():
                self.parting, self.refusal = True, message.reason
                if message.reason:
                    self.fail(Refused(self.peer, message.reason))
                self._around.spawn(self.connection.close())

    def _greeted_by(self, hello: Hello) -> None:
        if self.hello is None:
            self.hello = hello
            if hello.clock:
                self.offset.greeted(hello.clock, self._around.now())
            self._around.greeted(self, hello)
            self.ping()
        elif self.link is not None:
            self.link.learn(hello)
        if hello.heard and not self.known:
            self.known = True
            if self.link:
                self.link.reconsider()

    def joined(self, link: Link) -> None:
        """It belongs to a link now."""
        self.link = link
        if not self.greeted.done():
            self.greeted.set_result(link)

    def drained(self) -> None:
        if self.stalled:
            self.stalled = False
            self._around.congestion(self, "relieved")
        self._look()
        self._feed()
        if self._outbox:
            return
        if self._patience:
            self._patience.cancel()
            self._patience = None
        self._release_waiters()
        self._around.changed()

    def lost(self, error: Exception | None) -> None:
        for timer in (self._patience, self._greeting):
            if timer:
                timer.cancel()
        self._patience = self._greeting = None
        if error is None and self.parting and not self.refusal:
            self._asked.clear()  # it was closed behind all that it was given
            self._unread.clear()
        self.gone.set()
        self.fail(error if isinstance(error, GossamerError) else ConnectionError("connection closed"))
        self._release_waiters()
        self._around.lost(self, error)

    # sending

    @property
    def congested(self) -> bool:
        """More is pending than may be, but there is hope."""
        return self._patience is not None

    @property
    def waits(self) -> bool:
        """Whether reading waits."""
        return bool(self._obstacles)

    @property
    def pending(self) -> int:
        """Bytes that the network has not taken yet, or parcels of which that is not known."""
        self._look()
        return (self.connection.pending + self._outbox.bytes) or len(self._unflushed)

    def _look(self) -> None:
        """Forget parcels that the network has taken; of an ending connection that can no longer be seen."""
        if self._unflushed and not self.connection.ending:
            taken = self._handed - self.connection.pending
            while self._unflushed and self._unflushed[0][0] <= taken:
                self._unflushed.popleft()

    @property
    def unflushed(self) -> list[Parcel]:
        """Parcels published on this node that the connection has and the network may not have taken."""
        return [parcel for _, parcel in self._unflushed]

    def published(self) -> list[Parcel]:
        """Parcels published on this node that the network has not taken, as far as is known."""
        waiting = (item for item in self._outbox if isinstance(item, Parcel) and self._around.own(item))
        return [*self.unflushed, *waiting]

    def send(self, item: Item, origin: Strand | None) -> str | None:
        """Send what came from a strand (or from here); why not, if it cannot be sent."""
        length = size(item)
        if length > self.connection.max_frame:
            return "too large for the link"
        if self.stalled:
            return "link stalled"
        if self.connection.ending:
            return "connection lost"
        if self._outbox or self.connection.pending > HIGH_WATER:
            self._outbox.put(item, length)
        else:
            self._hand(item, length)
        self.has_sent(origin)
        return None

    def has_sent(self, origin: Strand | None) -> None:
        """A frame is on its way; whoever fed it waits if that was too much."""
        self.sent += 1
        if self.pending > max(self._around.limits.queue_bytes, HIGH_WATER):
            self._congest(origin)

    def _feed(self) -> None:
        """Hand the network some of what waits; it tells when that is gone."""
        while self._outbox and self.connection.pending <= HIGH_WATER:
            item = self._outbox.take()
            self._hand(item, size(item))

    def _hand(self, item: Item, length: int) -> None:
        """Give the connection an item, and remember one that was published here until it has left."""
        self.connection.send_pieces(pieces(item))
        self._handed += length
        if isinstance(item, Parcel) and self._around.own(item):
            if self.reliable and item.header.answers is None:
                self._unread[item.header.channel] += item.stamp.count
            if self.connection.pending:
                self._look()
                self._unflushed.append((self._handed, item))

    def flush(self) -> None:
        """Hand the network all that waits: it is about to be closed."""
        for item in self.unsent():
            self._hand(item, size(item))

    def unsent(self) -> list[Item]:
        """What waits here and will not leave by this way; it is no longer this strand's."""
        return self._outbox.clear()

    def _congest(self, origin: Strand | None) -> None:
        if self._patience is None:
            self._be_patient()
        if origin is not None and origin is not self and origin.reliable:
            self.waiters.add(origin)
            origin.wait_for(self)

    def _be_patient(self) -> None:
        patience, pending = self._around.limits.patience, self.pending
        self._patience = asyncio.get_running_loop().call_later(patience, self._judge, pending)

    def _judge(self, pending: int) -> None:
        """Patience has ended: who took something meanwhile gets more, who did not is stalled."""
        if self.pending < pending:
            self._be_patient()
            return
        self._patience = None
        self.stalled = True
        self._around.congestion(self, "congested")  # waiting has not helped: templates may find another way
        self._release_waiters()
        self._around.changed()

    def _release_waiters(self) -> None:
        waiters, self.waiters = self.waiters, set()
        for origin in waiters:
            origin.go_on(self)

    # reading waits

    def wait_for(self, obstacle: object) -> None:
        """Stop reading until the obstacle is gone."""
        if not self._obstacles:
            self.connection.pause()
            self._around.attention()
        self._obstacles.add(obstacle)

    def go_on(self, obstacle: object) -> None:
        """The obstacle is gone; take what was read meanwhile, then read on."""
        if obstacle not in self._obstacles:
            return
        self._obstacles.discard(obstacle)
        while self._backlog and not self._obstacles:
            frames, self._backlog = self._backlog, []
            self._take_all(frames)
        if not self._obstacles:
            self.heard_at = self._around.now()
            self.connection.resume()
            self._around.attention()

    # signs of life

    def beat(self, now: int, late: bool) -> float | None:
        """Show a sign of life; the seconds of silence if there were too many."""
        limits = self._around.limits
        silence = limits.silence if self.reliable else limits.datagram_silence
        if self.hello is None:
            silence = limits.answer
        if self._obstacles or late:
            self.heard_at = max(self.heard_at, now - round(silence * NANOSECONDS / 2))
        # also where reading waits: the other side hears no answers then, and would take us for dead
        if now - self.heard_at > silence * NANOSECONDS:
            return silence
        if self.hello is not None and not self.stalled:
            self.ping()
        return None

    def doubt(self, seconds: float) -> None:
        """Another connection of the link broke: one that cannot break has to show soon that it is alive."""
        if not self.reliable and self.connection.group is None:
            soon = self._around.now() - round((self._around.limits.datagram_silence - seconds) * NANOSECONDS)
            self.heard_at = min(self.heard_at, soon)
            self.ping()
