"""What peers of one group say to each other."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.control import Life, Message
from gossamer.core.names import MAX_NODE_NAME
from gossamer.core.receipt import Number
from gossamer.templates.multiring.circle import CIRCLE, Key

MAX_ADDRESSES = 4
MAX_RINGS = 32
"""Rings within rings: enough for four to the power of so many peers."""
MAX_Q = 64
"""The greatest ratio between a ring and the next inner one."""
REACH = 3
"""How many peers are known on each side: the neighbour, the one behind it (the backup link), and one more."""
MAX_PEOPLE = 64
MAX_IDS = 256

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME)]
Version = Annotated[int, Meta(ge=0, le=2**31)]
Level = Annotated[int, Meta(ge=0, le=MAX_RINGS)]


class Person(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A peer as others know it.

    life, version
        Its incarnation, and how often place or rings have changed in it: the higher is true.
    place
        On the circle.
    rings
        How many rings it is in: 0 is outside, 1 the outermost only.
    addresses
        Where it listens; empty where peers need none to talk.
    """

    name: Name
    life: Life
    version: Version
    place: Annotated[int, Meta(ge=0, lt=CIRCLE)]
    rings: Level = 0
    addresses: Annotated[
        tuple[Annotated[str, Meta(max_length=200)], ...], Meta(max_length=MAX_ADDRESSES)
    ] = ()

    @property
    def key(self) -> Key:
        return (self.place, self.name)

    @property
    def news(self) -> tuple[int, int]:
        """Grows with everything that changes."""
        return (self.life, self.version)


Chain = Annotated[tuple[Person, ...], Meta(max_length=REACH)]
"""Peers on one side, the nearest first."""
People = Annotated[tuple[Person, ...], Meta(max_length=MAX_PEOPLE)]

# finding the group


class Seek(Message, frozen=True):
    """Who is in the group? Passed on by peers that are not, so many times at most."""

    origin: Person
    token: Number
    passes: Annotated[int, Meta(ge=0, le=8)]


class Found(Message, frozen=True):
    """These are."""

    people: People


class Ping(Message, frozen=True):
    """How far away are you? The token comes back."""

    token: Number


class Pong(Message, frozen=True):
    """This far; and this is who I am and whom I have links to. Not in the group if ``person.rings`` is 0."""

    token: Number
    person: Person
    left: Chain
    right: Chain
    others: People


class Meet(Message, frozen=True):
    """Somebody who belongs into this group: pass it on to where its place is."""

    person: Person
    passes: Annotated[int, Meta(ge=0, le=256)]


# a ring


REGULAR, GREETING, ANSWER = 0, 1, 2


class Beat(Message, frozen=True):
    """I live, I am in this ring, and these stand next to me.

    kind
        REGULAR is for neighbours, GREETING wants an answer, ANSWER wants none.
    """

    level: Level
    person: Person
    left: Chain
    right: Chain
    kind: Annotated[int, Meta(ge=0, le=2)] = REGULAR


class Prepare(Message, frozen=True):
    """I am about to come in here: have a link ready, and do not use it yet."""

    level: Level
    person: Person


class Ready(Message, frozen=True):
    """It is ready; these stand next to me at the moment."""

    level: Level
    person: Person
    left: Chain
    right: Chain


class Activate(Message, frozen=True):
    """All links are ready: use them.

    waited
        Nanoseconds since this peer began to listen: it wants what came since then, and nothing older.
    """

    level: Level
    person: Person
    waited: Number


class Close(Message, frozen=True):
    """I leave this ring and all within it; these stood next to me in it. I serve until you acknowledge it."""

    level: Level
    left: Chain
    right: Chain


class CloseAck(Message, frozen=True):
    """My links do without you now."""

    level: Level


class Find(Message, frozen=True):
    """Who is the next on this side that is in an inner ring? Passed on along the ring around it."""

    level: Level
    rightward: bool
    origin: Person
    passes: Annotated[int, Meta(ge=0, le=2**20)]


# parcels

Id = tuple[Name, Life, Number]
"""A parcel by node, incarnation and sequence number."""
Ids = Annotated[tuple[Id, ...], Meta(max_length=MAX_IDS)]


class Announce(Message, frozen=True, gc=False):
    """I have these parcels; ask if you want them."""

    ids: Ids


class Request(Message, frozen=True, gc=False):
    """I want these. (What is not requested is rejected: the announcement was all that it cost.)"""

    ids: Ids


class SetMode(Message, frozen=True, gc=False):
    """Send me parcels at once from now on, or announce them first."""

    primary: bool


# inner rings

Bandwidth = Annotated[float, Meta(ge=0, le=1e15)]


class Figure(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a peer says about itself when it is asked in a ring.

    bandwidth
        Bytes per second that it can send.
    span
        Peers of the ring around this one from its left neighbour in this ring to its right one; 0 if unknown.
    weakest
        The least bandwidth among its near neighbours in the next inner ring, itself included.
    """

    person: Person
    bandwidth: Bandwidth
    span: Number
    weakest: Bandwidth


Figures = Annotated[tuple[Figure, ...], Meta(max_length=2 * MAX_Q)]


class Query(Message, frozen=True):
    """Say your figures and pass it on to this side; the last sends them all back."""

    level: Level
    rightward: bool
    origin: Person
    limit: Annotated[int, Meta(ge=1, le=2 * MAX_Q)]
    figures: Figures


class Response(Message, frozen=True):
    """The figures of the peers on one side, the nearest first; ``round`` if the ring ended at the origin."""

    level: Level
    rightward: bool
    figures: Figures
    round: bool


# balance


class Swap(Message, frozen=True):
    """Let us change places; I stand on your other side then."""

    rightward: bool
    person: Person


class SwapAck(Message, frozen=True):
    """Yes; these stand behind me. Nobody means no."""

    person: Person
    beyond: Chain
