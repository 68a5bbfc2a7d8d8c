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
from gossamer.core.template import AT_MOST_ONCE, Membership, Settings, Template
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.topology import Network
from gossamer.simulator.scenario.run import Channel, Publish, React, Result, Scenario, Subscribe, run
from gossamer.templates.causal.template import Causal, CausalSettings
from gossamer.templates.multicast import Multicast, MulticastSettings
from gossamer.templates.reliable.messages import Have, Missing
from gossamer.templates.reliable.template import Reliable, ReliableSettings
from gossamer.testing.templates import TemplateConformance


class Forgetful(Multicast[MulticastSettings]):
    """Multicast that takes every copy for a new parcel.

    Promises: at most once, which it does not keep.
    Costs: too much.
    Needs: a tree.
    """

    name = "forgetful"

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        self.spread(ctx, parcel, sender)


class Garbling(Multicast[MulticastSettings]):
    """Multicast that loses the payload on the way."""

    name = "garbling"

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        header = parcel.header
        body, split = make_body([b""] * parcel.stamp.count, parcel.attributes)
        super().on_parcel(ctx, Parcel(Header(header.channel, header.stamp, header.sent, split), body), sender)


class Stray(Multicast[MulticastSettings]):
    """Multicast that also sends to a node it has no link to."""

    name = "stray"

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        super().on_publish(ctx, parcel)
        ctx.send("n10", parcel)


class Fickle(Multicast[MulticastSettings]):
    """Multicast that throws dice of its own."""

    name = "fickle"

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        if random.random() < 0.5:
            super().on_publish(ctx, parcel)


class Lazy(Multicast[MulticastSettings]):
    """Multicast that does not deliver on the node of the publisher."""

    name = "lazy"

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        self.on_membership(ctx, Membership("publishing", ctx.node))
        ctx.send(self.hops(ctx, None), parcel)


class Hasty(Reliable[ReliableSettings]):
    """Reliable that delivers what comes as it comes."""

    name = "hasty"

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        if self.seen.add(parcel.stamp):
            ctx.deliver(parcel, sender)
        super().on_parcel(ctx, parcel, sender)

    def in_order(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        if sender is None:
            ctx.deliver(parcel, sender)


class Stingy(Reliable[ReliableSettings]):
    """Reliable that repairs nothing, and skips what did not come."""

    name = "stingy"

    @on(Missing)
    def missing(self, ctx: Context, missing: Missing, sender: str) -> None:
        stream = self.streams.get((missing.source, missing.incarnation))
        if stream is not None and missing.numbers:
            first, count = missing.numbers[-1]
            ctx.send(sender, Have(missing.source, missing.incarnation, first + count, stream.high))


class Rash(Causal[CausalSettings]):
    """Causal that does not wait for what a parcel depends on."""

    name = "rash"

    def turn(self, ctx: Context, parcel: Parcel) -> bool:
        return True


class Terse(Causal[CausalSettings]):
    """Causal that takes the last parcel it got for one that depends on all the others."""

    name = "terse"

    def in_order(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        if parcel.stamp.node != ctx.node:
            self.fresh.clear()
        super().in_order(ctx, parcel, sender)


class Absent(Causal[CausalSettings]):
    """Causal that takes what it lacks of a stream for passed."""

    name = "absent"

    def _passed(self, ctx: Context, key: tuple[str, int], number: int) -> bool:
        return key not in self.streams or super()._passed(ctx, key, number)


class Deaf(Multicast[MulticastSettings]):
    """Multicast whose answers get nowhere."""

    name = "deaf"

    def on_feedback(self, ctx: Context, parcel: Parcel, sender: str | None) -> None:
        ctx.drop(parcel, "not today")


class Gossip(Message, frozen=True):
    """A message without limits."""

    text: str
    names: Annotated[list[str], Meta(max_length=3)]


class Loud(Multicast[MulticastSettings]):
    """Multicast with a message that may take any amount of memory."""

    name = "loud"

    @on(Gossip)
    def gossip(self, ctx: Context, gossip: Gossip, sender: str) -> None:
        pass


class Pair(Message, frozen=True):
    """A message whose field comes out of the wire as another kind of value than went in."""

    value: Annotated[list[int], Meta(max_length=2)]


class Lossy(Multicast[MulticastSettings]):
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
        (Hasty, TemplateConformance.test_it_keeps_its_promises_when_items_overtake_each_other, "gap-free"),
        (Stingy, TemplateConformance.test_it_keeps_its_promises_when_items_are_lost, "told of a gap"),
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


def conversation(template: type[Template[Any]], seed: int) -> Result:
    """Nodes that answer what they hear, while much is lost."""
    scenario = Scenario(
        name="talk",
        network=Network(kind="tree", nodes=10),
        duration=30.0,
        link=LinkModel(loss=0.3, jitter=0.02),
        channel=(Channel("talk", template.name),),
        publish=(Publish("talk", 2.0, pick=4, poisson=True, start=8.0, end=20.0),),
        subscribe=(Subscribe("talk"),),
        react=(React("talk", 0.06, end=20.0),),
    )
    return run(scenario, seed, templates={template.name: template})


def test_without_a_bug_no_answer_comes_before_its_question() -> None:
    assert not conversation(Causal, 1).violations


@pytest.mark.parametrize("planted", [Rash, Terse, Absent], ids=lambda kind: kind.name)
def test_an_answer_before_its_question_is_noticed(planted: type[Template[Any]]) -> None:
    result = conversation(planted, 1)
    assert result.violations
    assert {each.promise for each in result.examples} == {"causal"}
    assert result.examples[0].expected == "before what depends on it"
