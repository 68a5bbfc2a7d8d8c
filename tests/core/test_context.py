"""The context: who is near, which way an address lies, and what may be asked for. Its fake records it all."""

from __future__ import annotations

import random

import pytest

from gossamer.core.effect import Drop, Reply, Send, Wake
from gossamer.core.event import Criteria
from gossamer.core.names import NANOSECONDS, channel_id
from gossamer.core.tree import Tree
from gossamer.overlay.directory.service import Entry, WhatIs
from gossamer.testing.fake import FakeContext, parcel

BACKBONE = Tree([("b1", "b2"), ("b2", "b3")])


@pytest.mark.parametrize(
    ("ctx", "near"),
    [
        (FakeContext("b2", tree=BACKBONE), ("b1", "b3")),
        (FakeContext("b1", tree=BACKBONE, below=("s2", "a")), ("a", "b2", "s2")),
        (FakeContext("s2", server="b1", below=("c",)), ("b1", "c")),
        (FakeContext("c", server="b1/s2"), ("s2",)),
        (FakeContext("lone"), ()),
        (FakeContext("hub", neighbours=("z", "a")), ("a", "z")),
    ],
)
def test_neighbours_are_in_the_tree_above_and_below_in_order(ctx: FakeContext, near: tuple[str, ...]) -> None:
    assert ctx.neighbours == near


@pytest.mark.parametrize(
    ("ctx", "address", "hop"),
    [
        (FakeContext("b3", tree=BACKBONE), "b1/s2/c", "b2"),
        (FakeContext("b2", tree=BACKBONE), "b1/s2/c", "b1"),
        (FakeContext("b1", tree=BACKBONE, below=("s2",)), "b1/s2/c", "s2"),
        (FakeContext("s2", server="b1", below=("c",)), "b1/s2/c", "c"),
        (FakeContext("s2", server="b1", below=("c",)), "b3", "b1"),
        (FakeContext("c", server="b1/s2"), "b3/d", "s2"),
        (FakeContext("b1", tree=BACKBONE, below=()), "b1/s2/c", None),
        (FakeContext("b1", tree=BACKBONE), "b9", None),
        (FakeContext("b1", tree=BACKBONE), "b1", None),
        (FakeContext("lone"), "b1", None),
    ],
)
def test_the_way_to_an_address_goes_down_up_or_along_the_tree(
    ctx: FakeContext, address: str, hop: str | None
) -> None:
    assert ctx.toward(address) == hop


def test_everything_asked_for_is_recorded_in_order() -> None:
    ctx = FakeContext("a", neighbours="b", now=5 * NANOSECONDS)
    item = parcel("a")
    ctx.send("b", item)
    ctx.send(["b", "c"], WhatIs(7))
    ctx.drop(item, "why not")
    ctx.wake("later", 1.5)
    ctx.reply(3, "value")
    kinds = [type(each) for each in ctx.effects]
    assert kinds == [Send, Send, Drop, Wake, Reply]
    assert ctx.sent() == [("b", item), ("b", WhatIs(7)), ("c", WhatIs(7))]
    assert ctx.dropped() == [(item, "why not")]
    assert ctx.woken() == {"later": 6_500_000_000}
    assert [(each.call, each.value) for each in ctx.replies()] == [(3, "value")]
    ctx.clear()
    assert ctx.effects == []


def test_sending_to_nobody_is_no_effect() -> None:
    ctx = FakeContext("a")
    ctx.send((), parcel("a"))
    ctx.send((each for each in ()), WhatIs(1))
    assert ctx.effects == []


def test_a_later_wake_replaces_an_earlier_one_and_a_cancelled_one_is_gone() -> None:
    ctx = FakeContext("a")
    ctx.wake("x", 1)
    ctx.wake("y", 1)
    ctx.wake("x", 2)
    ctx.cancel("y")
    assert ctx.woken() == {"x": 2 * NANOSECONDS}


def test_a_message_travels_on_the_channel_of_its_context() -> None:
    ctx = FakeContext("a", channel="sport")
    ctx.send("b", WhatIs(1))
    (effect,) = ctx.effects
    assert isinstance(effect, Send)
    assert effect.item.channel == channel_id("sport") == ctx.id  # type: ignore[union-attr]


def test_the_fake_delivers_opens_and_puts_without_an_engine() -> None:
    ctx = FakeContext("a", subscribers={1: Criteria(x=1)})
    item = parcel("b")
    ctx.deliver(item, "b")
    ctx.open(Entry("news", "loop"))
    ctx.put("weather", "fine")
    assert ctx.delivered() == [item]
    assert [each.name for each in ctx.opened] == ["news"]
    assert ctx.container("weather") == "fine"
    assert ctx.container("nothing") is None
    assert list(ctx.subscribers) == [1]


def test_dice_are_given_or_missed_loudly() -> None:
    with pytest.raises(AssertionError, match=r"rng=random\.Random"):
        FakeContext("a").rng.random()
    with pytest.raises(AssertionError):
        FakeContext("a").rng.shuffle([1])
    with pytest.raises(AssertionError):
        FakeContext("a").rng.choice([1])
    with pytest.raises(AssertionError):
        FakeContext("a").rng.randrange(3)
    one, two = (FakeContext("a", rng=random.Random(7)).rng.random() for _ in range(2))
    assert one == two


def test_neighbours_and_a_tree_are_not_both_given() -> None:
    with pytest.raises(ValueError, match="twice"):
        FakeContext("a", neighbours="b", tree=BACKBONE)
