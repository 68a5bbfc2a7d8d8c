"""Filters told to neighbours, so that each knows exactly what it was meant to, whatever gets lost.

One message is on its way to a neighbour at a time; it says what changed since the last one that was
acknowledged, and is said again until it is. Changes in the meantime go into the next. Each message also says
what its teller knows of the other: who finds that the other has forgotten something begins from nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from gossamer.core.context import Context
from gossamer.core.control import MOST
from gossamer.core.errors import ProtocolError
from gossamer.core.event import Criteria
from gossamer.filters.identity import identity, restored
from gossamer.templates.dispatch.messages import MAX_TOLD, TOLD_BYTES, Filter, Tell, Told

MAX_FILTERS = 200_000
"""Filters that a neighbour may tell."""

Key = tuple[bool, bytes]
"""Whether it is an advertisement, and the filter's identity."""
Table = dict[Key, Criteria]


class Outgoing(msgspec.Struct):
    """What a neighbour knows of this node, and what is on its way to it."""

    version: int = 0
    known: Table = {}
    pending: Tell | None = None
    after: Table = {}
    """What it will know when it has the message."""
    even: bool = False
    """Whether it knows all that it has to."""


class Incoming(msgspec.Struct):
    """What a neighbour has told."""

    life: int
    version: int = 0
    table: Table = {}


class Telling:
    """What neighbours have told this node, and what it has told them."""

    def __init__(self) -> None:
        self.said: dict[str, Incoming] = {}
        self._out: dict[str, Outgoing] = {}
        self._version = 0

    @property
    def nodes(self) -> set[str]:
        """Who has told this node something or was told by it."""
        return {*self.said, *self._out}

    def waits_for(self, node: str) -> bool:
        """Whether a neighbour has something to acknowledge."""
        out = self._out.get(node)
        return out is not None and out.pending is not None

    def behind(self, node: str) -> None:
        """A neighbour may have to know something else than it does."""
        if node in self._out:
            self._out[node].even = False

    def tells(self, node: str) -> bool:
        """Whether a neighbour has been told anything."""
        return node in self._out

    def even(self, node: str) -> bool:
        """Whether a neighbour has acknowledged all that it has to know."""
        out = self._out.get(node)
        return out is not None and out.even and out.pending is None

    def tell(self, ctx: Context, node: str, due: Callable[[str], Table], again: bool = False) -> bool:
        """Tell a neighbour what it does not know yet, or again what it has not heard; is it waiting?"""
        out = self._out.get(node)
        new = out is None
        if out is None:
            out = self._out[node] = Outgoing()
        if out.pending is None:
            if out.even:
                return False
            wanted = due(node)
            added = [(key, each) for key, each in wanted.items() if key not in out.known]
            dropped = [(key, each) for key, each in out.known.items() if key not in wanted]
            out.even = not added and not dropped
            if out.even and not new:
                return False
            self._prepare(ctx, out, added, dropped)
        elif not again:
            return True
        said = self.said.get(node)
        knows = (said.life, said.version) if said else (0, 0)
        assert out.pending is not None
        ctx.send(node, msgspec.structs.replace(out.pending, knows=knows))
        return True

    def _prepare(
        self,
        ctx: Context,
        out: Outgoing,
        added: list[tuple[Key, Criteria]],
        dropped: list[tuple[Key, Criteria]],
    ) -> None:
        gone, new = _some(dropped), _some(added)
        self._version += 1
        out.after = {key: each for key, each in out.known.items() if key not in gone} | new
        out.pending = Tell(ctx.incarnation, self._version, out.version, (0, 0), tuple(new), tuple(gone))

    def told(self, ctx: Context, told: Told, sender: str) -> None:
        """A neighbour has the message that is on its way, or lacks the one before it."""
        out = self._out.get(sender)
        if out is None or out.pending is None:
            return
        if (told.life, told.version) != (ctx.incarnation, out.pending.version):
            return  # an answer to an earlier message, which says nothing about now
        if told.has == told.version:
            out.known, out.version, out.pending, out.after = out.after, told.version, None, {}
        elif told.has <= self._version:
            self.begin(sender)
        elif told.has < MOST // 2:  # invented in the name of this node: the next message outdoes it
            self._version = told.has
            self.begin(sender)

    def hear(self, ctx: Context, tell: Tell, sender: str) -> tuple[Table, Table]:
        """A neighbour tells; what is new and what is gone. Raises ProtocolError if it makes no sense."""
        said = self.said.get(sender)
        if said is not None and tell.life < said.life:
            return {}, {}  # of an earlier life, on its way for long
        known = Incoming(tell.life) if said is None or said.life != tell.life else said
        before = said.table if said else {}
        if tell.version > known.version and tell.base in (0, known.version):
            table = {} if tell.base == 0 else dict(known.table)
            for key in _restored(tell.dropped):
                table.pop(key, None)
            table |= _restored(tell.added)
            if len(table) > MAX_FILTERS:
                raise ProtocolError("message.added", len(table), f"at most {MAX_FILTERS} filters in all")
            known = self.said[sender] = Incoming(tell.life, tell.version, table)
            if tell.base == 0:
                self._check(ctx, tell, sender)
        ctx.send(sender, Told(tell.life, tell.version, known.version))
        after = self.said[sender].table if sender in self.said else {}
        added = {key: each for key, each in after.items() if key not in before}
        return added, {key: each for key, each in before.items() if key not in after}

    def _check(self, ctx: Context, tell: Tell, sender: str) -> None:
        """A neighbour has begun: begin too, unless it still has what this node thinks it has."""
        out = self._out.get(sender)
        if out is not None and out.version:
            versions = (out.version, out.pending.version if out.pending else 0)
            if tell.knows[0] != ctx.incarnation or tell.knows[1] not in versions:
                self.begin(sender)

    def begin(self, node: str) -> None:
        """Tell a neighbour everything, from nothing."""
        self._out.pop(node, None)

    def forget(self, node: str) -> Table:
        """A node is no neighbour any more; what it had told."""
        self.begin(node)
        said = self.said.pop(node, None)
        return said.table if said else {}


def _some(entries: list[tuple[Key, Criteria]]) -> Table:
    """As many as one message takes."""
    found: Table = {}
    size = 0
    for key, criteria in entries[:MAX_TOLD]:
        size += len(key[1])
        if found and size > TOLD_BYTES:
            break
        found[key] = criteria
    return found


def _restored(filters: Iterable[Filter]) -> Table:
    """Filters that were told; the same filter has the same key, however it was written down."""
    found = ((advertised, restored(each)) for advertised, each in filters)
    return {(advertised, identity(criteria)): criteria for advertised, criteria in found}
