"""Operations that an application asks of a template, beside publishing and subscribing.

A template lists those that it offers in ``operations`` and answers them in ``on_call``. They never travel:
both sides are on one node. A template of your own may offer its own: frozen structs such as these.
"""

from __future__ import annotations

import msgspec

from gossamer.core.event import Criteria

Position = tuple[int, int]
"""The offset of a parcel, and the index of an event in it."""
NOTHING: Position = (-1, -1)
"""The position before the first event."""


class Advertise(msgspec.Struct, frozen=True):
    """An application here is going to publish events that meet these criteria."""

    criteria: Criteria


class Withdraw(msgspec.Struct, frozen=True):
    """An application here no longer publishes such events."""

    criteria: Criteria


class KeepSession(msgspec.Struct, frozen=True):
    """Keep a subscription of this node under a name, also while it is away.

    The first answer says what is done, and how many parcels were not kept because there were too many. A
    later answer is an error if the session was taken over at another node.

    after
        The offset up to which the subscriber has everything already, if it remembers.
    known
        Whether this node has had a session of that name before.
    """

    subscription: int
    name: str
    after: int = 0
    known: bool = False


class SessionDone(msgspec.Struct, frozen=True):
    """The subscriber of a session has processed everything up to a position."""

    name: str
    done: tuple[int, int]


class ForgetSession(msgspec.Struct, frozen=True):
    """The session of this name will not be resumed."""

    name: str


class ReadHistory(msgspec.Struct, frozen=True):
    """Send a subscription the history, from an offset or an instant on.

    Each answer tells how far it has come; more follows when the application asks for it.
    """

    subscription: int
    first: int = 0
    since: float = 0.0


class MoreHistory(msgspec.Struct, frozen=True):
    """The subscriber has room for more of the history that it reads."""

    subscription: int
