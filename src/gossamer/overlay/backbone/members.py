"""The roster: who is known on the first tier, when each was last known to live, and what each published.

Hello and linkstate of one node share one roster: the one finds out by probing, the other by listening. All
times are on this node's clock; what others say arrives as an age and becomes a time here, so that no two
clocks need to agree.

A node is live while the newest sign of life is newer than the newest report of its silence, and not older
than the node's own interval of publication × EXPIRY. An old rumour therefore never undoes newer news.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from gossamer.core.context import CONTACTS, NODES, Context
from gossamer.core.names import NANOSECONDS, Role
from gossamer.overlay.backbone.tree_codec import MAX_NODES, decode_distances, decode_plan

EXPIRY = 4
"""Intervals of publication without a sign of life after which a node counts as gone."""

HASTE = NANOSECONDS // 4
"""Between two changes of the published nodes, at least: when all meet at once each would be one."""
KNOWN = 2 * MAX_NODES
"""Names that are remembered, dead or alive: a neighbour may invent any number of them."""
NEVER = -(2**62)
"""An instant before all others."""

Addresses = tuple[str, ...]


class Published(Protocol):
    """What the roster reads of a published state."""

    @property
    def plan(self) -> bytes: ...
    @property
    def near(self) -> bytes: ...


class Roster:
    """One node's knowledge of the first tier.

    live
        Names of nodes that live, this one included.
    distances
        Nanoseconds one way by own probes, of those that answer; hello's.
    states
        What each node last published; linkstate's.
    nearest
        Those live nodes that are nearest by own probes; hello's.
    version
        Grows with every change of ``live`` or of addresses.
    born, died
        Whose coming and going this node saw itself, not heard of; linkstate takes note and clears them.
    """

    def __init__(self) -> None:
        self.live: set[str] = set()
        self.distances: dict[str, int] = {}
        self.states: dict[str, Published] = {}
        self.nearest: frozenset[str] = frozenset()
        self.version = 0
        self.born: set[str] = set()
        self.died: set[str] = set()
        self._heard: dict[str, int] = {}
        self._silent: dict[str, int] = {}
        self._addresses: dict[str, Addresses] = {}
        self._told = -1
        self._told_at = NEVER

    @staticmethod
    def serves(ctx: Context) -> bool:
        """Whether a node belongs to the first tier; on others the services rest."""
        return ctx.role in (Role.BACKBONE, Role.PEER)

    # reading

    def known(self, ctx: Context) -> list[str]:
        """All that there is to probe, the dead and the merely told included, in order; this node aside."""
        names = {*self._heard, *(ctx.container(CONTACTS) or ())}
        names.discard(ctx.node)
        return sorted(names)

    def heard(self, name: str) -> int:
        """When a node was last known to live; NEVER if not once."""
        return self._heard.get(name, NEVER)

    def silences(self, since: int) -> list[tuple[str, int]]:
        """The dead whose silence was noticed since an instant, the latest first."""
        found = [(name, at) for name, at in self._silent.items() if at >= since and name not in self.live]
        return sorted(found, key=lambda each: (-each[1], each[0]))

    def addresses(self, ctx: Context, name: str) -> Addresses:
        """Where a node listens, as far as known."""
        known = self._addresses.get(name)
        return tuple(known or (ctx.container(CONTACTS) or {}).get(name) or ())

    def measured(self, name: str) -> Mapping[str, int]:
        """Distances that another node has published."""
        state = self.states.get(name)
        return {} if state is None else decode_distances(decode_plan(state.plan).names, state.near)

    # signs

    def hear(self, name: str, at: int, addresses: Addresses = (), direct: bool = False) -> None:
        """A node was alive at an instant."""
        if name not in self._heard and not self._room():
            return
        if at > self._heard.get(name, NEVER):
            self._heard[name] = at
        if addresses and addresses != self._addresses.get(name):
            self._addresses[name] = addresses
            self.version += 1
        if name not in self.live and self._heard[name] > self._silent.get(name, NEVER):
            if len(self.live) >= MAX_NODES:
                return
            self.live.add(name)
            self.version += 1
            self.died.discard(name)
            if direct:
                self.born.add(name)

    def silence(self, name: str, at: int, direct: bool = False) -> None:
        """A node did not answer at an instant, says this node or another that has tried often enough."""
        if name not in self._silent and len(self._silent) >= KNOWN:
            return
        if at > self._silent.get(name, NEVER):
            self._silent[name] = at
        if name in self.live and self._silent[name] >= self._heard.get(name, NEVER):
            self._remove(name)
            if direct:
                self.died.add(name)

    def expire(self, now: int, limits: Mapping[str, int], limit: int, forget: int) -> None:
        """Let go of nodes without a sign of life for too long, and forget the long dead.

        limits, limit
            Nanoseconds, by name and at least: whoever has published at a lively pace may have slowed down.
        forget
            Nanoseconds after which a dead node is no longer remembered.
        """
        for name in sorted(self.live):
            heard = self._heard.get(name)
            if heard is not None and now - heard > max(limit, limits.get(name, 0)):
                self._silent[name] = heard
                self._remove(name)
        for name in [name for name, heard in self._heard.items() if now - heard > forget]:
            if name not in self.live:
                for table in (self._heard, self._silent, self._addresses, self.states):
                    table.pop(name, None)

        self._silent = {
            name: at for name, at in self._silent.items() if name in self._heard or now - at <= forget
        }

    def _room(self) -> bool:
        """Whether another name may be remembered; dead nodes make room, the longest dead first."""
        if len(self._heard) >= KNOWN:
            gone = sorted((heard, name) for name, heard in self._heard.items() if name not in self.live)
            for _, name in gone[: max(1, len(gone) // 2)]:
                for table in (self._heard, self._silent, self._addresses, self.states):
                    table.pop(name, None)
        return len(self._heard) < KNOWN

    def _remove(self, name: str) -> None:
        self.live.discard(name)
        self.born.discard(name)
        self.version += 1

    def begin(self, ctx: Context) -> None:
        """This node lives."""
        if ctx.node not in self.live:
            self.live.add(ctx.node)
            self.version += 1

    def tell(self, ctx: Context) -> None:
        """Publish who lives, if that has changed and not just been published; hello calls this steadily."""
        if self._told != self.version and ctx.now - self._told_at >= HASTE:
            self._told = self.version
            self._told_at = ctx.now
            ctx.put(NODES, {name: self.addresses(ctx, name) for name in sorted(self.live)})


def pairs(name: str, distances: Mapping[str, int]) -> Iterable[tuple[tuple[str, str], int]]:
    """Distances of one node as links."""
    for other, distance in distances.items():
        yield ((name, other) if name < other else (other, name)), distance
