"""Dispatch: where filters are told, where events go, what is refused; both ways to propagate."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.core.errors import ConfigError, NotAdvertised
from gossamer.core.event import Attributes, Criteria, Envelope, QoS
from gossamer.core.operations import Advertise, Withdraw
from gossamer.core.template import Membership
from gossamer.core.tree import Tree
from gossamer.filters.language import event, named, typed
from gossamer.simulator.network.link_models import LinkModel
from gossamer.simulator.network.topology import Network
from gossamer.simulator.scenario.run import (
    Channel,
    Churn,
    Offer,
    Publish,
    React,
    Result,
    Scenario,
    Subscribe,
    run,
)
from gossamer.templates.dispatch.hop_messages import Begin
from gossamer.templates.dispatch.messages import Tell, Told
from gossamer.templates.dispatch.ordered_hop import Coming, Relay
from gossamer.templates.dispatch.template import Dispatch, DispatchSettings
from gossamer.testing.fake import FakeContext, parcel
from gossamer.testing.templates import TemplateConformance
from tests.templates.worlds import CHANNEL, Net

FIGURE = [("A", "B"), ("A", "C"), ("B", "D"), ("B", "E"), ("B", "F"), ("C", "G")]
"""The hierarchy of the seed's figure 1, with A at the top."""
BOTH = pytest.mark.parametrize("propagation", ["subscription", "advertisement"])


class Dispatchers(Net):
    """A hierarchy below A, and what each of its nodes wants, offers and publishes."""

    def __init__(self, propagation: str, edges: Any = FIGURE, root: str = "A", **more: Any) -> None:
        super().__init__(Dispatch, edges, {"propagation": propagation, "root": root}, **more)
        self.settle()

    def settle(self) -> None:
        self.world.run(self.world.now + 5)

    def want(self, node: str, criteria: Criteria) -> int:
        number = self.world.subscribe(node, CHANNEL, criteria)
        self.settle()
        return number

    def offer(self, node: str, criteria: Criteria) -> None:
        self.world.call(node, CHANNEL, Advertise(criteria), lambda reply: None)
        self.settle()

    def withdraw(self, node: str, criteria: Criteria) -> None:
        self.world.call(node, CHANNEL, Withdraw(criteria), lambda reply: None)
        self.settle()

    def send(self, node: str, attributes: Attributes) -> set[tuple[str, str]]:
        """Publish; the hops that parcels took."""
        before = self.said.copy()
        self.world.publish(node, CHANNEL, b"", Envelope(attributes))
        self.settle()
        return {
            (a, b) for (a, b, kind), n in self.said.items() if kind == "Parcel" and n > before[a, b, kind]
        }

    def told(self, node: str, to: str) -> list[str]:
        """Subscriptions on the side of a node that another knows."""
        table = self.at(to).telling.said[node].table
        own = [criteria for (advertised, _), criteria in table.items() if not advertised]
        return [" ".join(map(str, each)) for criteria in own for each in criteria.constraints]

    def tells(self) -> int:
        return sum(count for (_, _, kind), count in self.said.items() if kind == "Tell")


RELEASED = event("SoftwareReleased(Editor, 1.3, WinNT)")


def test_with_advertisements_events_of_alpha_never_reach_a() -> None:
    net = Dispatchers("advertisement")
    net.want("D", named("*(Editor, *, Win*)"))
    net.offer("F", named("SoftwareReleased(*, *, *)"))
    assert net.send("F", RELEASED) == {("F", "B"), ("B", "D")}
    assert net.got["D", "F"] == [1]


def test_with_subscriptions_only_every_event_goes_to_the_root() -> None:
    net = Dispatchers("subscription")
    net.want("D", named("*(Editor, *, Win*)"))
    assert net.send("F", RELEASED) == {("F", "B"), ("B", "D"), ("B", "A")}
    assert net.send("F", event("Other()")) == {("F", "B"), ("B", "A")}


def test_a_subscription_that_comes_late_is_sent_down_to_who_advertises() -> None:
    net = Dispatchers("advertisement")
    net.offer("F", named("SoftwareReleased(*, *, *)"))
    assert net.send("F", RELEASED) == set()
    net.want("G", named("*(Editor, *, Win*)"))
    assert net.send("F", RELEASED) == {("F", "B"), ("B", "A"), ("A", "C"), ("C", "G")}
    assert net.got["G", "F"] == [2]


def test_a_subscription_is_not_sent_down_to_who_advertises_something_else() -> None:
    net = Dispatchers("advertisement")
    net.offer("F", named("SoftwareReleased(*, *, *)"))
    before = net.tells()
    net.want("G", named("Weather(*)"))
    assert net.tells() - before == 2  # up to the root, and no farther


