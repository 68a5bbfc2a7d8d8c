"""Traces made by hand: what nodes would have written, right or wrong, and the violations in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from gossamer.core import trace
from gossamer.core.trace import Row
from gossamer.pipeline.schema import ARROW

SECOND = 10**9
Finding = tuple[str, str, str, int, str]
"""Promise, node, source, number and what was expected."""


@dataclass
class Story:
    """One run: each call is a row, a second after the one before."""

    run: str
    promises: str = ""
    found: tuple[Finding, ...] = ()
    rows: list[Row] = field(default_factory=list)
    now: int = 0
    begins: int = 0
    """Instant of the first row; a wall clock makes it a live run."""
    bound: int = 0
    """Seconds after a fault by which the channel makes progress again; 0 states none."""

    def __post_init__(self) -> None:
        self._positions: Counter[tuple[str, int]] = Counter()
        self._lives: Counter[str] = Counter()
        self.now = self.begins

    def row(
        self,
        node: str,
        kind: str,
        action: str,
        source: str = "",
        sequence: int = 0,
        first: int = 0,
        count: int = 0,
        peer: str = "",
        detail: str = "",
        value: int = 0,
    ) -> Story:
        self.now += SECOND
        mine = 1 + self._lives[node]
        self._positions[node, mine] += 1
        life = 1 + self._lives[source] if source else 0
        here = (self._positions[node, mine], self.now, node, mine, kind, action, "news", source, life)
        self.rows.append((*here, sequence, first, count, peer, 90 if count else 0, detail, value))
        return self

    def opened(self, *nodes: str) -> Story:
        said, bound = f"made-up {self.promises}".strip(), self.bound * SECOND
        for node in nodes:
            self.row(node, trace.CHANNEL, trace.OPENED, detail=said, value=bound)
        return self

    def restarted(self, node: str) -> Story:
        self._lives[node] += 1
        return self.opened(node)

    def linked(self, node: str, change: str, peer: str) -> Story:
        return self.row(node, trace.MEMBER, change, peer=peer)

    def ended(self, seconds: int) -> Story:
        """Nothing but a control message after so many seconds."""
        return self.later(seconds - 1).row("a", trace.CONTROL, trace.SENT, peer="b", detail="Hello")

    def subscribed(self, node: str, criteria: str = "", number: int = 1) -> Story:
        return self.row(node, trace.MEMBER, trace.SUBSCRIBED, peer=str(number), detail=criteria)

    def acknowledged(self, source: str, number: int) -> Story:
        return self.row(source, trace.MEMBER, trace.ACKNOWLEDGED, source, first=number)

    def lost(self, source: str, number: int, count: int = 1) -> Story:
        return self.row(source, trace.MEMBER, trace.LOST, source, first=number, count=count)

    def later(self, seconds: int) -> Story:
        """Time passes."""
        self.now += seconds * SECOND
        return self

    def missed(self, node: str, source: str) -> Story:
        return self.row(node, trace.MEMBER, trace.MISSED, source)

    def published(self, source: str, number: int, count: int = 1, until: int = 0) -> Story:
        return self.parcel(source, trace.PUBLISHED, source, number, count, value=until)

    def delivered(
        self, node: str, source: str, number: int, count: int = 1, until: int = 0, to: int = 1
    ) -> Story:
        return self.parcel(node, trace.DELIVERED, source, number, count, str(to), value=until)

    def sent(self, node: str, to: str, source: str, number: int) -> Story:
        return self.parcel(node, trace.SENT, source, number, peer=to)

    def received(self, node: str, by: str, source: str, number: int) -> Story:
        return self.parcel(node, trace.RECEIVED, source, number, peer=by)

    def dropped(self, node: str, source: str, number: int, peer: str = "", why: str = "x") -> Story:
        return self.parcel(node, trace.DROPPED, source, number, peer=peer, detail=why)

    def noted(self, node: str, action: str, place: int, source: str, sequence: int) -> Story:
        return self.row(node, trace.PARCEL, action, source, sequence, value=place)

    def answer(self, node: str, action: str, by: str, number: int, question: int, to: str = "") -> Story:
        return self.row(node, trace.FEEDBACK, action, by, 0, number, 1, to, value=question)

    def parcel(
        self,
        node: str,
        action: str,
        source: str,
        number: int,
        count: int = 1,
        peer: str = "",
        detail: str = "",
        value: int = 0,
    ) -> Story:
        return self.row(node, trace.PARCEL, action, source, number, number, count, peer, detail, value)

    def table(self) -> pa.Table:
        """All rows, as one writer would leave them."""
        columns = zip(*self.rows, strict=True)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, ARROW, strict=True)], ARROW)


def told(stories: Iterable[Story]) -> pa.Table:
    """Rows of all of them, each with the name of its run, as Spark reads them."""
    tables = ((story.run, story.table()) for story in stories)
    return pa.concat_tables(table.append_column("run", pa.array([run] * len(table))) for run, table in tables)


def begin(run: str, promises: str = "", *found: Finding) -> Story:
    """A channel at ``a``, where somebody publishes, and at ``b`` and ``c``, where somebody listens."""
    return Story(run, promises, found).opened("a", "b", "c").subscribed("b").subscribed("c")


def _publish(story: Story, *numbers: int) -> Story:
    for number in numbers:
        story.published("a", number)
    return story


def at_most_once() -> Story:
    again = ("at-most-once", "b", "a", 2, "delivered once to this subscription")
    story = _publish(begin("twice", "at-most-once", again), 1, 2, 3)
    return story.delivered("b", "a", 3).delivered("b", "a", 2).delivered("b", "a", 1).delivered("b", "a", 2)


def overlapping() -> Story:
    again = ("at-most-once", "b", "a", 5, "delivered once to this subscription")
    story = begin("overlap", "at-most-once", again)
    for number, count in ((1, 4), (5, 4), (9, 2)):
        story.published("a", number, count)
    story.delivered("b", "a", 5, 4).delivered("b", "a", 1, 4).delivered("b", "a", 9, 2)
    return story.delivered("b", "a", 5, 4)


def exactly_once() -> Story:
    hole = ("exactly-once", "b", "a", 2, "number 2 too")
    again = ("exactly-once", "b", "a", 4, "delivered once to this subscription")
    story = _publish(begin("hole", "exactly-once", hole, again), 1, 2, 3, 4)
    for number in (4, 1, 3, 4):
        story.delivered("b", "a", number)
    return story


def gap_free() -> Story:
    gap = ("gap-free", "b", "a", 3, "number 2 next")
    back = ("gap-free", "c", "a", 1, "number 3 next")
    on = ("gap-free", "c", "a", 3, "number 2 next")
    story = _publish(begin("gap", "gap-free", gap, back, on), 1, 2, 3)
    story.delivered("b", "a", 1).delivered("b", "a", 3)
    return story.delivered("c", "a", 2).delivered("c", "a", 1).delivered("c", "a", 3)


def excused() -> Story:
    """Gaps that are none: told, expired, or of a subscription with criteria."""
    story = begin("excused", "gap-free")
    _publish(story, 1, 2, 3, 4, 5)
    story.subscribed("b", "Criteria(('price', '>', 5),)", 2)
    story.delivered("b", "a", 1, to=2).delivered("b", "a", 3, to=2)
    story.delivered("b", "a", 1).missed("b", "a").delivered("b", "a", 4)
    story.delivered("c", "a", 1).dropped("c", "a", 2, why=trace.EXPIRED)
    return story.dropped("c", "a", 3, why=trace.EXPIRED).delivered("c", "a", 4).delivered("c", "a", 5)


def causal() -> Story:
    early = ("causal", "c", "b", 1, "number 1 of a first")
    story = _publish(begin("effect-first", "causal", early), 1)
    story.delivered("b", "a", 1).published("b", 1).delivered("b", "b", 1)
    return story.delivered("c", "b", 1).delivered("c", "a", 1)


def total_order() -> Story:
    swapped = ("total-order", "c", "a", 1, "place 2 after place 1")
    unplaced = ("total-order", "b", "a", 2, "a place given by the sequencer")
    story = _publish(begin("two-orders", "total-order", swapped, unplaced), 1, 2).published("b", 1)
    story.noted("s", trace.ORDERED, 1, "a", 1).noted("s", trace.ORDERED, 2, "b", 1)
    story.delivered("b", "a", 1).delivered("b", "b", 1).delivered("b", "a", 2)
    return story.delivered("c", "b", 1).delivered("c", "a", 1)


def two_sequencers() -> Story:
    shared = ("total-order", "t", "b", 1, "one parcel at place 1")
    moved = ("total-order", "t", "b", 1, "one place for this parcel")
    story = _publish(begin("two-sequencers", "total-order", shared, moved), 1).published("b", 1)
    story.noted("s", trace.ORDERED, 1, "a", 1).noted("s", trace.ORDERED, 2, "b", 1)
    return story.noted("t", trace.ORDERED, 1, "b", 1)


def durable() -> Story:
    skipped = ("durable", "b", "a", 2, "the parcel at place 2 too")
    back = ("durable", "c", "a", 1, "place 2 after place 1")
    lost = ("durable", "k", "a", 4, "one parcel at place 3")
    story = _publish(begin("forgotten", "durable", skipped, back, lost), 1, 2, 3, 4)
    for place in (1, 2, 3):
        story.noted("k", trace.STORED, place, "a", place)
    story.noted("k", trace.STORED, 3, "a", 4)
    story.delivered("b", "a", 1).delivered("b", "a", 3)
    return story.delivered("c", "a", 2).delivered("c", "a", 1)


def deadline() -> Story:
    story = begin("late")
    until = story.now + 2 * SECOND
    story.found = (("deadline", "c", "a", 1, f"delivered by {until}"),)
    return (
        story.published("a", 1, until=until)
        .delivered("b", "a", 1, until=until)
        .delivered("c", "a", 1, until=until)
    )


def feedback() -> Story:
    story = begin(
        "answers",
        "",
        ("feedback", "a", "b", 1, "handed over once"),
        ("feedback", "c", "b", 2, "handed to a as an answer to its number 1"),
        ("feedback", "a", "c", 9, "an answer that was given"),
    )
    story.answer("b", trace.PUBLISHED, "b", 1, 1, "a").answer("b", trace.PUBLISHED, "b", 2, 1, "a")
    story.answer("a", trace.DELIVERED, "b", 1, 1).answer("a", trace.DELIVERED, "b", 1, 1)
    return story.answer("c", trace.DELIVERED, "b", 2, 1).answer("a", trace.DELIVERED, "c", 9, 1)


def accounting(run: str = "books", begins: int = 0) -> Story:
    nowhere = ("accounting", "c", "a", 1, "sent by b")
    vanished = ("accounting", "a", "a", 2, "received by b, or dropped")
    made_up = ("accounting", "b", "z", 7, "published by z")
    live = begins >= trace.WALL_CLOCK
    story = Story(run, "", (nowhere, made_up) if live else (nowhere, vanished, made_up), begins=begins)
    story.opened("a", "b", "c")
    _publish(story, 1, 2, 3, 4)
    story.sent("a", "b", "a", 1).received("b", "a", "a", 1).received("c", "b", "a", 1)
    story.sent("a", "b", "a", 2)
    story.sent("a", "b", "a", 3).dropped("a", "a", 3, "b").delivered("b", "z", 7)
    for _ in range(12):
        story.subscribed("b")
    return story.sent("a", "b", "a", 4)


def silence() -> Story:
    """A parcel that vanishes, and then nothing but control messages, by which the run goes on."""
    story = Story("silence", "", (("accounting", "a", "a", 1, "received by b, or dropped"),))
    story.opened("a", "b").published("a", 1).sent("a", "b", "a", 1)
    for _ in range(12):
        story.row("a", trace.CONTROL, trace.SENT, peer="b", detail="Hello")
    return story


def flawless() -> Story:
    """Every promise there is, each with something that it is held against, and none broken."""
    story = begin("flawless", "at-most-once exactly-once gap-free causal total-order durable progress")
    until = 10**6 * SECOND
    for place, source in enumerate("aba", 1):
        number = 2 if place == 3 else 1
        story.published(source, number, until=until).sent(source, "c", source, number)
        story.received("c", source, source, number)
        for action in (trace.ORDERED, trace.STORED):
            story.noted("k", action, place, source, number)
        for node in "bc":
            story.delivered(node, source, number, until=until)
    story.answer("c", trace.PUBLISHED, "c", 1, 2, "a")
    return story.answer("a", trace.DELIVERED, "c", 1, 2)


def progress() -> Story:
    """Two were there long before: one never gets anything, one not the last. Others have an excuse."""
    expected = "delivered here, for it was acknowledged"
    found = (("progress", "b", "a", 2, expected), ("progress", "c", "a", 2, expected))
    story = Story("standstill", "progress", found).opened("a", "b", "c", "d", "e", "f", "g", "h")
    for node in "bcdefg":
        story.subscribed(node)
    story.subscribed("h", "Criteria(('price', '>', 5),)").later(40)
    story.published("a", 1).delivered("c", "a", 1).delivered("d", "a", 1)
    story.published("a", 2).delivered("d", "a", 2).acknowledged("a", 2)
    story.subscribed("c", number=2)  # too late to be owed anything
    story.missed("e", "a")
    story.row("f", trace.MEMBER, trace.UNSUBSCRIBED, peer="1")
    story.row("a", trace.MEMBER, trace.UP, peer="b").row("a", trace.MEMBER, trace.DOWN, peer="g")
    return story.published("a", 3)


DELIVERED = "delivered here, for it was published and all is calm"
ANSWERED = "acknowledged, for its source lives and all is calm"
FIRST = "delivered before it was acknowledged"
SOMEWHERE = "delivered to a subscription that stayed, for it was acknowledged"
STORED_FIRST = "stored before it was acknowledged"


def waiting(run: str, *found: Finding, promises: str = "progress", bound: int = 120) -> Story:
    """Subscriptions at ``b`` and ``c`` that are there for long."""
    story = Story(run, promises, found, bound=bound).opened("a", "b", "c")
    return story.subscribed("b").subscribed("c").later(200)


def stuck() -> list[Story]:
    """One of two subscriptions gets nothing, no event is acknowledged, and time passes."""

    def begun(run: str, *found: Finding, bound: int = 120) -> Story:
        story = _publish(waiting(run, *found, bound=bound), 1, 2, 3)
        return story.delivered("c", "a", 1).delivered("c", "a", 2).delivered("c", "a", 3)

    found = (("progress", "b", "a", 3, DELIVERED), ("progress", "a", "a", 3, ANSWERED))
    healed = begun("stuck-healed", *found)
    severed = begun("stuck-severed").dropped("b", "a", 1, "c", "partition")
    return [
        begun("stuck", *found).ended(600),
        begun("stuck-late-restart", *found).restarted("c").ended(600),
        healed.dropped("b", "a", 1, "a", "partition")
        .sent("b", "a", "a", 2)
        .received("a", "b", "a", 2)
        .ended(600),
        begun("stuck-unstated", bound=0).ended(600),
        begun("stuck-young").ended(100),
        begun("stuck-restart").later(500).restarted("c").ended(100),
        begun("stuck-moved").later(500).linked("c", trace.UP, "b").ended(100),
        begun("stuck-told").later(500).missed("c", "z").ended(100),
        begun("stuck-dead-source").restarted("a").ended(600),
        begun("stuck-cut-source").linked("b", trace.DOWN, "a").ended(600),
        begun("stuck-lonely-source").linked("a", trace.UP, "b").linked("a", trace.DOWN, "b").ended(600),
        begun("stuck-torn").linked("b", trace.UP, "z").linked("b", trace.DOWN, "z").ended(600),
        severed.ended(600),
    ]


def unanswered() -> Story:
    """All have the events, and the source is told of the first only."""
    story = _publish(waiting("unanswered", ("progress", "a", "a", 2, ANSWERED)), 1, 2)
    for node in "bc":
        story.delivered(node, "a", 1).delivered(node, "a", 2)
    return story.acknowledged("a", 1).ended(600)


def gap_told() -> list[Story]:
    """A gap excuses what was published before it, and no acknowledged event that reaches no subscription."""
    expected = "delivered here, for it was acknowledged"
    before = waiting("told-before", ("progress", "b", "a", 2, expected)).missed("b", "a").later(5)
    after = (
        _publish(waiting("told-after"), 1, 2).delivered("c", "a", 1).delivered("c", "a", 2).missed("b", "a")
    )
    nowhere = _publish(waiting("told-all", ("progress", "a", "a", 2, SOMEWHERE)), 1, 2)
    nowhere.delivered("c", "a", 1).acknowledged("a", 2).missed("b", "a").missed("c", "a")
    moving = _publish(waiting("told-moving"), 1, 2).delivered("c", "a", 1)
    for node in "bc":
        moving.linked("a", trace.DOWN, node).linked("a", trace.UP, node)
    moving.acknowledged("a", 2).missed("b", "a").missed("c", "a")
    _publish(before, 1, 2).delivered("c", "a", 1).delivered("c", "a", 2).acknowledged("a", 2)
    return [before, after.acknowledged("a", 2), nowhere, moving]


def hasty() -> list[Story]:
    """An event is acknowledged, and delivered seconds later to a subscription that was there."""

    def begun(run: str, *found: Finding, promises: str = "progress") -> Story:
        story = _publish(waiting(run, *found, promises=promises), 1).delivered("c", "a", 1)
        return story.acknowledged("a", 1)

    newcomer = _publish(waiting("hasty-newcomer").subscribed("b", number=2), 1)
    newcomer.delivered("b", "a", 1).delivered("c", "a", 1)
    ordered = begun("hasty-ordered", promises="progress total-order")
    ordered.noted("s", trace.ORDERED, 1, "a", 1)
    return [
        begun("hasty", ("progress", "b", "a", 1, FIRST)).later(5).delivered("b", "a", 1),
        begun("hasty-clocks").delivered("b", "a", 1),
        begun("hasty-moved").linked("a", trace.UP, "b").later(5).delivered("b", "a", 1),
        begun("hasty-restart").restarted("c").later(5).delivered("b", "a", 1),
        newcomer.acknowledged("a", 1).later(5).delivered("b", "a", 1, to=2),
        ordered.later(40).delivered("b", "a", 1),
        begun("hasty-end", promises="progress total-order").noted("s", trace.ORDERED, 1, "a", 1),
    ]


def lost() -> list[Story]:
    """The acknowledgement passes over an event that is told to be lost; those beside it are asked for."""
    story = _publish(waiting("lost", ("progress", "a", "a", 1, SOMEWHERE), promises="progress durable"), 1)
    story.found += (("progress", "c", "a", 4, "delivered here, for it was acknowledged"),)
    story.found += (("durable", "a", "a", 4, STORED_FIRST),)
    story.noted("k", trace.STORED, 1, "a", 1)
    _publish(story, 2).lost("a", 2).published("a", 3, 1)
    story.noted("k", trace.STORED, 2, "a", 3).delivered("b", "a", 3).delivered("c", "a", 3)
    _publish(story, 4, 5).delivered("b", "a", 4).lost("a", 5).acknowledged("a", 5)
    last = (
        _publish(waiting("lost-last"), 1).delivered("b", "a", 1).delivered("c", "a", 1).acknowledged("a", 1)
    )
    return [story, _publish(last, 2, 3).lost("a", 2, 2).ended(600)]


def unstored() -> Story:
    """Acknowledged: stored before, long after, never, and just after by the clock of another node."""
    found = (("durable", "a", "a", 2, STORED_FIRST), ("durable", "a", "a", 3, STORED_FIRST))
    story = begin("unstored", "durable", *found)
    story.published("a", 1).noted("k", trace.STORED, 1, "a", 1).acknowledged("a", 1)
    story.published("a", 2).acknowledged("a", 2).later(5).noted("k", trace.STORED, 2, "a", 2)
    story.published("a", 3).acknowledged("a", 3)
    story.published("a", 4).acknowledged("a", 4).noted("k", trace.STORED, 3, "a", 4)
    return story.published("a", 5)


def noise(seed: int) -> Story:
    """Anything may happen, and does: what is found here, nobody knows beforehand."""
    draw = Random(seed)
    promises = ["at-most-once", "exactly-once", "gap-free", "causal", "total-order", "durable", "progress"]
    story = Story(f"noise-{seed}", " ".join(draw.sample(promises, 5)), bound=draw.choice((0, 5, 60)))
    if seed >= QUIET:
        story.promises += " progress"
    story.opened("a", "b", "c").subscribed("b").subscribed("c").later(draw.choice((0, 40)))
    if seed % 2:
        story.subscribed("b", "Criteria(('price', '>', 5),)", 2)
    for _ in range(150):
        _something(story, draw, quiet=seed >= QUIET)
    if seed >= QUIET:
        _publish(story, *range(10, 15)).delivered("b", "a", 12).missed("c", "b")
    return story.ended(draw.choice((1, 90, 90)))


def _something(story: Story, draw: Random, quiet: bool) -> None:
    node, source, peer = draw.choice("abc"), draw.choice("ab"), draw.choice("abc")
    number, count, place = draw.randint(1, 9), draw.randint(0, 2), draw.randint(1, 9)
    match draw.choice((0, 1, 2, 3, 4, 7, 8, 11, 13)) if quiet else draw.randrange(15):
        case 14:
            if draw.random() < 0.1:
                story.restarted(node).subscribed(node)
        case 11:
            story.acknowledged(source, number).later(draw.choice((0, 20)))
            if number == 3:
                story.lost(source, number, count)
        case 12:
            story.row(node, trace.MEMBER, draw.choice((trace.UP, trace.DOWN)), peer=peer)
        case 13:
            story.subscribed(node, number=draw.randint(1, 3)).later(draw.choice((0, 20)))
        case 0:
            story.published(source, number, count)
        case 1:
            story.delivered(node, source, number, count, to=draw.randint(1, 2))
        case 2:
            story.delivered(node, source, number, until=draw.choice((0, story.now)))
        case 3:
            story.sent(node, peer, source, number)
        case 4:
            story.received(node, peer, source, number)
        case 5:
            story.dropped(node, source, number, peer, draw.choice(("x", trace.EXPIRED, "partition")))
        case 6:
            story.missed(node, source)
        case 7:
            story.noted(node, trace.ORDERED, place, source, number)
        case 8:
            story.noted(node, trace.STORED, place, source, number)
        case 9:
            story.answer(node, trace.PUBLISHED, source, number, draw.randint(1, 2), peer)
        case _:
            story.answer(node, trace.DELIVERED, source, number, draw.randint(1, 2))


QUIET = 6
"""Seeds from here on have no faults, so that runs end calm."""
NOISE = [noise(seed) for seed in range(QUIET + 3)]

STORIES = {
    story.run: story
    for story in (
        at_most_once(),
        overlapping(),
        exactly_once(),
        gap_free(),
        excused(),
        causal(),
        total_order(),
        two_sequencers(),
        durable(),
        progress(),
        *stuck(),
        unanswered(),
        *gap_told(),
        *hasty(),
        *lost(),
        unstored(),
        deadline(),
        feedback(),
        accounting(),
        accounting("live-books", 2 * trace.WALL_CLOCK),
        silence(),
        flawless(),
    )
}
"""One run for each way to break a promise, and some that only look broken."""
