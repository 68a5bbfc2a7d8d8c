"""The context: all that a template may know of the outside, and all that it may ask for.

Time is an argument (``now``), dice are handed in (``rng``, seeded per run and node), and nothing here
does anything: each method records an effect or reads a value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableSequence, Sequence
from typing import Any, Protocol, TypeVar

from gossamer.core.control import Control, Message
from gossamer.core.effect import (
    Acknowledged,
    Append,
    Drop,
    Effect,
    Lost,
    Missed,
    Note,
    Read,
    Repair,
    Reply,
    Retain,
    Send,
    Store,
    Trim,
    Wake,
)
from gossamer.core.event import Criteria
from gossamer.core.names import Role, channel_id, last, nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.core.tree import Tree
from gossamer.core.wire import Item

Element = TypeVar("Element")

TREE = "tree"
"""Container: the tree over backbone nodes or peers."""
SERVER = "server"
"""Container: address of the node this one hangs below, or None."""
BELOW = "below"
"""Container: names of the nodes that hang below this one, in order."""
LINKED = "linked"
"""Container: names of the nodes that this one has a link to, in order."""
UNREAD = "unread"
"""Container: names of the nodes that nothing is read from for now, because others have to take it first."""
NODES = "nodes"
"""Container: live backbone nodes by name, each with the addresses it listens at; this one included."""
LINKS = "links"
"""Container: what is known of distances: (lower name, higher name) to nanoseconds one way."""
DISTANCES = "distances"
"""Container: nanoseconds one way from this node to others, as its own probes measured them."""
ROUTES = "routes"
"""Container: from this node to each other of the tree, the neighbour on the way."""
CONTACTS = "contacts"
"""Container: nodes of the first tier that the host was told of or that greeted it, each with its addresses;
those of this node itself, if it is among them, are what it tells others."""
PEERS = "peers:"
"""Container, with the name of a channel behind it: peers that its template sends to, with their addresses."""
BANDWIDTH = "bandwidth"
"""Container: bytes per second that this node can send, as its host measured it without anybody's help."""
STORED = "stored"
"""Container: what earlier lives of this node kept on disk with ``store``, as it was when this life began."""
REGION = "region"
"""Container: the region that a node says it is in; None or empty is none."""
SUBSCRIBERS = "subscribers:"
"""Container, with the name of a channel behind it: numbers of the local subscriptions."""


class Dice(Protocol):
    """The part of ``random.Random`` that protocols use."""

    def random(self) -> float: ...
    def randrange(self, stop: int, /) -> int: ...
    def choice(self, seq: Sequence[Element], /) -> Element: ...
    def shuffle(self, seq: MutableSequence[Any], /) -> None: ...


