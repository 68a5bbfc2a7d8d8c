"""What a node that cannot store tells the nodes whose events wait for it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gossamer.core.control import Message
from gossamer.core.errors import DiskFull, StorageError
from gossamer.core.names import MAX_NODE_NAME

MAX_PATH, MAX_REASON = 4096, 1000


class Unstored(Message, frozen=True):
    """Events of the channel are not stored on a node; without a reason they are again.

    full
        Whether its disk has no room.
    """

    node: Annotated[str, Meta(max_length=MAX_NODE_NAME)]
    file: Annotated[str, Meta(max_length=MAX_PATH)] = ""
    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""
    full: bool = False


def words(unstored: Unstored) -> str:
    """What publishers wait for."""
    return f"the disk of {unstored.node!r}: {unstored.file}: {unstored.reason}"


def error_of(unstored: Unstored) -> StorageError:
    """What publishers are told."""
    kind = DiskFull if unstored.full else StorageError
    return kind(unstored.file, f"on node {unstored.node!r}: {unstored.reason}")


def message_of(node: str, failure: StorageError | None) -> Unstored | None:
    """The message for an error of a node's disk, if there is one."""
    if failure is None:
        return None
    full = isinstance(failure, DiskFull)
    reason = failure.what if isinstance(failure, DiskFull) else failure.reason
    return Unstored(node, failure.file[:MAX_PATH], reason[:MAX_REASON], full)