@BOTH
def test_covered_filters_are_not_told_and_come_out_when_the_cover_goes(propagation: str) -> None:
    net = Dispatchers(propagation)
    for node in "FA":
        if propagation == "advertisement":
            net.offer(node, typed("price any"))
    wide = net.want("D", typed("price > 10"))
    net.want("D", typed("price > 20"))
    net.want("E", typed("price > 30"))
    assert net.told("D", "B") == net.told("B", "A") == ["price > 10"]
    net.world.unsubscribe("D", CHANNEL, wide)
    net.settle()
    assert net.told("D", "B") == net.told("B", "A") == ["price > 20"]
    assert net.told("E", "B") == ["price > 30"]
    net.send("A", {"price": 15})
    net.send("A", {"price": 25})
    net.send("A", {"price": 35})
    assert net.got["D", "A"] == [2, 3]
    assert net.got["E", "A"] == [3]


def test_a_withdrawn_advertisement_takes_back_what_it_called() -> None:
    net = Dispatchers("advertisement")
    net.offer("F", typed("price any"))
    net.offer("F", typed("price any"))
    net.want("D", typed("price > 10"))
    assert net.at("F").telling.said["B"].table
    net.withdraw("F", typed("price any"))
    assert net.at("F").telling.said["B"].table
    net.withdraw("F", typed("price any"))
    assert not net.at("F").telling.said["B"].table


def test_publishing_outside_ones_advertisements_is_refused_and_named() -> None:
    net = Dispatchers("advertisement")
    with pytest.raises(NotAdvertised, match="nothing is advertised"):
        net.send("F", {"price": 1})
    net.offer("F", typed("price > 10"))
    with pytest.raises(NotAdvertised, match="'price': 1"):
        net.send("F", {"price": 1})
    net.offer("E", typed("price any"))  # somebody else's does not help
    with pytest.raises(NotAdvertised):
        net.send("F", {"price": 1})
    net.send("F", {"price": 11})


def test_who_publishes_learns_whether_anybody_listens() -> None:
    net = Dispatchers("subscription")
    assert not net.world.engine("F").has_subscribers(CHANNEL)  # type: ignore[union-attr]
    number = net.want("G", typed("price > 10"))
    assert net.world.engine("F").has_subscribers(CHANNEL)  # type: ignore[union-attr]
    net.world.unsubscribe("G", CHANNEL, number)
    net.settle()
    assert not net.world.engine("F").has_subscribers(CHANNEL)  # type: ignore[union-attr]


@BOTH
def test_clients_are_dispatched_to_like_everybody(propagation: str) -> None:
    net = Dispatchers(propagation, below={"c1": "D", "c2": "G"})
    net.want("c1", typed("price > 10"))
    if propagation == "advertisement":
        net.offer("c2", typed("price any"))
    net.send("c2", {"price": 11})
    net.send("c2", {"price": 1})
    assert net.got["c1", "c2"] == [1]


def test_a_given_hierarchy_is_taken_as_it_is() -> None:
    above = {"B": "A", "C": "B", "D": "B"}
    net = Net(Dispatch, [("A", "B"), ("B", "C"), ("B", "D")], {"above": above})
    net.world.run(5)
    assert [net.at(node).above for node in "ABCD"] == [None, "A", "B", "B"]
    assert net.at("B").near == ("A", "C", "D")


def test_without_a_root_the_rendezvous_node_is_the_top() -> None:
    net = Net(Dispatch, FIGURE)
    net.world.run(1)
    assert sum(net.at(node).above is None for node in "ABCDEFG") == 1


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="propagation"):
        Dispatch.parse({"propagation": "flooding"})


# random hierarchies, filters and events


names = st.sampled_from("xy")
values = st.integers(0, 3)
filters = st.lists(
    st.tuples(names, st.sampled_from(["=", "<", ">", "any"]), values), min_size=1, max_size=2
).map(lambda own: Criteria(*own))
events = st.dictionaries(names, values, max_size=2)


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 6), filters), max_size=6),
    st.lists(st.tuples(st.integers(0, 6), filters), max_size=4),
    st.lists(st.tuples(st.integers(0, 6), events), max_size=5),
    st.sampled_from(["subscription", "advertisement"]),
    st.data(),
)
def test_events_reach_exactly_those_who_want_them(
    draws: list[int],
    wants: list[tuple[int, Criteria]],
    offers: list[tuple[int, Criteria]],
    sent: list[tuple[int, Attributes]],
    propagation: str,
    data: st.DataObject,
) -> None:
    edges = [(f"n{draw % (n + 1)}", f"n{n + 1}") for n, draw in enumerate(draws)]
    size = len(edges) + 1
    net = Dispatchers(propagation, edges, "n0")
    there = []
    for place, criteria in wants:
        there.append((f"n{place % size}", criteria, net.want(f"n{place % size}", criteria)))
    for place, criteria in offers:
        net.offer(f"n{place % size}", criteria)
    if there and data.draw(st.booleans()):
        node, _, number = there.pop(data.draw(st.integers(0, len(there) - 1)))
        net.world.unsubscribe(node, CHANNEL, number)
        net.settle()
    for place, attributes in sent:
        source = f"n{place % size}"
        offered = [own for at, own in offers if at % size == place % size]
        if propagation == "advertisement" and not any(own.matches(attributes) for own in offered):
            continue
        wanting = {node for node, own, _ in there if own.matches(attributes)}
        before = {node: len(net.order[node]) for node in wanting}
        hops = net.send(source, attributes)
        assert all(len(net.order[node]) > before[node] for node in wanting)
        if propagation == "advertisement":
            tree = Tree(edges)
            needed = {hop for node in wanting - {source} for hop in way(tree, source, node)}
            assert hops == needed
    assert not net.ledger.counts.violations


