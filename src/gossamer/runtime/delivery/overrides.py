"""Mapping filters: a subscriber sees some events with other wishes than they were published with.

Of several mappings the first whose criteria match an event holds; of its wishes those that are made replace
those of the event. So an event may be more important to one subscriber than to another, or live shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gossamer.core.errors import BadEnvelope
from gossamer.core.event import Criteria, QoS
from gossamer.core.parcel import Parcel

Mapping = tuple[Criteria, QoS]


def check(mappings: Sequence[Mapping]) -> tuple[Mapping, ...]:
    """The mappings, unless one of them is something else."""
    for each in mappings:
        fits = isinstance(each, tuple) and len(each) == 2
        if not (fits and isinstance(each[0], Criteria) and isinstance(each[1], QoS)):
            raise BadEnvelope("mapping", each, "a pair of Criteria and Wishes")
    return tuple(mappings)


def mapped(
    mappings: tuple[Mapping, ...], parcel: Parcel, picks: Iterable[int]
) -> list[tuple[Parcel, tuple[int, ...]]]:
    """The events of a parcel as a subscriber wishes to see them: alike in wishes, each with its picks."""
    groups: dict[QoS, list[int]] = {}
    for pick in picks:
        attributes = (parcel.attributes[pick] if parcel.attributes else None) or {}
        found = next((qos for criteria, qos in mappings if criteria.matches(attributes)), None)
        qos = found.within(parcel.qos) if found is not None else parcel.qos
        groups.setdefault(qos, []).append(pick)
    return [(parcel.qos_rules(qos), tuple(some)) for qos, some in groups.items()]
