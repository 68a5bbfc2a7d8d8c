"""The workload: drawn once from a seed, as the coefficient and the similarity say."""

from __future__ import annotations

from collections import Counter

import pytest

from gossamer.core.event import Criteria
from gossamer.whatif.script import Question, Traffic
from gossamer.whatif.topology import Topology, shape
from gossamer.whatif.workload import PROACTIVE, REACTIVE, SINK, Filter, Workload, answer, attributes


def workload(seed: int = 1, hosts: int = 0, dispatchers: int = 21, **traffic: object) -> Workload:
    topology = Topology(hosts=hosts, dispatchers=dispatchers)
    return Workload(Question(window=60.0, topology=topology, traffic=Traffic(**traffic)), seed)  # type: ignore[arg-type]


def distances(own: Workload) -> Counter[int]:
    """How many listeners there are at each distance, over all agents and kinds."""
    apart = shape(own.question.topology).apart
    return Counter(
        int(apart[own.agents[agent].site, own.agents[listener].site])
        for (agent, _), heard in own.listeners.items()
        for listener in heard
    )


def test_the_same_seed_makes_the_same_workload_and_another_seed_another() -> None:
    one, same, other = workload(1), workload(1), workload(2)
    assert one.listeners == same.listeners
    assert one.publications() == same.publications()
    assert one.listeners != other.listeners
    assert one.publications() != other.publications()


@pytest.mark.parametrize("spread", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("listeners", [1, 3])
def test_listeners_at_each_distance_are_as_many_as_the_coefficient_says(
    spread: float, listeners: int
) -> None:
    own = workload(spread=spread, listeners=listeners)
    there = [21, 21, 21, 20, 16]
    """Sites that have another at this distance: the root has none at 3, and only leaves have some at 4."""
    found = distances(own)
    for away in range(5):
        assert found[away] == pytest.approx(there[away] * 100 * listeners * spread**away, abs=22 * listeners)


def test_listeners_are_spread_evenly_over_those_at_a_distance() -> None:
    own = workload(spread=1.0, kinds=16)
    root = Counter(
        own.agents[listener].site
        for (agent, _), heard in own.listeners.items()
        for listener in heard
        if own.agents[agent].site == 0
    )
    assert root[0] == 160
    assert [root[site] for site in range(1, 5)] == [40] * 4
    assert [root[site] for site in range(5, 21)] == [10] * 16


def test_similar_kinds_have_the_same_listeners_and_need_fewer_filters() -> None:
    apart, alike = workload(kinds=20), workload(kinds=20, similarity=0.9)
    assert len(alike.subscriptions()) < len(apart.subscriptions()) / 4
    assert alike.listeners.keys() == apart.listeners.keys()
    for away, count in distances(apart).items():
        assert distances(alike)[away] == pytest.approx(count, rel=0.2, abs=40)


def test_at_its_own_site_an_event_is_heard_on_another_host() -> None:
    own = workload(hosts=2, spread=0.0)
    for (agent, _), heard in own.listeners.items():
        (listener,) = (own.agents[each] for each in heard)
        assert listener.role == SINK
        assert listener.site == own.agents[agent].site
        assert listener.host != own.agents[agent].host


def test_agents_publish_as_often_as_they_should_in_order_of_time() -> None:
    found = workload(rate=2.0).publications()
    assert len(found) == pytest.approx(210 * 2.0 * 60, rel=0.02)
    assert found == sorted(found)
    assert {each.kind for each in found} == set(range(10))


def test_who_answers_advertises_answers_to_those_it_hears_and_nobody_else() -> None:
    own = workload(sources=0, sinks=0, proactive=3, reactive=3, spread=0.5)
    offered = [(agent.number, each.agent) for agent, each in own.advertisements() if each.answers]
    heard = {(listener, agent) for (agent, _), all_ in own.listeners.items() for listener in all_}
    assert sorted(heard) == offered
    assert {own.agents[agent].role for agent, _ in offered} == {REACTIVE}
    wanted = [agent for agent, each in own.subscriptions() if each.answers]
    assert {agent.role for agent in wanted} == {PROACTIVE}
    assert len(wanted) == 63


@pytest.mark.parametrize(
    ("wanted", "kinds", "met"),
    [
        (Filter(7, 0, 4), 5, {0, 1, 2, 3, 4}),
        (Filter(7, 1, 3), 5, {1, 2, 3}),
        (Filter(7, 2, 2), 5, {2}),
    ],
)
def test_criteria_are_met_by_the_kinds_of_the_filter(wanted: Filter, kinds: int, met: set[int]) -> None:
    criteria = wanted.criteria(kinds)
    assert {kind for kind in range(kinds) if criteria.matches(attributes(7, kind))} == met
    assert not criteria.matches(attributes(8, 2))
    assert not criteria.matches(answer(7))
    assert isinstance(criteria, Criteria)


def test_an_answer_is_for_who_asked() -> None:
    criteria = Filter(7, 0, 0, True).criteria(1)
    assert criteria.matches(answer(7))
    assert not criteria.matches(answer(8))
    assert not criteria.matches(attributes(7, 0))


def test_a_filter_covers_what_lies_within_it() -> None:
    assert Filter(1, 0, 4).covers(Filter(1, 2, 3))
    assert not Filter(1, 0, 4).covers(Filter(1, 2, 5))
    assert not Filter(1, 0, 4).covers(Filter(2, 2, 3))
    assert not Filter(1, 0, 4).covers(Filter(1, 0, 0, True))
