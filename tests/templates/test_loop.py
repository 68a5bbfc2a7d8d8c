"""Loop: one node, nothing on the network."""

from __future__ import annotations

from gossamer.core.template import AT_MOST_ONCE, Membership, Settings
from gossamer.templates.loop import Loop
from gossamer.testing.fake import FakeContext, answer, parcel


def test_what_is_published_here_is_delivered_here_and_sent_nowhere() -> None:
    ctx = FakeContext("a", neighbours="bc")
    loop, one, two = Loop(Settings()), parcel("a", 1), parcel("a", 2, 2)
    loop.on_publish(ctx, one)
    loop.on_publish(ctx, two)
    assert ctx.delivered() == [one, two]
    assert ctx.sent() == []


def test_a_parcel_from_elsewhere_is_dropped_and_not_delivered() -> None:
    ctx = FakeContext("a", neighbours="bc")
    foreign = parcel("b")
    Loop(Settings()).on_parcel(ctx, foreign, "b")
    assert [item for item, _ in ctx.dropped()] == [foreign]
    assert ctx.delivered() == []


def test_an_answer_stays_here() -> None:
    ctx = FakeContext("a", neighbours="bc")
    reply = answer("a", parcel("a"))
    Loop(Settings()).on_feedback(ctx, reply, None)
    assert ctx.answered() == [reply]
    assert ctx.sent() == []


def test_links_that_come_and_go_cost_nothing() -> None:
    ctx = FakeContext("a", neighbours="bc")
    loop = Loop(Settings())
    loop.on_open(ctx)
    loop.on_membership(ctx, Membership("up", "b"))
    loop.on_membership(ctx, Membership("subscribed", "1"))
    assert ctx.effects == []


def test_it_promises_at_most_once() -> None:
    assert Loop.promises == {AT_MOST_ONCE}
