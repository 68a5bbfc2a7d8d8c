"""Multicast: every effect on parcels, interest and feedback, listed."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.core.context import BELOW, TREE
from gossamer.core.errors import ConfigError
from gossamer.core.event import Criteria
from gossamer.core.names import NANOSECONDS
from gossamer.core.template import Membership
from gossamer.core.tree import Tree
from gossamer.templates.multicast import Interest, InterestHeard, Multicast, MulticastSettings
from gossamer.testing.fake import FakeContext, answer, parcel

LATER = 100 * NANOSECONDS


def multicast(**settings: Any) -> Multicast:
    return Multicast(MulticastSettings(**settings))


def middle(wanted: str = "abc", **more: Any) -> tuple[FakeContext, Multicast]:
    """Node m between others, some of which want events."""
    ctx = FakeContext("m", neighbours="abc", now=LATER, **more)
    template = multicast()
    for each in wanted:
        template.hear(ctx, Interest(1, True), each)
    ctx.clear()
    return ctx, template


def subscribe(ctx: FakeContext, template: Multicast, number: int = 1) -> None:
    ctx.subscribers[number] = Criteria()
    template.on_membership(ctx, Membership("subscribed", str(number)))


def unsubscribe(ctx: FakeContext, template: Multicast, number: int = 1) -> None:
    del ctx.subscribers[number]
    template.on_membership(ctx, Membership("unsubscribed", str(number)))


def interests(ctx: FakeContext) -> list[tuple[str, bool]]:
    """Interests told since the last clear: to whom, and whether something is wanted."""
    return [(to, item.wanted) for to, item in ctx.sent() if isinstance(item, Interest)]


# parcels


def test_a_parcel_goes_on_in_all_directions_but_the_one_it_came_from() -> None:
    ctx, template = middle()
    item = parcel("a")
    template.on_parcel(ctx, item, "a")
    assert ctx.sent() == [("b", item), ("c", item)]
    assert ctx.delivered() == [item]
    assert ctx.dropped() == []


def test_a_second_copy_is_dropped_and_sent_nowhere() -> None:
    ctx, template = middle()
    template.on_parcel(ctx, parcel("a"), "a")
    ctx.clear()
    copy = parcel("a")
    template.on_parcel(ctx, copy, "b")
    assert ctx.dropped() == [(copy, "seen before")]
    assert ctx.sent() == []
    assert ctx.delivered() == []


def test_an_own_parcel_that_comes_back_is_dropped() -> None:
    ctx, template = middle()
    own = parcel("m")
    template.on_parcel(ctx, own, "a")
    assert ctx.dropped() == [(own, "seen before")]
    assert ctx.sent() == []
    assert ctx.delivered() == []


def test_an_own_parcel_of_an_earlier_life_or_place_is_dropped_too() -> None:
    ctx, template = middle()
    for own in (parcel("b1/m"), parcel("m", incarnation=9)):
        template.on_parcel(ctx, own, "a")
    assert len(ctx.dropped()) == 2
    assert ctx.delivered() == []


def test_a_published_parcel_goes_everywhere_that_wants_it_and_to_subscribers_here() -> None:
    ctx, template = middle(wanted="ac")
    item = parcel("m")
    template.on_publish(ctx, item)
    assert ctx.sent() == [("a", item), ("c", item)]
    assert ctx.delivered() == [item]


def test_a_neighbour_without_interest_gets_nothing() -> None:
    ctx, template = middle(wanted="a")
    template.on_parcel(ctx, parcel("a"), "a")
    assert ctx.sent() == []
    template.hear(ctx, Interest(2, True), "b")
    ctx.clear()
    item = parcel("a", 2)
    template.on_parcel(ctx, item, "a")
    assert ctx.sent() == [("b", item)]
    template.hear(ctx, Interest(3, False), "b")
    ctx.clear()
    template.on_parcel(ctx, parcel("a", 3), "a")
    assert ctx.sent() == []


def test_the_same_number_of_another_source_or_life_is_no_copy() -> None:
    ctx, template = middle()
    for item in (parcel("a"), parcel("b"), parcel("a", incarnation=2)):
        template.on_parcel(ctx, item, "a")
    assert len(ctx.delivered()) == 3


def test_the_window_is_the_one_in_the_settings() -> None:
    ctx, template = FakeContext("m", neighbours="a"), multicast(window=2)
    for sequence in (5, 4, 3):
        template.on_parcel(ctx, parcel("a", sequence), "a")
    assert [each.stamp.sequence for each in ctx.delivered()] == [5, 4]
    assert [reason for _, reason in ctx.dropped()] == ["seen before"]


# interest


def test_a_first_subscriber_is_told_to_every_neighbour_and_a_second_to_none() -> None:
    ctx, template = middle(wanted="")
    subscribe(ctx, template, 1)
    assert interests(ctx) == [("a", True), ("b", True), ("c", True)]
    ctx.clear()
    subscribe(ctx, template, 2)
    assert ctx.sent() == []
    unsubscribe(ctx, template, 1)
    assert ctx.sent() == []
    unsubscribe(ctx, template, 2)
    assert interests(ctx) == [("a", False), ("b", False), ("c", False)]


def test_without_interest_nobody_is_told_anything() -> None:
    ctx, template = middle(wanted="")
    template.on_open(ctx)
    template.on_membership(ctx, Membership("up", "a"))
    template.on_timer(ctx, "retry")
    assert ctx.effects == []


def test_interest_merges_hop_by_hop() -> None:
    ctx, template = middle(wanted="")
    template.hear(ctx, Interest(1, True), "a")
    assert interests(ctx) == [("b", True), ("c", True)], "a itself needs not hear of its own interest"
    ctx.clear()
    template.hear(ctx, Interest(1, True), "b")
    assert interests(ctx) == [("a", True)], "c knows already"
    ctx.clear()
    subscribe(ctx, template)
    assert ctx.sent() == [], "everybody knows already"
    template.hear(ctx, Interest(2, False), "b")
    assert interests(ctx) == [], "there is still a subscriber here"
    unsubscribe(ctx, template)
    assert interests(ctx) == [("a", False)], "for b and c there is still a"


def test_an_interest_is_acknowledged_with_its_version() -> None:
    ctx, template = middle(wanted="")
    template.hear(ctx, Interest(41, False), "a")
    template.hear(ctx, Interest(40, False), "a")
    acknowledged = [(to, item) for to, item in ctx.sent() if isinstance(item, InterestHeard)]
    assert acknowledged == [("a", InterestHeard(41)), ("a", InterestHeard(40))]


def test_an_old_version_never_wins() -> None:
    ctx, template = middle(wanted="")
    template.hear(ctx, Interest(5, False), "a")
    template.hear(ctx, Interest(4, True), "a")
    template.hear(ctx, Interest(5, True), "a")
    assert not template.matching(ctx)
    template.hear(ctx, Interest(6, True), "a")
    assert template.matching(ctx)


def test_each_telling_has_a_newer_version_even_at_one_instant() -> None:
    ctx, template = FakeContext("m", neighbours="a"), multicast()
    for _ in range(3):
        subscribe(ctx, template)
        unsubscribe(ctx, template)
    versions = [item.version for _, item in ctx.sent() if isinstance(item, Interest)]
    assert versions == sorted(set(versions))
    assert len(versions) == 6


def test_a_version_is_not_below_the_clock_so_that_it_grows_across_restarts() -> None:
    ctx, template = middle(wanted="")
    subscribe(ctx, template)
    assert all(item.version >= LATER for _, item in ctx.sent() if isinstance(item, Interest))


def test_an_interest_forgotten_and_told_again_at_one_instant_is_newer() -> None:
    ctx, template = FakeContext("m", neighbours="a"), multicast()
    subscribe(ctx, template)
    template.on_membership(ctx, Membership("up", "a"))
    one, two = (item.version for _, item in ctx.sent() if isinstance(item, Interest))
    assert one < two


def test_an_interest_is_repeated_until_it_is_heard() -> None:
    ctx, template = FakeContext("m", neighbours="ab"), multicast(retry=2)
    subscribe(ctx, template)
    told = dict(ctx.sent())
    assert ctx.woken() == {"retry": 2 * NANOSECONDS}
    template.heard(ctx, InterestHeard(told["b"].version), "b")
    ctx.clear()
    for _ in range(3):
        ctx.now += 2 * NANOSECONDS
        template.on_timer(ctx, "retry")
        assert ctx.sent() == [("a", told["a"])], "the same version: it says nothing new"
        assert ctx.woken() == {"retry": ctx.now + 2 * NANOSECONDS}
        ctx.clear()
    template.heard(ctx, InterestHeard(told["a"].version), "a")
    template.on_timer(ctx, "retry")
    assert ctx.effects == []


def test_hearing_an_old_version_does_not_end_the_repetition_of_a_new_one() -> None:
    ctx, template = FakeContext("m", neighbours="a"), multicast()
    subscribe(ctx, template)
    ((_, first),) = ctx.sent()
    unsubscribe(ctx, template)
    ctx.clear()
    template.heard(ctx, InterestHeard(first.version), "a")
    template.heard(ctx, InterestHeard(first.version), "stranger")
    template.on_timer(ctx, "retry")
    assert interests(ctx) == [("a", False)]


def test_a_repetition_is_never_pushed_back_by_what_else_happens() -> None:
    ctx, template = FakeContext("m", neighbours="ab"), multicast(retry=2)
    subscribe(ctx, template)
    for second in range(1, 8):
        ctx.now = second * NANOSECONDS // 4
        template.hear(ctx, Interest(second, bool(second % 2)), "b")
    assert ctx.woken() == {"retry": 2 * NANOSECONDS}


def test_a_link_that_went_down_is_forgotten_and_told_anew_when_it_is_up() -> None:
    ctx, template = middle(wanted="a")
    assert template.matching(ctx)
    template.on_membership(ctx, Membership("down", "a"))
    assert not template.matching(ctx)
    assert interests(ctx) == [("b", False), ("c", False)]
    subscribe(ctx, template)
    ctx.clear()
    template.on_membership(ctx, Membership("up", "a"))
    assert interests(ctx) == [("a", True)]


def test_who_leaves_the_tree_is_forgotten_and_who_joins_is_told() -> None:
    ctx, template = middle(wanted="a")
    subscribe(ctx, template)
    ctx.clear()
    ctx.containers[TREE] = Tree([("m", "b"), ("m", "z")])
    template.on_container(ctx, TREE, ctx.containers[TREE])
    assert "a" not in template.interests
    assert interests(ctx) == [("z", True)]
    item = parcel("m")
    ctx.clear()
    template.on_publish(ctx, item)
    assert ctx.sent() == []


def test_an_interest_of_a_stranger_is_not_acknowledged_so_that_it_comes_again() -> None:
    ctx, template = middle(wanted="")
    template.hear(ctx, Interest(1, True), "stranger")
    assert ctx.effects == []
    assert not template.matching(ctx)
    ctx.containers[TREE] = Tree([("m", "stranger")])
    template.on_container(ctx, TREE, ctx.containers[TREE])
    template.hear(ctx, Interest(1, True), "stranger")
    assert ctx.sent() == [("stranger", InterestHeard(1))]
    assert template.matching(ctx)


# servers and nodes below


def test_a_node_below_is_told_only_of_channels_it_has_spoken_of() -> None:
    ctx = FakeContext("s", server="b1", below=("c", "d"), now=LATER)
    template = multicast()
    template.hear(ctx, Interest(1, False), "c")
    ctx.clear()
    subscribe(ctx, template)
    assert interests(ctx) == [("b1", True), ("c", True)]


def test_a_node_with_a_server_speaks_first() -> None:
    ctx, template = FakeContext("c", server="b1/s2", now=LATER), multicast()
    template.on_open(ctx)
    assert interests(ctx) == [("s2", False)]


def test_a_server_passes_on_what_its_nodes_below_want() -> None:
    ctx = FakeContext("b1", tree=Tree([("b1", "b2")]), below=("c", "d"), now=LATER)
    template = multicast()
    template.hear(ctx, Interest(1, True), "c")
    assert ("b2", True) in interests(ctx)
    ctx.clear()
    item = parcel("b2")
    template.on_parcel(ctx, item, "b2")
    assert ctx.sent() == [("c", item)]
    ctx.containers[BELOW] = ("d",)
    template.on_container(ctx, BELOW, ("d",))
    assert ("b2", False) in interests(ctx)


# feedback


@pytest.mark.parametrize(
    ("ctx", "sender", "hop"),
    [
        (FakeContext("d", server="b3"), None, "b3"),
        (FakeContext("b3", tree=Tree([("b1", "b2"), ("b2", "b3")]), below=("d",)), "d", "b2"),
        (FakeContext("b2", tree=Tree([("b1", "b2"), ("b2", "b3")])), "b3", "b1"),
        (FakeContext("b1", tree=Tree([("b1", "b2"), ("b2", "b3")]), below=("s2",)), "b2", "s2"),
        (FakeContext("s2", server="b1", below=("c",)), "b1", "c"),
    ],
)
def test_an_answer_goes_hop_by_hop_to_the_address_of_its_source(
    ctx: FakeContext, sender: str | None, hop: str
) -> None:
    reply = answer("b3/d", parcel("b1/s2/c"))
    multicast().on_feedback(ctx, reply, sender)
    assert ctx.sent() == [(hop, reply)]
    assert ctx.answered() == []


def test_an_answer_is_delivered_at_its_source_and_nowhere_else() -> None:
    ctx = FakeContext("c", server="b1/s2")
    reply = answer("b3/d", parcel("b1/s2/c"))
    multicast().on_feedback(ctx, reply, "s2")
    assert ctx.answered() == [reply]
    assert ctx.sent() == []


def test_an_answer_to_a_node_that_has_left_is_dropped() -> None:
    ctx = FakeContext("s2", server="b1", below=())
    reply = answer("b3/d", parcel("b1/s2/c"))
    multicast().on_feedback(ctx, reply, "b1")
    assert ctx.dropped() == [(reply, "no way to the source")]


# settings


@pytest.mark.parametrize(
    ("settings", "key"),
    [({"retry": 0}, "retry"), ({"retry": 3601}, "retry"), ({"window": 0}, "window"), ({"size": 1}, "size")],
)
def test_settings_out_of_range_name_their_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Multicast.parse(settings)
    assert caught.value.key == key
