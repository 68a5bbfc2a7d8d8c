"""The managed service of an announcer: threads, indexes over them, and pages that tell where they are.

Promises: an index has a new version if and only if its content has changed; whatever is announced shows in
every index that lists its thread, within ``gather``, and in the indexes of these. While indexes are rebuilt
the old ones go on telling the truth for ``overlap``, and list the page that names the new ones: a listener
can move over in its time. A station may index threads of others, of which it knows only what it heard. A
thread keeps its channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from gossamer.announce import configuration, index
from gossamer.announce.configuration import Listed, Named, Page, Reports
from gossamer.announce.header import Code
from gossamer.announce.identity import Allotter, Thread
from gossamer.announce.index import Graph
from gossamer.announce.index_plan import Plan
from gossamer.announce.sender import Packet, Sender
from gossamer.core.errors import BadName, ConfigError, Full
from gossamer.core.names import nanoseconds

PAGE_ENTRIES = 256
"""Names on one page."""


class AnnouncerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a station keeps its indexes.

    refresh
        Seconds after which an index or a page is announced again though it has not changed, for those who
        came later or missed it.
    gather
        Seconds that a changed index waits for further changes: at most 1 / gather versions per second.
    overlap
        Times ``refresh`` that old indexes go on after they have been rebuilt.
    """

    refresh: float = 10.0
    gather: float = 0.02
    overlap: float = 4.0


class _Topic:
    """A thread of the station's own that is announced whole, when it has changed and from time to time."""

    __slots__ = ("changed", "channel", "code", "content", "refreshed", "retires", "version")

    def __init__(self, channel: str, code: Code, now: int) -> None:
        self.channel, self.code = channel, code
        self.version, self.content = 0, b""
        self.changed: int | None = now
        self.refreshed = now
        self.retires: int | None = None

    def next(self) -> int:
        times = [self.refreshed, *(each for each in (self.changed, self.retires) if each is not None)]
        return min(times)


