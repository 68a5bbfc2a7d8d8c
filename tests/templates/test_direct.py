"""Direct: who is told what is wanted, and what leaves the publisher; every effect listed."""

from __future__ import annotations

from typing import Any

from gossamer.core.context import LINKED, NODES
from gossamer.core.event import Criteria
from gossamer.core.names import NANOSECONDS
from gossamer.core.parcel import Parcel
from gossamer.core.template import Membership
from gossamer.filters.identity import identity
from gossamer.templates.direct import Direct, DirectSettings
from gossamer.templates.dispatch.messages import Tell, Told
from gossamer.testing.fake import FakeContext, answer, parcel

RED, BLUE = Criteria(colour="red"), Criteria(colour="blue")
EVERYTHING = Criteria()


def direct(**settings: Any) -> Direct:
    return Direct(DirectSettings(**settings))


def node(*linked: str, name: str = "p", **more: Any) -> tuple[FakeContext, Direct]:
    ctx, template = FakeContext(name, containers={LINKED: linked}, **more), direct()
    template.on_open(ctx)
    return ctx, template


def wants(ctx: FakeContext, template: Direct, who: str, *criteria: Criteria, version: int = 1) -> None:
    """A node tells from nothing what it wants."""
    told = tuple((False, identity(each)) for each in criteria)
    template.hear(ctx, Tell(1, version, 0, (0, 0), told, ()), who)


def subscribe(ctx: FakeContext, template: Direct, number: int, criteria: Criteria = EVERYTHING) -> None:
    ctx.subscribers[number] = criteria
    template.on_membership(ctx, Membership("subscribed", str(number)))


def told(ctx: FakeContext) -> list[tuple[str, int, int]]:
    """To whom how many criteria were told, new and gone."""
    return [(to, len(it.added), len(it.dropped)) for to, it in ctx.sent() if isinstance(it, Tell)]


def parcels(ctx: FakeContext) -> list[tuple[str, Parcel]]:
    return [(to, item) for to, item in ctx.sent() if isinstance(item, Parcel)]


def colours(*names: str, source: str = "p", sequence: int = 1) -> Parcel:
    payloads = [name.encode() for name in names]
    return parcel(source, sequence, payloads=payloads, attributes=[{"colour": name} for name in names])


# publishing


def test_who_wants_everything_gets_the_very_parcel_and_nobody_opens_it() -> None:
    ctx, template = node("a", "b", "c")
    wants(ctx, template, "a", EVERYTHING)
    wants(ctx, template, "b", EVERYTHING)
    ctx.clear()
    item = colours("red", "blue")
    template.on_publish(ctx, item)
    assert parcels(ctx) == [("a", item), ("b", item)]
    assert item._payloads is None, "its body was opened"
    assert ctx.delivered() == [item]


def test_events_that_nobody_on_a_node_wants_never_leave_for_it() -> None:
    ctx, template = node("a", "b", "c", "d")
    wants(ctx, template, "a", RED)
    wants(ctx, template, "b", BLUE)
    wants(ctx, template, "c", RED)
    wants(ctx, template, "d", Criteria(colour="green"))
    ctx.clear()
    template.on_publish(ctx, colours("red", "blue", "red"))
    (a, for_a), (c, for_c), (b, for_b) = parcels(ctx)
    assert (a, b, c) == ("a", "b", "c")
    assert for_a is for_c, "who wants the same shares a parcel"
    assert (for_a.picks, for_b.picks) == ((0, 2), (1,))
    assert b"blue" not in for_a.body


def test_where_all_of_a_parcel_is_wanted_it_goes_as_it_is() -> None:
    ctx, template = node("a", "b")
    wants(ctx, template, "a", RED)
    wants(ctx, template, "b", RED, BLUE)
    ctx.clear()
    item = colours("red", "red")
    template.on_publish(ctx, item)
    assert parcels(ctx) == [("a", item), ("b", item)]


def test_events_without_attributes_meet_no_criteria() -> None:
    ctx, template = node("a")
    wants(ctx, template, "a", RED)
    ctx.clear()
    template.on_publish(ctx, parcel("p"))
    assert parcels(ctx) == []


