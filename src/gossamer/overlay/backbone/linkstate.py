"""Linkstate: what every node measured, and the one tree that all of them use.

Each node of the first tier publishes its measurements together with the best spanning tree it knows. The
message travels along the very tree it carries: whoever receives it passes it on to its neighbours on the far
side of the origin. Nothing has to be agreed on, and nobody hears anything twice (seed 000, 3.2.1.1).

The tree of the lowest name among the living is official. The lowest computes it from all measurements;
everybody else advertises the official tree as it is, or, if that misses a living node or has a dead one, a
repaired copy. In steady state all messages therefore carry the same bytes of tree, which are read once.

Interval. With N nodes and messages of S bytes every node receives N × S bytes per interval, so the interval
is ``max(interval, N × (S + OFFER_BYTES) / budget)``, ± 10 % by dice. News (a death that this node found
out, a newcomer, a node not in the official tree) goes out early, but not before a fiftieth of the interval,
and at least ``trigger`` seconds, after the last message.

Loss. A node remembers what it passed to whom, offers the list every ``repair`` seconds, or every fiftieth of
the interval if that is longer, and sends again what the other wants. The numbers (incarnation, counter) of an
origin only grow, so an old message never replaces a newer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gossamer.core.context import LINKS, NODES, ROUTES, TREE, Context
from gossamer.core.control import MOST, Control, on
from gossamer.core.names import NANOSECONDS, nanoseconds
from gossamer.core.template import Template
from gossamer.core.wire import encode
from gossamer.overlay.backbone import tree_codec as plans
from gossamer.overlay.backbone.flood_repair import OFFER_BYTES, Passing
from gossamer.overlay.backbone.introductions import Introductions
from gossamer.overlay.backbone.members import EXPIRY, Roster
from gossamer.overlay.backbone.messages import (
    MAX_ADDRESSES,
    MAX_DEAD,
    MAX_INTERVAL,
    MAX_MEASURED,
    Introduction,
    LinkstateSettings,
    Offer,
    State,
    Wanted,
)
from gossamer.overlay.backbone.tree_choice import Architect, Links
from gossamer.overlay.backbone.tree_codec import MAX_NODES, Plan, decode_plan

JITTER = 0.1
LEAP = 16
"""Messages of one origin that a late one may be behind; a node that is further behind is shown the newest."""
MAX_PATIENCE = 32
"""Gaps between the words of a node to the lowest that it knows of others, at most; they double."""
STUBBORN = 4
"""Gaps after which a node that is still not in the official tree tells everybody."""


class Linkstate(Template[LinkstateSettings]):
    """Spreads measurements and trees, and says which tree is official.

    Promises: once messages get through, all living nodes know each other and have the same tree; no node
        hears a message twice while nothing is lost.
    Costs: one message per node, other node and interval, and a tenth of that for offers; see ``budget``.
    Needs: hello.
    """

    name = "gossamer.linkstate"
    settings_type = LinkstateSettings
    watches = (NODES,)

    def __init__(self, settings: LinkstateSettings, roster: Roster) -> None:
        super().__init__(settings)
        self.roster = roster
        self.official: Plan | None = None
        self.counter = self._life = 0
        """Of what this node published last."""
        self.duplicates = 0
        """Messages that came a second time."""
        self._states: dict[str, State] = {}
        roster.states = self._states  # type: ignore[assignment]
        self._architect = Architect(roster, settings.factor)
        self._passing = Passing()
        self._lowest = ""
        self._checked: tuple[int, Plan | None] = (-1, None)
        self._published_at = -(10**18)
        self._size = 0
        self._due = 0
        """When the next message is due."""
        self._since, self._share = 0, -1.0
        """When the interval began, and the part of it after which the next message is due without news."""
        self._patience = 1
        self._news: set[str] = set()
        self._telling = self._repairing = self._outdone = False
        self._introductions = Introductions(roster)

    # what happens

    def on_open(self, ctx: Context) -> None:
        if self.roster.serves(ctx):
            self.roster.begin(ctx)
            ctx.wake("publish", self.settings.trigger * (0.5 + ctx.rng.random()))

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        if not self.roster.serves(ctx):
            return
        roster = self.roster
        if not self._included(ctx):
            # whoever is met first knows more than a newcomer does
            for each in sorted(roster.born):
                self._introductions.make(ctx, each, [ctx.node])
        self._news |= roster.died
        roster.born.clear()
        roster.died.clear()
        self._settle(ctx)

    def on_timer(self, ctx: Context, name: str) -> None:
        if name == "publish":
            self._turn(ctx)
        elif name == "tell":
            self._telling = False
            self._tell_lowest(ctx)
            self._settle(ctx)
        else:
            self._repairing = False
            self._offer(ctx)

    @on(State)
    def hear(self, ctx: Context, state: State, sender: str) -> None:
        origin = state.origin
        known = self._states.get(origin)
        if not self.roster.serves(ctx):
            return
        if origin == ctx.node:
            self._outdo(ctx, state)
            return
        if known is not None and known.version >= state.version:
            self.duplicates += 1
            if known.incarnation != state.incarnation or known.counter > state.counter + LEAP:
                ctx.send(sender, known)  # the origin itself has to outdo it, if it was invented
            return
        plan = decode_plan(state.plan)
        if known is None and not self._room():
            return
        self._states[origin] = state
        self._forward(ctx, state, plan, sender)
        roster = self.roster
        roster.hear(origin, ctx.now, state.addresses, direct=sender == origin)
        for name, age in state.dead:
            self._news.discard(name)
            if name != ctx.node:
                roster.silence(name, ctx.now - plans.decode_age(age))
        if self._checked != (roster.version, plan):
            self._compare(ctx, state, plan, sender)
        roster.tell(ctx)
        if origin == self._lowest or self._lowest not in self._states:
            self._settle(ctx)

    def _outdo(self, ctx: Context, state: State) -> None:
        """A state of this node that is newer than its last one was invented: publish a newer one."""
        if state.version > max((self._life, self.counter), (ctx.incarnation, 0)):
            self._life, self.counter = state.version
            self._outdone = True
            self._trigger(ctx)

    def _room(self) -> bool:
        """Whether a state of another origin may be kept; origins that do not live make room."""
        if len(self._states) >= MAX_NODES:
            gone = [name for name in self._states if name not in self.roster.live]
            for name in gone[: max(1, len(gone) // 2)]:
                del self._states[name]
        return len(self._states) < MAX_NODES

    def _compare(self, ctx: Context, state: State, plan: Plan, sender: str) -> None:
        """Learn who is in the tree that is not known here, and introduce whom the origin does not know."""
        roster = self.roster
        if not plan.members <= roster.live:
            for name, age in zip(plan.names, state.seen, strict=False):
                if name not in roster.live:
                    roster.hear(name, ctx.now - plans.decode_age(age))
        if sender == state.origin and not roster.live <= plan.members:
            self._welcome(ctx, sender, roster.live - plan.members)
        if plan.members <= roster.live:
            self._checked = (roster.version, plan)

    # passing on

    def _forward(self, ctx: Context, state: State, plan: Plan, sender: str | None) -> None:
        """To the neighbours on the far side; past those that are dead, to those behind them."""
        live = self.roster.live
        targets = []
        todo = plan.beyond(ctx.node, state.origin)
        for each in todo:
            if each == sender:
                continue
            if each in live or each not in self._states:
                targets.append(each)
            else:
                todo.extend(plan.beyond(each, state.origin))
        if targets:
            ctx.send(targets, state)
            self._passing.passed(targets, state.origin, state.version)
            self._watch(ctx)

    def _watch(self, ctx: Context) -> None:
        if not self._repairing:
            self._repairing = True
            ctx.wake("repair", max(self.settings.repair, self._gap / NANOSECONDS))

    def _offer(self, ctx: Context) -> None:
        for name, number, versions, again in self._passing.offers(self.roster.live):
            ctx.send(name, Offer(number, versions))
            self._again(ctx, name, again)
        if self._passing.waiting:
            self._watch(ctx)

    @on(Offer)
    def offered(self, ctx: Context, offer: Offer, sender: str) -> None:
        if not self.roster.serves(ctx):
            return
        wanted = []
        for origin, incarnation, counter in offer.versions:
            known = self._states.get(origin)
            if origin != ctx.node and (known is None or known.version < (incarnation, counter)):
                wanted.append(origin)
        ctx.send(sender, Wanted(offer.round, tuple(wanted)))

    @on(Wanted)
    def wanted(self, ctx: Context, wanted: Wanted, sender: str) -> None:
        self._again(ctx, sender, self._passing.answered(sender, wanted.round, wanted.origins))

    def _again(self, ctx: Context, to: str, origins: list[str]) -> None:
        for origin in origins:
            if origin in self._states:
                ctx.send(to, self._states[origin])

    # who knows whom

    def _welcome(self, ctx: Context, newcomer: str, names: Collection[str]) -> None:
        """Tell a node of others, once in a while, and what is official."""
        if self._introductions.due(ctx, newcomer, self._gap):
            self._introductions.make(ctx, newcomer, names)
            state = self._states.get(self._lowest)
            if state is not None and self._lowest != newcomer:
                ctx.send(newcomer, state)

    @on(Introduction)
    def introduced(self, ctx: Context, introduction: Introduction, sender: str) -> None:
        if not self.roster.serves(ctx):
            return
        self._introductions.take(ctx, introduction)
        if any(person.name == sender for person in introduction.people):
            self._welcome(ctx, sender, self.roster.live - {sender})
        self.roster.tell(ctx)

    def _tell_lowest(self, ctx: Context) -> None:
        """The lowest alone makes the official tree, so it must know of everybody."""
        if self._lowest != ctx.node:
            missing = self.roster.live - (self.official.members if self.official else {self._lowest})
            if missing:
                self._introductions.make(ctx, self._lowest, missing)
                self._patience = min(2 * self._patience, MAX_PATIENCE)

    # what is official

    def _settle(self, ctx: Context) -> None:
        """Find the lowest of the living and take its tree; see whether there is news to publish."""
        live = self.roster.live
        self._lowest = min(live) if live else ctx.node
        if self._lowest != ctx.node:
            state = self._states.get(self._lowest)
            self._adopt(ctx, None if state is None else decode_plan(state.plan))
        official = self.official
        if official is not None and official.members == live:
            self._news.clear()
            self._patience = 1
            return
        if self._urgent(ctx):
            self._trigger(ctx)
        missing = official is None or not live <= official.members
        if self._lowest != ctx.node and missing and not self._telling:
            self._telling = True
            wait = self._gap * self._patience * (0.5 + ctx.rng.random())
            ctx.wake("tell", wait / NANOSECONDS)

    def _included(self, ctx: Context) -> bool:
        """Whether this node is in an official tree with others."""
        official = self.official
        return official is not None and ctx.node in official.members and len(official.names) > 1

    def _adopt(self, ctx: Context, plan: Plan | None) -> None:
        """Make a plan official here; one without this node is of no use to it, its own best will do.

        A node that has just come into the tree publishes soon; if many have, they take turns.
        """
        if plan is self.official:
            return
        included, before = (
            self._included(ctx),
            self.official.members if self.official else frozenset({ctx.node}),
        )
        self.official = plan
        if plan is None or ctx.node not in plan.members:
            return
        self._use(ctx, plan)
        new = len(plan.members - before) / len(plan.members)
        if (not included or 2 * new > 1) and self._lowest != ctx.node:
            self._since, self._share = ctx.now, ctx.rng.random() * new
            self._book(ctx, self._regular)

    def _use(self, ctx: Context, plan: Plan) -> None:
        ctx.put(TREE, plan.tree)
        ctx.put(ROUTES, plan.routes(ctx.node))
        ctx.put(LINKS, Links(self.roster, ctx.node, plan))

    # publishing

    def _spacing(self) -> int:
        """Nanoseconds between two messages, by the number of nodes now and the size of the last message."""
        count = len(self.roster.live)
        size = max(self._size, count * 8) + OFFER_BYTES
        seconds = max(self.settings.interval, count * size / self.settings.budget)
        return nanoseconds(min(seconds, MAX_INTERVAL))

    @property
    def _gap(self) -> int:
        """Nanoseconds between two messages if there is news."""
        return max(nanoseconds(self.settings.trigger), self._spacing() // 50)

    @property
    def _regular(self) -> int:
        """When the next message is due without news; later if nodes have come since the interval began."""
        return self._since + int(self._spacing() * self._share)

    def _trigger(self, ctx: Context) -> None:
        """Publish early; not at once, others may be about to say the same."""
        gap = self._gap
        at = max(ctx.now + int(gap * ctx.rng.random()), self._published_at + gap)
        if at < self._due - gap:
            self._book(ctx, at)

    def _book(self, ctx: Context, at: int) -> None:
        self._due = at
        ctx.wake("publish", max(0, at - ctx.now) / NANOSECONDS)

    def _turn(self, ctx: Context) -> None:
        """Publish if it is time, or if there is still something to say."""
        limit = EXPIRY * self._spacing()
        limits = {name: EXPIRY * each.interval * NANOSECONDS for name, each in self._states.items()}
        self.roster.expire(ctx.now, limits, limit, nanoseconds(self.settings.forget))
        self.roster.tell(ctx)
        self._settle(ctx)
        if self._share < 0:
            self._since, self._share = ctx.now, ctx.rng.random()
        if ctx.now >= self._regular or self._urgent(ctx):
            self._publish(ctx)
            self._since, self._share = ctx.now, 1 + JITTER * (2 * ctx.rng.random() - 1)
            self._settle(ctx)
        self._book(ctx, self._regular)

    def _urgent(self, ctx: Context) -> bool:
        """Whether this node has something to say that others have not said yet."""
        if self._lowest == ctx.node:
            return self._outdone or self.official is None or self.official.members != self.roster.live
        return bool(self._news) or self._outdone or (self._patience > STUBBORN and not self._included(ctx))

    def _publish(self, ctx: Context) -> None:
        roster = self.roster
        lowest = min(roster.live)
        plan = self._architect.plan(ctx, self.official, lowest)
        self._life = max(self._life, ctx.incarnation)
        self._life, self.counter = (
            (self._life, self.counter + 1) if self.counter < MOST else (self._life + 1, 1)
        )
        self._outdone = False
        self._news.clear()
        now, heard = ctx.now, self._introductions.heard
        spacing = self._spacing()
        state = State(
            ctx.node,
            self._life,
            self.counter,
            max(1, spacing // NANOSECONDS),
            roster.addresses(ctx, ctx.node)[:MAX_ADDRESSES],
            plan.encoded,
            bytes(plans.encode_age(now - heard(ctx, name)) for name in plan.names),
            plans.encode_distances(plan.names, self._measured(plan, ctx.node)),
            tuple(
                (name, plans.encode_age(now - at))
                for name, at in roster.silences(now - 2 * spacing)[:MAX_DEAD]
            ),
        )
        self._states[ctx.node] = state
        self._published_at = now
        self._size = len(encode(Control(ctx.id, state)))
        if lowest == ctx.node:
            self._lowest = lowest
            self._adopt(ctx, plan)
        elif not self._included(ctx):
            self._use(ctx, plan)
        ctx.put(LINKS, Links(roster, ctx.node, state))
        self._forward(ctx, state, plan, None)

    def _measured(self, plan: Plan, here: str) -> Mapping[str, int]:
        distances = self.roster.distances
        chosen = set(self.roster.nearest)
        for name in sorted(distances, key=lambda each: (distances[each], each))[: self.settings.measured]:
            chosen.add(name)
        chosen.update(plan.near.get(here, ()))
        return {name: distances[name] for name in sorted(chosen)[:MAX_MEASURED] if name in distances}
