"""What causal order keeps and says where a node lacks the past of what it gets.

A *cut* is a number per source such that no parcel up to these depends on any beyond. How far a node has
delivered in causal order is one. Pure state and words: the ``causal`` template says when.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, TypeVar

from msgspec import Meta

from gossamer.core.control import Life, Message
from gossamer.core.parcel import Depend
from gossamer.core.receipt import SourceKey
from gossamer.templates.reliable.messages import MAX_STREAMS, Name, Number
from gossamer.templates.reliable.windows import Streams

V = TypeVar("V")
MAX_SILENT = 1000
"""Sources that were forgotten because they were silent, of which a cut still tells; the last ones."""


class AskCut(Message, frozen=True):
    """One hop towards sources: how far are you? I need to know what these depend on, up to a number each."""

    sources: Annotated[tuple[tuple[Name, Life, Number], ...], Meta(max_length=MAX_STREAMS)]


class Cut(Message, frozen=True):
    """How far I am with every source: none of this depends on anything else."""

    positions: Annotated[tuple[tuple[Name, Life, Number], ...], Meta(max_length=3 * MAX_STREAMS)]


class Wait:
    """What the next parcel of a source waits for, and since when nothing has moved there."""

    __slots__ = ("key", "number", "position", "since")

    def __init__(self, key: SourceKey, number: int, since: int) -> None:
        self.key = key
        self.number = number
        self.position = -1
        self.since = since


class Puzzle:
    """A parcel that depends on one that was given up, or comes after a gap: what else it depends on has to be
    found out.

    number
        Who has passed this one of the same source knows.

    reasons
        What was given up; nothing after a gap.
    cut, position
        What has to have passed before it, and how far that neighbour was with its source; None and 0 until a
        neighbour has said. It holds for all parcels of the source up to there, so the next puzzle of the same
        source may begin with it.
    """

    __slots__ = ("cut", "number", "position", "reasons", "since")

    def __init__(
        self, number: int, reasons: frozenset[Depend], since: int, before: Puzzle | None = None
    ) -> None:
        self.number = number
        self.reasons = reasons
        self.since = since
        self.cut: dict[SourceKey, int] | None = None
        self.position = 0
        if before is not None and number <= before.position:
            self.cut, self.position = before.cut, before.position

    def learn(self, told: dict[SourceKey, int], source: SourceKey) -> None:
        """A neighbour said how far it is; what it said first holds."""
        if self.cut is None:
            self.cut = {key: number for key, number in told.items() if key != source}
            self.position = told[source]


def passed(
    streams: Streams, floor: dict[SourceKey, int], unexplained: dict[SourceKey, int]
) -> dict[SourceKey, int]:
    """Per source what has passed here, delivered or not, and depends on nothing that is unknown here."""
    silent = islice(reversed(streams.ended.items()), MAX_SILENT)
    cut = {key: position - 1 for key, position in silent}
    cut |= {key: stream.next - 1 for key, stream in streams.items()}
    for key, number in floor.items():
        cut[key] = max(number, cut.get(key, 0))
    for key, number in unexplained.items():
        cut[key] = min(number - 1, cut.get(key, 0))
    return cut


def explain(
    unexplained: dict[SourceKey, int], floor: dict[SourceKey, int], key: SourceKey, number: int
) -> None:
    """All that a source's parcels up to a number depend on has passed here."""
    if key in unexplained:
        unexplained[key] = max(number + 1, unexplained[key])
        if number >= floor.get(key, 0):
            del unexplained[key]


def remember(known: dict[SourceKey, V], key: SourceKey, value: V) -> None:
    """Set a value; of too many the one longest unchanged is forgotten."""
    known.pop(key, None)
    known[key] = value
    if len(known) > MAX_STREAMS:
        del known[next(iter(known))]
