"""Councils: what a majority has is decided for ever, whoever leads, dies or is cut off."""

from __future__ import annotations

from typing import Any

from gossamer.overlay.council import Council
from gossamer.overlay.councilwords import (
    Ask,
    Copied,
    History,
    Letter,
    Seats,
    Vote,
    Welcome,
)
from gossamer.overlay.keeper import CouncilSettings, Keeper
from gossamer.overlay.record import Record
from gossamer.testing.fake import FakeContext

H: History = (1, "a")
THREE: Seats = (("a", 1), ("b", 1), ("c", 1))


class One:
    """One council by itself, and what it writes."""

    def __init__(self, name: str = "b", record: Record | None = None, **state: Any) -> None:
        self.ctx = FakeContext(name)
        self.wrote: list[Letter] = []
        self.council = Council(
            CouncilSettings(3),
            live=lambda ctx: ("a", "b", "c", "d"),
            send=lambda ctx, letter: self.wrote.append(letter),
            decided=lambda ctx: None,
            elected=lambda ctx: None,
            keeper=Keeper(lambda key, number: None),
        )
        self.council.history, self.council.record = H, record
        for key, value in state.items():
            setattr(self.council, key, value)

    def hear(self, kind: type[Letter], origin: str, term: int, *rest: object, life: int = 1) -> list[Letter]:
        """What it answers to a letter."""
        self.wrote.clear()
        self.council.hear(self.ctx, kind(self.ctx.node, origin, life, H, term, *rest))
        return list(self.wrote)

    def votes(self, origin: str, term: int, index: int = 0, index_term: int = 0) -> bool:
        (vote,) = self.hear(Ask, origin, term, index, index_term, False)
        assert isinstance(vote, Vote)
        return vote.granted


# votes


def test_nobody_votes_twice_in_one_term() -> None:
    one = One(record=Record(0, 0, THREE))
    assert one.votes("a", 5)
    assert one.votes("a", 5), "the answer may have been lost"
    assert not one.votes("c", 5)
    assert one.votes("c", 6)


def test_who_has_voted_and_is_welcomed_then_has_voted_all_the_same() -> None:
    one = One()
    assert one.votes("a", 5)
    one.hear(Welcome, "a", 5, 0, 0, THREE, (), 0)
    assert not one.votes("c", 5)


def test_a_welcome_that_was_long_on_its_way_takes_no_vote_back() -> None:
    one = One()
    assert one.votes("a", 6)
    (answer,) = one.hear(Welcome, "c", 5, 0, 0, THREE, (), 0)
    assert isinstance(answer, Copied)
    assert (answer.term, answer.agreed) == (6, False), "so that whoever wrote it follows"
    assert one.council.record is None
    assert not one.votes("c", 6)
