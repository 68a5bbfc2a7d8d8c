"""The lean model: event for event and filter for filter what the dispatch template does."""

from __future__ import annotations

import pytest

from gossamer.simulator.network.link_models import LinkModel
from gossamer.whatif import model, worlds
from gossamer.whatif.inquiry import alike
from gossamer.whatif.measures import Measures
from gossamer.whatif.script import Dispatcher, Question, Traffic
from gossamer.whatif.topology import Topology

BOTH = pytest.mark.parametrize("propagation", ["subscription", "advertisement"])
ALL_KINDS = Traffic(
    sources=3, sinks=3, proactive=2, reactive=2, kinds=4, similarity=0.4, spread=0.6, rate=0.3, listeners=2
)
SMALL = [
    Topology(dispatchers=7, arity=2),
    Topology(dispatchers=5, arity=4, hosts=2),
    Topology(kind="acyclic", dispatchers=8, seed=3),
    Topology(kind="acyclic", dispatchers=6, seed=4, hosts=1),
    Topology(kind="centralised", dispatchers=4, hosts=2),
    Topology(kind="centralised", dispatchers=3),
]


def question(topology: Topology, propagation: str, **more: object) -> Question:
    return Question(topology=topology, propagation=propagation, **{"traffic": ALL_KINDS, **more})  # type: ignore[arg-type]


@BOTH
@pytest.mark.parametrize("topology", SMALL, ids=lambda each: f"{each.kind}-{each.dispatchers}-{each.hosts}")
def test_loads_and_filters_are_those_of_the_template(topology: Topology, propagation: str) -> None:
    asked = question(topology, propagation, window=10.0, link=LinkModel(bandwidth=20_000.0))
    lean, real = model.simulate(asked, 1), worlds.simulate(asked, 1)
    assert lean.loads == real.loads
    assert (lean.filters, lean.extra) == (real.filters, real.extra)
    assert (lean.published, lean.deliveries) == (real.published, real.deliveries)
    assert lean.toward == pytest.approx(real.toward, rel=0.02)
    assert lean.away == pytest.approx(real.away, rel=0.02)
    assert lean.access == pytest.approx(real.access, rel=0.02)
    assert lean.latency == pytest.approx(real.latency, rel=0.02)
    assert alike(lean, real)
    assert not alike(lean, model.simulate(asked, 2))


@BOTH
def test_work_and_waiting_at_dispatchers_are_those_of_the_template(propagation: str) -> None:
    asked = question(SMALL[1], propagation, window=20.0, dispatcher=Dispatcher(event=0.02))
    lean, real = model.simulate(asked, 1), worlds.simulate(asked, 1)
    assert lean.busy == pytest.approx(real.busy, abs=0.002)
    assert max(lean.busy) > 0.2
    assert lean.latency == pytest.approx(real.latency, rel=0.01)
    assert lean.latency_p99 == pytest.approx(real.latency_p99, rel=0.05)


def test_a_full_link_makes_events_wait_and_drops_none() -> None:
    slow = LinkModel(bandwidth=600.0, queue=2000)
    asked = question(Topology(dispatchers=5, arity=4), "subscription", window=20.0, link=slow)
    lean, real = model.simulate(asked, 1), worlds.simulate(asked, 1)
    assert max(lean.toward) > 1
    assert lean.loads == pytest.approx(real.loads, abs=2), "but what is on its way at the end"
    assert lean.latency == pytest.approx(real.latency, rel=0.05)
    assert lean.latency > 0.5


def one(topology: Topology, propagation: str, spread: float) -> Measures:
    traffic = Traffic(sources=2, sinks=2, kinds=1, rate=1.0, spread=spread)
    return model.simulate(question(topology, propagation, window=10.0, traffic=traffic), 1)


@pytest.mark.parametrize("kind", ["ring", "multiring"])
def test_on_rings_everybody_gets_everything_unless_publishers_advertise(kind: str) -> None:
    topology = Topology(kind=kind, dispatchers=9, ratio=3)  # type: ignore[arg-type]
    flooded = one(topology, "subscription", 0.0)
    assert flooded.loads == pytest.approx([flooded.published] * 9, abs=3), (
        "but what was on its way at the end"
    )
    local = one(topology, "advertisement", 0.0)
    assert sum(local.loads) == local.published
    assert not any([*local.toward, *local.away])


def test_on_a_ring_of_trees_the_ring_gets_everything_and_trees_what_they_want() -> None:
    topology = Topology(kind="ringtree", dispatchers=9, ring=3, arity=2)
    found = one(topology, "subscription", 0.0)
    assert min(found.loads[:3]) > 0.9 * found.published
    assert sum(found.loads[3:]) < 0.9 * found.published, "trees only see their own"


def test_the_same_seed_gives_the_same_run() -> None:
    asked = question(SMALL[0], "advertisement", window=10.0)
    assert model.simulate(asked, 5) == model.simulate(asked, 5)
    assert model.simulate(asked, 5) != model.simulate(asked, 6)
