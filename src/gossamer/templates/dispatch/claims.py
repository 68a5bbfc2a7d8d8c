"""Whose turn it is to have a box that several claim; and what keeping boxes wants of its dispatcher."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from gossamer.core.context import Context
from gossamer.templates.dispatch.ordered_hop import Relay
from gossamer.templates.dispatch.session import Box
from gossamer.templates.dispatch.session_messages import Claim

MAX_REMEMBERED = 100_000
"""Names and claims that a dispatcher remembers; the last ones."""

K = TypeVar("K")
V = TypeVar("V")


class Place(Protocol):
    """What keeping wants of the dispatcher that it belongs to."""

    relay: Relay
    beside: tuple[str, ...]
    """Neighbours on the backbone, the one above among them."""

    @property
    def above(self) -> str | None:
        """The dispatcher above this one."""

    def want(self, ctx: Context, box: Box) -> None:
        """Events that meet the criteria of a box go there from now on."""

    def unwant(self, ctx: Context, box: Box) -> None: ...

    def knows(self, node: str) -> bool:
        """Whether a neighbour has been told all filters that it is to know."""

    def resumed(self, ctx: Context, box: Box) -> None:
        """The subscription on this node has its box."""

    def taken(self, ctx: Context, subscription: int) -> None:
        """The box of a subscription on this node has been taken over elsewhere."""


class Turn(msgspec.Struct):
    """The claims of one box.

    present, since
        The one that has its turn, and since when.
    waiting
        The one that comes next.
    over
        Whether the box has arrived.
    """

    present: Claim
    since: int
    waiting: Claim | None = None
    over: bool = False


class Turns:
    """One claim of a box at a time; of those that wait only the latest is left.

    patience
        Nanoseconds after which who has its turn is taken to be gone.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._turns: dict[str, Turn] = {}

    def take(self, claim: Claim, now: int) -> tuple[Claim | None, bool]:
        """A claim gets its turn, or waits: which one is refused for it, itself perhaps; and whether it goes.

        Who has its turn says so again and again. When it claims anew, under another number, that goes too.
        """
        turn = self._turns.get(claim.name)
        if turn is not None and not turn.over and same(turn.present, claim):
            goes, turn.present, turn.since = turn.present.serial != claim.serial, claim, now
            return None, goes
        if turn is not None and (claim.since < turn.present.since or same(turn.present, claim)):
            return claim, False  # said again, and too late
        if turn is None or turn.over or now - turn.since >= self._patience:
            remember(self._turns, claim.name, Turn(claim, now))
            return None, True
        former, turn.waiting = turn.waiting, claim
        if former is None or same(former, claim):
            return None, False
        if former.since > claim.since:
            former, turn.waiting = claim, former
        return former, False

    def settled(self, name: str, serial: int) -> Claim | None:
        """A claim has been answered; the one that comes next."""
        turn = self._turns.get(name)
        if turn is None or turn.present.serial != serial:
            return None
        waiting, turn.waiting, turn.over = turn.waiting, None, True
        return waiting


def same(a: Claim, b: Claim) -> bool:
    """Whether one was made for the other, because no answer came."""
    return (a.name, a.node, a.since) == (b.name, b.node, b.since)


def remember(known: dict[K, V], key: K, value: V) -> None:
    """Set a value; of too many the one longest unchanged is forgotten."""
    known.pop(key, None)
    known[key] = value
    if len(known) > MAX_REMEMBERED:
        del known[next(iter(known))]
