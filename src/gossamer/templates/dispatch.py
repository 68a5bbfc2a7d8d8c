"""Dispatch: dispatchers in a hierarchy route events by their attributes (seed 002, section 2)."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gossamer.core.context import BELOW, NODES, SERVER, TREE, Context
from gossamer.core.control import on
from gossamer.core.errors import NotAdvertised, ProtocolError
from gossamer.core.event import Attributes, Criteria
from gossamer.core.names import MAX_NODE_NAME
from gossamer.core.parcel import Parcel
from gossamer.core.seen import Seen
from gossamer.core.template import AT_MOST_ONCE, Membership, Settings, Template
from gossamer.core.tree import Tree
from gossamer.filters.identity import identity
from gossamer.filters.index import Index
from gossamer.filters.relations import compatible
from gossamer.overlay.filterwords import Advertise, Tell, Told, Withdraw
from gossamer.overlay.rendezvous import rendezvous
from gossamer.overlay.shade import Shade
from gossamer.overlay.telling import Key, Table, Telling

OWN = ""
"""Holder of the filters of applications on this node."""
EVERYTHING = Criteria()

Name = Annotated[str, Meta(max_length=MAX_NODE_NAME)]


class DispatchSettings(Settings, frozen=True):
    """Settings of a dispatch channel.

    propagation
        ``subscription``: subscriptions climb to the root, and so does every event. ``advertisement``:
        publishers advertise; subscriptions are also sent down to those with whose advertisements they are
        compatible, and events go only where somebody wants them.
    root
        Name of the dispatcher at the top; without one, or while it is not there, the rendezvous node.
    above
        Who is above whom on the backbone, by name; without it the backbone's tree, seen from the root.
    retry
        Seconds until filters that were not acknowledged are told again.
    window
        Parcels per source that are remembered to recognise a second copy.
    """

    propagation: Literal["subscription", "advertisement"] = "subscription"
    root: Name = ""
    above: Annotated[dict[Name, Name], Meta(max_length=10_000)] = {}
    retry: Annotated[float, Meta(gt=0, le=3600)] = 0.5
    window: Annotated[int, Meta(ge=1, le=1_000_000)] = 4096


class Held(msgspec.Struct):
    """A filter, and on which sides somebody has it: neighbours, or this node's own applications."""

    criteria: Criteria
    holders: dict[str, None]


