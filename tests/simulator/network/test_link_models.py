"""Link models: what a lane does with an item, without a world."""

from __future__ import annotations

import msgspec
import pytest

from gossamer.simulator.dice import SeededDice
from gossamer.simulator.network.link_models import FULL, LOST, NONE, Lane, LinkModel, NodeModel, Skew

MS = 1_000_000


def sent(model: LinkModel, times: int, size: int = 100, gap: int = 0) -> list[int]:
    lane, dice = Lane(model), SeededDice(1)
    return [lane.carry(number * gap, size, dice) for number in range(times)]


def test_an_item_takes_the_latency() -> None:
    assert sent(LinkModel(latency=0.01), 1) == [10 * MS]


def test_jitter_adds_evenly_between_nothing_and_its_bound() -> None:
    delays = [
        at - number * 1000 * MS for number, at in enumerate(sent(LinkModel(0.01, 0.02), 2000, gap=1000 * MS))
    ]
    assert 10 * MS <= min(delays) < 10.2 * MS
    assert 29.8 * MS < max(delays) < 30 * MS
    assert 19.5 * MS < sum(delays) / len(delays) < 20.5 * MS


def test_jitter_alone_never_lets_an_item_overtake_another() -> None:
    arrivals = sent(LinkModel(0.01, 0.02), 500, gap=MS)
    assert arrivals == sorted(arrivals)


def test_items_wait_for_the_bandwidth_one_after_the_other() -> None:
    model = LinkModel(latency=0.01, bandwidth=100_000, queue=10_000)
    assert sent(model, 3, size=1000) == [20 * MS, 30 * MS, 40 * MS]


def test_an_idle_link_has_no_memory_of_earlier_items() -> None:
    model = LinkModel(latency=0.01, bandwidth=100_000)
    assert sent(model, 2, size=1000, gap=50 * MS) == [20 * MS, 70 * MS]


def test_what_does_not_fit_the_queue_is_refused_and_takes_no_time() -> None:
    lane, dice = Lane(LinkModel(latency=0, bandwidth=1000, queue=2000)), SeededDice(1)
    assert [lane.carry(0, 1000, dice) for _ in range(4)] == [1000 * MS, 2000 * MS, FULL, FULL]
    assert lane.carry(1500 * MS, 1000, dice) == 3000 * MS


def test_an_idle_link_takes_an_item_larger_than_the_queue() -> None:
    assert sent(LinkModel(latency=0, bandwidth=1000, queue=10), 1, size=1000) == [1000 * MS]


def test_an_infinite_bandwidth_queues_nothing() -> None:
    assert sent(LinkModel(latency=0.01, queue=0), 3, size=10**9) == [10 * MS] * 3


def test_items_are_lost_with_the_probability_of_loss() -> None:
    lost = sent(LinkModel(loss=0.1), 10_000).count(LOST)
    assert 900 < lost < 1100
    assert sent(LinkModel(loss=1.0), 3) == [LOST] * 3


def test_a_lost_item_has_used_the_bandwidth() -> None:
    lane, dice = Lane(LinkModel(latency=0, bandwidth=1000, loss=1.0)), SeededDice(1)
    assert lane.carry(0, 1000, dice) == LOST
    lane.loss = 0.0
    assert lane.carry(0, 1000, dice) == 2000 * MS


def test_second_copies_come_with_the_probability_of_duplication_and_not_before_the_first() -> None:
    lane, dice = Lane(LinkModel(jitter=0.01, duplicate=0.25)), SeededDice(1)
    copies = [lane.again(1000 * MS, dice) for _ in range(10_000)]
    assert 2300 < sum(copy != NONE for copy in copies) < 2700
    assert all(1000 * MS <= copy < 1010 * MS for copy in copies if copy != NONE)


def test_a_reordered_item_is_overtaken_and_holds_back_nobody() -> None:
    arrivals = sent(LinkModel(latency=0.01, reorder=0.2, reorder_delay=0.1), 1000, gap=MS)
    straight = [number * MS + 10 * MS for number in range(1000)]
    late = [at - wanted for at, wanted in zip(arrivals, straight, strict=True)]
    assert set(late) == {0, 100 * MS}
    assert 150 < sum(map(bool, late)) < 250


def test_extra_delay_keeps_the_order() -> None:
    lane, dice = Lane(LinkModel(latency=0.01)), SeededDice(1)
    assert [lane.carry(0, 1, dice, extra=5 * MS), lane.carry(0, 1, dice)] == [15 * MS, 15 * MS]


@pytest.mark.parametrize(
    "wrong",
    [{"loss": 1.1}, {"latency": -1}, {"bandwidth": -1}, {"queue": -1}, {"reorder": 2}, {"lag": 1}],
)
def test_a_model_out_of_its_limits_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, LinkModel)


def test_an_inbox_holds_at_least_one_item() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"inbox": 0}, NodeModel)


def test_a_skewed_clock_starts_at_its_base_and_drifts() -> None:
    skew = Skew(base=5000, since=1000, drift=0.1)
    assert [skew.local(1000), skew.local(2000)] == [5000, 6100]


def test_a_skewed_clock_never_shows_less_than_nothing() -> None:
    assert Skew(base=-5000, since=0, drift=0).local(1000) == 0


def test_a_fast_clock_wakes_early() -> None:
    assert Skew(base=0, since=0, drift=1.0).true(100, 200, 400) == 200
