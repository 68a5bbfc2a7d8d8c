"""Which connection of a link a frame takes (seed 004, 3.3.3).

First reliability: what is essential takes a reliable connection if the link has one. Then latency: of the
connections that the channel is bound to, the one with the lowest measured. A choice stands until another is
clearly nearer, so that parcels of one channel stay in order while it does. Who needs another rule writes
another selector; nothing here knows any transport by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec

from gossamer.links.binding import Binding

SMOOTHING = 8
"""A new measurement counts for one part in so many."""
CLEARLY, LEAST = 4, 100_000
"""Another connection is clearly nearer if it saves a fourth of the latency and so many nanoseconds."""


class Candidate(Protocol):
    """A connection as a selector sees it; ``latency`` is in nanoseconds one way, None before it is known."""

    @property
    def transport(self) -> str: ...
    @property
    def reliable(self) -> bool: ...
    @property
    def latency(self) -> int | None: ...


C = TypeVar("C", bound=Candidate)


class Wish(msgspec.Struct, frozen=True):
    """What a frame wants of a link.

    transports
        Those it may take, in order of wish; empty means any.
    essential
        Whether it has to take a reliable connection.
    """

    transports: tuple[str, ...] = ()
    essential: bool = True


def wish(binding: Binding | None, *, control: bool, essential: bool | None = None) -> Wish:
    """What the frames of a channel want; ``essential`` is an event's own wish, which is narrower and wins."""
    must = binding is None or binding.essential if essential is None else essential
    return Wish(binding.transports if binding else (), control or must)


class Selector(Protocol):
    """Chooses one of the connections of a link; there is always at least one."""

    def choose(self, candidates: Sequence[C], wish: Wish, current: C | None) -> C:
        """The connection for a wish; ``current`` is the one chosen before, if it is still up."""
        ...


class NearestSelector:
    """The default: essential or not, then the lowest latency."""

    def choose(self, candidates: Sequence[C], wish: Wish, current: C | None) -> C:
        fit = allowed(candidates, wish)
        best = min(fit, key=lambda each: self._distance(each, wish))
        if current is None or not any(each is current for each in fit):
            return best
        if current.latency is None or best.latency is None:
            return best if current.latency is None else current
        saved = current.latency - best.latency
        return best if saved > max(current.latency // CLEARLY, LEAST) else current

    def _distance(self, candidate: Candidate, wish: Wish) -> tuple[bool, int, int]:
        order = wish.transports.index(candidate.transport) if candidate.transport in wish.transports else 0
        return candidate.latency is None, candidate.latency or 0, order


def allowed(candidates: Sequence[C], wish: Wish) -> Sequence[C]:
    """The connections that a wish lets its frames take; all of them if none of those is up."""
    fit = bound(candidates, wish) or candidates
    if wish.essential:
        return _reliable(fit) or _reliable(candidates) or fit
    return fit


def bound(candidates: Sequence[C], wish: Wish) -> Sequence[C]:
    """The connections whose transports are named; none if all of those are down."""
    return [each for each in candidates if not wish.transports or each.transport in wish.transports]


def _reliable(candidates: Sequence[C]) -> list[C]:
    return [each for each in candidates if each.reliable]


def smoothed(before: int | None, measured: int) -> int:
    """A latency after one more measurement."""
    return measured if before is None else before + (measured - before) // SMOOTHING
