"""Hops and loads by the model, against counting by hand and against a world."""

from __future__ import annotations

import numpy as np
import pytest

from gossamer.analysis import reach
from tests.templates.ringtree.rings import Ring, names


def rings(*dead: tuple[int, int]) -> list[reach.Flags]:
    alive = [np.ones(size, dtype=bool) for size in reach.sizes(4, 3)]
    for ring, place in dead:
        alive[ring][place] = False
    return alive


def test_without_failures_a_ring_is_a_hop_and_everybody_inside_feeds_two() -> None:
    alive = rings()
    hops = reach.distances(alive)
    assert [set(each.tolist()) for each in hops] == [{1}, {2}, {3}]
    assert [set(each.tolist()) for each in reach.loads(alive, hops)] == [{2}, {2}, {0}]
    found = reach.tried([each[None] for each in alive], 0.0)
    assert (found.reached, found.parents_only) == (1.0, 1.0)
    assert (found.copies, found.hops) == (pytest.approx(24 / 28), pytest.approx((4 + 16 + 48) / 28))


def test_passing_to_the_right_takes_a_hop_each() -> None:
    hops = reach.distances(rings((1, 3), (1, 4)))
    assert hops[2][6:10].tolist() == [3, 4, 5, 3]


def test_with_both_neighbours_dead_a_node_serves_four() -> None:
    alive = rings((1, 2), (1, 4))
    loads = reach.loads(alive, reach.distances(alive))
    assert loads[1][3] == 4
    assert max(int(each.max()) for each in loads) == 4


@pytest.mark.parametrize("seed", range(6))
def test_the_model_says_who_is_reached_over_how_many_hops_and_with_what_load_in_a_world(seed: int) -> None:
    dice = np.random.default_rng(seed)
    dead = {int(each) for each in dice.choice(24, size=8, replace=False) + 4}
    own = Ring(28, 16, mend=0.0)
    own.kill(*(f"m{slot}" for slot in dead))
    own.run(7.0)
    reached = own.reached()
    alive, slot = [], 0
    for size in reach.sizes(4, 3):
        alive.append(np.array([at not in dead for at in range(slot, slot + size)]))
        slot += size
    hops = reach.distances(alive)
    by_model = {f"m{at}" for at in np.flatnonzero(np.concatenate(hops))}
    assert by_model <= reached
    loads = np.concatenate(reach.loads(alive, hops))
    if by_model == reached:
        measured = [own.loads()[name] for name in names("m", 28)]
        assert abs(sum(measured) - int(loads.sum())) <= 4  # a chain may be quicker than a parent and go on
