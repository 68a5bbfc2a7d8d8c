"""The groups of a region: subscribers who want the same, and the publishers that could serve them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from gossamer.templates.ringtree.matching import group_of, serves
from gossamer.templates.ringtree.messages import Entries, EntriesHeard, Filters
from gossamer.templates.ringtree.slots import Roll


class Crowd(msgspec.Struct):
    """A group of subscribers and the publishers matched with it; in other regions it has no list here.

    first, counter
        The entry points, and the number of the message that says so.
    aging
        Slots that were open when slots were last looked at for mending.
    """

    wanted: Filters
    roll: Roll | None = None
    publishers: dict[str, None] = {}
    first: tuple[str, ...] = ()
    counter: int = 0
    aging: frozenset[int] = frozenset()


class Crowds:
    """All groups that a service knows.

    changed
        Groups that have to be looked at: members or publishers came or went.
    """

    def __init__(self) -> None:
        self.changed: dict[bytes, None] = {}
        self._crowds: dict[bytes, Crowd] = {}
        self._offers: dict[str, Filters] = {}
        self._untold: dict[tuple[str, bytes], bool] = {}
        """Publishers that have not acknowledged the entry points of a group, and whether they were told."""

    def __iter__(self) -> Iterator[tuple[bytes, Crowd]]:
        return iter(tuple(self._crowds.items()))

    def __contains__(self, group: bytes) -> bool:
        return group in self._crowds

    def __getitem__(self, group: bytes) -> Crowd:
        return self._crowds[group]

    def roll(self, group: bytes) -> Roll | None:
        """The list of a group of this region; None if there is none."""
        crowd = self._crowds.get(group)
        return crowd.roll if crowd else None

    def made(self, wanted: Filters, foreign: bool = False) -> Crowd:
        """The group that wants this, here or in other regions; made if there is none, with its publishers."""
        group = group_of((b"foreign", *wanted) if foreign else wanted)
        if group not in self._crowds:
            publishers = {name: None for name, offered in self._offers.items() if serves(offered, wanted)}
            self._crowds[group] = Crowd(wanted, None if foreign else Roll(), publishers)
            self.changed[group] = None
        return self._crowds[group]

    # other regions

    def want_abroad(self, wanted: Collection[Filters]) -> None:
        """Other regions want this, and nothing else."""
        for each in wanted:
            self.made(each, foreign=True)
        for group, crowd in self._crowds.items():
            if crowd.roll is None and crowd.wanted and crowd.wanted not in wanted:
                crowd.wanted = ()
                self.changed[group] = None

    def wanted(self) -> dict[bytes, Filters]:
        """What the groups of this region want."""
        return {group: each.wanted for group, each in self if each.roll is not None and each.first}

    # publishers

    def publish(self, name: str, offered: Filters) -> None:
        """A node is going to publish this."""
        self._offers[name] = offered
        for group, crowd in self._crowds.items():
            if serves(offered, crowd.wanted):
                crowd.publishers[name] = None
                self.changed[group] = None
                self._untold[name, group] = False

    def unpublish(self, name: str) -> None:
        """A node is not going to publish any more."""
        if self._offers.pop(name, None) is None:
            return
        for group, crowd in self._crowds.items():
            if crowd.publishers.pop(name, 0) is None:
                self.changed[group] = None
            self._untold.pop((name, group), None)

    def awaiting(self, name: str) -> int:
        """Of how many groups a publisher is going to hear."""
        return sum(name in crowd.publishers and bool(crowd.first) for crowd in self._crowds.values())

    # what publishers are told

    def enter(self, group: bytes, first: tuple[str, ...], counter: int) -> None:
        """A group has these entry points; its publishers have to know if they are others."""
        crowd = self._crowds[group]
        if first != crowd.first:
            crowd.first, crowd.counter = first, counter
            self._untold |= dict.fromkeys(((name, group) for name in crowd.publishers), False)

    def again(self) -> None:
        """All publishers have to be told everything anew."""
        for group, crowd in self._crowds.items():
            self._untold |= dict.fromkeys(((name, group) for name in crowd.publishers), False)

    def news(self, epoch: int, again: bool) -> list[tuple[str, Entries]]:
        """What publishers have to be told that is new; or again, what they have not acknowledged."""
        due = [key for key, told in self._untold.items() if again or not told]
        self._untold |= dict.fromkeys(due, True)
        crowds = ((name, group, self._crowds[group]) for name, group in due)
        return [
            (name, Entries(epoch, crowd.counter, group, crowd.wanted, crowd.first))
            for name, group, crowd in crowds
        ]

    @property
    def untold(self) -> bool:
        """Whether some publisher does not know something."""
        return bool(self._untold)

    def heard(self, heard: EntriesHeard, epoch: int, sender: str) -> None:
        """A publisher knows the entry points of a group."""
        crowd = self._crowds.get(heard.group)
        if crowd and (heard.epoch, heard.counter) == (epoch, crowd.counter):
            self._untold.pop((sender, heard.group), None)

    def forget_empty(self) -> None:
        """Groups that nobody is in are no more, once their publishers know."""
        pending = {group for _, group in self._untold} | self.changed.keys()
        self._crowds = {group: each for group, each in self if each.first or group in pending}
