"""How parcels go round: at once by primary links, announced by secondary ones (seed 004, 5.3, 5.7.2).

Every link carries every parcel, or word of it. So whoever has one link to the rest of the group gets
everything, and what is lost with a peer that crashes comes by another way. A link that is new begins with
word of what came lately on either side: nothing is lost while rings change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gossamer.core.context import Context
from gossamer.core.duplicates import Seen
from gossamer.core.names import nanoseconds
from gossamer.core.parcel import Parcel
from gossamer.core.trace import EXPIRED
from gossamer.templates.multiring.messages import MAX_IDS, Announce, Id, Request, SetMode
from gossamer.templates.multiring.modes import PeerLink
from gossamer.templates.multiring.recent import Store, id_of
from gossamer.templates.multiring.request_timer import Patience
from gossamer.templates.multiring.request_window import Appetite
from gossamer.templates.multiring.settings import MultiringSettings

MAX_WANTED = 4096
"""Announced parcels that are waited for."""
MAX_TRIES = 8


class Wanted:
    """A parcel that was announced and is not here: who has it, when to ask, how often that was done, and
    whether an answer may still come.
    """

    __slots__ = ("due", "since", "sources", "tries", "under_way")

    def __init__(self, source: str, since: int, due: int) -> None:
        self.sources = [source]
        self.since, self.due = since, due
        self.tries = 0
        self.under_way = False


class Spreading:
    """The parcels of one group at one peer.

    links
        Those that this peer has links to, by name; others keep them current.
    hops
        Names of those that parcels go to: the neighbours in all rings, in order.
    detours
        For congested neighbours those behind them: they are told of parcels, and ask for what they lack.
    figures
        Parcels that came, by whether they were new, and their bytes; announcements, requests, and parcels
        that nobody sent however often they were asked for.
    """

    def __init__(self, settings: MultiringSettings) -> None:
        self.seen = Seen(settings.window)
        self.store = Store(settings.store, settings.store_bytes)
        self.links: dict[str, PeerLink] = {}
        self.hops: tuple[str, ...] = ()
        self.detours: tuple[str, ...] = ()
        self.plain = True
        """Whether all links from here are primary and none is congested."""
        self._x, self._y = settings.fresh, settings.of_last
        self._retry = nanoseconds(settings.retry)
        self._patience = Patience(nanoseconds(settings.grace), 2 * self._retry)
        self._recall = nanoseconds(settings.recall)
        self._memory = 4 * nanoseconds(settings.grace)
        self._appetite = Appetite()
        self._wanted: dict[Id, Wanted] = {}
        self._due: int | None = None
        self._held = False
        self.new = self.new_bytes = self.old = self.old_bytes = 0
        self.announced = self.requested = self.forgone = 0

    # parcels

    def begin(self, ctx: Context, parcel: Parcel) -> None:
        """A parcel of this peer's own."""
        self.seen.add(parcel.stamp)
        self._pass_on(ctx, parcel, None)

    def take(self, ctx: Context, parcel: Parcel, sender: str) -> bool:
        """A parcel from another peer: pass it on, if it is new."""
        size = parcel.size
        new = parcel.stamp.node != ctx.node and self.seen.add(parcel.stamp)
        asked = self._wanted.pop(id_of(parcel), None) if self._wanted else None
        if asked is not None and asked.under_way:
            self._appetite.came()
            if self._held and self._appetite.hungry:
                self.fetch(ctx)
        if asked is None or sender not in asked.sources:
            self._count(ctx, sender, new)
            if not new:
                self._unasked(ctx, sender)
        if asked is not None and new and sender not in asked.sources:
            self._patience.came(ctx.now - asked.since)
        for name in asked.sources[asked.tries :] if asked is not None else ():
            self._count(ctx, name, False)  # it was announced, and came by another link in time
        if not new:
            self.old += 1
            self.old_bytes += size
            ctx.drop(parcel, "seen before")
            return False
        self.new += 1
        self.new_bytes += size
        self._pass_on(ctx, parcel, sender, asked.sources if asked is not None else ())
        return True

    def _pass_on(
        self, ctx: Context, parcel: Parcel, sender: str | None, others: Collection[str] = ()
    ) -> None:
        """To all neighbours but the sender, and but those who have announced it: they have it."""
        key = self.store.add(parcel, sender, ctx.now)
        links, now = self.links, ctx.now
        if self.plain:
            at_once = [name for name in self.hops if name != sender]
            later: list[str] = []
        else:
            at_once, later = self._split(sender)
        if others:
            at_once = [name for name in at_once if name not in others]
            later = [name for name in later if name not in others]
        ctx.send(at_once, parcel)
        if later:
            self.announced += len(later)
            for name in later:
                if name in links:
                    links[name].said = now
            ctx.send(later, Announce((key,)))

    def _split(self, sender: str | None) -> tuple[list[str], list[str]]:
        at_once: list[str] = []
        later: list[str] = []
        for name in self.hops:
            if name != sender:
                link = self.links[name]
                (at_once if link.eager and link.congested is None else later).append(name)
        later += [name for name in self.detours if name != sender and name not in self.hops]
        return at_once, later

    def _count(self, ctx: Context, name: str, new: bool) -> None:
        """Something came by a link, new or not: the other side is told if that changes the link's mode."""
        link = self.links.get(name)
        if link is not None and link.came(new, self._x, self._y):
            self.ask_mode(ctx, name)

    def _unasked(self, ctx: Context, name: str) -> None:
        """Something came in vain by a link that should announce it: the word that it should was lost."""
        link = self.links.get(name)
        if link is None:  # if it becomes a neighbour it is told its mode anew
            ctx.send(name, SetMode(False))
        elif not link.wanted and ctx.now - link.asked > self._retry:
            self.ask_mode(ctx, name)

    def ask_mode(self, ctx: Context, name: str) -> None:
        """Tell the other side of a link which mode is wanted."""
        link = self.links[name]
        link.asked = ctx.now
        ctx.send(name, SetMode(link.wanted))

    # announcements

    def announcement(self, ctx: Context, announce: Announce, sender: str) -> None:
        """Another peer has parcels: ask for those that are new, unless a primary link is about to bring them.

        What this peer has announced to the sender it has itself: announcements that cross need no answer. An
        announcement counts as new if the parcel has to be requested: word of it is faster than a parcel, so
        being first does not say which link would bring it first.
        """
        alone = not any(each.wanted for name, each in self.links.items() if name != sender)
        for key in announce.ids:
            known = self._wanted.get(key)
            if known is not None:
                if sender not in known.sources:
                    known.sources.append(sender)
            elif key[0] == ctx.node or self.seen.has(key):
                self._count(ctx, sender, False)
            elif len(self._wanted) < MAX_WANTED:
                wanted = self._wanted[key] = Wanted(sender, ctx.now, ctx.now + self._wait(ctx))
                if alone:
                    wanted.due = ctx.now
        if alone:
            self.fetch(ctx)
        else:
            self._plan(ctx)

    def _wait(self, ctx: Context) -> int:
        """How long a parcel may still come by itself: others forget as fast as this peer does."""
        span = self.store.span(ctx.now)
        return self._patience.now if span is None else min(self._patience.now, span // 4)

    def _pause(self, ctx: Context, tries: int) -> int:
        """How long an answer may take: a slow line needs time, not more; but what others forget soon may be
        elsewhere.
        """
        pause, span = self._retry << tries - 1, self.store.span(ctx.now)
        return pause if span is None else min(pause, max(span // 4, self._patience.least))

    def rest(self, now: int) -> int:
        """Nanoseconds for which nothing should be published: else parcels would be forgotten before
        neighbours that were told of them can ask.
        """
        span = self.store.span(now)
        return 0 if span is None else max(0, self._memory - span)

    def fetch(self, ctx: Context) -> None:
        """Ask for what was announced a while ago and has not come, each time somebody else."""
        self._due, self._held = None, False
        due = [(key, wanted) for key, wanted in self._wanted.items() if wanted.due <= ctx.now]
        self._appetite.late(sum(wanted.under_way for _, wanted in due))
        asks: dict[str, list[Id]] = {}
        for key, wanted in due:
            wanted.under_way = False
            if wanted.tries >= MAX_TRIES:
                del self._wanted[key]
                self.forgone += 1
            elif self._appetite.room > 0:
                asks.setdefault(wanted.sources[wanted.tries % len(wanted.sources)], []).append(key)
                self._ask(ctx, wanted)
            else:
                self._held = True
        for name, keys in asks.items():
            self._request(ctx, name, keys)
        self._plan(ctx)

    def _ask(self, ctx: Context, wanted: Wanted) -> None:
        if not wanted.tries:
            self._count(ctx, wanted.sources[0], True)
        self._appetite.under_way += 1
        wanted.under_way = True
        wanted.tries += 1
        wanted.due = ctx.now + self._pause(ctx, wanted.tries)

    def _request(self, ctx: Context, name: str, keys: list[Id]) -> None:
        self.requested += len(keys)
        for start in range(0, len(keys), MAX_IDS):
            ctx.send(name, Request(tuple(keys[start : start + MAX_IDS])))

    def _plan(self, ctx: Context) -> None:
        """Wake when something is to be asked for; what is held waits until answers come, or are late."""
        if self._wanted and self._due is None:
            self._due = min(each.due for each in self._wanted.values() if each.under_way or not self._held)
            ctx.wake("fetch", max(0, self._due - ctx.now) / 1e9)

    def request(self, ctx: Context, request: Request, sender: str) -> None:
        """Send what another peer wants, unless its time has passed or it is no longer here.

        A congested neighbour is not helped by more: it will ask again, or somebody else.
        """
        link = self.links.get(sender)
        if link is not None and link.congested is not None:
            return
        for key in request.ids:
            kept = self.store.get(key)
            if kept is None:
                continue
            deadline = kept.parcel.deadline
            if deadline is not None and ctx.now > deadline:
                ctx.drop(kept.parcel, EXPIRED)
            else:
                ctx.send(sender, kept.parcel)

    def recall(self, ctx: Context, name: str, past: int | None = None) -> None:
        """A link is new, or works again: say what came lately, so that nothing is lost in between."""
        past = self._recall if past is None else min(past, self._recall)
        recent = tuple(self.store.since(ctx.now - past))
        self.announced += len(recent)
        for start in range(0, len(recent), MAX_IDS):
            ctx.send(name, Announce(recent[start : start + MAX_IDS]))

    # modes

    def set_mode(self, mode: SetMode, sender: str) -> None:
        """The receiver of a link says how it wants parcels."""
        link = self.links.get(sender)
        if link is not None:
            link.eager = mode.primary
            self.settle()

    def settle(self) -> None:
        """Links have changed."""
        links = self.links
        self.plain = not self.detours and all(
            links[name].eager and links[name].congested is None for name in self.hops if name in links
        )

    def reached(self, hops: Iterable[str], detours: Iterable[str]) -> None:
        """The neighbours are others now."""
        self.hops, self.detours = tuple(hops), tuple(detours)
        self.settle()