class ChannelSpec(Protocol):
    """What a directory entry says about a channel."""

    @property
    def name(self) -> str: ...
    @property
    def template(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...


class Desk(Protocol):
    """The engine's side of a context."""

    def deliver(self, context: Context, parcel: Parcel, sender: str | None) -> None: ...
    def deliver_feedback(self, context: Context, parcel: Parcel) -> None: ...
    def open(self, spec: ChannelSpec) -> None: ...
    def put(self, name: str, value: object) -> None: ...


class Context:
    """One template instance's view of its node.

    node, role, incarnation
        Who this is.
    channel, id
        Name of the channel, and its number on the wire.
    now
        Nanoseconds on this node's clock; set before each handler runs.
    rng
        Dice seeded from the run's seed and the node.
    subscribers
        Local subscriptions and their criteria.
    """

    def __init__(
        self,
        *,
        node: str,
        channel: str,
        emit: Callable[[Effect], None],
        desk: Desk,
        rng: Dice,
        containers: Mapping[str, Any],
        role: Role = Role.PEER,
        incarnation: int = 1,
    ) -> None:
        self.node = node
        self.role = role
        self.incarnation = incarnation
        self.channel = channel
        self.id = channel_id(channel)
        self.now = 0
        self.rng = rng
        self.subscribers: dict[int, Criteria] = {}
        self._containers = containers
        self._emit = emit
        self._desk = desk

    # reading

    def container(self, name: str) -> Any:
        """A named value that the node or a service keeps current; None if there is none."""
        return self._containers.get(name)

    @property
    def server(self) -> str | None:
        """Name of the node that this one hangs below."""
        address: str | None = self.container(SERVER)
        return last(address) if address else None

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Who is next to this node: in the tree, above it and below it."""
        tree: Tree | None = self.container(TREE)
        near = set(tree.neighbours(self.node)) if tree else set()
        if self.server:
            near.add(self.server)
        near.update(self.container(BELOW) or ())
        return tuple(sorted(near))

    def toward(self, address: str) -> str | None:
        """The neighbour on the way to an address, or None if there is no way."""
        path = address.split("/")
        if self.node in path[:-1]:
            child = path[path.index(self.node) + 1]
            return child if child in (self.container(BELOW) or ()) else None
        if self.server:
            return self.server
        tree: Tree | None = self.container(TREE)
        hop = tree.next_hop(self.node, path[0]) if tree else None
        return hop or (path[0] if path[0] in (self.container(NODES) or ()) else None)

    # asking

    def send(self, to: str | Iterable[str], what: Item | Message) -> None:
        """Send a parcel or a control message to neighbours."""
        names = (to,) if isinstance(to, str) else tuple(to)
        if names:
            self._emit(Send(names, Control(self.id, what) if isinstance(what, Message) else what))

    def deliver(self, parcel: Parcel, sender: str | None = None, to: Collection[int] | None = None) -> None:
        """Give a parcel to the local subscribers whose criteria match, or only to some of them."""
        everybody = self.subscribers
        if to is not None:
            self.subscribers = {number: everybody[number] for number in to if number in everybody}
        self._desk.deliver(self, parcel, sender)
        self.subscribers = everybody

    @property
    def address(self) -> str:
        """The path from the backbone down to this node."""
        above: str | None = self.container(SERVER)
        return f"{above}/{self.node}" if above else self.node

    def stored(self, key: str) -> bytes | None:
        """What an earlier life kept under a key of this channel."""
        known: Mapping[str, bytes] = self.container(STORED) or {}
        return known.get(f"{self.channel}/{key}")

    def deliver_feedback(self, parcel: Parcel) -> None:
        """Give an answer that has reached its target to the application."""
        self._desk.deliver_feedback(self, parcel)

    def acknowledge(self, number: int) -> None:
        """Tell publishers here that their events up to a number are acknowledged."""
        self._emit(Acknowledged(self.id, number))

    def lose(self, first: int, last: int) -> None:
        """Tell publishers here that their events of these numbers were given up by the nodes responsible."""
        self._emit(Lost(self.id, first, last))

    def gap(self, source: str, to: tuple[int, ...] | None = None) -> None:
        """Tell local subscribers, or some of their subscriptions, that events of a source are missing."""
        if to is None or to:
            self._emit(Missed(self.id, source, to))

    def note(self, action: str, place: int, source: tuple[str, int], sequence: int, order: str = "") -> None:
        """Leave in the trace which place was given to a parcel, named by its source and sequence number.

        ``trace.ORDERED`` is for who decides a total order, ``trace.STORED`` for who keeps a log. Where a
        channel may have one order after another, ``order`` names the one that is meant.
        """
        self._emit(Note(self.id, action, place, source, sequence, order))

    def drop(self, item: Item, reason: str) -> None:
        """End an item here. Every drop is counted and traced."""
        self._emit(Drop(item, reason))

    def wake(self, name: str, after: float) -> None:
        """Call ``on_timer(ctx, name)`` in so many seconds; replaces an earlier wake of that name."""
        self._emit(Wake(self.id, name, self.now + nanoseconds(after)))

    def cancel(self, name: str) -> None:
        """Forget a wake."""
        self._emit(Wake(self.id, name, None))

    def reply(self, call: int, value: Any = None, error: Exception | None = None, more: bool = False) -> None:
        """Answer a call of the application; with ``more`` it is not the last answer."""
        self._emit(Reply(call, value, error, more))

    # storage: the host carries it out and reports to ``on_report``

    def store(self, key: str, value: bytes | None, ticket: int = 0) -> None:
        """Keep a small value on this node's disk under a key of this channel; None forgets it.

        ticket
            Greater than those before; a Stored report with it, or a later one, follows when it is on disk.
        """
        self._emit(Store(f"{self.channel}/{key}", value, self.id, ticket))

    def append(self, ticket: int, records: Iterable[bytes], at: int = -1) -> None:
        """Append to this channel's log; an Appended report with the ticket follows when it is on disk.

        at
            Where the log must end for that; negative: anywhere.
        """
        self._emit(Append(self.id, ticket, tuple(records), at))

    def read(self, ticket: int, position: int, limit: int) -> None:
        """Read up to so many records of this channel's log; a History report with the ticket follows."""
        self._emit(Read(self.id, ticket, position, limit))

    def trim(self, position: int) -> None:
        """Records of this channel's log before a position may go."""
        self._emit(Trim(self.id, position))

    def retain(self, seconds: float, size: int) -> None:
        """Trim segments of this channel's log by age in seconds and by size in bytes; 0 sets no limit."""
        self._emit(Retain(self.id, seconds, size))

    def repair(self, ticket: int, position: int = -1) -> None:
        """Set damaged records of this channel's log aside, or begin it anew; a History report follows."""
        self._emit(Repair(self.id, ticket, position))

    # for services

    def open(self, spec: ChannelSpec) -> None:
        """Run a channel on this node, unless it runs already."""
        self._desk.open(spec)

    def put(self, name: str, value: object) -> None:
        """Set a container; whoever watches it is told."""
        self._desk.put(name, value)
