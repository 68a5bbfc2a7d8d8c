"""Whose turn it is to have a box that several claim; and what keeping boxes wants of its dispatcher."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from gossamer.core.context import Context
from gossamer.overlay.box import Box
from gossamer.overlay.movewords import Claim
from gossamer.overlay.relay import Relay

MAX_REMEMBERED = 100_000
"""Names and claims that a dispatcher remembers; the last ones."""

K = TypeVar("K")
V = TypeVar("V")


class Place(Protocol):
    """What keeping wants of the dispatcher that it belongs to."""

    relay: Relay

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

    def has(self, claim: Claim) -> bool:
        """Whether a claim has its turn."""
        turn = self._turns.get(claim.name)
        return turn is not None and not turn.over and turn.present.serial == claim.serial

    def refused(self, claim: Claim, now: int) -> Claim | None:
        """A claim gets its turn, or waits; which one is refused for it, itself perhaps."""
        turn = self._turns.get(claim.name)
        if turn is not None and now - turn.since >= self._patience:
            turn.over = True
        same = turn is not None and turn.present.serial == claim.serial
        if turn is not None and (claim.since < turn.present.since or (same and turn.over)):
            return claim  # said again, and too late
        if turn is None or turn.over:
            remember(self._turns, claim.name, Turn(claim, now))
            return None
        if same:
            turn.since = now
            return None
        former, turn.waiting = turn.waiting, claim
        if former is None or former.serial == claim.serial:
            return None
        if former.since > claim.since:
            former, turn.waiting = claim, former
        return former

    def settled(self, name: str, serial: int) -> Claim | None:
        """A claim has been answered; the one that comes next."""
        turn = self._turns.get(name)
        if turn is None or turn.present.serial != serial:
            return None
        waiting, turn.waiting, turn.over = turn.waiting, None, True
        return waiting


def remember(known: dict[K, V], key: K, value: V) -> None:
    """Set a value; of too many the one longest unchanged is forgotten."""
    known.pop(key, None)
    known[key] = value
    if len(known) > MAX_REMEMBERED:
        del known[next(iter(known))]
