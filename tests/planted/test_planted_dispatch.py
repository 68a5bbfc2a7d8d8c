"""Bugs planted into dispatching, to show that what its tests look at goes wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.core.context import Context
from gossamer.core.event import Criteria
from gossamer.filters.language import typed
from gossamer.templates.dispatch import covering as shade
from gossamer.templates.dispatch import routing_table as filtertable
from gossamer.templates.dispatch.covering import Shade
from gossamer.templates.dispatch.locate import Seeking
from gossamer.templates.dispatch.session import Box
from gossamer.templates.dispatch.session_messages import Claim
from gossamer.templates.dispatch.session_server import Keeping
from gossamer.templates.dispatch.template import Dispatch
from tests.templates.dispatch.histories import History
from tests.templates.dispatch.test_moves import two_that_meet
from tests.templates.dispatch.test_template import CHANNEL, Dispatchers


def withdrawn(propagation: str) -> list[int]:
    """What D gets of prices 15, 25 and 35 after it has given up the wider of two filters."""
    net = Dispatchers(propagation)
    if propagation == "advertisement":
        net.offer("A", typed("price any"))
    wide = net.want("D", typed("price > 10"))
    net.want("D", typed("price > 20"))
    net.world.unsubscribe("D", CHANNEL, wide)
    net.settle()
    for price in (15, 25, 35):
        net.send("A", {"price": price})
    return net.got["D", "A"]


BOTH = pytest.mark.parametrize("propagation", ["subscription", "advertisement"])


@BOTH
def test_without_a_bug_the_narrower_filter_comes_out(propagation: str) -> None:
    assert withdrawn(propagation) == [2, 3]


@BOTH
def test_a_shade_that_forgets_what_it_hid_is_seen(propagation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(self: Shade, key: bytes) -> None:
        if key in self.shown:
            self._unshow(key)
            self._hidden.pop(key, None)

    monkeypatch.setattr(Shade, "remove", remove)
    assert withdrawn(propagation) == []


@BOTH
def test_a_cover_that_does_not_cover_is_seen(propagation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shade, "covers", lambda wide, narrow: True)
    net = Dispatchers(propagation)
    if propagation == "advertisement":
        net.offer("A", typed("price any"))
    net.want("D", typed("price in [10, 20]"))
    net.want("E", typed("price >= 15"))
    net.send("A", {"price": 25})
    assert net.got["E", "A"] == []


def test_a_subscription_that_is_compatible_with_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(wanted: Criteria, advertised: Criteria) -> bool:
        return False

    monkeypatch.setattr(filtertable, "compatible", never)
    net = Dispatchers("advertisement")
    net.offer("F", typed("price any"))
    net.want("D", typed("price > 20"))
    assert net.send("F", {"price": 25}) == set()


# moving


def seen(fault: str) -> bool:
    """Whether one of some histories of objects that move shows a fault."""
    return any(fault in wrong for seed in range(1, 41) for wrong in History(seed).run().wrong)


def test_a_claim_that_waits_for_no_filter_loses_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dispatch, "knows", lambda self, node: True)
    assert seen("lacks")


def test_a_box_that_does_not_say_what_it_had_gives_events_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Box, "listed", ())
    assert seen("twice")


def test_what_came_late_before_what_was_kept_breaks_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(self: Box, following: int, done: tuple[int, int], lost: int, marks: Any) -> None:
        kept, self.parcels, self.claim = list(self.parcels.values()), {}, 0
        self.next = max(self.next, following)
        for parcel in (*self.late, *kept):
            self.add(parcel)

    monkeypatch.setattr(Box, "fill", fill)
    assert seen("after what depends on it")


def test_who_publishes_before_its_subscription_has_come_breaks_the_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Dispatch, "obstacle", lambda self, ctx: None)
    assert seen("after what depends on it")


def test_answers_to_a_claim_that_was_given_up_are_taken_for_others_if_its_number_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def same_number(self: Keeping, ctx: Context, box: Box) -> None:
        box.claim = box.claim or 1 + ctx.rng.randrange(2**62)
        self._sought[box.claim] = box
        box.parcels.clear()
        self.seeking.claim(ctx, Claim(box.name, ctx.node, box.claim, box.sought), "")

    monkeypatch.setattr(Keeping, "_claim", same_number)
    assert seen("lacks")


def test_who_says_that_nothing_is_kept_before_it_has_heard_of_all_makes_two_boxes_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert two_that_meet() == [1, 2]
    monkeypatch.setattr(Seeking, "_unheard", lambda self: [])
    assert two_that_meet() == [2]
