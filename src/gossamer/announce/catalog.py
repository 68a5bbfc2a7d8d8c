"""What a listener knows from configuration announcements, and which indexes it therefore follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec

from gossamer.announce.configuration import Page, Reports
from gossamer.announce.identity import Thread

MOST_PAGES = 4096


class Route(msgspec.Struct, frozen=True):
    """How the news of some threads get here.

    follow
        Indexes to listen to all the time.
    relays
        Indexes to listen to when a followed one says that they have changed.
    direct
        Threads that no index lists: their channels are listened to all the time.
    short
        Whether some thread has fewer levels of indexes above it than were asked for.
    """

    follow: frozenset[Thread]
    relays: frozenset[Thread]
    direct: frozenset[Thread]
    short: bool


class Book:
    """Pages by thread; the latest version of each counts."""

    def __init__(self) -> None:
        self.versions: dict[Thread, int] = {}
        self.refused = 0
        self._pages: dict[Thread, Page] = {}
        self._channels: dict[Thread, str] = {}
        self._names: dict[str, set[Thread]] = {}
        self._listing: dict[Thread, dict[Thread, Thread]] = {}  # member: index: page
        self._described: dict[Thread, Thread] = {}  # index: page

    def put(self, thread: Thread, version: int, page: Page) -> bool:
        """Take a page; False if a later one is known, or there are too many."""
        if version <= self.versions.get(thread, 0):
            return False
        if thread not in self._pages and len(self._pages) >= MOST_PAGES:
            self.refused += 1
            return False
        self.forget(thread)
        self.versions[thread], self._pages[thread] = version, page
        for each in page.named:
            self._channels[each.thread] = each.channel
            self._names.setdefault(each.name, set()).add(each.thread)
        for listed in page.listed:
            self._channels[listed.index] = listed.channel
            self._described[listed.index] = thread
            for member in listed.members:
                self._listing.setdefault(member, {})[listed.index] = thread
        return True

    def forget(self, thread: Thread) -> int:
        """A page counts no longer; its version, or 0 if it was not known."""
        page = self._pages.pop(thread, None)
        if page is None:
            return 0
        for each in page.named:
            self._channels.pop(each.thread, None)
            self._names[each.name].discard(each.thread)
            if not self._names[each.name]:
                del self._names[each.name]
        for listed in page.listed:
            self._channels.pop(listed.index, None)
            self._described.pop(listed.index, None)
            for member in listed.members:
                self._listing.get(member, {}).pop(listed.index, None)
        return self.versions.pop(thread)

    def channel(self, thread: Thread) -> str | None:
        return self._channels.get(thread)

    def named(self, name: str) -> set[Thread]:
        return self._names.get(name, set())

    def names(self) -> Iterable[str]:
        return self._names.keys()

    def page_of(self, index: Thread) -> Thread | None:
        """The page that describes an index."""
        return self._described.get(index)

    def refresh_of(self, index: Thread) -> float | None:
        """Seconds after which an index is heard again."""
        page = self._described.get(index)
        return None if page is None else self._pages[page].refresh

    @property
    def reports(self) -> Reports | None:
        return next((page.reports for page in self._pages.values() if page.reports), None)

    def route(self, threads: Iterable[Thread], depth: int, current: Collection[Thread] = ()) -> Route:
        """Which indexes to follow; of several, the one with most of the threads, or followed already."""
        threads = sorted(threads)
        serves = Counter(index for thread in threads for index in self._listing.get(thread, ()))
        follow: set[Thread] = set()
        relays: set[Thread] = set()
        direct: set[Thread] = set()
        short = False
        for thread in threads:
            at, levels = thread, 0
            while levels < depth and (above := self._listing.get(at)):
                at = min(
                    above, key=lambda each: (each not in follow, -serves[each], each not in current, each)
                )
                relays.add(at)
                levels += 1
            short = short or levels < depth
            (follow if levels else direct).add(at)
        return Route(frozenset(follow), frozenset(relays - follow), frozenset(direct), short)
