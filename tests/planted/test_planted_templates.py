"""Bugs planted into templates, to show that the simulator's checks and the conformance suite catch them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from msgspec import Meta

from gossamer.core.context import Context
from gossamer.core.control import Message, on
from gossamer.core.parcel import Header, Parcel, make_body
from gossamer.core.template import AT_MOST_ONCE, Settings, Template
from gossamer.templates.multicast import Multicast
from gossamer.testing.templates import TemplateConformance


class Forgetful(Multicast):
    """Multicast that takes every copy for a new parcel.

    Promises: at most once, which it does not keep.
    Costs: too much.
    Needs: a tree.
    """

    name = "forgetful"

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        self._spread(ctx, parcel, sender)


class Garbling(Multicast):
    """Multicast that loses the payload on the way."""

    name = "garbling"

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        header = parcel.header
        body, split = make_body([b""] * parcel.stamp.count, parcel.attributes)
        super().on_parcel(ctx, Parcel(Header(header.channel, header.stamp, header.sent, split), body), sender)


class Stray(Multicast):
    """Multicast that also sends to a node it has no link to."""

    name = "stray"

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        super().on_publish(ctx, parcel)
        ctx.send("n10", parcel)


class Fickle(Multicast):
    """Multicast that throws dice of its own."""

    name = "fickle"

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        if random.random() < 0.5:
            super().on_publish(ctx, parcel)


class Lazy(Multicast):
    """Multicast that does not deliver on the node of the publisher."""

    name = "lazy"

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        ctx.send((each for each in ctx.neighbours if self._wants(each)), parcel)


class Deaf(Multicast):
    """Multicast whose answers get nowhere."""

    name = "deaf"

    def on_feedback(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        ctx.drop(parcel, "not today")


class Gossip(Message, frozen=True):
    """A message without limits."""

    text: str
    names: Annotated[list[str], Meta(max_length=3)]


class Loud(Multicast):
    """Multicast with a message that may take any amount of memory."""

    name = "loud"

    @on(Gossip)
    def gossip(self, ctx: Context, gossip: Gossip, sender: str) -> None:
        pass


class Pair(Message, frozen=True):
    """A message whose field comes out of the wire as another kind of value than went in."""

    value: Annotated[list[int], Meta(max_length=2)]


class Lossy(Multicast):
    """Multicast with a message that does not survive the wire."""

    name = "lossy"

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        super().on_publish(ctx, parcel)
        ctx.send(ctx.neighbours, Pair((1, 2)))  # type: ignore[arg-type]

    @on(Pair)
    def pair(self, ctx: Context, pair: Pair, sender: str) -> None:
        pass


class Vague(Template[Settings]):
    """Says nothing about itself."""

    name = "vague"
    promises = frozenset({AT_MOST_ONCE, "eternal life"})


def suite(planted: type[Template[Any]]) -> TemplateConformance:
    class Suite(TemplateConformance):
        template = planted
        seeds = (1,)

    return Suite()


@pytest.mark.parametrize(
    ("planted", "test", "complaint"),
    [
        (Forgetful, TemplateConformance.test_it_keeps_its_promises_when_items_come_twice, "at-most-once"),
        (Forgetful, TemplateConformance.test_it_keeps_its_promises_when_everything_fails_at_once, "once"),
        (Garbling, TemplateConformance.test_it_keeps_its_promises_when_items_are_lost, "integrity"),
        (Stray, TemplateConformance.test_it_sends_to_neighbours_only, "have no link"),
        (Fickle, TemplateConformance.test_the_same_seed_leaves_the_same_trace, "differ"),
        (Lazy, TemplateConformance.test_without_faults_everybody_gets_everything, "deliveries"),
        (Deaf, TemplateConformance.test_without_faults_every_answer_reaches_its_source, "answers"),
        (
            Loud,
            TemplateConformance.test_every_field_of_its_messages_is_bounded,
            r"Gossip.names\[\], Gossip.text",
        ),
        (Lossy, TemplateConformance.test_its_messages_survive_the_wire, "changed on the wire: Pair"),
        (Vague, TemplateConformance.test_it_says_what_it_promises_costs_and_needs, "promises, costs, needs"),
        (Vague, TemplateConformance.test_every_promise_has_a_check, "eternal life"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_suite_catches(
    planted: type[Template[Any]], test: Callable[[TemplateConformance], None], complaint: str
) -> None:
    with pytest.raises(AssertionError, match=complaint):
        test(suite(planted))


def test_the_suite_names_seed_node_event_and_instant_of_the_first_broken_promise() -> None:
    with pytest.raises(AssertionError) as caught:
        suite(Forgetful).test_it_keeps_its_promises_when_items_come_twice()
    for part in ("seed 1", "node='n", "source='n", "number=", "at="):
        assert part in str(caught.value)
