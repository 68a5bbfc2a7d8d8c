"""Introductions: telling one node of others that live, with their addresses."""

from __future__ import annotations

from collections.abc import Collection

from gossamer.core.context import Context
from gossamer.overlay.backbone.flood_repair import AT_ONCE
from gossamer.overlay.backbone.members import NEVER, Roster
from gossamer.overlay.backbone.messages import MAX_ADDRESSES, Introduction, Person
from gossamer.overlay.backbone.tree_codec import MAX_NODES, decode_age, encode_age


class Introductions:
    """Makes and takes introductions for one node, and remembers when it made one to whom."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._made: dict[str, int] = {}

    def due(self, ctx: Context, to: str, gap: int) -> bool:
        """Whether a node was not told anything within a gap; notes that it is told now."""
        if ctx.now - self._made.get(to, NEVER) < gap:
            return False
        if len(self._made) >= MAX_NODES:
            self._made.clear()
        self._made[to] = ctx.now
        return True

    def make(self, ctx: Context, to: str, names: Collection[str]) -> None:
        """Tell a node of others; whoever names itself asks to be told of everybody."""
        ordered = sorted(names)
        for start in range(0, len(ordered), AT_ONCE):
            people = tuple(self._person(ctx, each) for each in ordered[start : start + AT_ONCE])
            ctx.send(to, Introduction(people))

    def take(self, ctx: Context, introduction: Introduction) -> None:
        """Believe what is told, as far as it is not older than what is known."""
        for person in introduction.people:
            if person.name != ctx.node:
                self._roster.hear(person.name, ctx.now - decode_age(person.age), person.addresses)

    def heard(self, ctx: Context, name: str) -> int:
        """When a node was last known to live; this one lives now."""
        return ctx.now if name == ctx.node else self._roster.heard(name)

    def _person(self, ctx: Context, name: str) -> Person:
        addresses = self._roster.addresses(ctx, name)[:MAX_ADDRESSES]
        return Person(name, encode_age(ctx.now - self.heard(ctx, name)), addresses)