def test_of_a_node_that_wants_everything_other_criteria_do_not_count() -> None:
    ctx, template = node("a")
    wants(ctx, template, "a", EVERYTHING, RED)
    ctx.clear()
    item = colours("red", "blue")
    template.on_publish(ctx, item)
    assert parcels(ctx) == [("a", item)]
    wants(ctx, template, "a", RED, version=2)
    ctx.clear()
    template.on_publish(ctx, colours("red", "blue", sequence=2))
    assert [each.picks for _, each in parcels(ctx)] == [(0,)]


def test_somebody_listens_as_soon_as_a_node_wants_something_and_until_it_goes() -> None:
    ctx, template = node("a")
    assert not template.has_subscribers(ctx)
    wants(ctx, template, "a", RED)
    assert template.has_subscribers(ctx)
    ctx.containers[LINKED] = ()
    template.on_container(ctx, LINKED, ())
    assert not template.has_subscribers(ctx)
    ctx.clear()
    template.on_publish(ctx, colours("red"))
    assert parcels(ctx) == []


def test_what_a_neighbour_wanted_counts_no_longer_when_it_lives_anew() -> None:
    ctx, template = node("a")
    wants(ctx, template, "a", EVERYTHING)
    template.on_membership(ctx, Membership("up", "a"))
    assert not template.has_subscribers(ctx)


# receiving


def test_a_second_copy_is_dropped_and_nothing_is_passed_on() -> None:
    ctx, template = node("p", "b", name="a", subscribers={1: EVERYTHING})
    wants(ctx, template, "b", EVERYTHING)
    ctx.clear()
    item = colours("red")
    template.on_parcel(ctx, item, "p")
    template.on_parcel(ctx, item, "p")
    assert ctx.delivered() == [item]
    assert ctx.dropped() == [(item, "seen before")]
    assert parcels(ctx) == []


def test_who_wants_nothing_any_more_says_so_once_to_a_publisher_that_believes_otherwise() -> None:
    ctx, template = node("p", name="a")
    for sequence in (1, 2):
        template.on_parcel(ctx, colours("red", sequence=sequence), "p")
    assert told(ctx) == [("p", 0, 0)]
    assert [reason for _, reason in ctx.dropped()] == ["nobody wants it any more"] * 2


def test_an_answer_goes_straight_to_its_source() -> None:
    ctx, template = node("p", "q", name="a")
    item = answer("a", colours("red"))
    template.on_feedback(ctx, item, None)
    assert parcels(ctx) == [("p", item)]


# telling


def test_subscribers_tell_every_node_that_is_known_and_again_until_it_is_heard() -> None:
    ctx, template = node("p", name="a")
    ctx.containers[NODES] = {"a": (), "q": ()}
    template.on_container(ctx, NODES, ctx.containers[NODES])
    assert ctx.sent() == [], "who wants nothing says nothing"
    subscribe(ctx, template, 1, RED)
    assert told(ctx) == [("p", 1, 0), ("q", 1, 0)]
    assert ctx.woken() == {"tell": NANOSECONDS // 2}
    template.told(ctx, Told(ctx.incarnation, 1, 1), "p")
    ctx.clear()
    template.on_timer(ctx, "tell")
    assert told(ctx) == [("q", 1, 0)]


def test_who_wants_everything_says_that_alone_and_narrower_criteria_again_when_it_ends() -> None:
    ctx, template = node("p", name="a")
    subscribe(ctx, template, 1, RED)
    template.told(ctx, Told(ctx.incarnation, 1, 1), "p")
    ctx.clear()
    subscribe(ctx, template, 2)
    assert told(ctx) == [("p", 1, 1)]
    template.told(ctx, Told(ctx.incarnation, 2, 2), "p")
    ctx.clear()
    del ctx.subscribers[2]
    template.on_membership(ctx, Membership("unsubscribed", "2"))
    assert told(ctx) == [("p", 1, 1)]


def test_a_node_that_comes_later_is_told_what_is_wanted() -> None:
    ctx, template = node(name="a")
    subscribe(ctx, template, 1)
    assert ctx.sent() == []
    ctx.containers[LINKED] = ("p",)
    template.on_container(ctx, LINKED, ("p",))
    assert told(ctx) == [("p", 1, 0)]
