"""The registry: attribute-value pairs of a node and of the network.

A service on every node. Local items never leave their node. Global items are kept by all servers, each of
which feeds its neighbours in the tree slowly; what a node does not know it asks for, hop by hop, and the
answer feeds every registry on its way back. Servers keep their items on disk, a client keeps a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gossamer.core.context import BELOW, SERVER, TREE, Context
from gossamer.core.control import on
from gossamer.core.errors import BadName, Full, GossamerError, NoAnswer, ProtocolError, UnknownKey
from gossamer.core.names import Role, nanoseconds
from gossamer.core.template import Membership, Template
from gossamer.overlay.registry.api import Follow, Get, List, RegistrySettings, Request, Set, Unfollow
from gossamer.overlay.registry.items import (
    CHANNELS,
    LATEST,
    SOMETIME,
    Item,
    Shelf,
    batch,
    check_key,
    check_prefix,
    check_value,
    check_version,
    encode_item,
    stamped,
)
from gossamer.overlay.registry.lookup import (
    MAX_REFUSAL,
    RETRY,
    Answer,
    Browse,
    Page,
    Put,
    Query,
    Question,
    Questions,
    Then,
)
from gossamer.overlay.registry.replication import FEED, Feed, Feeder
from gossamer.overlay.registry.watches import TELL, WATCH, Heard, Told, Unwatch, Watch, Watchers, Watches

GLOBAL, LOCAL = "global", "local"
ANNOUNCE = "announce"
"""Name of the wake."""

Listener = Callable[[int, Item], None]


class Registry(Template[RegistrySettings]):
    """Keeps the items of a node and finds those of others.

    Promises: an old value never replaces a newer one; all servers end with the same newest version of each
        item once the network is in one piece; what was acknowledged is on the disk of a server.
    Costs: at most ``budget`` bytes per second and node; per lookup of something unknown a question and an
        answer per tree edge, and none where it was looked up before.
    Needs: a tree, handed over as a container.
    """

    name = "gossamer.registry"
    settings_type = RegistrySettings
    watches = (TREE, SERVER, BELOW)

    def __init__(
        self,
        stored: Mapping[str, bytes] | None = None,
        settings: RegistrySettings | None = None,
        now: int = SOMETIME,
    ) -> None:
        super().__init__(settings or RegistrySettings())
        own = self.settings
        self.shelf = Shelf(own.items, own.bytes)
        self.private = Shelf(own.cache_items, own.cache_bytes)
        self.questions = Questions(own.retry, own.patience)
        self.feeder = Feeder(own.budget, own.burst, own.period)
        self.unreadable = 0
        """Stored items that make no sense or find no room."""
        self._listeners: list[tuple[str, Listener]] = []
        self._watches = Watches(own.retry)
        self._watchers = Watchers(own.retry)
        self._linked: set[str] = set()
        self._reach: frozenset[str] = frozenset()
        self._replicas: set[str] = set()
        """Nodes below that keep a replica: they have said so by feeding this one."""
        self._fed = False
        self._ctx: Context | None = None
        for shelf, scope in ((self.shelf, GLOBAL), (self.private, LOCAL)):
            latest = now if scope == GLOBAL else LATEST  # a local item never has to be replaced elsewhere
            self.unreadable += shelf.load(f"{self.name}/{scope}/", stored or {}, latest)

    def on_open(self, ctx: Context) -> None:
        self._ctx = ctx
        if ctx.role is Role.CLIENT:
            self.shelf = Shelf(self.settings.cache_items, self.settings.cache_bytes, forgets=True)

    # for other services of this node: they have contexts of their own, so they say what time it is

    def listen(self, prefix: str, listener: Listener) -> None:
        """Tell another service of every change below a prefix."""
        self._listeners.append((prefix, listener))

    def find(self, now: int, key: str, then: Then, patience: float | None = None) -> None:
        """Find an item here or elsewhere; ``then`` takes it, now or later."""
        ctx = self._at(now)
        item = self._current(ctx, key)
        if item is not None:
            then(now, item, None)
        else:
            self._ask(ctx, Query(*self.questions.name(ctx), key), None, then, patience)

    def claim(self, now: int, item: Item) -> None:
        """Keep an item that another service made here, unless a newer one is known; raises Full."""
        ctx = self._at(now)
        self._shelve(ctx, item, None)
        self.feeder.run(ctx, self.shelf)

    def learn(self, now: int, item: Item) -> None:
        """A neighbour told another service of an item."""
        ctx = self._at(now)
        self._keep(ctx, item, None)
        self.feeder.run(ctx, self.shelf)

    def _at(self, now: int) -> Context:
        assert self._ctx is not None, "the registry is a service of the same engine"
        self._ctx.now = now
        return self._ctx

    # what applications ask

    def on_call(self, ctx: Context, call: int, request: Request) -> None:
        try:
            self._serve(ctx, call, request)
        except GossamerError as error:
            ctx.reply(call, error=error)

    def _serve(self, ctx: Context, call: int, request: Request) -> None:
        match request:
            case Get(key):
                local = self.private.get(check_key(key))
                if local is not None and local.value is not None:
                    ctx.reply(call, local)
                else:
                    self.find(ctx.now, key, lambda now, item, error: _found(ctx, call, key, item, error))
            case Set(key, value, scope):
                self._set(ctx, call, check_key(key), None if value is None else check_value(value), scope)
            case List(prefix, after):
                self._list(ctx, call, check_prefix(prefix), check_prefix(after))
            case Follow(prefix):
                shelf = None if ctx.role is Role.CLIENT else self.shelf
                self._watches.begin(ctx, call, check_prefix(prefix), shelf)
            case Unfollow(watch):
                self._watches.end(ctx, watch, ctx.role is Role.CLIENT)
                ctx.reply(call)

    def _set(self, ctx: Context, call: int, key: str, value: bytes | None, scope: str) -> None:
        if scope == LOCAL:
            item = stamped(ctx.now, ctx.node, key, value, self.private.get(key))
            self._forget(ctx, LOCAL, self.private.keep(item, ctx.now) or ())
            ctx.store(f"{LOCAL}/{key}", encode_item(item))
            ctx.reply(call, item)
            return
        if key.startswith(CHANNELS):
            raise BadName("registry key", key, f"keys that begin with {CHANNELS!r} are the directory's")
        item = stamped(ctx.now, ctx.node, key, value, self.shelf.get(key))
        if self._above(ctx):
            put = Put(*self.questions.name(ctx), item)
            self._ask(ctx, put, None, lambda now, kept, error: ctx.reply(call, kept, error))
        else:
            self._shelve(ctx, item, None)
            self.feeder.run(ctx, self.shelf)
            ctx.reply(call, item)

    def _list(self, ctx: Context, call: int, prefix: str, after: str) -> None:
        if ctx.role is Role.CLIENT:
            browse = Browse(*self.questions.name(ctx), prefix, after)
            self._ask(ctx, browse, None, lambda now, items, error: ctx.reply(call, items, error))
        else:
            ctx.reply(call, batch(self.shelf.items(prefix, after)))

    # questions of other nodes, and their answers

    @on(Query)
    def query(self, ctx: Context, query: Query, sender: str) -> None:
        name = (query.source, query.number)
        item = self._current(ctx, query.key)
        before = self.questions.open.get(name)
        if item is not None:
            ctx.send(sender, Answer(*name, item))
        elif before is None and not self.questions.had_nothing(name):
            self._ask(ctx, query, sender)
        elif before is None or before.asker != sender:
            # it has been here, by this way or another one
            ctx.send(sender, Answer(*name, None))

    @on(Put)
    def put(self, ctx: Context, put: Put, sender: str) -> None:
        try:
            check_version(put.item, ctx.now)
        except ProtocolError as error:  # in words: the clock of an honest node may be wrong
            ctx.send(sender, Answer(put.source, put.number, None, str(error)[:MAX_REFUSAL]))
            return
        if self._above(ctx):
            if (put.source, put.number) not in self.questions.open:
                self._ask(ctx, put, sender)
            return
        refusal = ""
        try:
            self._shelve(ctx, put.item, None)
        except Full as error:
            refusal = str(error)[:MAX_REFUSAL]
        self.feeder.run(ctx, self.shelf)
        kept = None if refusal else self.shelf.get(put.item.key)
        ctx.send(sender, Answer(put.source, put.number, kept, refusal))

    @on(Browse)
    def browse(self, ctx: Context, browse: Browse, sender: str) -> None:
        items = batch(self.shelf.items(browse.prefix, browse.after))
        ctx.send(sender, Page(browse.source, browse.number, items))

    @on(Answer)
    def answer(self, ctx: Context, answer: Answer, sender: str) -> None:
        name = (answer.source, answer.number)
        asked = self.questions.open.get(name)
        if asked is None or isinstance(asked.question, Browse):
            return
        question, item = asked.question, answer.item
        if item is not None and item.key == (
            question.key if isinstance(question, Query) else question.item.key
        ):
            self._keep(ctx, item, sender)
            self.feeder.run(ctx, self.shelf)
            if isinstance(question, Put) and question.item.beats(item):
                return  # the answer to an earlier version of it
            if isinstance(question, Put) and item != question.item and asked.asker is None:
                newer = stamped(ctx.now, ctx.node, item.key, question.item.value, item)
                self.questions.again(ctx, name, Put(*name, newer))
            else:
                self.questions.settle(ctx, name, item)
        elif answer.refusal:
            self.questions.settle(ctx, name, None, answer.refusal)
        elif isinstance(question, Query):
            if asked.waiting is not None:
                asked.waiting.discard(sender)
            if not asked.waiting:
                self.questions.settle(ctx, name, None)

    @on(Page)
    def page(self, ctx: Context, page: Page, sender: str) -> None:
        asked = self.questions.open.get((page.source, page.number))
        if asked is not None and isinstance(asked.question, Browse):
            self.questions.settle(ctx, (page.source, page.number), page.items)

    def _ask(
        self,
        ctx: Context,
        question: Question,
        asker: str | None,
        then: Then | None = None,
        patience: float | None = None,
    ) -> None:
        waiting = None if self._above(ctx) else set(self._reach - {asker})
        self.questions.ask(ctx, question, asker, waiting, then, patience)

    def _above(self, ctx: Context) -> bool:
        """Whether questions go up to a server, be it one that is not there yet."""
        return ctx.server is not None or ctx.role in (Role.CLIENT, Role.SECONDARY)

    def _current(self, ctx: Context, key: str) -> Item | None:
        since = ctx.now - nanoseconds(self.settings.cache_age) if ctx.role is Role.CLIENT else 0
        return self.shelf.get(key, since)

    # items come and go

    def _keep(self, ctx: Context, item: Item, sender: str | None) -> None:
        """Keep an item that comes from elsewhere, if it is news and there is room."""
        check_version(item, ctx.now)
        try:
            self._shelve(ctx, item, sender)
        except Full:
            return  # others may have room; here it can be asked for

    def _shelve(self, ctx: Context, item: Item, sender: str | None) -> None:
        given_up = self.shelf.keep(item, ctx.now)
        if given_up is None:
            return
        if ctx.role is not Role.CLIENT:
            ctx.store(f"{GLOBAL}/{item.key}", encode_item(item))
            self._forget(ctx, GLOBAL, given_up)
            self.feeder.changed(item.key, sender)
        self._watches.changed(ctx, item)
        self._watchers.changed(ctx, item, self.shelf)
        for prefix, listener in self._listeners:
            if item.key.startswith(prefix):
                listener(ctx.now, item)

    def _forget(self, ctx: Context, scope: str, keys: tuple[str, ...]) -> None:
        for key in keys:
            ctx.store(f"{scope}/{key}", None)

    @on(Feed)
    def feed(self, ctx: Context, feed: Feed, sender: str) -> None:
        if sender in (ctx.container(BELOW) or ()):
            self._replicas.add(sender)
            self._group(ctx)
            if not feed.items:
                ctx.send(sender, Feed(()))
        self._fed = self._fed or sender == ctx.server
        for item in feed.items:
            known = self.shelf.get(item.key)
            if known is not None and known.beats(item):
                self.feeder.behind(sender, item.key)
            else:
                self._keep(ctx, item, sender)
        self.feeder.run(ctx, self.shelf)

    # watches

    @on(Watch)
    def watch(self, ctx: Context, watch: Watch, sender: str) -> None:
        if ctx.role is not Role.CLIENT:
            self._watchers.begin(ctx, watch, sender, self.shelf)

    @on(Unwatch)
    def unwatch(self, ctx: Context, unwatch: Unwatch, sender: str) -> None:
        self._watchers.end(sender, unwatch.number)

    @on(Told)
    def told(self, ctx: Context, told: Told, sender: str) -> None:
        for item in told.items:
            self._keep(ctx, item, sender)
        self._watches.told(ctx, told, sender)

    @on(Heard)
    def heard(self, ctx: Context, heard: Heard, sender: str) -> None:
        self._watchers.heard(ctx, heard, sender, self.shelf)

    # time, links and the tree

    def on_timer(self, ctx: Context, name: str) -> None:
        if name == RETRY:
            for asked in self.questions.repeat(ctx):
                if asked.then is not None:
                    asked.then(ctx.now, None, NoAnswer("a question to the registry", asked.patience))
        elif name == FEED:
            self.feeder.run(ctx, self.shelf)
        elif name == WATCH:
            self._watches.refresh(ctx)
        elif name == TELL:
            self._watchers.repeat(ctx, self.shelf)
        elif name == ANNOUNCE:
            self._announce(ctx)

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        if membership.change == "up":
            self._linked.add(membership.who)
        elif membership.change == "down":
            self._linked.discard(membership.who)
            self._replicas.discard(membership.who)
            self._watchers.gone(membership.who)
        else:
            return
        self._group(ctx)
        if membership.who == ctx.server and membership.change == "up":
            self._moved(ctx)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        self._group(ctx)
        if name == SERVER and value:
            self._moved(ctx)

    def _moved(self, ctx: Context) -> None:
        self.questions.moved(ctx)
        if ctx.role is Role.CLIENT:
            self._watches.refresh(ctx)
        else:
            self._fed = False
            self._announce(ctx)

    def _announce(self, ctx: Context) -> None:
        """Let the server know that a replica is kept here, until it has fed it."""
        if ctx.server is not None and not self._fed:
            ctx.send(ctx.server, Feed(()))
            ctx.wake(ANNOUNCE, self.settings.retry)

    def _group(self, ctx: Context) -> None:
        """Links, tree or tiers have changed: who is asked and who is fed changes with them."""
        tree = ctx.container(TREE)
        before = self._reach
        self._reach = frozenset(tree.neighbours(ctx.node) if tree else ()) & self._linked
        if ctx.role is Role.CLIENT:
            return
        for name in self.questions.regroup(ctx, self._reach - before, before - self._reach):
            self.questions.settle(ctx, name, None)
        self._replicas &= set(ctx.container(BELOW) or ())
        near = {ctx.server} & self._linked if ctx.server else self._reach
        self.feeder.feed(near | (self._replicas & self._linked), self.shelf)
        self.feeder.run(ctx, self.shelf)


def _found(ctx: Context, call: int, key: str, item: Any, error: GossamerError | None) -> None:
    if error is None and (item is None or item.value is None):
        error = UnknownKey(key)
    ctx.reply(call, None if error else item, error)
