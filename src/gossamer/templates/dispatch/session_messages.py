"""What is handed over in order beside parcels: about subscriptions that are kept while nobody is there, and
that move. And what applications tell their node about them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gossamer.core.control import Instant, Life, Message
from gossamer.core.names import MAX_NODE_NAME
from gossamer.core.parcel import MAX_EVENTS
from gossamer.filters.identity import MAX_IDENTITY

MAX_NAME = 200
"""Characters of the name of a kept subscription."""
MAX_MARKS = 10_000
"""Sources of which a kept subscription remembers what it had."""
MAX_HOSTED = 1000
"""Names in one message."""

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Node = Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Identity = Annotated[bytes, Meta(max_length=MAX_IDENTITY)]
FARTHEST = 2**61
"""The greatest place behind which a subscriber may ask to go on."""
Place = Annotated[int, Meta(ge=0, le=2**62)]
"""A place in a box: half of all numbers. A box begins in the lower half of these, so that it can go on."""
Position = tuple[Annotated[int, Meta(ge=-1, le=2**62)], Annotated[int, Meta(ge=-1, le=MAX_EVENTS)]]
"""A place, and the index of the last event there that is done."""
Marks = Annotated[tuple[tuple[Node, Life, Number], ...], Meta(max_length=MAX_MARKS)]
"""Per source and life of it the last parcel that was kept."""


class Attach(Message, frozen=True):
    """A client to its server: I want what you keep, or will keep, under a name; I have it up to a place.

    known
        Whether a dispatcher kept it for this subscriber before: if none has it any more, there is a gap.
    """

    name: Name
    serial: Number
    identity: Identity
    after: Annotated[int, Meta(ge=0, le=FARTHEST)]
    known: bool = False


class Detach(Message, frozen=True):
    """A client to its server: I am gone; keep what comes, or forget it all."""

    name: Name
    serial: Number
    forget: bool = False


class Resume(Message, frozen=True):
    """A server to its client: it is here; this is done, so many parcels were not kept, the others follow."""

    serial: Number
    done: Position
    lost: Number


class Taken(Message, frozen=True):
    """A server to its client: it has been taken over elsewhere."""

    serial: Number


class Done(Message, frozen=True):
    """A client to its server: this is done, and need not be kept."""

    name: Name
    done: Position


class Claim(Message, frozen=True):
    """A dispatcher looks for a kept subscription: up the hierarchy, and from the root down to where it is.

    since
        Nanoseconds: when somebody came there to take it. Of two that look for the same the later one gets it.
    kept
        Whether a dispatcher on the way knows that it was kept: if none has it any more, there is a gap.
    """

    name: Name
    node: Node
    serial: Number
    since: Instant
    kept: bool = False


class Outrun(Message, frozen=True):
    """To who claimed: somebody has come elsewhere since, so that it is not yours."""

    node: Node
    serial: Number


class Settled(Message, frozen=True):
    """Up the hierarchy: this is kept on my side, since when, and a claim has been answered."""

    name: Name
    serial: Number
    since: Instant = 0


class More(Message, frozen=True):
    """To who hands parcels over: I have them up to a place."""

    node: Node
    serial: Number
    upto: Place


class Filled(Message, frozen=True):
    """To who claimed: that was all; what comes next is yours to number.

    next, count
        The place that comes next, 0 if nobody keeps anything under that name; and how many parcels there are.
    lost
        How many parcels were not kept, at least.
    """

    node: Node
    serial: Number
    next: Place = 0
    count: Number = 0
    done: Position = (-1, -1)
    lost: Number = 0
    marks: Marks = ()


Hosted = tuple[Name, Instant]
"""A name, and the instant when its subscriber came there."""


class Hosts(Message, frozen=True):
    """Up the hierarchy: these are kept on my side, and whether that, with what was said before, is all."""

    names: Annotated[tuple[Hosted, ...], Meta(max_length=MAX_HOSTED)]
    everything: bool = False


class Remembered(Message, frozen=True):
    """Up the hierarchy, or down from the root: these were kept, and when their subscribers came.

    If no dispatcher has one of them any more, there is a gap.
    """

    names: Annotated[tuple[Hosted, ...], Meta(max_length=MAX_HOSTED)]


class Forgotten(Message, frozen=True):
    """Up the hierarchy, or down from the root: its subscriber does not want this to be kept any more."""

    name: Name


class Merge(Message, frozen=True):
    """Down the hierarchy: an older copy of this subscription was found; claim what it has."""

    name: Name


class Ask(Message, frozen=True):
    """Down the hierarchy: what is kept on your side?"""


What = (
    Attach
    | Detach
    | Resume
    | Taken
    | Done
    | Claim
    | Outrun
    | Settled
    | More
    | Filled
    | Hosts
    | Remembered
    | Forgotten
    | Merge
    | Ask
)


class Passed(Message, frozen=True):
    """One of these, by its number in a relay."""

    relay: Number
    number: Number
    what: What
