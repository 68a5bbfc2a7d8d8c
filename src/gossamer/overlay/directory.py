"""The directory: which channels there are, and what each is made of.

A service on every node. Servers and peers keep all entries and pass new ones on along the tree; a node
below a server asks it. A node that meets a channel it does not know asks whoever sent it. Two nodes that
clone one name at once end with the same entry: the earlier one, by clock and then by name of the creator.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gossamer.core.context import TREE, Context
from gossamer.core.control import Message, on
from gossamer.core.errors import UnknownTemplate
from gossamer.core.names import MAX_CHANNEL_NAME, MAX_NODE_NAME, NANOSECONDS, channel_id
from gossamer.core.template import Membership, Settings, Template

MAX_ENTRIES = 100_000
ENTRIES_AT_ONCE = 100
RETRY = 0.5
"""Seconds after which a question to the server is repeated."""
PATIENCE = 30
"""Seconds after which a question is forgotten."""
MAX_QUESTIONS = 10_000

ChannelName = Annotated[str, Meta(min_length=1, max_length=MAX_CHANNEL_NAME)]
Plain = str | int | float | bool
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A channel: a name bound to a template and its settings."""

    name: ChannelName
    template: Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME)]
    settings: Annotated[dict[Annotated[str, Meta(max_length=64)], Plain], Meta(max_length=64)] = {}
    created: Number = 0
    creator: Annotated[str, Meta(max_length=MAX_NODE_NAME)] = ""

    def same(self, other: Entry) -> bool:
        """Whether both are made of the same template and settings."""
        return self.template == other.template and self.settings == other.settings

    @property
    def made_of(self) -> str:
        """Template and settings, for people to read."""
        settings = ", ".join(f"{key}={value}" for key, value in sorted(self.settings.items()))
        return f"{self.template}({settings})" if settings else self.template


Entries = Annotated[tuple[Entry, ...], Meta(max_length=ENTRIES_AT_ONCE)]


class Clone(Message, frozen=True):
    """Make this channel, unless the name is taken."""

    entry: Entry


class Lookup(Message, frozen=True):
    """What is known under this name?"""

    channel: ChannelName


class Listing(Message, frozen=True):
    """Which channels come after this name, in order?"""

    after: Annotated[str, Meta(max_length=MAX_CHANNEL_NAME)]


Question = Clone | Lookup | Listing


class Asked(Message, frozen=True):
    """A question from below."""

    call: Number
    question: Question


class Answered(Message, frozen=True):
    """What is known; close names if nothing is."""

    call: Number
    entries: Entries
    close: Annotated[tuple[ChannelName, ...], Meta(max_length=3)] = ()
    refusal: Annotated[str, Meta(max_length=500)] = ""


class Learn(Message, frozen=True):
    """Entries you may not know."""

    entries: Entries


class WhatIs(Message, frozen=True):
    """You sent something of this channel; what is it?"""

    channel: Number


class Pending(msgspec.Struct):
    """A question on its way up: who asked, under which number, and until when it matters."""

    asker: str | None
    call: int
    question: Question
    until: int


