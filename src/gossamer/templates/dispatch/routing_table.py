"""The filters that a dispatcher knows, on which sides they are, and what its neighbours are told of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from gossamer.core.context import BELOW, Context
from gossamer.core.event import Criteria
from gossamer.filters.identity import identity
from gossamer.filters.index import Index
from gossamer.filters.relations import compatible
from gossamer.templates.dispatch.covering import Shade
from gossamer.templates.dispatch.messages import Tell, Told
from gossamer.templates.dispatch.session import Box
from gossamer.templates.dispatch.table_sync import Key, Table, Telling

OWN = ""
"""Holder of the filters of applications on this node."""
EVERYTHING = Criteria()


class Held(msgspec.Struct):
    """A filter, and on which sides somebody has it: neighbours, or this node's own applications."""

    criteria: Criteria
    holders: dict[str, None]


class FilterTable:
    """Subscriptions and advertisements of a dispatcher and its neighbours.

    advertises
        Whether subscriptions go to those who advertise something compatible, or to all above.
    above, near
        The dispatcher above this one, of which the root has none, and all that are next to it.
    """

    def __init__(self, advertises: bool, retry: float) -> None:
        self.advertises = advertises
        self.above: str | None = None
        self.near: tuple[str, ...] = ()
        self.telling = Telling()
        self.index: Index[str | int | Box] = Index()
        """Where events go: neighbours, subscriptions here, and boxes."""
        self._retry = retry
        self._held: dict[Key, Held] = {}
        self._shades: dict[tuple[str, bool], Shade] = {}
        self._changed: dict[Key, None] = {}
        self._afresh: dict[str, None] = {}
        """Neighbours for whom everything has to be looked at again."""
        self._uses: Counter[Key] = Counter()
        """How many subscriptions or advertisements of applications here have the same filter."""
        self._sides: Counter[str] = Counter()
        """How many subscriptions each side has."""

    @property
    def advertised(self) -> list[Criteria]:
        """What applications here have advertised."""
        return [each.criteria for key, each in self._held.items() if key[0] and OWN in each.holders]

    # what applications here want and offer

    def subscribe(self, criteria: Criteria, holder: int | Box) -> None:
        """A subscription here, or one that is kept here."""
        self.index.add(criteria, holder)
        self._use((False, identity(criteria)), criteria)

    def unsubscribe(self, criteria: Criteria, holder: int | Box) -> None:
        self.index.remove(criteria, holder)
        self._disuse((False, identity(criteria)))

    def advertise(self, criteria: Criteria) -> None:
        self._use((True, identity(criteria)), criteria)

    def withdraw(self, criteria: Criteria) -> None:
        self._disuse((True, identity(criteria)))

    def _use(self, key: Key, criteria: Criteria) -> None:
        self._uses[key] += 1
        self._hold(key, criteria, OWN)

    def _disuse(self, key: Key) -> None:
        if self._uses[key] > 0:
            self._uses[key] -= 1
        if not self._uses[key]:
            del self._uses[key]
            self._release(key, OWN)

    # what neighbours tell

    def hear(self, ctx: Context, tell: Tell, sender: str) -> None:
        """A neighbour tells what is on its side."""
        if sender not in self.near:
            return  # one of us has another tree: it will be said again until both have the same
        added, dropped = self.telling.hear(ctx, tell, sender)
        for key, criteria in added.items():
            self._hold(key, criteria, sender)
        for key in dropped:
            self._release(key, sender)

    def told(self, ctx: Context, told: Told, sender: str) -> None:
        self.telling.told(ctx, told, sender)

    def _hold(self, key: Key, criteria: Criteria, holder: str) -> None:
        held = self._held.setdefault(key, Held(criteria, {}))
        self._sides += Counter({holder: int(not key[0] and holder not in held.holders)})
        held.holders[holder] = None
        self._note(key, holder)
        if holder and not key[0]:
            self.index.add(criteria, holder)

    def _release(self, key: Key, holder: str) -> None:
        held = self._held.get(key)
        if held is None or holder not in held.holders:
            return
        del held.holders[holder]
        self._sides -= Counter({holder: int(not key[0])})
        if not held.holders:
            del self._held[key]
        self._note(key, holder)
        if holder and not key[0]:
            self.index.remove(held.criteria, holder)

    def _note(self, key: Key, holder: str) -> None:
        """What neighbours are told of a filter may change, and to whom it advertises, all that it calls."""
        self._changed[key] = None
        if key[0] and holder:
            self._afresh[holder] = None

    # who the neighbours are

    def place(self, above: str | None, near: tuple[str, ...]) -> Iterable[str]:
        """Neighbours have changed; those that are none any more."""
        gone = [node for node in self.near if node not in near]
        for node in gone:
            self._forget(node)
        if above != self.above:
            self._afresh |= dict.fromkeys(each for each in (above, self.above) if each)
        self._afresh |= dict.fromkeys(node for node in near if node not in self.near)
        self.above, self.near = above, near
        return gone

    def _forget(self, node: str) -> None:
        for key in self.telling.forget(node):
            self._release(key, node)
        for advertised in (False, True):
            self._shades.pop((node, advertised), None)
        self._afresh.pop(node, None)

    # what neighbours are told

    def settle(self, ctx: Context, again: bool = False) -> None:
        """Tell every neighbour what it does not know yet."""
        changed, self._changed = self._changed, {}
        afresh, self._afresh = self._afresh, {}
        waiting = False
        silent = {node for node in ctx.container(BELOW) or () if node not in self.telling.said}
        for node in self.near:
            if node in afresh:
                for advertised in (False, True):
                    self._shades[node, advertised] = Shade()
            for key in self._held if node in afresh else changed:
                self._shadow(node, key)
            if changed or node in afresh:
                self.telling.behind(node)
            if node not in silent:  # most nodes below never use a channel, and then they never hear of it
                waiting |= self.telling.tell(ctx, node, self._for, again)
        if waiting:
            ctx.wake("tell", self._retry)

    def _shadow(self, node: str, key: Key) -> None:
        shade = self._shades[node, key[0]]
        if self._due(node, key):
            shade.add(key[1], self._held[key].criteria)
        else:
            shade.remove(key[1])

    def _due(self, node: str, key: Key) -> bool:
        """Whether a neighbour has to know a filter, unless it knows one that covers it."""
        held = self._held.get(key)
        if held is None or not any(holder != node for holder in held.holders):
            return False
        if node == self.above:
            return self.advertises or not key[0]
        said = self.telling.said.get(node)
        if key[0] or not self.advertises or said is None:
            return False
        return any(
            advertised and compatible(held.criteria, offered)
            for (advertised, _), offered in said.table.items()
        )

    def _for(self, node: str) -> Table:
        if node != self.above and not self.advertises:  # it asks only whether anybody else listens
            elsewhere = any(side != node for side in self._sides)
            return {(False, identity(EVERYTHING)): EVERYTHING} if elsewhere else {}
        shown = ((advertised, self._shades[node, advertised].shown) for advertised in (False, True))
        return {(advertised, key): each for advertised, own in shown for key, each in own.items()}
