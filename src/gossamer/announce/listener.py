"""The managed service of a listener: follows indexes, and joins a channel just as long as it has news.

Promises: a channel is joined only while it carries a followed index, or something that an index has told of
and that has not come yet. Every version of a wanted thread that an index tells of is handed on once, or told
to be missing after ``patience``. A listener that is told of other indexes follows them before it leaves those
it had. If a followed index falls silent, the channels of its threads are joined and new indexes looked for:
nothing is missed for trust in an index that is gone.

It is told of packets and of time, and answers with effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from gossamer.announce import configuration, index
from gossamer.announce.assembly import Announcement, Assembler
from gossamer.announce.catalog import Book, Route
from gossamer.announce.header import Code, decode
from gossamer.announce.identity import Thread
from gossamer.announce.interest import Reporter
from gossamer.announce.memberships import Join, Leave, Memberships
from gossamer.announce.sender import Packet
from gossamer.announce.versions import Gap, Progress
from gossamer.core.errors import ConfigError, GossamerError, ProtocolError
from gossamer.core.names import nanoseconds

SILENCE = 6.5
"""Refreshes that a followed index may miss: of a network that loses 30 % it is hardly ever silent so long."""
MOST_STRANGE = 1024
"""Indexes that a listener remembers to have looked for; of more it looks for the first again."""


class ListenerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a listener listens.

    depth
        Levels of indexes between a listener and its threads. 0 joins the channels of threads for good, 1
        follows indexes of threads, 2 indexes of these.
    patience
        Seconds that something told of is waited for; longer than an announcement is repeated.
    discover
        Seconds that a listener stays at the meeting place to hear of a second level of indexes, or of an
        index that it heard and does not know.
    """

    depth: int = 1
    patience: float = 5.0
    discover: float = 60.0


class Heard(msgspec.Struct, frozen=True):
    """An effect: hand an announcement on."""

    announcement: Announcement


class Missed(msgspec.Struct, frozen=True):
    """An effect: these versions of a wanted thread have not come, and are waited for no longer.

    gaps
        The first and the last version of each run.
    """

    thread: Thread
    gaps: tuple[Gap, ...]

    @property
    def count(self) -> int:
        """How many versions are missing."""
        return sum(last - first + 1 for first, last in self.gaps)


Effect = Join | Leave | Heard | Missed | Packet


class _Index:
    """An index that is followed or asked; ``seen`` is the latest version whose table came."""

    __slots__ = ("heard", "seen")

    def __init__(self, now: int) -> None:
        self.heard = now
        self.seen = 0


