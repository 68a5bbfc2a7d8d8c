"""Where slots of a list lie: a ring of entry points, and behind it rings that are each twice as large.

Slots count from 0. The first ``entries`` of them are ring 0; ring r has ``entries × 2^r`` places and begins
at slot ``entries × (2^r − 1)``. Place p of a ring has the children 2p and 2p + 1 in the next; clockwise is
towards the higher place, and behind the last comes the first again.
"""

from __future__ import annotations

from collections.abc import Iterator


def entry_points(publishers: int) -> int:
    """How many subscribers the publishers of a group know: m = log2(n), rounded up, at least 1."""
    return max(1, (publishers - 1).bit_length())


def begin(ring: int, entries: int) -> int:
    """The first slot of a ring."""
    return entries * ((1 << ring) - 1)


def ring_of(slot: int, entries: int) -> int:
    """The ring that a slot lies in."""
    return (slot // entries + 1).bit_length() - 1


def parent(slot: int, entries: int) -> int | None:
    """The slot that feeds this one; None in ring 0, which publishers feed."""
    ring = ring_of(slot, entries)
    return begin(ring - 1, entries) + (slot - begin(ring, entries)) // 2 if ring else None


def children(slot: int, entries: int) -> tuple[int, int]:
    """The slots that this one feeds, the left one first."""
    ring = ring_of(slot, entries)
    left = begin(ring + 1, entries) + 2 * (slot - begin(ring, entries))
    return left, left + 1


def beside(slot: int, entries: int, step: int) -> int:
    """The slot so many steps clockwise in the same ring."""
    ring = ring_of(slot, entries)
    first, size = begin(ring, entries), entries << ring
    return first + (slot - first + step) % size


def aware_of(slot: int, entries: int) -> Iterator[int]:
    """The slots whose holders know who holds this one; itself among them."""
    yield slot
    yield from children(slot, entries)
    yield beside(slot, entries, -1)
    yield beside(slot, entries, 1)
    above = parent(slot, entries)
    if above is not None:
        yield above
        yield beside(above, entries, -1 if children(above, entries)[0] == slot else 1)