class Dispatch(Template[DispatchSettings]):
    """Content-based: an event goes where a subscription that it meets came from.

    Promises: at most once; an event goes down only where somebody wants it, and with advertisements it goes
        nowhere else either; causal order as long as links keep theirs and the tree stays; no repair.
    Costs: a message per hop for each subscription that no other covers; a search in the index per event and
        dispatcher. With advertisements a message per hop for each of those too, and for what they call down.
    Needs: a backbone, or a tree handed over as a container; below it, a server.
    """

    name = "dispatch"
    settings_type = DispatchSettings
    promises = frozenset({AT_MOST_ONCE})
    watches = (TREE, SERVER, BELOW, NODES)
    content_based = True

    def __init__(self, settings: DispatchSettings) -> None:
        super().__init__(settings)
        self.above: str | None = None
        """The dispatcher above this one; the root has none."""
        self.near: tuple[str, ...] = ()
        """Neighbours in the hierarchy."""
        self.telling = Telling()
        self.advertises = settings.propagation == "advertisement"
        self._index: Index[str | int] = Index()
        self._held: dict[Key, Held] = {}
        self._shades: dict[tuple[str, bool], Shade] = {}
        self._changed: dict[Key, None] = {}
        self._afresh: dict[str, None] = {}
        """Neighbours for whom everything has to be looked at again."""
        self._own: dict[int, Criteria] = {}
        self._uses: Counter[Key] = Counter()
        """How many subscriptions or advertisements of applications here have the same filter."""
        self._sides: Counter[str] = Counter()
        """How many subscriptions each side has."""
        self._seen = Seen(settings.window)

    # events

    def admit(self, attributes: Attributes) -> None:
        """Events outside the advertisements of this node's applications are refused."""
        if self.advertises:
            own = [each.criteria for key, each in self._held.items() if key[0] and OWN in each.holders]
            if not any(criteria.matches(attributes) for criteria in own):
                raise NotAdvertised(attributes, len(own))

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        self._route(ctx, parcel, None)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if parcel.stamp.node == ctx.node or not self._seen.add(parcel.stamp):
            ctx.drop(parcel, "seen before")
        else:
            self._route(ctx, parcel, sender)

    def _route(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        try:
            hops, numbers = self._wanted_by(parcel, sender)
        except ProtocolError as error:
            ctx.drop(parcel, f"{error.field} makes no sense")
            return
        ctx.send(hops, parcel)
        if numbers:
            ctx.deliver(parcel, sender, numbers)

    def _wanted_by(self, parcel: Parcel, sender: str | None) -> tuple[list[str], list[int]]:
        """Neighbours and subscriptions here that want an event of a parcel; raises ProtocolError."""
        found: set[str | int] = set()
        last: Attributes | None = None
        for attributes in parcel.attributes or ({},):
            if (event := attributes or {}) != last:
                found |= self._index.matching(event)
                last = event
        if self.above and not self.advertises:
            found.add(self.above)
        found.discard(sender or OWN)
        hops = sorted(each for each in found if isinstance(each, str))
        return hops, sorted(each for each in found if isinstance(each, int))

    def onward(self, ctx: Context, parcel: Parcel, sender: str) -> list[str]:
        try:
            return self._wanted_by(parcel, sender)[0]
        except ProtocolError:
            return []

    def matching(self, ctx: Context) -> bool:
        return bool(self._own) or any(said.table for said in self.telling.said.values())

    # what applications here want and offer

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        if membership.change == "subscribed":
            number = int(membership.who)
            criteria = self._own[number] = ctx.subscribers[number]
            self._index.add(criteria, number)
            self._use((False, identity(criteria)), criteria)
        elif membership.change == "unsubscribed":
            number = int(membership.who)
            criteria = self._own.pop(number)
            self._index.remove(criteria, number)
            self._disuse((False, identity(criteria)))
        elif membership.change == "up" and membership.who in self.near:
            self.telling.begin(membership.who)
        self._settle(ctx)

    def on_call(self, ctx: Context, call: int, request: Any) -> None:
        if isinstance(request, Advertise):
            self.advertise(ctx, request.criteria)
        elif isinstance(request, Withdraw):
            self.withdraw(ctx, request.criteria)
        ctx.reply(call)

    def advertise(self, ctx: Context, criteria: Criteria) -> None:
        """Applications here are going to publish events that meet these criteria."""
        self._use((True, identity(criteria)), criteria)
        self._settle(ctx)

    def withdraw(self, ctx: Context, criteria: Criteria) -> None:
        """One application here is not going to publish such events any more."""
        self._disuse((True, identity(criteria)))
        self._settle(ctx)

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

    @on(Tell)
    def hear(self, ctx: Context, tell: Tell, sender: str) -> None:
        if sender not in self.near:
            return  # one of us has another tree: it will be said again until both have the same
        added, dropped = self.telling.hear(ctx, tell, sender)
        for key, criteria in added.items():
            self._hold(key, criteria, sender)
        for key in dropped:
            self._release(key, sender)
        self._settle(ctx)

    @on(Told)
    def told(self, ctx: Context, told: Told, sender: str) -> None:
        self.telling.told(ctx, told, sender)
        self._settle(ctx)

    def _hold(self, key: Key, criteria: Criteria, holder: str) -> None:
        held = self._held.setdefault(key, Held(criteria, {}))
        self._sides += Counter({holder: int(not key[0] and holder not in held.holders)})
        held.holders[holder] = None
        self._note(key, holder)
        if holder and not key[0]:
            self._index.add(criteria, holder)

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
            self._index.remove(held.criteria, holder)

    def _note(self, key: Key, holder: str) -> None:
        """What neighbours are told of a filter may change, and to whom it advertises, all that it calls."""
        self._changed[key] = None
        if key[0] and holder:
            self._afresh[holder] = None

    # the hierarchy

    def on_open(self, ctx: Context) -> None:
        self._place(ctx)
        self._settle(ctx)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        self._place(ctx)
        self._settle(ctx)

    def _place(self, ctx: Context) -> None:
        """Find the dispatchers next to this one, and which of them is above."""
        above, near = _hierarchy(ctx, self.settings)
        for node in self.near:
            if node not in near:
                self._forget(node)
        if above != self.above:
            self._afresh |= dict.fromkeys(each for each in (above, self.above) if each)
        self._afresh |= dict.fromkeys(node for node in near if node not in self.near)
        self.above, self.near = above, near

    def _forget(self, node: str) -> None:
        for key in self.telling.forget(node):
            self._release(key, node)
        for advertised in (False, True):
            self._shades.pop((node, advertised), None)
        self._afresh.pop(node, None)

    # what neighbours are told

    def on_timer(self, ctx: Context, name: str) -> None:
        self._settle(ctx, again=True)

    def _settle(self, ctx: Context, again: bool = False) -> None:
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
            ctx.wake("tell", self.settings.retry)

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


def _hierarchy(ctx: Context, settings: DispatchSettings) -> tuple[str | None, tuple[str, ...]]:
    """Who is above a node, and all that are next to it."""
    below = tuple(ctx.container(BELOW) or ())
    if ctx.server:
        return ctx.server, (ctx.server, *below)
    if settings.above:
        above = settings.above.get(ctx.node)
        children = tuple(sorted(node for node, up in settings.above.items() if up == ctx.node))
        return above, (*((above,) if above else ()), *children, *below)
    tree: Tree | None = ctx.container(TREE)
    nodes = ctx.container(NODES)
    live = nodes if nodes is not None else (tree.nodes if tree else ())
    root = settings.root if settings.root in live else rendezvous(ctx.id, live)
    above = tree.next_hop(ctx.node, root) if tree and root else None
    return above, ((*tree.neighbours(ctx.node), *below) if tree else below)