class Follower:
    """Listens for the threads that are wanted. ``drops`` counts packets that came to nothing."""

    def __init__(
        self, meeting: str, settings: ListenerSettings | None = None, reporter: Reporter | None = None
    ) -> None:
        self.settings = settings or ListenerSettings()
        if not 0 <= self.settings.depth <= 8:
            raise ConfigError(f"{self.settings.depth}: from 0 to 8", key="depth")
        self.book = Book()
        self.drops: Counter[str] = Counter()
        self._meeting = meeting
        self._reporter = reporter
        self._patience = nanoseconds(self.settings.patience)
        self._assembler = Assembler()
        self._names: set[str] = set()
        self._asked: set[Thread] = set()
        self._progress: dict[Thread, Progress] = {}
        self._indexes: dict[Thread, _Index] = {}
        self._route = Route(frozenset(), frozenset(), frozenset(), False)
        self._followed: set[Thread] = set()
        self._direct: set[Thread] = set()
        self._fetches: dict[Thread, int] = {}
        self._memberships = Memberships()
        self._since: int | None = None
        self._strange: dict[Thread, int] = {}
        """Indexes heard that no page describes: how long their pages are looked for, 0 when given up."""
        self._effects: list[Effect] = []
        self._codes: dict[Code, Callable[[int, Announcement], None]] = {
            Code.DATA: self._data,
            Code.INDEX: self._index,
            Code.CONFIGURATION: self._page,
        }

    # wishes

    def want(self, now: int, *names: str) -> list[Effect]:
        """Listen for all threads of these names."""
        self._names.update(names)
        return self._replanned(now)

    def want_thread(self, now: int, thread: Thread) -> list[Effect]:
        """Listen for a thread whose identifier is known."""
        self._asked.add(thread)
        return self._replanned(now)

    def unwant(self, now: int, *names: str) -> list[Effect]:
        """Listen for these no longer."""
        self._names.difference_update(names)
        return self._replanned(now)

    @property
    def wanted(self) -> set[Thread]:
        """Threads that are wanted and known."""
        return set(self._progress)

    @property
    def joined(self) -> set[str]:
        return self._memberships.joined

    @property
    def followed(self) -> set[Thread]:
        """Indexes that are listened to all the time."""
        return set(self._followed)

    @property
    def settled(self) -> bool:
        """Whether everything wanted is found, and the indexes that list it have been heard."""
        return not self._missing and all(self._indexes[each].seen for each in self._route.follow)

    def name(self, thread: Thread) -> str:
        """What a wanted thread is called."""
        return next((name for name in sorted(self._names) if thread in self.book.named(name)), "")

    # what happens

    def packet(self, now: int, data: bytes) -> list[Effect]:
        """A packet came on a joined channel."""
        try:
            header, body = decode(data)
            if header.code == Code.INDEX:
                self._hears_index(now, header.thread)
            if self._listens(header.code, header.thread):
                found = self._assembler.put(header, body)
                if found is not None:
                    self._codes[found.code](now, found)
        except GossamerError as error:
            fault = error.field if isinstance(error, ProtocolError) else type(error).__name__
            self.drops[f"refused: {fault}"] += 1
        return self._taken()

    def _hears_index(self, now: int, thread: Thread) -> None:
        """An index is there, perhaps one that has come since this listener was at the meeting place."""
        if thread in self._indexes:
            self._indexes[thread].heard = now
        elif thread not in self._strange and self.book.page_of(thread) is None:
            if len(self._strange) >= MOST_STRANGE:
                del self._strange[next(iter(self._strange))]
            self._strange[thread] = now + nanoseconds(self.settings.discover)
            self._discover(now)

    def _listens(self, code: Code, thread: Thread) -> bool:
        match code:
            case Code.DATA:
                return thread in self._progress
            case Code.INDEX:
                return thread in self._indexes
            case Code.CONFIGURATION:
                return self._discovering or thread in self._fetches
            case Code.INTEREST:
                return False

    def step(self, now: int) -> list[Effect]:
        """Time has passed."""
        for thread in [each for each, until in self._fetches.items() if until <= now]:
            progress = self._progress.get(thread)
            if progress is not None:
                self._missed(thread, progress.expire(now))
            self._waits_on(thread, progress)
        for thread in [each for each in self._followed if self._silent_at(each) <= now]:
            self._lost(thread)
        self._strange = {each: until if until > now else 0 for each, until in self._strange.items()}
        if self._reporter is not None:
            self._effects += self._reporter.due(now, self._progress)
        self._replan(now)
        return self._taken()

    @property
    def wake(self) -> int | None:
        """When ``step`` is due next."""
        times = [*self._fetches.values(), *(self._silent_at(each) for each in self._followed)]
        if self._since is not None and self._route.short and not self._missing:
            times.append(self._since + nanoseconds(self.settings.discover))
        times += [until for until in self._strange.values() if until]
        if self._reporter is not None and self._reporter.wake is not None:
            times.append(self._reporter.wake)
        return min(times, default=None)

    # announcements

    def _data(self, now: int, found: Announcement) -> None:
        progress = self._progress[found.thread]
        self._told(now, found.thread, found.version)
        if progress.got(found.version):
            self._effects.append(Heard(found))
        else:
            self.drops["too late"] += 1
        self._waits_on(found.thread, progress)

    def _waits_on(self, thread: Thread, progress: Progress | None) -> None:
        """Stay on a channel as long as something is waited for."""
        until = None if progress is None else progress.until
        if until is None:
            self._end_fetch(thread)
        else:
            self._fetches[thread] = until

    def _index(self, now: int, found: Announcement) -> None:
        known = self._indexes[found.thread]
        if found.version <= known.seen:
            return
        table = index.decode(found.payload)
        known.seen = found.version
        self._end_fetch(found.thread)
        for thread, version in table.items():
            if thread in self._progress:
                self._told(now, thread, version)
            elif thread in self._indexes:
                if thread not in self._followed and version > self._indexes[thread].seen:
                    self._fetch(now, thread, self.book.channel(thread))
            elif version > self.book.versions.get(thread, version):
                self._fetch(now, thread, self._meeting)
        self._leave_old(self._route)

    def _page(self, now: int, found: Announcement) -> None:
        page = configuration.decode(found.payload)
        self._end_fetch(found.thread)
        if self.book.put(found.thread, found.version, page):
            if self._reporter is not None:
                self._reporter.ask(now, self.book.reports)
            for thread in [each for each in self._strange if self.book.page_of(each) is not None]:
                del self._strange[thread]
            self._replan(now)

    def _told(self, now: int, thread: Thread, version: int) -> None:
        progress = self._progress[thread]
        self._missed(thread, progress.told(version, now + self._patience))
        if not progress.complete and thread not in self._fetches:
            self._fetch(now, thread, self.book.channel(thread))

    def _missed(self, thread: Thread, gaps: list[Gap]) -> None:
        if gaps:
            self._effects.append(Missed(thread, tuple(gaps)))

    # what to follow

    def _replanned(self, now: int) -> list[Effect]:
        self._replan(now)
        return self._taken()

    def _replan(self, now: int) -> None:
        wanted = {thread for name in self._names for thread in self.book.named(name)}
        wanted |= {thread for thread in self._asked if self.book.channel(thread)}
        for thread in wanted - self._progress.keys():
            self._progress[thread] = Progress()
        for thread in self._progress.keys() - wanted:
            del self._progress[thread]
            self._end_fetch(thread)
        route = self._route = self.book.route(wanted, self.settings.depth, self._followed)
        for thread in (route.follow | route.relays) - self._indexes.keys():
            self._indexes[thread] = _Index(now)
            self._assembler.again(thread)
        for thread in route.follow - self._followed:
            self._indexes[thread].heard = now
            self._followed.add(thread)
            self._memberships.hold(self.book.channel(thread), b"follow" + thread)
        for thread in route.direct - self._direct:
            self._direct.add(thread)
            self._memberships.hold(self.book.channel(thread), b"direct" + thread)
        self._leave_old(route)
        self._discover(now)

    def _leave_old(self, route: Route) -> None:
        """Leave what is listened to no longer, once each index that is followed has told what it lists."""
        if all(self._indexes[each].seen for each in route.follow):
            for thread in self._direct - route.direct:
                self._direct.discard(thread)
                self._memberships.release(b"direct" + thread)
            for thread in self._followed - route.follow:
                self._unfollow(thread)
            for thread in self._indexes.keys() - route.follow - route.relays:
                self._end_fetch(thread)
                del self._indexes[thread]

    def _unfollow(self, thread: Thread) -> None:
        self._followed.discard(thread)
        self._memberships.release(b"follow" + thread)

    def _lost(self, thread: Thread) -> None:
        """An index has fallen silent: forget what was told of it, and look anew."""
        page = self.book.page_of(thread)
        if page is not None:
            self.book.forget(page)
            self._assembler.again(page)
        self._unfollow(thread)
        self._indexes.pop(thread, None)
        self.drops["index fell silent"] += 1

    def _silent_at(self, thread: Thread) -> int:
        refresh = self.book.refresh_of(thread)
        # one that is followed no longer is not waited for: it ends when the new ones are heard
        return self._indexes[thread].heard + nanoseconds(SILENCE * (refresh or 3600.0))

    @property
    def _missing(self) -> bool:
        """Whether something wanted is unknown, or known to be in no index."""
        unnamed = any(not self.book.named(name) for name in self._names)
        unknown = any(self.book.channel(thread) is None for thread in self._asked)
        return unnamed or unknown or (self.settings.depth > 0 and bool(self._route.direct))

    @property
    def _discovering(self) -> bool:
        return self._since is not None

    def _discover(self, now: int) -> None:
        """Be at the meeting place as long as there is something to find out."""
        looking = self._missing
        if not looking and self._route.short:
            looking = now < (self._since or now) + nanoseconds(self.settings.discover)
            looking = looking and (self._since is not None or not self._indexes)
        looking = looking or any(self._strange.values())
        if looking and self._since is None:
            self._since = now
            self._memberships.hold(self._meeting, b"discover")
        elif not looking and self._since is not None:
            self._since = None
            self._memberships.release(b"discover")

    # channels

    def _fetch(self, now: int, thread: Thread, channel: str | None) -> None:
        """Be on a channel until something has come."""
        self._fetches[thread] = now + self._patience
        self._memberships.hold(channel, b"fetch" + thread)

    def _end_fetch(self, thread: Thread) -> None:
        if self._fetches.pop(thread, None) is not None:
            self._memberships.release(b"fetch" + thread)

    def _taken(self) -> list[Effect]:
        """Joins come first, leaves last: what is handed on may lead to another wish."""
        joins, leaves = self._memberships.changes()
        effects, self._effects = self._effects, []
        return [*joins, *effects, *leaves]
