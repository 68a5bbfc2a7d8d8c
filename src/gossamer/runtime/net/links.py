"""Who a node is connected to: strands are greeted, admitted and joined into links, and watched for life.

The engine hears of a link when its first strand comes up and when its last goes down, and of nothing between.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gossamer.core.context import SERVER, UNREAD
from gossamer.core.effect import Drop
from gossamer.core.errors import ProtocolError
from gossamer.core.names import NANOSECONDS, Role, last
from gossamer.core.parcel import Parcel
from gossamer.core.wire import MAX_FRAME, Item
from gossamer.links.binding import Binding, first_fit
from gossamer.links.selector import Selector, Wish, wish
from gossamer.runtime.net.addresses import reachable
from gossamer.runtime.net.connection import Strand
from gossamer.runtime.net.containers import TIER, surroundings
from gossamer.runtime.net.handshake import MAX_LISTENS, Bye, Hello
from gossamer.runtime.net.link import Link
from gossamer.transports.base import Connection, Group

if TYPE_CHECKING:
    from gossamer.runtime.host import Host
    from gossamer.runtime.net.dialer import Opener

log = logging.getLogger("gossamer")

DOUBT = 3
"""Heartbeats that are left to a datagram connection when another connection of its link has broken."""


class Neighbours:
    """The links of one node, and connections on their way to being part of one.

    fixed
        Whether the node was given its tree.
    """

    def __init__(self, host: Host, bindings: Sequence[Binding], selector: Selector, fixed: bool) -> None:
        self.links: dict[str, Link] = {}
        self.limits = host.limits
        self.bindings = tuple(bindings)
        self.selector = selector
        self.listens: tuple[str, ...] = ()
        """Addresses that others are told."""
        self._sockets: tuple[str, ...] = ()
        self._advertise: tuple[str, ...] = ()
        self._arrived: dict[str, None] = {}
        """Addresses of this machine that connections use, the earliest first."""
        self.opener: Opener | None = None
        self.now, self.spawn, self.changed = host.now, host.spawn, host.changed
        self._host = host
        self._engine = host.engine
        self._fixed = fixed
        self._strands: set[Strand] = set()
        self._groups: Counter[Group] = Counter()
        self._qos: dict[tuple[int, bool, bool | None, Role], Wish] = {}
        self._address = ""
        self._beat: asyncio.TimerHandle | None = None
        self._schedule_beat()

    # strands begin

    def accept(self, connection: Connection, transport: str) -> Strand:
        """Somebody connected to us."""
        return self.open(connection, transport, "")

    def open(self, connection: Connection, transport: str, dialled: str) -> Strand:
        """We connected to somebody at an address."""
        strand = Strand(self, connection, transport, dialled)
        self._strands.add(strand)
        if self._host.closed:
            asyncio.get_running_loop().call_soon(connection.abort)
        return strand

    def listen_at(self, addresses: tuple[str, ...], advertise: tuple[str, ...] = ()) -> None:
        """Others may connect here; ``advertise`` is told to them instead, if it is given."""
        self._sockets, self._advertise = addresses, advertise
        self._find_addresses()
        self.describe()

    def _find_addresses(self) -> None:
        self.listens = reachable(self._sockets, self._advertise, self._arrived)

    def meets(self, address: str) -> bool:
        """Whether all at an address are met without dialling: we listen there, or have joined it already."""
        place = address.partition("?")[0]
        known = (
            *self.listens,
            *self._sockets,
            *(each.dialled for each in self._strands if each.connection.group),
        )
        return any(each.partition("?")[0] == place for each in known)

    def hello(self, strand: Strand, heard: bool) -> Hello:
        engine = self._engine
        listens = self.listens[:MAX_LISTENS]
        opened = strand.opened_here
        who = (engine.node, engine.incarnation, engine.role, engine.address)
        return Hello(*who, listens, heard, opened, self.now())

    # greetings

    def greeted(self, strand: Strand, hello: Hello) -> None:
        """A greeting came: the strand joins a link or makes one, or waits, or is refused."""
        local = strand.connection.local
        if local and local not in self._arrived and len(self._arrived) < MAX_LISTENS:
            self._arrived[local] = None
            self._find_addresses()
        link = self.links.get(hello.node)
        same_life = link is not None and link.hello.incarnation == hello.incarnation
        if hello.node != self._engine.node and not same_life and self._by_chance(strand, hello):
            return
        reason = self._refusal(hello, link)
        if reason:
            strand.refuse(reason)
        elif link is not None and same_life:
            self._join(link, strand)
        else:
            if link is not None:
                self._end(link, f"replaced by a newer node called {hello.node!r}")
            self._link(strand, hello)

    def _by_chance(self, strand: Strand, hello: Hello) -> bool:
        """Whether two nodes merely listen to one group. On the backbone that makes them neighbours; between
        tiers it does not: the connection waits, and joins a link if there comes to be one.
        """
        if strand.connection.group is None or strand.opened_here or hello.opened:
            return False
        return not TIER[self._engine.role] == TIER[hello.role] == 1

    def _refusal(self, hello: Hello, link: Link | None) -> str:
        engine = self._engine
        mine, theirs = TIER[engine.role], TIER[hello.role]
        if hello.node == engine.node:
            return f"a node called {hello.node!r} is here already: give this one another name"
        if mine == theirs and mine > 1:
            return f"{engine.node!r} is a {engine.role} too and serves nobody: connect to a backbone node"
        server = engine.containers.get(SERVER)
        if theirs < mine and server is not None and last(server) != hello.node:
            return f"{engine.node!r} has a server already"
        if link is not None and hello.incarnation < link.hello.incarnation:
            return f"a newer node called {hello.node!r} is connected: give this one another name"
        return ""

    def _link(self, strand: Strand, hello: Hello) -> None:
        link = self.links[hello.node] = Link(self, hello)
        link.add(strand)
        self._count(strand, 1)
        self.describe()
        log.info("linked to %s (%s) over %s", link.peer, hello.role, strand.connection.remote)
        self._host.tell(lambda now: self._engine.linked(now, link.peer))
        for other in tuple(self._strands):
            if other.link is None and not other.parting and other.life == strand.life:
                self._join(link, other)
        self._settled(link)

    def _join(self, link: Link, strand: Strand) -> None:
        link.add(strand)
        self._count(strand, 1)
        log.info("link to %s: also over %s", link.peer, strand.connection.remote)
        for each in link.strands:
            if link.surplus(each):
                # not at once: what is on its way there still arrives
                patience = self.limits.heartbeat * (1 if each.opened_here else 2)
                asyncio.get_running_loop().call_later(patience, self._retire, link, each)
        self.describe()
        self._settled(link)

    def lower_opened(self, strand: Strand) -> bool:
        """Whether the lower of the two names opened it."""
        return strand.opened_here == (self._engine.node < strand.peer)

    def _retire(self, link: Link, strand: Strand) -> None:
        if strand.link is link and link.surplus(strand):
            strand.part()

    def _settled(self, link: Link) -> None:
        if self.opener is not None:
            self.opener.complete(link)
        self.changed()

    def _count(self, strand: Strand, by: int) -> None:
        group = strand.connection.group
        if group is not None:
            self._groups[group] += by
            if not self._groups[group]:
                del self._groups[group]

    # strands end

    def lost(self, strand: Strand, error: Exception | None) -> None:
        self._strands.discard(strand)
        if isinstance(error, ProtocolError):
            self.malformed(strand, error)
        self._leave(strand, f" ({error})" if error else "")
        if error is not None or not strand.parting:  # else it was closed behind all that it was given
            for parcel in strand.unflushed:
                self._host.losses.dropped(Drop(parcel, "connection lost", strand.peer))
        for item in strand.unsent():
            if strand.peer in self.links:
                self._host.send(strand.peer, item)
            else:
                self._host.do(self._engine.lost(self.now(), strand.peer, item, "connection lost"))

    def _leave(self, strand: Strand, why: str = "") -> None:
        link = strand.link
        if link is None:
            return
        link.remove(strand)
        self._count(strand, -1)
        if link.strands:
            log.info("link to %s: no longer over %s%s", link.peer, strand.connection.remote, why)
            if not strand.parting:
                for each in link.strands:
                    each.doubt(DOUBT * self.limits.heartbeat)
            self.describe()
            self._settled(link)
        elif self.links.get(link.peer) is link:
            del self.links[link.peer]
            self.describe()
            log.info("link to %s is down%s", link.peer, why)
            self._host.tell(lambda now: self._engine.unlinked(now, link.peer))
            self.changed()

    def _end(self, link: Link, reason: str) -> None:
        for strand in tuple(link.strands):
            self._leave(strand)
            strand.refuse(reason)

    def own(self, parcel: Parcel) -> bool:
        """Whether events were published on this node."""
        return parcel.stamp.node == self._engine.node

    # what strands pass on

    def receive(self, strand: Strand, item: Item) -> None:
        self._host.receive(strand, item)

    def congestion(self, strand: Strand, change: str) -> None:
        """A neighbour does not take enough, or does so again; templates hear of it when the loop turns."""
        if strand.link is not None:
            told = partial(self._engine.around, peer=strand.peer, change=change)
            asyncio.get_running_loop().call_soon(self._host.tell, told)

    def attention(self) -> None:
        """Something is no longer read, or again; templates see it when the loop turns."""
        self._host.soon(UNREAD, self._describe_unread)

    def _describe_unread(self) -> None:
        links = self.links.values()
        unread = tuple(sorted(link.peer for link in links if any(each.waits for each in link.strands)))
        self._host.do(self._engine.set(self.now(), UNREAD, unread))

    def unexpected(self, why: str) -> None:
        self._host.faults[f"frame {why}"] += 1

    def malformed(self, strand: Strand, error: ProtocolError) -> None:
        """Contain a frame that makes no sense: count it, and end a stream that sent it."""
        self._host.faults["malformed frame"] += 1
        log.warning("%s: %s", strand.peer, error)
        if strand.reliable and not strand.gone.is_set():
            self._leave(strand)
            strand.refuse(str(error))

    # choosing

    def wish(self, link: Link, channel: int, control: bool, essential: bool | None) -> Wish:
        """What the frames of a channel want of a link."""
        key = (channel, control, essential, link.hello.role)
        found = self._qos.get(key)
        if found is None:
            name = self._host.channel_name(channel)
            binding = first_fit(self.bindings, name, link.hello.role) if name else None
            found = self._qos[key] = wish(binding, control=control, essential=essential)
        return found

    def detour(self, link: Link, channel: int, wanted: Wish, strand: Strand) -> None:
        """A channel takes another way than it is bound to; told once, until it is back."""
        self._host.faults["no bound transport is up"] += 1
        log.info(
            "%s goes to %s by %s: none of %s is up",
            self._host.channel_name(channel),
            link.peer,
            strand.transport,
            ", ".join(wanted.transports),
        )

    def reaches_only(self, group: Group, strands: Sequence[Strand], origin: Strand | None) -> bool:
        """Whether a transmission to a group reaches these neighbours and no other but where it came from."""
        from_it = origin is not None and origin.connection.group is group and origin not in strands
        return len(strands) + from_it >= self._groups[group]

    def best_frame(self, channel: str) -> int:
        """Size up to which frames of a channel travel in one piece on all links of this node; a datagram
        connection further on cuts larger ones.
        """
        sizes = []
        for link in self.links.values():
            binding = first_fit(self.bindings, channel, link.hello.role)
            sizes.append(link.best_frame(wish(binding, control=False)))
        return min(sizes, default=MAX_FRAME)

    def describe(self) -> None:
        """Keep what depends on who is around current."""
        engine, host = self._engine, self._host
        for name, value in surroundings(engine, self.links, self.listens, self._fixed).items():
            host.do(engine.set(self.now(), name, value))
        alike = None if self.bindings else self.best_frame("")
        for channel in engine.channels:
            instance = engine.instance(channel)
            instance.sealer.limit = min(instance.template.parcel_bytes, alike or self.best_frame(channel))
        connections = [strand.connection for link in self.links.values() for strand in link.strands]
        host.max_event = max((each.max_frame for each in connections), default=MAX_FRAME)
        if engine.address != self._address:
            self._address = engine.address
            for link in tuple(self.links.values()):
                for strand in link.strands:
                    strand.say(self.hello(strand, heard=True))

    # signs of life

    def _schedule_beat(self) -> None:
        self._due = self.now() + round(self.limits.heartbeat * NANOSECONDS)
        self._beat = asyncio.get_running_loop().call_later(self.limits.heartbeat, self._on_beat)

    def _on_beat(self) -> None:
        now = self.now()
        late = now - self._due > self.limits.heartbeat * NANOSECONDS
        for strand in tuple(self._strands):
            silence = strand.beat(now, late)
            if silence is not None:
                log.warning("%s has been silent for %g s", strand.peer, silence)
                strand.connection.abort()
        self._schedule_beat()

    # the end

    @property
    def pending(self) -> int:
        """Bytes that no network has taken yet."""
        strands = (strand for link in self.links.values() for strand in link.strands)
        return sum(each.pending for each in strands if not each.stalled)

    def unread(self, channel: int) -> list[Strand]:
        """Reliable connections whose neighbours have not shown that they read what was published here.

        Not those whose neighbours take nothing: what waits there is stuck.
        """
        strands = (strand for link in self.links.values() for strand in link.strands)
        return [each for each in strands if each.unread(channel) and not (each.stalled and each.published())]

    def stuck(self) -> list[Parcel]:
        """Parcels published here for neighbours that take nothing."""
        strands = (strand for link in self.links.values() for strand in link.strands)
        return [parcel for each in strands if each.stalled for parcel in each.published()]

    def stop(self) -> None:
        """Open nothing more, and show no signs of life."""
        self.opener = None
        if self._beat:
            self._beat.cancel()

    async def close(self, drain: float) -> list[asyncio.Future[None]]:
        """Say goodbye on every connection and close it, within so many seconds; the closing that goes on."""
        strands = tuple(self._strands)
        for strand in strands:
            strand.parting = True
            strand.flush()
            strand.say(Bye(""))
        closing: list[asyncio.Future[None]] = [
            asyncio.ensure_future(strand.connection.close()) for strand in strands
        ]
        if closing:
            _, slow = await asyncio.wait(closing, timeout=drain)
            for strand in strands:
                if slow and not strand.gone.is_set():
                    strand.connection.abort()
            for task in slow:
                task.cancel()
        return closing