def way(tree: Tree, source: str, target: str) -> list[tuple[str, str]]:
    hops = []
    while source != target:
        following = tree.next_hop(source, target)
        assert following is not None
        hops.append((source, following))
        source = following
    return hops


# what is lost is said again


@BOTH
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_filters_arrive_however_much_is_lost_or_comes_twice(propagation: str, seed: int) -> None:
    bad = LinkModel(latency=0.01, jitter=0.05, loss=0.4, duplicate=0.3, reorder=0.3, reorder_delay=0.3)
    net = Dispatchers(propagation, seed=seed, link=bad)
    for place, node in enumerate("DEFG"):
        net.want(node, typed(f"price > {place}"))
    net.offer("A", typed("price any"))
    net.world.run(net.world.now + 60)
    assert {node for node in net.at("A").near if net.at("A").telling.said[node].table} == {"B", "C"}
    known = [len(net.at("B").telling.said[node].table) for node in "DEF"]
    assert known == [1, 1, 1]


def test_a_neighbour_that_has_forgotten_everything_is_told_again() -> None:
    net = Dispatchers("subscription")
    net.want("D", typed("price > 10"))
    net.world.crash("B")
    net.world.restart("B")
    net.settle()
    assert net.send("A", {"price": 11}) == {("A", "B"), ("B", "D")}


def started(**more: Any) -> tuple[FakeContext, Dispatch]:
    ctx = FakeContext("b", neighbours="ac", rng=Random(1), **more)
    template = Dispatch(DispatchSettings(root="a"))
    template.on_open(ctx)
    for node in "ac":
        template.hear(ctx, Tell(1, 1, 0, (0, 0), (), ()), node)
        template.told(ctx, Told(1, {"a": 1, "c": 2}[node], {"a": 1, "c": 2}[node]), node)
    ctx.clear()
    return ctx, template


def test_one_message_is_on_its_way_at_a_time_and_the_next_has_all_that_changed() -> None:
    ctx, template = started()
    for number in (1, 2, 3):
        ctx.subscribers[number] = Criteria(x=number)
        template.on_membership(ctx, Membership("subscribed", str(number)))
    (first,) = [item for to, item in ctx.sent() if to == "a"]
    ctx.clear()
    template.told(ctx, Told(1, first.version, first.version), "a")
    (second,) = [item for to, item in ctx.sent() if to == "a"]
    assert (len(first.added), len(second.added), second.base) == (1, 2, first.version)


def test_an_answer_to_an_earlier_message_changes_nothing() -> None:
    ctx, template = started()
    ctx.subscribers[1] = Criteria(x=1)
    template.on_membership(ctx, Membership("subscribed", "1"))
    ctx.clear()
    template.told(ctx, Told(1, 1, 1), "a")
    template.told(ctx, Told(7, 3, 0), "a")
    assert ctx.sent() == []


def test_a_second_copy_and_a_garbled_parcel_are_dropped() -> None:
    ctx, template = started()
    template.relayed(ctx, Begin(1, 1), "a")
    ((_, begun),) = ctx.sent()
    first, again, other = (parcel("a").relayed((begun.relay, number)) for number in (1, 1, 2))
    for item in (first, again, other):
        template.on_parcel(ctx, item, "a")
    assert ctx.dropped() == [(again, "seen before"), (other, "seen before")]


class Advertising(Dispatch):
    __doc__ = Dispatch.__doc__

    def on_open(self, ctx: Any) -> None:
        super().on_open(ctx)
        self.advertise(ctx, Criteria())


class TestAdvertising(TemplateConformance):
    template = Advertising
    settings = {"propagation": "advertisement"}
    seeds = (1,)


# scenarios


