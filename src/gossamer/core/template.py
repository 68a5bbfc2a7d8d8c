"""Template: the base of every routing protocol.

A template instance is one channel at one node. Its handlers are told what happened and ask the context
for effects; they never read a clock, roll dice of their own, await or touch a socket. The docstring of a
template says in four paragraphs what it promises, what an acknowledgement means, what it costs and what it
needs, as::

    Promises: at most once.
    Acknowledged: Never; publishing is best effort and `acknowledged` is refused.
    Costs: one copy per tree edge with interest behind it.
    Needs: a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from inspect import cleandoc
from operator import or_
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from gossamer.core.context import Context
from gossamer.core.control import Message, handlers_of
from gossamer.core.effect import Report
from gossamer.core.errors import ConfigError, ProtocolError, StorageError
from gossamer.core.event import Attributes
from gossamer.core.names import Role
from gossamer.core.parcel import Parcel
from gossamer.core.receipt import Stamp
from gossamer.core.trace import EXPIRED
from gossamer.core.wire import Item

AT_MOST_ONCE = "at-most-once"
"""No subscriber gets an event twice, nor one that was not published."""


GAP_FREE = "gap-free"
"""Between a subscriber's first event of a source and its last, none is missing and none out of order."""


TOTAL_ORDER = "total-order"
"""If two subscribers get the same two events, they get them in the same order."""


DURABLE = "durable"
"""What was acknowledged survives the end of every process, and can be had again."""


PROGRESS = "progress"
"""What a source that stays has published reaches every subscriber that stays, and is acknowledged in the end;
nothing is acknowledged that a subscriber who stays never gets."""


CAUSAL = "causal"
"""No subscriber gets an event before one that it depends on: one published or delivered earlier where it was
published."""


NEVER = "Never; publishing is best effort and `acknowledged` is refused."
"""What ``Acknowledged:`` says of a template that does not acknowledge."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a channel; a template's own subclass says unit, formula and limit of each field."""


class Membership(msgspec.Struct, frozen=True):
    """A subscriber here came or went, somebody here is about to publish, a link came up or went down, or a
    neighbour does not take what is sent to it fast enough, or does so again.
    """

    change: Literal["subscribed", "unsubscribed", "publishing", "up", "down", "congested", "relieved"]
    who: str


S = TypeVar("S", bound=Settings)