class Directory(Template[Settings]):
    """Keeps the entries of a node and finds those of others.

    Promises: a name found anywhere means the same everywhere, once the network is in one piece.
    Costs: one message per tree edge and new channel; a question and an answer per lookup below a server.
    Needs: nothing.
    """

    name = "gossamer.directory"

    def __init__(self, templates: Mapping[str, type[Template[Any]]]) -> None:
        super().__init__(Settings())
        self._templates = templates
        self.entries: dict[str, Entry] = {}
        self._by_id: dict[int, Entry] = {}
        self._pending: dict[int, Pending] = {}
        self._number = 0
        self._wondering: dict[int, int] = {}
        """Unknown channels that somebody was asked about, and when."""

    # questions, from the application here or from below

    def on_call(self, ctx: Context, call: int, request: Question) -> None:
        self._ask(ctx, None, call, request)

    @on(Asked)
    def asked(self, ctx: Context, asked: Asked, sender: str) -> None:
        self._ask(ctx, sender, asked.call, asked.question)

    def _ask(self, ctx: Context, asker: str | None, call: int, question: Question) -> None:
        server = ctx.server
        known = self.entries.get(question.channel) if isinstance(question, Lookup) else None
        if server is None or known is not None:
            self._say(ctx, asker, self._answer(ctx, call, question))
        elif len(self._pending) >= MAX_QUESTIONS:
            self._say(ctx, asker, Answered(call, (), refusal=f"more than {MAX_QUESTIONS} open questions"))
        else:
            self._number += 1
            until = ctx.now + PATIENCE * NANOSECONDS
            self._pending[self._number] = Pending(asker, call, question, until)
            ctx.send(server, Asked(self._number, question))
            ctx.wake("retry", RETRY)

    def _answer(self, ctx: Context, call: int, question: Question) -> Answered:
        match question:
            case Clone(entry):
                return self._clone(ctx, call, entry)
            case Lookup(channel):
                known = self.entries.get(channel)
                close = () if known else tuple(get_close_matches(channel, self.entries, n=3))
                return Answered(call, (known,) if known else (), close)
            case Listing(after):
                names = sorted(name for name in self.entries if name > after)[:ENTRIES_AT_ONCE]
                return Answered(call, tuple(self.entries[name] for name in names))

    def _clone(self, ctx: Context, call: int, entry: Entry) -> Answered:
        known = self.entries.get(entry.name)
        if known is not None:
            return Answered(call, (known,))
        if entry.template not in self._templates:
            return Answered(call, (), refusal=str(UnknownTemplate(entry.template, self._templates)))
        if len(self.entries) >= MAX_ENTRIES:
            return Answered(call, (), refusal=f"the directory holds its limit of {MAX_ENTRIES} channels")
        entry = msgspec.structs.replace(entry, created=ctx.now, creator=ctx.node)
        self._learn(ctx, entry, None)
        return Answered(call, (entry,))

    def _say(self, ctx: Context, asker: str | None, answer: Answered) -> None:
        if asker is None:
            ctx.reply(answer.call, answer)
        else:
            ctx.send(asker, answer)

    @on(Answered)
    def answered(self, ctx: Context, answer: Answered, sender: str) -> None:
        pending = self._pending.pop(answer.call, None)
        if pending is not None:
            for entry in answer.entries:
                self._keep(entry)
            self._say(ctx, pending.asker, msgspec.structs.replace(answer, call=pending.call))

    def on_timer(self, ctx: Context, name: str) -> None:
        self._repeat(ctx)

    def _repeat(self, ctx: Context) -> None:
        server = ctx.server
        self._pending = {n: each for n, each in self._pending.items() if each.until > ctx.now}
        for number, each in self._pending.items():
            if server is not None:
                ctx.send(server, Asked(number, each.question))
        if self._pending:
            ctx.wake("retry", RETRY)

    # entries spread

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        tree = ctx.container(TREE)
        if membership.change == "up" and tree and membership.who in tree.neighbours(ctx.node):
            known = [self.entries[name] for name in sorted(self.entries)]
            for start in range(0, len(known), ENTRIES_AT_ONCE):
                ctx.send(membership.who, Learn(tuple(known[start : start + ENTRIES_AT_ONCE])))

    @on(Learn)
    def learn(self, ctx: Context, learn: Learn, sender: str) -> None:
        for entry in learn.entries:
            self._learn(ctx, entry, sender)

    def _learn(self, ctx: Context, entry: Entry, sender: str | None) -> None:
        """Keep an entry; if it is news, pass it on, and run the channel if somebody waits for it."""
        if not self._keep(entry):
            return
        tree = ctx.container(TREE)
        if tree:
            ctx.send((each for each in tree.neighbours(ctx.node) if each != sender), Learn((entry,)))
        if self._wondering.pop(channel_id(entry.name), None) is not None:
            self._run(ctx, entry)

    def _keep(self, entry: Entry) -> bool:
        known = self.entries.get(entry.name)
        if known is not None and (known.created, known.creator) <= (entry.created, entry.creator):
            return False
        if known is None and len(self.entries) >= MAX_ENTRIES:
            return False
        self.entries[entry.name] = self._by_id[channel_id(entry.name)] = entry
        return True

    # channels that turn up

    def on_unknown(self, ctx: Context, channel: int, sender: str) -> None:
        entry = self._by_id.get(channel)
        if entry is not None:
            self._run(ctx, entry)
            return
        asked = self._wondering.get(channel)
        if asked is None or ctx.now - asked > RETRY * NANOSECONDS:
            if len(self._wondering) >= MAX_QUESTIONS:
                self._wondering.clear()
            self._wondering[channel] = ctx.now
            ctx.send(sender, WhatIs(channel))

    @on(WhatIs)
    def what_is(self, ctx: Context, what: WhatIs, sender: str) -> None:
        entry = self._by_id.get(what.channel)
        if entry is not None:
            ctx.send(sender, Learn((entry,)))

    def _run(self, ctx: Context, entry: Entry) -> None:
        if entry.template in self._templates:
            ctx.open(entry)