def advertised(**changed: Any) -> Scenario:
    prices = {"price": (5, 15, 25)}
    return Scenario(
        name="advertised",
        network=Network(kind="tree", nodes=10),
        duration=30.0,
        publish=(Publish(CHANNEL, 5.0, nodes=("n04", "n09"), start=5.0, end=25.0, attributes=prices),),
        subscribe=(Subscribe(CHANNEL, nodes=("n05", "n10"), criteria=(("price", ">", 10),)),),
        **{
            "channel": (Channel(CHANNEL, "dispatch", {"propagation": "advertisement", "root": "n01"}),),
            "advertise": (Offer(CHANNEL, criteria=(("price", "any", 0),)),),
            **changed,
        },
    )


def test_a_scenario_may_advertise_and_everybody_gets_what_they_asked_for() -> None:
    result = run(advertised(), 1)
    assert result.published > 150
    assert result.delivered == result.expected > 0
    assert not result.violations


def test_who_comes_back_after_a_crash_advertises_again() -> None:
    churn = (Churn(every=8.0, down=1.0, nodes=("n04",), start=6.0, end=20.0),)
    result = run(advertised(churn=churn), 1)
    assert result.delivered > result.expected / 2
    assert not result.violations


def test_a_channel_that_does_not_look_at_attributes_takes_no_advertisements() -> None:
    with pytest.raises(ConfigError, match="takes no advertisements"):
        run(advertised(channel=(Channel(CHANNEL, "multicast"),)), 1)


# order


ROUGH = LinkModel(latency=0.02, jitter=0.1, loss=0.2, duplicate=0.2, reorder=0.3, reorder_delay=1.0)


def conversation(
    link: LinkModel, seed: int, kind: type[Dispatch] = Dispatch, *, churn: bool = False
) -> Result:
    """A run in which nodes answer what they hear."""
    propagation = "advertisement" if kind is Advertising else "subscription"
    scenario = Scenario(
        name="conversation",
        network=Network(kind="tree", nodes=12),
        duration=60.0,
        link=link,
        channel=(Channel(CHANNEL, "dispatch", {"propagation": propagation}),),
        publish=(Publish(CHANNEL, 2.0, pick=4, poisson=True, start=8.0, end=45.0),),
        subscribe=(Subscribe(CHANNEL),),
        react=(React(CHANNEL, 0.08, end=45.0),),
        churn=(Churn(every=40.0, down=3.0, start=10.0, end=45.0),) if churn else (),
    )
    return run(scenario, seed, templates={"dispatch": kind})


@pytest.mark.parametrize("kind", [Dispatch, Advertising])
@pytest.mark.parametrize("seed", [1, 2])
def test_where_links_lose_double_and_reorder_all_comes_in_causal_order(kind: Any, seed: int) -> None:
    result = conversation(ROUGH, seed, kind)
    assert result.delivered == result.expected > 3000
    assert not result.violations, result.examples[:1]


@pytest.mark.parametrize("kind", [Dispatch, Advertising])
@pytest.mark.parametrize("seed", [1, 2])
def test_dispatchers_that_crash_lose_some_and_no_order(kind: Any, seed: int) -> None:
    result = conversation(ROUGH, seed, kind, churn=True)
    assert result.delivered > result.expected / 2
    assert not result.violations, result.examples[:1]


def test_where_nobody_keeps_order_the_check_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = Coming.ready

    def at_once(self: Relay, ctx: Any, sender: str, place: tuple[int, int], what: Any) -> Iterator[Any]:
        coming = self._coming[sender]
        if coming.add(place[1], (what, None), 10**9):
            yield what, None
        list(ready(coming))

    monkeypatch.setattr(Relay, "take", at_once)
    loose = LinkModel(latency=0.02, reorder=0.3, reorder_delay=2.0)
    assert "causal" in {each.promise for each in conversation(loose, 1).examples}


def test_what_has_expired_is_not_waited_for() -> None:
    net = Dispatchers("subscription", [("A", "B"), ("B", "C")], link=LinkModel(latency=0.3))
    net.want("C", Criteria())
    brief = Envelope({}, QoS(expiry=0.4))
    for envelope in (Envelope(), brief, Envelope()):
        net.world.publish("A", CHANNEL, b"", envelope)
    net.settle()
    assert net.got["C", "A"] == [1, 3]
    assert net.world.drops["expired"] == 1


def test_who_does_not_keep_up_lets_publishers_wait_and_loses_what_others_send() -> None:
    settings = {"waiting": 1024 * 10}
    net = Net(Dispatch, [("A", "B"), ("B", "C")], {"root": "A", **settings}, link=LinkModel(latency=1.0))
    net.subscribe("C")
    net.world.run(20)
    sent = 0
    while not net.obstacle("A"):
        net._publish("A")
        sent += 1
    assert "'B'" in str(net.obstacle("A"))
    net.world.run(60)
    assert net.obstacle("A") is None
    assert net.got["C", "A"] == list(range(1, sent + 1))
