"""The rendezvous node of a channel: where its members meet, found by everybody without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from heapq import nlargest


def rendezvous(channel: int, nodes: Iterable[str]) -> str | None:
    """The best match of a channel among nodes; when a node goes, only its own channels move."""
    return max(nodes, key=lambda node: (_score(channel, node), node), default=None)


def ranking(channel: int, nodes: Iterable[str], count: int) -> list[str]:
    """The best matches of a channel among nodes, the rendezvous node first."""
    return nlargest(count, nodes, key=lambda node: (_score(channel, node), node))


@lru_cache(maxsize=65536)
def _score(channel: int, node: str) -> bytes:
    return blake2b(b"%d/%s" % (channel, node.encode()), digest_size=8).digest()
