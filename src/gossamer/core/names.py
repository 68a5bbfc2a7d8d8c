"""Names and addresses.

A node has a short name; its address is the path of nodes from the backbone down to it, joined by
``/`` (``b1/s2/phone``), so that backbone nodes route to clients without ever listing them.
A channel's id is a hash of its name: the same everywhere, agreed with nobody, and a forwarder never
has to rewrite it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b

from gossamer.core.errors import BadName

VIRTUAL = "!"
"""Begins the name of a source that is no node: ``b1/!b1`` is the order that sequencer b1 announces."""
MAX_NODE_NAME = 64
MAX_CHANNEL_NAME = 200
MAX_ADDRESS = 3 * MAX_NODE_NAME + 2
SERVICE_PREFIX = "gossamer."

MILLISECOND = 1_000_000
"""Nanoseconds."""
NANOSECONDS = 1_000_000_000

NODE_PATTERN = rf"[A-Za-z0-9_.-]{{1,{MAX_NODE_NAME}}}"
_NODE = re.compile(NODE_PATTERN)
_CHANNEL = re.compile(rf"[^\s\x00-\x1f\x7f\ud800-\udfff]{{1,{MAX_CHANNEL_NAME}}}")


class Role(StrEnum):
    """Where a node stands; a peer needs no backbone."""

    BACKBONE = "backbone"
    SECONDARY = "secondary"
    CLIENT = "client"
    PEER = "peer"


def check_node(name: str) -> str:
    """The name, if it is a valid node name."""
    if not _NODE.fullmatch(name):
        raise BadName("node", name, f"1 to {MAX_NODE_NAME} letters, digits, '_', '.' or '-'")
    return name


def check_channel(name: str) -> str:
    """The name, if an application may use it for a channel."""
    if not _CHANNEL.fullmatch(name):
        raise BadName(
            "channel",
            name,
            f"1 to {MAX_CHANNEL_NAME} characters, none of them blank or invisible",
        )
    if name.startswith(SERVICE_PREFIX):
        raise BadName("channel", name, f"names that begin with {SERVICE_PREFIX!r} belong to node services")
    return name


@lru_cache(maxsize=65536)
def channel_id(name: str) -> int:
    """63 bits of hash, so that it fits a signed column."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> 1


def last(address: str) -> str:
    """The node that an address ends at."""
    return address.rpartition("/")[2]


def nanoseconds(seconds: float) -> int:
    """Settings speak in seconds, protocols in whole nanoseconds."""
    return round(seconds * NANOSECONDS)
