"""A plan of indexes, made from clusters of threads that the same listeners want."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gossamer.announce.identity import Thread
from gossamer.core.errors import ConfigError

REST = "rest"
"""The index of threads that nobody reported to want."""


class Plan(msgspec.Struct, frozen=True):
    """Indexes by name, each after those that it lists.

    threads
        What an index lists of threads.
    indexes
        What it lists of other indexes.
    """

    threads: dict[str, tuple[Thread, ...]]
    indexes: dict[str, tuple[str, ...]]


def planned(levels: Sequence[Mapping[str, str]], everything: Iterable[Thread]) -> Plan:
    """From levels of members and their indexes, threads in hexadecimal on the first; all get a place."""
    if not levels:
        raise ConfigError("no level of indexes: nobody has reported any interest yet", key="levels")
    known = {thread.hex(): thread for thread in everything}
    threads: dict[str, list[Thread]] = {name: [] for name in sorted(set(levels[0].values()))}
    for member, name in levels[0].items():
        if member in known:
            threads[name].append(known[member])
    rest = [thread for member, thread in known.items() if member not in levels[0]]
    if rest:
        threads[REST] = rest
    indexes: dict[str, list[str]] = {}
    for level in levels[1:]:
        for member, name in sorted(level.items()):
            indexes.setdefault(name, []).append(member)
    return Plan(
        {name: tuple(sorted(found)) for name, found in threads.items()},
        {name: tuple(found) for name, found in indexes.items()},
    )
