"""The directory: which channels there are, and what each is made of.

A service on every node. Entries are items of the registry, below ``channel/``, which keeps and spreads them;
here is what they mean. A node below a server asks it; a server that does not know a name asks the other
registries before it says so, and before it makes the channel. A node that meets a channel it does not know
asks whoever sent it. Two nodes that clone one name at once end with the same entry: the earlier one, by clock
and then by name of the creator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gossamer.core.context import Context
from gossamer.core.control import Message, on
from gossamer.core.errors import GossamerError, LocalError, NoAnswer, UnknownTemplate
from gossamer.core.names import MAX_CHANNEL_NAME, MAX_NODE_NAME, NANOSECONDS, channel_id, check_channel
from gossamer.core.template import Settings, Template
from gossamer.overlay.directory.pending_templates import TEMPLATES, Got, Wanted, Wants
from gossamer.overlay.registry.items import CHANNELS, LATEST, Item
from gossamer.overlay.registry.service import Registry

MAX_ENTRIES = 100_000
MAX_SETTINGS = 16
MAX_SETTING = 200
ENTRIES_AT_ONCE = 50
"""Entries in one message; even the longest, in four-byte characters, fit a control frame."""
RETRY = 0.5
"""Seconds after which a question to the server is repeated."""
PATIENCE = 30
"""Seconds after which a question is forgotten."""
CLAIM_PATIENCE = 2.0
"""Seconds that a new channel waits for registries that do not say whether they know its name."""
MAX_QUESTIONS = 10_000
MAX_REFUSAL = 500
MAX_COMPARED = 200
"""Names that an unknown one is compared with; each comparison takes the square of its length."""
MISSPELT = 2
"""Characters by which the name that was meant is longer or shorter."""

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
_decode_entry = msgspec.msgpack.Decoder(Entry).decode
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


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
    """What you asked about."""

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
    """Finds channels by name and by number.

    Promises: a name found anywhere means the same everywhere, once the network is in one piece.
    Costs: what the registry needs for one item per channel; a question and an answer per lookup below a
        server.
    Needs: the registry of the same node.
    """

    name = "gossamer.directory"

    def __init__(self, templates: Mapping[str, type[Template[Any]]], registry: Registry) -> None:
        super().__init__(Settings())
        self.registry = registry
        self.entries: dict[str, Entry] = {}
        """What the registry's items below ``channel/`` say, by name."""
        self._templates = templates
        self._by_id: dict[int, Entry] = {}
        self._pending: dict[int, Pending] = {}
        self._asked: dict[tuple[str | None, int], int] = {}
        """Who asked under which number, and the number it was passed on under."""
        self._finding: set[tuple[str | None, int]] = set()
        """Questions that wait for the registry."""
        self._number = 0
        self._wondering: dict[int, int] = {}
        """Unknown channels that somebody was asked about, and when."""
        self._wanted = Wanted()

    def on_open(self, ctx: Context) -> None:
        for item in self.registry.shelf.items(CHANNELS):
            self._index(item)
        self.registry.listen(CHANNELS, lambda now, item: self._changed(ctx, item))
        self.registry.listen(TEMPLATES, lambda now, item: self._published(ctx, item))

    # questions, from the application here or from below

    def on_call(self, ctx: Context, call: int, request: Question | Wants | Got) -> None:
        if isinstance(request, Wants):
            self._wanted.serve(call)
            return
        if isinstance(request, Got):
            self._wanted.got(ctx, request)
            ctx.reply(call)
            return
        try:
            # what the other nodes would refuse as malformed is refused here, and in words
            question = _decode_question(msgspec.msgpack.encode(request))
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
            ctx.reply(call, _refused(call, f"the question breaks a limit: {error}"))
        else:
            self._ask(ctx, None, call, question)

    @on(Asked)
    def asked(self, ctx: Context, asked: Asked, sender: str) -> None:
        self._ask(ctx, sender, asked.call, asked.question)

    def _ask(self, ctx: Context, asker: str | None, call: int, question: Question) -> None:
        server = ctx.server
        known = self.entries.get(question.channel) if isinstance(question, Lookup) else None
        if known is not None:
            self._say(ctx, asker, Answered(call, (known,)))
        elif server is None:
            self._answer(ctx, asker, call, question)
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

    def _answer(self, ctx: Context, asker: str | None, call: int, question: Question) -> None:
        match question:
            case Clone(entry):
                self._clone(ctx, asker, call, entry)
            case Lookup(channel):
                self._find(ctx, asker, call, channel, lambda now: self._unknown(call, channel), None)
            case Listing(after):
                names = sorted(name for name in self.entries if name > after)[:ENTRIES_AT_ONCE]
                self._say(ctx, asker, Answered(call, tuple(self.entries[name] for name in names)))

    def _find(
        self,
        ctx: Context,
        asker: str | None,
        call: int,
        channel: str,
        otherwise: Callable[[int], Answered],
        patience: float | None,
    ) -> None:
        """Answer with the entry of a channel, from wherever the registry finds it, or otherwise."""

        def then(now: int, found: object, error: GossamerError | None) -> None:
            self._finding.discard((asker, call))
            known = self.entries.get(channel)
            self._say(ctx, asker, Answered(call, (known,)) if known else otherwise(now))

        if (asker, call) not in self._finding:
            self._finding.add((asker, call))
            self.registry.find(ctx.now, CHANNELS + channel, then, patience)

    def _unknown(self, call: int, channel: str) -> Answered:
        return Answered(call, (), tuple(_close(channel, self.entries)))

    def _clone(self, ctx: Context, asker: str | None, call: int, entry: Entry) -> None:
        def go_on(refusal: str) -> None:
            if refusal:
                self._say(ctx, asker, _refused(call, refusal))
            else:
                self._clone(ctx, asker, call, entry)

        try:
            if entry.name not in self.entries:
                check_channel(entry.name)
                if entry.template not in self._templates:
                    if self._wanted.want(ctx, entry.template, (asker, call), go_on):
                        return
                    raise UnknownTemplate(entry.template, self._templates)
                self._templates[entry.template].parse(dict(entry.settings))
        except LocalError as error:
            self._say(ctx, asker, _refused(call, str(error)))
            return
        made = msgspec.structs.replace(entry, created=ctx.now, creator=ctx.node)
        self._find(ctx, asker, call, entry.name, lambda now: self._claim(now, call, made), CLAIM_PATIENCE)

    def _claim(self, now: int, call: int, entry: Entry) -> Answered:
        if len(self.entries) >= MAX_ENTRIES:
            return _refused(call, f"the directory holds its limit of {MAX_ENTRIES} channels")
        try:
            self.registry.claim(now, item_of(entry))
        except LocalError as error:
            return _refused(call, str(error))
        return Answered(call, (self.entries[entry.name],))

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
                self.registry.learn(ctx.now, item_of(entry))
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

    # entries come from the registry

    def _changed(self, ctx: Context, item: Item) -> None:
        """Know an entry, and run the channel if somebody waits for it."""
        entry = self._index(item)
        if entry is not None and self._wondering.pop(channel_id(entry.name), None) is not None:
            self._run(ctx, entry)

    def _index(self, item: Item) -> Entry | None:
        entry = entry_of(item)
        if entry is None or (entry.name not in self.entries and len(self.entries) >= MAX_ENTRIES):
            return None
        self.entries[entry.name] = self._by_id[channel_id(entry.name)] = entry
        return entry

    def _published(self, ctx: Context, item: Item) -> None:
        template = item.key.removeprefix(TEMPLATES)
        self._wanted.changed(ctx, template, template in self._templates)

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

    @on(Learn)
    def learn(self, ctx: Context, learn: Learn, sender: str) -> None:
        for entry in learn.entries:
            self.registry.learn(ctx.now, item_of(entry))

    @on(WhatIs)
    def what_is(self, ctx: Context, what: WhatIs, sender: str) -> None:
        entry = self._by_id.get(what.channel)
        if entry is not None:
            ctx.send(sender, Learn((entry,)))

    def _run(self, ctx: Context, entry: Entry) -> None:
        if entry.template not in self._templates:

            def go_on(refusal: str) -> None:
                if not refusal:
                    self._run(ctx, entry)

            self._wanted.want(ctx, entry.template, entry.name, go_on, patient=True)
            return
        try:
            ctx.open(entry)
        except LocalError:
            # settings that this version does not know: other nodes may still run it
            return


def _refused(call: int, reason: str) -> Answered:
    return Answered(call, (), refusal=reason[:MAX_REFUSAL])


def _close(channel: str, names: Iterable[str]) -> list[str]:
    """Names close to one that is not there; only so many are compared."""
    ends = (channel[0], channel[-1])
    alike = (
        name
        for name in names
        if abs(len(name) - len(channel)) <= MISSPELT and (name[0] == ends[0] or name[-1] == ends[1])
    )
    return get_close_matches(channel, islice(alike, MAX_COMPARED), n=3)


def item_of(entry: Entry) -> Item:
    """The item of the registry that holds an entry; the earlier it was created, the newer its version."""
    return Item(CHANNELS + entry.name, LATEST - entry.created, entry.creator, _encode(entry))


def entry_of(item: Item) -> Entry | None:
    """The entry that an item holds; None if it makes no sense."""
    try:
        entry = _decode_entry(item.value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return entry if item_of(entry) == item else None
