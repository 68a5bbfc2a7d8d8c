"""Councils of a few nodes in memory: letters on their way, clocks, lives, and what was decided where.

Whatever happens is said by a script, two bytes a step, so that every run can be replayed and made smaller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from gossamer.consensus.bootstrap import Bootstrap
from gossamer.consensus.messages import (
    AppendEntries,
    BootstrapReply,
    BootstrapRequest,
    Entry,
    History,
    RaftMessage,
    Voter,
    Voters,
)
from gossamer.consensus.node import RaftNode
from gossamer.consensus.stores import MemoryStore, RaftSettings
from gossamer.core.context import Context
from gossamer.core.names import nanoseconds
from gossamer.overlay.groups.rendezvous import ranking
from gossamer.testing.fake import FakeContext

SETTINGS = RaftSettings(seats=5, retry=0.5, heartbeat=0.5, patience=5.0)
MAX_MAIL = 60
NEAR = 12
"""Letters that may overtake each other."""
STEPS: tuple[tuple[int, str], ...] = (
    (138, "carry"),
    (150, "lose"),
    (156, "twice"),
    (206, "wake"),
    (230, "propose"),
    (238, "doubt"),
    (244, "trust"),
    (248, "cut"),
    (252, "settle"),
    (256, "crash"),
)
"""What a byte of a script means: the first line whose number is greater."""


class Councils:
    """The network.

    careful
        Whether a majority of the seats always lives, whoever looks.
    council
        The class of councils, for bugs that are planted.
    """

    def __init__(
        self,
        names: Iterable[str] = "abcde",
        *,
        settings: RaftSettings = SETTINGS,
        careful: bool = True,
        raft: type[RaftNode] = RaftNode,
    ) -> None:
        self.names = tuple(names)
        self.settings = settings
        self.careful = careful
        self.kind = raft
        self.now = nanoseconds(1.0)
        self.lives = dict.fromkeys(self.names, 0)
        self.known = {name: set(self.names) for name in self.names}
        """Whom each node takes for alive."""
        self.lost: set[str] = set()
        """Those that should have met others and have not."""
        self.apart: set[str] = set()
        """One part of a network that is cut."""
        self.mail: list[RaftMessage] = []
        self.contexts: dict[str, FakeContext] = {}
        self.rafts: dict[str, RaftNode] = {}
        self.foundings: dict[str, Bootstrap] = {}
        self.due: dict[tuple[str, str], int] = {}
        self.agreed: dict[tuple[History | None, int], Entry] = {}
        """Every entry that anybody took for decided."""
        self.leaders: dict[tuple[History, int], Voter] = {}
        self.counts: Counter[str] = Counter()
        self._numbers = 0
        for name in self.names:
            self.begin(name)

    # one node

    def begin(self, name: str) -> None:
        """A new life of a node; it has forgotten everything."""
        self.lives[name] += 1
        self.contexts[name] = FakeContext(name, incarnation=self.lives[name], now=self.now)
        raft = self.rafts[name] = self.kind(
            self.settings,
            live=lambda ctx: self.known[ctx.node],
            send=lambda ctx, message: self.mail.append(message),
            commit_index=lambda ctx: None,
            elected=self._elected,
            store=MemoryStore(lambda key, number: None),
        )
        self.foundings[name] = Bootstrap(raft, lambda ctx: ctx.node in self.lost)
        self.due = {key: at for key, at in self.due.items() if key[0] != name}

    def _elected(self, ctx: Context) -> None:
        raft = self.rafts[ctx.node]
        seat = (ctx.node, ctx.incarnation)
        assert self.leaders.setdefault((raft.history, raft.term), seat) == seat, "two lead in one term"
        self.counts["elected"] += 1

    def wake(self, name: str, timer: str = "council") -> None:
        """A timer runs out, early or late: no clock of a node is worth anything."""
        if self.due.pop((name, timer), None) is not None:
            ctx = self.contexts[name]
            self.rafts[name].timer(ctx) if timer == "council" else self.foundings[name].timer(ctx)
            self._after(name)

    def found(self, name: str) -> None:
        self.rafts[name].found(self.contexts[name])
        self._after(name)

    def deliver(self, message: RaftMessage) -> None:
        """A letter reaches its node, in whatever life that is now."""
        name = message.to
        if (name in self.apart) != (message.origin in self.apart):
            return
        ctx = self.contexts[name]
        match message:
            case BootstrapRequest():
                self.foundings[name].asked(ctx, message)
            case BootstrapReply():
                self.foundings[name].answered(ctx, message)
            case _:
                self.rafts[name].hear(ctx, message)
        self._after(name)

    def propose(self, name: str) -> Entry:
        """Whoever leads writes an entry like no other."""
        self._numbers += 1
        entry = Entry(self.rafts[name].term, sequence=self._numbers)
        self.rafts[name].propose(self.contexts[name], entry)
        self._after(name)
        return entry

    def _after(self, name: str) -> None:
        """Note the timers, and hold what is decided here against what was decided anywhere."""
        ctx, raft = self.contexts[name], self.rafts[name]
        self.due.update(((name, timer), at) for timer, at in ctx.woken().items())
        ctx.clear()
        self.now += 1_000_000
        for each in self.contexts.values():
            each.now = self.now
        record = raft.record
        if record is None:
            return
        history = None if self.careful else raft.history
        assert record.base <= raft.commit_index <= record.last, "more is decided than there is"
        for index, entry in enumerate(
            record.entries(record.base + 1, raft.commit_index - record.base), record.base + 1
        ):
            known = self.agreed.setdefault((history, index), entry)
            assert known == entry, f"{name} has {entry} at {index}, somebody had {known}"
        self.counts["decided"] = len(self.agreed)

    # scripts

    def play(self, script: bytes) -> None:
        """Two bytes a step: what, and whom or which."""
        for what, which in zip(script[::2], script[1::2], strict=False):
            step = next(name for limit, name in STEPS if what < limit)
            getattr(self, f"_{step}")(which)
            del self.mail[:-MAX_MAIL]

    def _pick(self, which: int) -> str:
        return self.names[which % len(self.names)]

    def _carry(self, which: int) -> None:
        """One of the oldest letters arrives, unless the network is cut between."""
        if self.mail:
            self.deliver(self.mail.pop(which % min(NEAR, len(self.mail))))

    def _lose(self, which: int) -> None:
        if self.mail:
            del self.mail[which % len(self.mail)]

    def _twice(self, which: int) -> None:
        if self.mail:
            self.deliver(self.mail[which % len(self.mail)])

    def _cut(self, which: int) -> None:
        """The network falls into two parts, or is whole again."""
        self.apart = {name for place, name in enumerate(self.names) if which >> place & 1 and which < 128}

    def _wake(self, which: int) -> None:
        timers = sorted(self.due)
        if timers:
            self.wake(*timers[which % len(timers)])

    def _propose(self, which: int) -> None:
        leaders = self.leading()
        if leaders:
            self.propose(leaders[which % len(leaders)])

    def _doubt(self, which: int) -> None:
        """A node takes another for dead, most often the one that leads."""
        here, other = self._pick(which), self._pick(which // len(self.names))
        self.known[here].discard(self.rafts[here].leader if which < 200 else other)
        self.known[here].add(here)

    def _trust(self, which: int) -> None:
        self.known[self._pick(which)] = set(self.names)

    def _settle(self, which: int) -> None:
        for name in self.leading():
            self.rafts[name].settle(self.rafts[name].commit_index - which % 3)
            self._after(name)

    def _crash(self, which: int) -> None:
        name = self._pick(which)
        if self.careful and not self._spared(name):
            return
        self.counts["crashed"] += 1
        self.begin(name)

    def _spared(self, name: str) -> bool:
        """Whether without a node there is still a majority, by every list of seats that may yet count."""
        alive = {(each, life) for each, life in self.lives.items() if each != name}
        return all(2 * len(alive.intersection(seats)) > len(seats) for seats in self._lists())

    def _lists(self) -> Iterable[Voters]:
        for name, raft in self.rafts.items():
            record = raft.record
            if record is None or not raft.seated(self.contexts[name]):
                continue
            latest = record.state()[2]
            for index, entry in enumerate(record.entries(record.base + 1, 10**6), record.base + 1):
                if entry.seats and index > raft.commit_index:
                    yield latest
                latest = entry.seats or latest
            yield latest
        for message in self.mail:
            if isinstance(message, AppendEntries):
                yield from (entry.seats for entry in message.entries if entry.seats)

    # looking

    def leading(self) -> list[str]:
        return [name for name in self.names if self.rafts[name].leads]

    def best(self) -> str:
        """The rendezvous node."""
        return ranking(self.contexts[self.names[0]].id, self.names, 1)[0]

    def calm(self, seconds: float = 30.0) -> None:
        """The network is whole, and everybody knows who lives."""
        self.known = {name: set(self.names) for name in self.names}
        self.apart = set()
        self.passes(seconds)

    def passes(self, seconds: float) -> None:
        """Letters arrive at once and timers run out in time."""
        for name in self.names:
            self._founding(name)
        end = self.now + nanoseconds(seconds)
        for _ in range(20_000):
            if self.mail:
                self.deliver(self.mail.pop(0))
                continue
            timer = min(self.due, key=lambda each: (self.due[each], each), default=None)
            if timer is None or self.due[timer] > end:
                return
            self.now = max(self.now, self.due[timer])
            self.wake(*timer)
            self._founding(timer[0])
        raise AssertionError("letters are written for ever")

    def _founding(self, name: str) -> None:
        self.foundings[name].start(self.contexts[name])
        self._after(name)


def settled(**more: Any) -> Councils:
    """A network whose council has all its seats and a leader."""
    net = Councils(**more)
    net.found(net.best())
    net.calm()
    return net