class Station:
    """Announces threads and keeps the indexes that list them."""

    def __init__(
        self,
        allotter: Allotter,
        meeting: str,
        sender: Sender,
        settings: AnnouncerSettings | None = None,
        reports: Reports | None = None,
    ) -> None:
        self.settings = settings or AnnouncerSettings()
        self.meeting = meeting
        self.sender = sender
        self.reports = reports
        self._allotter = allotter
        self._refresh = nanoseconds(self.settings.refresh)
        self._gather = nanoseconds(self.settings.gather)
        self._graph = Graph()
        self._named: dict[Thread, Named] = {}
        self._names: set[str] = set()
        self._versions: dict[Thread, int] = {}
        self._topics: dict[Thread, _Topic] = {}
        self._contents: Thread | None = None
        self._pages: list[tuple[Thread, list[Thread]]] = []
        self._next: int | None = None
        self._gone = False

    # threads

    def thread(self, now: int, name: str, channel: str, known: tuple[Thread, int] | None = None) -> Thread:
        """A thread of this station's own; ``known`` is identifier and version of an earlier life."""
        if name in self._names:
            raise BadName("thread", name, "this announcer has a thread of that name: use it")
        thread, version = known or (self._allotter.allot(), 0)
        try:
            named = msgspec.convert((thread, name, channel), Named)
        except msgspec.ValidationError as error:
            raise BadName("thread", name, str(error)) from None
        self._named[thread] = named
        self._names.add(name)
        self._versions[thread] = version
        if not self._pages or len(self._pages[-1][1]) >= PAGE_ENTRIES:
            self._pages.append((self._topic(now, self.meeting, Code.CONFIGURATION), []))
        page, entries = self._pages[-1]
        entries.append(thread)
        self._change(page, now + self._gather)
        return thread

    def announce(self, now: int, thread: Thread, payload: bytes) -> int:
        """Announce the next version of a thread; its number."""
        named = self._named.get(thread)
        if named is None:
            raise BadName("thread", thread.hex(), "a thread that this station has made")
        version = self._versions[thread] + 1
        self.sender.announce(now, named.channel, thread, version, payload)
        self._news(now, thread, version)
        return version

    def heard(self, now: int, thread: Thread, version: int) -> None:
        """Somebody else has announced a version of a thread; it shows in the indexes that list it."""
        if thread not in self._named and version > self._versions.get(thread, 0):
            self._news(now, thread, version)

    def version(self, thread: Thread) -> int:
        """The latest version of a thread; 0 if nothing is known of it."""
        return self._versions.get(thread, 0)

    def _news(self, now: int, thread: Thread, version: int) -> None:
        self._versions[thread] = version
        for each in self._graph.listing(thread):
            self._change(each, now + self._gather)

    # indexes

    def index(self, now: int, channel: str, members: Iterable[Thread]) -> Thread:
        """An index of threads and other indexes; raises Cyclic."""
        made = self._allotter.allot()
        self.enlist(now, made, members)
        self._topics[made] = _Topic(channel, Code.INDEX, now)
        self._change(made, now + self._gather)
        return made

    def enlist(self, now: int, made: Thread, members: Iterable[Thread]) -> None:
        """An index lists these, too; raises Cyclic, and then nothing has changed."""
        self._graph.add(made, members)
        if made in self._topics:
            self._change(made, now + self._gather)
        self._change(self._page(now), now + self._gather)

    @property
    def indexes(self) -> dict[Thread, frozenset[Thread]]:
        """Indexes that are not retiring, with what they list."""
        return {
            thread: frozenset(self._graph.members(thread))
            for thread, topic in self._topics.items()
            if topic.code == Code.INDEX and topic.retires is None
        }

    def regroup(self, now: int, plan: Plan, channels: Sequence[str]) -> dict[str, Thread]:
        """New indexes in place of those there are, which retire after the overlap; their identifiers."""
        if not channels:
            raise ConfigError("no channel for indexes", key="channels")
        old = self.indexes
        made: dict[str, Thread] = {}
        for number, (name, threads) in enumerate(plan.threads.items()):
            made[name] = self.index(now, channels[number % len(channels)], threads)
        for number, (name, below) in enumerate(plan.indexes.items(), len(made)):
            made[name] = self.index(now, channels[number % len(channels)], [made[each] for each in below])
        ends = now + round(self.settings.overlap * self._refresh)
        for thread in old:
            self._topics[thread].retires = ends
        return made

    def farewell(self, now: int) -> None:
        """Tell that nothing is announced here any longer, so that listeners look elsewhere at once."""
        self._gone = True
        pages = [page for page, _ in self._pages]
        for thread in (*pages, *([self._contents] if self._contents else [])):
            self._change(thread, now)

    def _page(self, now: int) -> Thread:
        """The page of indexes."""
        if self._contents is None:
            self._contents = self._topic(now, self.meeting, Code.CONFIGURATION)
        return self._contents

    def _topic(self, now: int, channel: str, code: Code) -> Thread:
        thread = self._allotter.allot()
        self._topics[thread] = _Topic(channel, code, now)
        return thread

    def _change(self, thread: Thread, at: int) -> None:
        topic = self._topics[thread]
        if topic.changed is None or at < topic.changed:
            topic.changed = at
        self._next = at if self._next is None else min(self._next, at)

    # what is announced

    def _content(self, thread: Thread, topic: _Topic) -> bytes:
        if topic.code == Code.INDEX:
            listed = {each: self._latest(each) for each in self._graph.members(thread)}
            if self._contents is not None:
                listed[self._contents] = self._latest(self._contents)
            return index.encode(listed)
        page = Page(self.settings.refresh)
        if self._gone:
            return configuration.encode(page)
        if thread == self._contents:
            listings = tuple(
                Listed(each, self._topics[each].channel, tuple(sorted(members)))
                for each, members in sorted(self.indexes.items())
            )
            page = msgspec.structs.replace(page, listed=listings, reports=self.reports)
        else:
            entries = next(entries for each, entries in self._pages if each == thread)
            page = msgspec.structs.replace(page, named=tuple(self._named[each] for each in entries))
        return configuration.encode(page)

    def _latest(self, thread: Thread) -> int:
        topic = self._topics.get(thread)
        return self._versions.get(thread, 0) if topic is None else topic.version

    def step(self, now: int) -> list[Packet]:
        """Carry out what is due; the packets to send."""
        if self._next is not None and self._next <= now:
            for thread, topic in list(self._topics.items()):
                self._tend(now, thread, topic)
            self._next = min((topic.next() for topic in self._topics.values()), default=None)
        return self.sender.due(now)

    def _tend(self, now: int, thread: Thread, topic: _Topic) -> None:
        if topic.retires is not None and topic.retires <= now:
            del self._topics[thread]
            self._graph.drop(thread)
            return
        if topic.changed is not None and topic.changed <= now:
            topic.changed = None
            content = self._content(thread, topic)
            if content != topic.content or not topic.version:
                self._publish(now, thread, topic, content)
                return
        if topic.refreshed <= now:
            topic.refreshed = now + self._refresh
            if topic.version:
                self._send(now, thread, topic, once=True)

    def _publish(self, now: int, thread: Thread, topic: _Topic, content: bytes) -> None:
        topic.content = content
        topic.version += 1
        topic.refreshed = now + self._refresh
        self._send(now, thread, topic)
        above = self._graph.listing(thread) if topic.code == Code.INDEX else set()
        if thread == self._contents:
            above = {each for each, other in self._topics.items() if other.code == Code.INDEX}
        for each in above:
            self._change(each, now + self._gather)

    def _send(self, now: int, thread: Thread, topic: _Topic, once: bool = False) -> None:
        try:
            self.sender.announce(
                now,
                topic.channel,
                thread,
                topic.version,
                topic.content,
                code=topic.code,
                once=once,
                replace=not once,
            )
        except Full:  # it is announced again before long, and threads must not suffer from it
            self.sender.drops["no room for an index or page"] += 1

    @property
    def wake(self) -> int | None:
        """When something is due next."""
        return min((each for each in (self._next, self.sender.wake) if each is not None), default=None)
