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
from gossamer.core.errors import LocalError, NoAnswer, UnknownTemplate
from gossamer.core.names import MAX_CHANNEL_NAME, MAX_NODE_NAME, NANOSECONDS, channel_id, check_channel
from gossamer.core.template import Membership, Settings, Template

MAX_ENTRIES = 100_000
MAX_SETTINGS = 16
MAX_SETTING = 200
ENTRIES_AT_ONCE = 50
"""Entries in one message; even the longest, in four-byte characters, fit a control frame."""
RETRY = 0.5
"""Seconds after which a question to the server is repeated."""
PATIENCE = 30
"""Seconds after which a question is forgotten."""
MAX_QUESTIONS = 10_000
MAX_REFUSAL = 500

ChannelName = Annotated[str, Meta(min_length=1, max_length=MAX_CHANNEL_NAME)]
SettingName = Annotated[str, Meta(max_length=64)]
Plain = Annotated[str, Meta(max_length=MAX_SETTING)] | int | float | bool
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A channel: a name bound to a template and its settings."""

    name: ChannelName
    template: Annotated[str, Meta(min_length=1, max_length=MAX_NODE_NAME)]
    settings: Annotated[dict[SettingName, Plain], Meta(max_length=MAX_SETTINGS)] = {}
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

_decode_question = msgspec.msgpack.Decoder(Question).decode


class Asked(Message, frozen=True):
    """A question from below."""

    call: Number
    question: Question


class Answered(Message, frozen=True):
    """What is known; close names if nothing is."""

    call: Number
    entries: Entries
    close: Annotated[tuple[ChannelName, ...], Meta(max_length=3)] = ()
    refusal: Annotated[str, Meta(max_length=MAX_REFUSAL)] = ""


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
    watches = (TREE,)

    def __init__(self, templates: Mapping[str, type[Template[Any]]]) -> None:
        super().__init__(Settings())
        self._templates = templates
        self.entries: dict[str, Entry] = {}
        self._by_id: dict[int, Entry] = {}
        self._pending: dict[int, Pending] = {}
        self._asked: dict[tuple[str | None, int], int] = {}
        """Who asked under which number, and the number it was passed on under."""
        self._number = 0
        self._linked: set[str] = set()
        self._near: frozenset[str] = frozenset()
        self._wondering: dict[int, int] = {}
        """Unknown channels that somebody was asked about, and when."""

    # questions, from the application here or from below

    def on_call(self, ctx: Context, call: int, request: Question) -> None:
        try:
            # what the other nodes would refuse as malformed is refused here, and in words
            request = _decode_question(msgspec.msgpack.encode(request))
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
            ctx.reply(call, _refused(call, f"the question breaks a limit: {error}"))
        else:
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
            self._say(ctx, asker, _refused(call, f"more than {MAX_QUESTIONS} open questions"))
        elif not self._on_its_way(asker, call, question):
            if not self._pending:
                ctx.wake("retry", RETRY)
            # above the clock, so that a late answer to an earlier life of this node answers nothing
            self._number = max(self._number + 1, ctx.now)
            until = ctx.now + PATIENCE * NANOSECONDS
            self._pending[self._number] = Pending(asker, call, question, until)
            self._asked[asker, call] = self._number
            ctx.send(server, Asked(self._number, question))

    def _on_its_way(self, asker: str | None, call: int, question: Question) -> bool:
        """Whether this is the repetition of a question that is being repeated from here anyway."""
        pending = self._pending.get(self._asked.get((asker, call), -1))
        return pending is not None and pending.question == question

    def _settle(self, number: int) -> Pending | None:
        """Forget a question."""
        pending = self._pending.pop(number, None)
        if pending is not None and self._asked.get((pending.asker, pending.call)) == number:
            del self._asked[pending.asker, pending.call]
        return pending

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
        try:
            check_channel(entry.name)
            if entry.template not in self._templates:
                raise UnknownTemplate(entry.template, self._templates)
            self._templates[entry.template].parse(dict(entry.settings))
        except LocalError as error:
            return _refused(call, str(error))
        if len(self.entries) >= MAX_ENTRIES:
            return _refused(call, f"the directory holds its limit of {MAX_ENTRIES} channels")
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
        pending = self._settle(answer.call)
        if pending is not None:
            for entry in answer.entries:
                self._learn(ctx, entry, sender)
            self._say(ctx, pending.asker, msgspec.structs.replace(answer, call=pending.call))

    def on_timer(self, ctx: Context, name: str) -> None:
        self._repeat(ctx)

    def _repeat(self, ctx: Context) -> None:
        server = ctx.server
        for number, each in tuple(self._pending.items()):
            if each.until <= ctx.now:
                self._settle(number)
                if each.asker is None:
                    ctx.reply(each.call, error=NoAnswer("a question to the directory", PATIENCE))
            elif server is not None:
                ctx.send(server, Asked(number, each.question))
        if self._pending:
            ctx.wake("retry", RETRY)

    # entries spread

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        if membership.change == "up":
            self._linked.add(membership.who)
            if membership.who in self._near:
                self._tell_all(ctx, membership.who)
        elif membership.change == "down":
            self._linked.discard(membership.who)

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        before, self._near = self._near, frozenset(value.neighbours(ctx.node) if value else ())
        for newcomer in sorted((self._near - before) & self._linked):
            self._tell_all(ctx, newcomer)

    def _tell_all(self, ctx: Context, neighbour: str) -> None:
        known = [self.entries[name] for name in sorted(self.entries)]
        for start in range(0, len(known), ENTRIES_AT_ONCE):
            ctx.send(neighbour, Learn(tuple(known[start : start + ENTRIES_AT_ONCE])))

    @on(Learn)
    def learn(self, ctx: Context, learn: Learn, sender: str) -> None:
        for entry in learn.entries:
            self._learn(ctx, entry, sender)

    def _learn(self, ctx: Context, entry: Entry, sender: str | None) -> None:
        """Keep an entry; if it is news, pass it on, and run the channel if somebody waits for it."""
        if self._keep(entry):
            ctx.send((each for each in sorted(self._near) if each != sender), Learn((entry,)))
        kept = self.entries.get(entry.name)
        if kept is not None and self._wondering.pop(channel_id(entry.name), None) is not None:
            self._run(ctx, kept)

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
        try:
            ctx.open(entry)
        except LocalError:
            # not installed here, or settings this version does not know: other nodes may still run it
            return


def _refused(call: int, reason: str) -> Answered:
    return Answered(call, (), refusal=reason[:MAX_REFUSAL])
