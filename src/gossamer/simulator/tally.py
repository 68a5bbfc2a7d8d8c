"""What a run costs and saves: transmissions by channel, what templates counted, hops saved by expiry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from gossamer.core.parcel import Parcel

if TYPE_CHECKING:
    from gossamer.core.engine import Engine
    from gossamer.simulator.host import Host


class Traffic(msgspec.Struct):
    """Transmissions of one channel, or of a service, from node to node; feedback counts as data."""

    control_messages: int = 0
    control_bytes: int = 0
    data_messages: int = 0
    data_bytes: int = 0


class Expired(msgspec.Struct):
    """Parcels whose time had passed when they reached a node.

    dropped
        How many ended on the way because of that.
    hops_saved
        Copies that were never sent: edges of the trees behind those nodes, as the trees were at that instant.
    """

    dropped: int = 0
    hops_saved: int = 0


class Tally:
    """Counts what a world does.

    expired
        By the number of the channel.
    """

    def __init__(self) -> None:
        self._sent: dict[tuple[int, str], list[int]] = {}
        """How many items and bytes, by channel and kind of item: parcel, feedback, control."""
        self.expired: dict[int, Expired] = {}
        self._figures: dict[str, Counter[str]] = {}

    def sent(self, channel: int, kind: str, size: int) -> None:
        """One transmission."""
        counted = self._sent.get((channel, kind))
        if counted is None:
            counted = self._sent[channel, kind] = [0, 0]
        counted[0] += 1
        counted[1] += size

    @property
    def messages(self) -> Counter[str]:
        """Transmissions by kind of item."""
        return self._by_kind(0)

    @property
    def bytes(self) -> Counter[str]:
        """Bytes transmitted by kind of item."""
        return self._by_kind(1)

    def _by_kind(self, which: int) -> Counter[str]:
        total: Counter[str] = Counter()
        for (_, kind), counted in self._sent.items():
            total[kind] += counted[which]
        return total

    @property
    def channels(self) -> dict[int, Traffic]:
        """Transmissions by the number of the channel."""
        found: dict[int, Traffic] = {}
        for (channel, kind), (messages, size) in self._sent.items():
            traffic = found.setdefault(channel, Traffic())
            if kind == "control":
                traffic.control_messages += messages
                traffic.control_bytes += size
            else:
                traffic.data_messages += messages
                traffic.data_bytes += size
        return found

    def spared(self, hosts: Mapping[str, Host], at: Host, sender: str, channel: str, parcel: Parcel) -> None:
        """A parcel from a neighbour expired at a node: walk the ways that it would have gone."""
        expired = self.expired.setdefault(parcel.header.channel, Expired())
        expired.dropped += 1
        seen = {at.name, sender}
        todo = [(at, sender)]
        while todo:
            host, before = todo.pop()
            engine = host.engine
            if engine is None:
                continue
            instance = engine.instance(channel)
            for name in instance.template.onward(instance.context, parcel, before):
                if name not in seen:
                    seen.add(name)
                    expired.hops_saved += 1
                    todo.append((hosts[name], host.name))

    # what templates counted

    def close(self, engine: Engine) -> None:
        """A life has ended: what its templates counted is added up."""
        _add(self._figures, engine)

    def figures(self, engines: Iterable[Engine]) -> dict[str, dict[str, int]]:
        """By channel and name, over all lives so far."""
        total = {channel: counted.copy() for channel, counted in self._figures.items()}
        for engine in engines:
            _add(total, engine)
        return {channel: dict(sorted(counted.items())) for channel, counted in sorted(total.items())}


def _add(total: dict[str, Counter[str]], engine: Engine) -> None:
    """Add what the templates of one engine counted."""
    for channel in engine.channels:
        counted = engine.instance(channel).template.figures()
        if counted:
            total.setdefault(channel, Counter()).update(counted)
