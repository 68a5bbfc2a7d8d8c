"""Questions to the registries of other nodes: they travel one hop at a time and are repeated until answered.

A question keeps the name of its source and a number all the way, so a copy is recognised wherever it comes.
It goes up to the server, or along the tree to all neighbours but the one it came from; a node where all of
those have nothing answers nothing too. Each node repeats it towards those who have not answered, and forgets
it when its patience ends: whoever asked has lost patience before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.context import Context
from gossamer.core.control import Message
from gossamer.core.errors import GossamerError, Refused
from gossamer.core.names import MAX_NODE_NAME, nanoseconds
from gossamer.overlay.registry.items import Item, ItemsAtOnce, Key, Number, Prefix

MAX_OPEN = 10_000
"""Questions that a node keeps open, and answers of nothing that it remembers."""
MAX_REFUSAL = 500
RETRY = "retry"
"""Name of the wake."""

Source = Annotated[str, Meta(max_length=MAX_NODE_NAME)]
Refusal = Annotated[str, Meta(max_length=MAX_REFUSAL)]


class Query(Message, frozen=True):
    """What do you know under this key?"""

    source: Source
    number: Number
    key: Key


class Put(Message, frozen=True):
    """Keep this, unless you know a newer one."""

    source: Source
    number: Number
    item: Item


class Browse(Message, frozen=True):
    """Which items are there with this prefix, after this key?"""

    source: Source
    number: Number
    prefix: Prefix
    after: Prefix


class Answer(Message, frozen=True):
    """To a query: what is known, None if nothing. To a put: what is kept now, None if it was refused."""

    source: Source
    number: Number
    item: Item | None
    refusal: Refusal = ""


class Page(Message, frozen=True):
    """The next items in order of key; none means that there are no more."""

    source: Source
    number: Number
    items: ItemsAtOnce


Question = Query | Put | Browse
Id = tuple[str, int]
Found = Item | tuple[Item, ...] | None
Then = Callable[[int, Found, GossamerError | None], None]
"""Takes the instant, and what was found or why not."""


class Open(msgspec.Struct):
    """A question that waits for answers.

    asker
        The neighbour that it came from; None if it was asked here, and then ``then`` takes the answer.
    waiting
        Neighbours that have not answered; None if it goes up to whatever server there is.
    """

    question: Question
    asker: str | None
    waiting: set[str] | None
    until: int
    patience: float
    then: Then | None = None


class Questions:
    """The open questions of one node, in bounded memory. Retry and patience in seconds."""

    def __init__(self, retry: float, patience: float) -> None:
        self.retry, self.patience = retry, patience
        self.open: dict[Id, Open] = {}
        self._nothing: dict[Id, int] = {}
        """Queries that were answered with nothing, and until when a copy of them may come."""
        self._number = 0

    def name(self, ctx: Context) -> Id:
        """Name a new question; above the clock, so that nothing answers an earlier life of this node."""
        self._number = max(self._number + 1, ctx.now)
        return ctx.node, self._number

    def ask(
        self,
        ctx: Context,
        question: Question,
        asker: str | None,
        waiting: set[str] | None,
        then: Then | None = None,
        patience: float | None = None,
    ) -> None:
        """Send a question to whoever it waits for and keep it in mind; nobody has nothing."""
        name = (question.source, question.number)
        patience = patience or self.patience
        asked = Open(question, asker, waiting, ctx.now + nanoseconds(patience), patience, then)
        if len(self.open) >= MAX_OPEN:
            self._conclude(ctx, asked, None, f"more than {MAX_OPEN} open questions")
            return
        if not self.open:
            ctx.wake(RETRY, self.retry)
        self.open[name] = asked
        self._send(ctx, asked)
        if waiting is not None and not waiting:
            self.settle(ctx, name, None)

    def again(self, ctx: Context, name: Id, question: Question) -> None:
        """Put a question in other words."""
        asked = self.open[name]
        asked.question = question
        self._send(ctx, asked)

    def _send(self, ctx: Context, asked: Open) -> None:
        up = (ctx.server,) if ctx.server else ()
        ctx.send(up if asked.waiting is None else sorted(asked.waiting), asked.question)

    def settle(self, ctx: Context, name: Id, found: Found, refusal: str = "") -> None:
        """Give the answer to who asked; that there is nothing is remembered for copies of the question."""
        asked = self.open.pop(name)
        if found is None and not refusal:
            if len(self._nothing) >= MAX_OPEN:
                del self._nothing[next(iter(self._nothing))]
            self._nothing[name] = asked.until
        self._conclude(ctx, asked, found, refusal)

    def _conclude(self, ctx: Context, asked: Open, found: Found, refusal: str) -> None:
        if asked.then is not None:
            asked.then(ctx.now, found, Refused("the registry", refusal) if refusal else None)
        elif asked.asker is not None and not isinstance(found, tuple):
            ctx.send(asked.asker, Answer(asked.question.source, asked.question.number, found, refusal))

    def had_nothing(self, name: Id) -> bool:
        """Whether this was asked before and answered with nothing."""
        return name in self._nothing

    def repeat(self, ctx: Context) -> list[Open]:
        """Repeat what has not been answered; the questions whose patience has ended."""
        ended = [name for name, asked in self.open.items() if asked.until <= ctx.now]
        given_up = [self.open.pop(name) for name in ended]
        for asked in self.open.values():
            self._send(ctx, asked)
        self._nothing = {name: until for name, until in self._nothing.items() if until > ctx.now}
        if self.open:
            ctx.wake(RETRY, self.retry)
        return given_up

    def moved(self, ctx: Context) -> None:
        """There is another server: ask it."""
        for asked in self.open.values():
            if asked.waiting is None:
                self._send(ctx, asked)

    def regroup(self, ctx: Context, came: Iterable[str], gone: Iterable[str]) -> Iterator[Id]:
        """The tree has changed: ask who came, do not wait for who is gone; what is left without anybody."""
        came, gone = sorted(came), set(gone)
        for name, asked in tuple(self.open.items()):
            if asked.waiting is None:
                continue
            asked.waiting -= gone
            for each in came:
                if each != asked.asker:
                    asked.waiting.add(each)
                    ctx.send(each, asked.question)
            if not asked.waiting:
                yield name
