"""What nodes of a group say to each other; ``group`` says when."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gossamer.core.control import Counter, Instant, Message
from gossamer.core.names import MAX_NODE_NAME

MAX_MEMBERS = 4096
"""Members of a group: as many as a backbone has nodes."""
LISTENS, PUBLISHES, LOST = 1, 2, 4
"""Marks of a member; LOST: it has no tree and needs one."""
ANY = LISTENS | PUBLISHES

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Mark = Annotated[int, Meta(ge=0, le=7)]


class Join(Message, frozen=True):
    """These want to be in the group; ``epoch`` is the newest I have seen.

    Merged at each hop, unless it is meant for one node: then ``target`` gets it as it is, from ``origin``.
    """

    number: Number
    epoch: Instant
    members: Annotated[tuple[tuple[Name, Mark], ...], Meta(max_length=MAX_MEMBERS)]
    target: Annotated[str, Meta(max_length=MAX_NODE_NAME)] = ""
    origin: Annotated[str, Meta(max_length=MAX_NODE_NAME)] = ""


class JoinHeard(Message, frozen=True):
    """I have taken over your request, or that of ``target``."""

    number: Number
    target: Annotated[str, Meta(max_length=MAX_NODE_NAME)] = ""


class Leave(Message, frozen=True):
    """This member wants out of the group."""

    member: Name
    number: Number


class LeaveHeard(Message, frozen=True):
    """This member is out."""

    member: Name
    number: Number


class TreeUpdate(Message, frozen=True):
    """The group's tree: nodes, each after its parent (an index); the root comes first, its own parent.

    While a new root is still listening for members, its tree is not ``complete``: a node acknowledges nothing
    for the members behind it, because some may be missing.
    """

    epoch: Instant
    counter: Counter
    nodes: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_MEMBERS)]
    parents: Annotated[tuple[Number, ...], Meta(min_length=1, max_length=MAX_MEMBERS)]
    marks: Annotated[tuple[Mark, ...], Meta(min_length=1, max_length=MAX_MEMBERS)]
    complete: bool = True


class TreeHeard(Message, frozen=True):
    """I have this tree, or a newer one."""

    epoch: Instant
    counter: Counter
