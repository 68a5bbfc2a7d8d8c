"""The trace: one table of what happened to every parcel and control message, the same from both hosts.

A row is about one parcel or message at one node. Numbers are signed 64-bit integers and times whole
nanoseconds, which every reader of Parquet understands.
"""

from __future__ import annotations

from collections.abc import Callable

COLUMNS: tuple[tuple[str, str], ...] = (
    ("position", "int64"),  # running number of the row on this node and incarnation, without gaps
    ("at", "int64"),  # nanoseconds: wall clock, or virtual time since the beginning of the world
    ("node", "text"),  # where it happened
    ("incarnation", "int64"),  # which life of that node
    ("kind", "text"),  # parcel, feedback, control, member, channel
    ("action", "text"),  # see below
    ("channel", "text"),  # name, or # and the id in hex if the node does not know the channel
    ("source", "text"),  # node that published the parcel; empty for control
    ("source_incarnation", "int64"),
    ("sequence", "int64"),  # of the parcel; 0 for feedback and control
    ("first", "int64"),  # number of the first event meant by this row
    ("count", "int64"),  # how many events from there on
    ("peer", "text"),  # sent: to whom, received: from whom, delivered: to which subscription
    ("bytes", "int64"),  # of the whole frame
    ("detail", "text"),  # kind of control message, reason of a drop, criteria of a subscriber, …
    ("value", "int64"),  # see below
)
"""Name and type of each column, in order.

``value`` is, for an action on a parcel, the instant after which nobody wants it, on the clock of its source,
or 0; for one on feedback the number of the event that it answers; for what a template notes, its place; and
for a channel that is opened, the recovery bound of its template.
"""

PARCEL, FEEDBACK, CONTROL, MEMBER, CHANNEL = "parcel", "feedback", "control", "member", "channel"
PUBLISHED, SENT, RECEIVED, DELIVERED, DROPPED = "published", "sent", "received", "delivered", "dropped"
SUBSCRIBED, UNSUBSCRIBED, UP, DOWN = "subscribed", "unsubscribed", "up", "down"
MISSED = "missed"
"""Member: subscribers here were told that events of ``source`` are missing."""
ACKNOWLEDGED = "acknowledged"
"""Member: publishers here were told that their events up to number ``first`` are acknowledged."""
LOST = "lost"
"""Member: publishers here were told that ``count`` events from number ``first`` on are lost."""
OPENED = "opened"
"""Channel: it runs here from now on; ``detail`` is its template and then its promises, in words. ``value`` is
the recovery bound of the template: nanoseconds after the last fault until it makes progress again, or 0."""
ORDERED = "ordered"
"""Noted by who decides it: the parcel has this place in the one order of its channel.
Where there may be several orders, one after another, ``detail`` names it."""
STORED = "stored"
"""Noted by who keeps a log: the parcel is on disk there, at this place of the log of its channel."""
WALL_CLOCK = 10**17
"""Times from here on, three years of nanoseconds, are of a wall clock: the run was on a real network."""

EXPIRED = "expired"
"""Why a parcel ends that nobody wants any more, in the column ``detail``."""
KEPT_FOR_SESSION = "kept until its subscriber is back"
"""Why a hop ends a parcel that it keeps for a session: it is not lost."""

Row = tuple[int, int, str, int, str, str, str, str, int, int, int, int, str, int, str, int]
"""One row, in the order of COLUMNS."""

Recorder = Callable[[Row], None]
"""Whoever keeps rows: a writer, a hash, a list in a test."""
