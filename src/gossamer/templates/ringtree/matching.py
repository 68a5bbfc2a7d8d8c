"""Groups by attributes: who wants the same is one group, and each has the publishers that could serve it.

A node is in one group at a time: that of all it wants. What it wants is a set of filters, of which none
covers another, so two nodes that say the same in other words are mostly together. (They need not be: filters
that together cover a third do not hide it. Then there are two groups, and nobody misses anything.)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter

from gossamer.core.event import Criteria
from gossamer.core.parcel import Parcel
from gossamer.filters.identity import identity, restored
from gossamer.filters.relations import compatible, covers
from gossamer.templates.ringtree.messages import MAX_FILTER, MAX_FILTERS, Filters

EVERYTHING: Filters = (identity(Criteria()),)
GROUP_BYTES = 16


def together(criteria: Iterable[Criteria]) -> Filters:
    """Filters as one wish, those aside that others cover; in the same words for all who want the same."""
    kept: dict[bytes, Criteria] = {}
    for key, each in sorted({identity(each): each for each in criteria}.items(), key=itemgetter(0)):
        if len(key) > MAX_FILTER:
            return EVERYTHING
        if not any(covers(wide, each) for wide in kept.values()):
            kept = {name: narrow for name, narrow in kept.items() if not covers(each, narrow)}
            kept[key] = each
    return tuple(sorted(kept)) if len(kept) <= MAX_FILTERS else EVERYTHING


def group_of(wanted: Filters) -> bytes:
    """The group of those who want this."""
    return blake2b(
        b"".join(b"%d %s" % (len(each), each) for each in wanted), digest_size=GROUP_BYTES
    ).digest()


@lru_cache(maxsize=4096)
def criteria_of(filters: Filters) -> tuple[Criteria, ...]:
    """The filters themselves; raises ProtocolError if one makes no sense."""
    return tuple(restored(each) for each in filters)


@lru_cache(maxsize=65536)
def serves(offered: Filters, wanted: Filters) -> bool:
    """Whether what one node offers may be what another wants."""
    return any(compatible(want, offer) for offer in criteria_of(offered) for want in criteria_of(wanted))


def wants(wanted: Filters, parcel: Parcel) -> bool:
    """Whether an event of a parcel is wanted; raises ProtocolError if its body makes no sense."""
    if wanted == EVERYTHING:
        return True
    events = [each or {} for each in parcel.attributes] or [{}]
    return any(each.matches(event) for each in criteria_of(wanted) for event in events)
