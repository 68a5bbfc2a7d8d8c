"""Direct: from the publisher to its subscribers, with nobody between them (seed 004, chapter 3)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from gossamer.core.context import LINKED, NODES, Context
from gossamer.core.control import on
from gossamer.core.duplicates import Seen
from gossamer.core.event import Attributes, Criteria
from gossamer.core.parcel import Parcel
from gossamer.core.template import AT_MOST_ONCE, Membership, Settings, Template
from gossamer.filters.identity import identity
from gossamer.filters.index import Index
from gossamer.templates.dispatch.messages import Tell, Told
from gossamer.templates.dispatch.table_sync import Key, Table, Telling

EVERYTHING: Key = (False, identity(Criteria()))


class DirectSettings(Settings, frozen=True):
    """Settings of a direct channel.

    retry
        Seconds until criteria that were not acknowledged are told again.
    window
        Parcels per source that are remembered to recognise a second copy.
    """

    retry: Annotated[float, Meta(gt=0, le=3600)] = 0.5
    window: Annotated[int, Meta(ge=1, le=1_000_000)] = 4096


class Direct(Template[DirectSettings]):
    """No server: subscribers tell publishers what they want, and publishers send them that and nothing else.

    Promises: at most once, in the order of publishing where the connection keeps one; an event that nobody on
        a node wants never leaves for it; no repair.
    Acknowledged: Never; publishing is best effort and `acknowledged` is refused.
    Costs: a copy of each event for each node that wants it, all sent by the publisher; a search in the index
        per event if anybody has criteria. Criteria are told to every node that the subscriber's node knows.
    Needs: a link between publisher and subscriber, or an address to open one: what is published
        reaches nodes linked to this one and those of the first tier, and no node passes anything on.
    """

    name = "direct"
    settings_type = DirectSettings
    promises = frozenset({AT_MOST_ONCE})
    watches = (LINKED, NODES)

    def __init__(self, settings: DirectSettings) -> None:
        super().__init__(settings)
        self.telling = Telling()
        self.near: tuple[str, ...] = ()
        """Nodes that can be sent to."""
        self._whole: tuple[str, ...] = ()
        """Nodes that want everything: what they get need not be opened here."""
        self._choosy = False
        """Whether some node wants a part."""
        self._index: Index[str] = Index()
        self._seen = Seen(settings.window)

    # events

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        ctx.send(self._whole, parcel)
        if self._choosy and parcel.header.split:
            for picks, nodes in self._wanted(parcel).items():
                every = len(picks) == parcel.stamp.count
                ctx.send(nodes, parcel if every else parcel.picked(picks))
        ctx.deliver(parcel)

    def _wanted(self, parcel: Parcel) -> dict[tuple[int, ...], list[str]]:
        """Which events go to whom of those that want a part; who wants the same shares a parcel."""
        picks: dict[str, list[int]] = {}
        found: set[str] = set()
        last: Attributes | None = None
        for index, attributes in enumerate(parcel.attributes):
            if attributes != last:
                found = self._index.matching(attributes or {}).difference(self._whole)
                last = attributes
            for node in found:
                picks.setdefault(node, []).append(index)
        alike: dict[tuple[int, ...], list[str]] = {}
        for node in sorted(picks):
            alike.setdefault(tuple(picks[node]), []).append(node)
        return alike

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if parcel.stamp.node == ctx.node or not self._seen.add(parcel.stamp):
            ctx.drop(parcel, "seen before")
        elif ctx.subscribers:
            ctx.deliver(parcel, sender)
        else:
            ctx.drop(parcel, "nobody wants it any more")
            self._deny(ctx, sender)

    def _deny(self, ctx: Context, sender: str) -> None:
        """Tell a publisher that believes what an earlier life of this node said."""
        if not self.telling.waits_for(sender):
            self.telling.begin(sender)
            self.telling.tell(ctx, sender, lambda _: {})
            ctx.wake("tell", self.settings.retry)

    def on_feedback(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        assert parcel.header.answers is not None
        source = parcel.header.answers.stamp.node
        if sender is None and source in self.near:
            ctx.send(source, parcel)
        else:
            super().on_feedback(ctx, parcel, sender)

    def has_subscribers(self, ctx: Context) -> bool:
        return bool(ctx.subscribers or self._whole or self._choosy)

    # what nodes want

    @on(Tell)
    def hear(self, ctx: Context, tell: Tell, sender: str) -> None:
        added, dropped = self.telling.hear(ctx, tell, sender)
        self._unlist(sender, dropped)
        for criteria in added.values():
            if criteria:
                self._index.add(criteria, sender)
        self._sort()
        self._settle(ctx)

    @on(Told)
    def told(self, ctx: Context, told: Told, sender: str) -> None:
        self.telling.told(ctx, told, sender)
        self._settle(ctx)

    def _forget(self, node: str) -> None:
        self._unlist(node, self.telling.forget(node))
        self._sort()

    def _unlist(self, node: str, table: Table) -> None:
        for criteria in table.values():
            if criteria:
                self._index.remove(criteria, node)

    def _sort(self) -> None:
        tables = {node: said.table for node, said in self.telling.said.items() if said.table}
        self._whole = tuple(sorted(node for node, table in tables.items() if EVERYTHING in table))
        self._choosy = len(self._whole) < len(tables)

    # what this node wants

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        if membership.change in ("subscribed", "unsubscribed"):
            for node in self.near:
                self.telling.behind(node)
        elif membership.change in ("up", "down"):
            self._forget(membership.who)  # it may live anew, and say nothing
        self._settle(ctx)

    def on_open(self, ctx: Context) -> None:
        self._look(ctx)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        self._look(ctx)

    def _look(self, ctx: Context) -> None:
        """Find out who can be sent to."""
        known = {*(ctx.container(LINKED) or ()), *(ctx.container(NODES) or ())}
        self.near = tuple(sorted(known - {ctx.node}))
        for node in sorted(self.telling.nodes.difference(self.near)):
            self._forget(node)
        self._settle(ctx)

    def on_timer(self, ctx: Context, name: str) -> None:
        self._settle(ctx, again=True)

    def _settle(self, ctx: Context, again: bool = False) -> None:
        """Tell everybody what is wanted here; who has never heard of it need not hear that it is nothing."""
        wanted = self._own(ctx)
        told = self.telling.nodes
        waiting = False
        for node in self.near:
            if wanted or node in told:
                waiting |= self.telling.tell(ctx, node, lambda _: wanted, again)
        if waiting:
            ctx.wake("tell", self.settings.retry)

    def _own(self, ctx: Context) -> Table:
        every = [each for each in ctx.subscribers.values() if not each]
        return {(False, identity(each)): each for each in every[:1] or ctx.subscribers.values()}
