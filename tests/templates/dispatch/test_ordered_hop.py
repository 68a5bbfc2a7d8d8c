"""What a neighbour hands over in order: numbers that it cannot have reached cost nothing."""

from __future__ import annotations

import random

from gossamer.templates.dispatch.hop_messages import Begin, Begun, Got, Sent
from gossamer.templates.dispatch.ordered_hop import OVERHEAD, Relay
from gossamer.templates.dispatch.session_messages import Ask, Passed
from gossamer.testing.fake import FakeContext

LIMIT = 100 * OVERHEAD


def opened() -> tuple[FakeContext, Relay, int]:
    """A node with a relay from b, and the number of the relay."""
    ctx = FakeContext("a", rng=random.Random(1))
    relay = Relay(0.1, 0.5, LIMIT, lambda ctx, node: None)
    relay.begin(ctx, Begin(1, 1), "b")
    ((_, begun),) = ctx.sent()
    assert isinstance(begun, Begun)
    ctx.clear()
    return ctx, relay, begun.relay


def test_a_number_far_beyond_what_is_next_is_refused_and_makes_no_holes() -> None:
    ctx, relay, number = opened()
    assert list(relay.take(ctx, "b", (number, 2**62), Ask())) == []
    relay.sent(ctx, Sent(number, 1), "b")
    assert ctx.sent() == [("b", Got(number, 0, ((1, 1),)))]
    assert list(relay.take(ctx, "b", (number, 1), Ask())) == [(Ask(), None)]
    relay.sent(ctx, Sent(number, 1), "b")
    assert ctx.sent()[-1] == ("b", Got(number, 1))


def test_all_that_a_neighbour_may_have_on_its_way_is_taken_in_any_order() -> None:
    going, taking, number = opened()
    sender = Relay(0.1, 0.5, LIMIT, lambda ctx, node: None)
    away = FakeContext("b", rng=random.Random(2))
    sender.open(away, "a")
    sender.begun(away, Begun(away.incarnation, 1, number), "a")
    away.clear()
    for _ in range(100):
        sender.send(away, "a", Ask())
    passed = [each for _, each in away.sent() if isinstance(each, Passed)]
    assert len(passed) == 100
    came = [
        what for each in reversed(passed) for what in taking.take(going, "b", (number, each.number), Ask())
    ]
    assert len(came) == 100
