"""Between regions: what the others want, so that an event crosses each border once and only if it has to.

The service of each region tells the servers of all others what its groups want, until they have
acknowledged it and again with every refresh. A publisher gives an event that another region wants to its own
service, which passes one copy to the service of each such region; that one feeds it to its own entry points,
like a publisher.
"""

from __future__ import annotations

import msgspec

from gossamer.core.context import Context
from gossamer.core.parcel import Parcel
from gossamer.templates.ringtree.matching import wants
from gossamer.templates.ringtree.member import Say
from gossamer.templates.ringtree.messages import Filters, Wants, WantsHeard

KEPT = 4
"""Refreshes that the wish of another region outlives without being said again."""
MAX_GROUPS = 10_000
"""Groups of other regions."""


class Wish(msgspec.Struct):
    """What a group of another region wants."""

    wants: Wants
    left: int = KEPT


class Borders:
    """What one server knows of other regions, and has to tell them."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._wishes: dict[tuple[str, bytes], Wish] = {}
        self._servers: dict[str, tuple[int, str]] = {}
        """By region, who serves it, and since when."""
        self._untold: dict[tuple[str, bytes], Wants] = {}

    # what they want

    def hear(self, ctx: Context, told: Wants, sender: str) -> None:
        """The service of another region says what a group wants."""
        self._say(ctx, sender, WantsHeard(told.epoch, told.counter, told.group))
        if told.epoch >= self._servers.get(told.region, (0, ""))[0]:
            self._servers[told.region] = (told.epoch, sender)
        key = (told.region, told.group)
        known = self._wishes.get(key)
        if known and (known.wants.epoch, known.wants.counter) > (told.epoch, told.counter):
            return
        if told.wanted and (known or len(self._wishes) < MAX_GROUPS):
            self._wishes[key] = Wish(told)
        else:
            self._wishes.pop(key, None)

    def wanted(self) -> dict[Filters, None]:
        """All that other regions want."""
        return dict.fromkeys(each.wants.wanted for each in self._wishes.values())

    def wanting(self, parcel: Parcel) -> list[str]:
        """The services of the regions that want a parcel."""
        regions = {region for (region, _), wish in self._wishes.items() if wants(wish.wants.wanted, parcel)}
        return [self._servers[region][1] for region in sorted(regions)]

    def crossed(self, sender: str) -> bool:
        """Whether what a node sends has come over a border."""
        return any(server == sender for _, server in self._servers.values())

    def age(self) -> None:
        """Forget what has not been said for long."""
        for key, wish in tuple(self._wishes.items()):
            wish.left -= 1
            if not wish.left:
                del self._wishes[key]

    # what they are told

    def tell(self, ctx: Context, servers: tuple[str, ...], told: Wants) -> None:
        """Tell servers of other regions what a group here wants."""
        for server in servers:
            self._untold[server, told.group] = told
            self._say(ctx, server, told)

    def again(self, ctx: Context, servers: tuple[str, ...]) -> bool:
        """Say again what was not acknowledged; is there anything?"""
        self._untold = {key: told for key, told in self._untold.items() if key[0] in servers}
        for (server, _), told in self._untold.items():
            self._say(ctx, server, told)
        return bool(self._untold)

    def heard(self, heard: WantsHeard, sender: str) -> None:
        """A server of another region knows it."""
        told = self._untold.get((sender, heard.group))
        if told and (told.epoch, told.counter) == (heard.epoch, heard.counter):
            del self._untold[sender, heard.group]