class Template(Generic[S]):
    """One routing protocol. Subclass it, name it, and answer what you care about."""

    name: ClassVar[str]
    settings_type: ClassVar[type[Settings]] = Settings
    promises: ClassVar[frozenset[str]] = frozenset()
    """Words for what is promised; checkers and audits hold a run against them."""
    local: ClassVar[bool] = False
    """Whether events never leave the node where they were published."""
    keeps: ClassVar[bool] = False
    """Whether a subscription may be kept under a name while nobody is there (``durable``)."""
    acknowledges: ClassVar[bool] = False
    """Whether publishers are told when their events are acknowledged; the docstring says what that means."""
    repairs: ClassVar[bool] = False
    """Whether a parcel that the network lost on its way from here is sent again. Else the loss is final, and
    ``drain`` tells it."""
    parcel_bytes: ClassVar[int] = 1024 * 1024
    """Size at which parcels are sealed, where links carry them in one piece: a parcel costs the same whatever
    is in it, up to what the caches hold."""
    content_based: ClassVar[bool] = False
    """Whether attributes say where parcels go: all events of one have the same, and ``admit`` is asked."""
    operations: ClassVar[tuple[type, ...]] = ()
    """What applications may ask of it beside publishing and subscribing; ``on_call`` answers."""
    watches: ClassVar[tuple[str, ...]] = ()
    """Containers whose changes ``on_container`` wants to hear of."""

    _handlers: ClassVar[dict[type[Message], str]] = {}
    _decoder: ClassVar[msgspec.msgpack.Decoder[Any] | None] = None

    def __init__(self, settings: S) -> None:
        self.settings = settings

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._handlers = handlers_of(cls)
        vocabulary = tuple(cls._handlers)
        cls._decoder = msgspec.msgpack.Decoder(reduce(or_, vocabulary)) if vocabulary else None

    # what happens; the defaults do what needs no protocol

    def on_open(self, ctx: Context) -> None:
        """The channel has come to this node."""

    def admit(self, attributes: Attributes) -> None:
        """Raise if an event with these attributes may not be published; content-based templates only."""

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        """An application here published."""

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        """A neighbour sent a parcel."""
        ctx.drop(parcel, "this template takes no parcels from other nodes")

    def on_expired(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        """A neighbour sent a parcel whose time has passed."""
        ctx.drop(parcel, EXPIRED)

    def on_feedback(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        """An answer on its way to one source; sender None means it begins here."""
        assert parcel.header.answers is not None
        target = parcel.header.answers.stamp
        if target.node == ctx.node:
            ctx.deliver_feedback(parcel)
            return
        hop = ctx.toward(self.whereabouts(target))
        if hop is None or hop == sender:
            ctx.drop(parcel, "no way to the source")
        else:
            ctx.send(hop, parcel)

    def whereabouts(self, stamp: Stamp) -> str:
        """The address of a source as it is known here; a source may have moved since it made the stamp."""
        return stamp.source

    def on_timer(self, ctx: Context, name: str) -> None:
        """A wake asked for earlier."""

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        """Subscribers here or links of this node changed."""

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        """A watched container changed."""

    def on_call(self, ctx: Context, call: int, request: Any) -> None:
        """An application asks for one of ``operations``; answer with ``ctx.reply(call, …)``."""

    def on_unknown(self, ctx: Context, channel: int, sender: str) -> None:
        """A neighbour sent something of a channel that does not run here; services only."""

    def on_report(self, ctx: Context, report: Report) -> None:
        """Storage has done what was asked for."""

    def obstacle(self, ctx: Context) -> str | None:
        """What publishers here have to wait for, in words; None lets them publish."""
        return None

    def waits(self, ctx: Context, item: Item) -> bool:
        """Whether an item that is to be sent depends on values that were stored and are not on disk yet."""
        return True

    def failure(self, ctx: Context) -> StorageError | None:
        """Why events that are published here are not stored now; publishers get it instead of waiting."""
        return None

    def blanks(self, ctx: Context) -> int:
        """How many parcels without events have to leave before those that are sealed now."""
        return 0

    def unconfirmed(self, ctx: Context) -> Iterable[str]:
        """Neighbours that have not confirmed all that went to them; ``drain`` waits for linked ones.

        The node itself, while it alone answers for events, or while its disk has not confirmed them.
        """
        return ()

    def has_subscribers(self, ctx: Context) -> bool:
        """Whether somebody, as far as this node knows, listens."""
        return bool(ctx.subscribers)

    # for whoever looks on, such as a simulator

    @classmethod
    def recovery(cls, settings: Any) -> float:
        """Seconds after the last fault by which a channel with these settings makes progress again."""
        return 0.0

    def quorum(self) -> int:
        """On how many disks an acknowledged event is, if this node leads the voters; else 0."""
        return 0

    def figures(self) -> dict[str, int]:
        """What this instance has counted of its own doing, by name; sums over nodes must make sense."""
        return {}

    def onward(self, ctx: Context, parcel: Parcel, sender: str) -> Iterable[str]:
        """Where a parcel from a neighbour would go next had it not expired here; nowhere if it goes on so."""
        return ()

    # for the engine

    def dispatch(self, ctx: Context, message: Message, sender: str) -> None:
        handler = self._handlers.get(type(message))
        if handler is None:
            raise ProtocolError("message", type(message).__name__, f"a message of template {self.name!r}")
        getattr(self, handler)(ctx, message, sender)

    @classmethod
    def for_role(cls, role: Role) -> type[Template[S]]:
        """The class that runs on nodes of a role; a template may have other logic for each tier."""
        return cls

    @classmethod
    def vocabulary(cls) -> tuple[type[Message], ...]:
        """The control messages that it takes."""
        return tuple(cls._handlers)

    @classmethod
    def decoder(cls) -> msgspec.msgpack.Decoder[Any]:
        if cls._decoder is None:
            raise ProtocolError("kind", "control", f"none: template {cls.name!r} has no control messages")
        return cls._decoder

    @classmethod
    def parse(cls, settings: dict[str, Any]) -> Settings:
        """Settings from plain values; raises ConfigError naming the key."""
        try:
            return msgspec.convert(settings, cls.settings_type)
        except msgspec.ValidationError as error:
            text, _, path = str(error).partition(" - at `$.")
            key = path.rstrip("`") or (re.findall(r"field `(\w+)`", text) or [""])[0]
            known = ", ".join(cls.settings_type.__struct_fields__) or "none"
            raise ConfigError(f"{text} (settings of {cls.name!r}: {known})", key=key) from None

    @classmethod
    def described(cls) -> dict[str, str]:
        """Summary, promise, meaning of an acknowledgement, cost and needs, read from the docstring."""
        text = cleandoc(vars(cls)["__doc__"] or "")
        found = {"summary": text.split("\n\n")[0].replace("\n", " ")}
        for word in ("Promises", "Acknowledged", "Costs", "Needs"):
            part = re.search(rf"^{word}: (.*?)(?=^\w+: |\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
            found[word.lower()] = " ".join(part[1].split()) if part else ""
        if not found["acknowledged"] and not cls.acknowledges:
            found["acknowledged"] = NEVER
        return found
