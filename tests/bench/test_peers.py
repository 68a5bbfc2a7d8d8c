"""The comparison in small: real processes, few messages, no look at how fast they were."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gossamer.bench import session, systems
from gossamer.bench.charts import page
from gossamer.bench.peers import Plan, Result, compare
from gossamer.bench.progress import DONE, LAST, MARK, PROBE, READY, SEEN, Board, Book, Load
from gossamer.bench.scaling import data_rates, relative, reliability, work
from gossamer.bench.session import Outcome, RoundTrips, Session
from gossamer.cli.bench import show, told
from gossamer.core.errors import ConfigError


async def test_gossamer_and_the_bare_socket_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(("raw", "gossamer"), sizes=(100,), receivers=(2,), repeat=1, seconds=0.02, round_trips=False)
    result = Result(plan)
    steps: list[int] = []
    await compare(result, lambda what, done: steps.append(done))
    rows = result.rows()
    assert [(row.system, row.size, row.receivers, row.loss) for row in rows] == [
        ("raw", 100, 2, 0),
        ("gossamer", 100, 2, 0),
    ]
    assert all(row.rate > 0 and row.cpu and row.ratio is None for row in rows)
    assert all(one.sent > 1 and one.seen == [one.sent] * 2 for own in result.outcomes.values() for one in own)
    assert steps == [0, 1]
    assert result.problems == {}
    assert msgspec.json.decode(told(result, rows))["rows"][0]["system"] == "raw"
    show(result, rows)
    assert "lost: nothing" in capsys.readouterr().out


def measured() -> Result:
    """What a run might have given, with a peer that lost something."""
    result = Result(Plan(("gossamer", "pyzmq"), sizes=(10,), receivers=(1,)))
    result.outcomes["gossamer", 10, 1] = [Outcome(500, [500], seconds, 0.001) for seconds in (1.0, 0.5, 0.1)]
    result.outcomes["pyzmq", 10, 1] = [Outcome(500, [490], 1.0, None)]
    result.calls["gossamer"] = [RoundTrips(7, 200_000, 300_000)]
    return result


def test_rows_are_medians_beside_the_fastest_peer() -> None:
    ours, other = measured().rows()
    assert (ours.rate, ours.loss, ours.cpu) == (1000, 0, 2.0)
    assert ours.ratio == pytest.approx(1000 / 490, abs=0.001)
    assert (other.rate, other.loss, other.cpu, other.ratio) == (490, 10, None, 1.0)
    assert [(row.p50, row.p99) for row in measured().round_trips()] == [(200, 300)]


def test_the_page_of_charts_needs_nothing_from_elsewhere() -> None:
    text = page(measured())
    assert text.count("<svg") == 6
    assert "Messages lost: 10." in text
    assert "src=" not in text


def ring(size: int, receivers: int, sent: int, seconds: float, lost: int = 0) -> Result:
    """One measurement of a ring."""
    outcome = Outcome(sent, [sent] * (receivers - 1) + [sent - lost], seconds, 1.0)
    return Result(Plan(), {("gossamer-multiring", size, receivers): [outcome]})


def test_scaling_is_relative_to_three_receivers_and_the_mean_of_all_sizes() -> None:
    outcomes = {}
    for size, receivers, seconds in (
        (10, 1, 0.1),
        (10, 3, 1.0),
        (10, 11, 2.0),
        (1000, 3, 1.0),
        (1000, 11, 1.0),
    ):
        outcomes |= ring(size, receivers, 1000, seconds).outcomes
    rows = Result(Plan(), outcomes).rows()
    assert relative(rows) == {"gossamer-multiring": [(3, 1.0), (11, 0.75)]}
    assert data_rates(rows, 3) == {"gossamer-multiring": [(10, 10_000.0), (1000, 1_000_000.0)]}
    assert relative(ring(10, 11, 1000, 1.0).rows()) == {}


def test_work_is_processor_time_per_delivered_message_relative_to_three_receivers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = Plan(("gossamer-multiring",), sizes=(10,), receivers=(3, 11))
    result = Result(plan, ring(10, 3, 1100, 1.0).outcomes | ring(10, 11, 200, 1.0).outcomes)
    assert work(result.rows(), 11) == {"gossamer-multiring": [(10, pytest.approx(1.5))]}
    assert work(ring(10, 11, 1000, 1.0).rows(), 11) == {}
    show(result, result.rows())
    assert "1.50" in capsys.readouterr().out


def test_reliability_is_what_arrived_of_what_was_sent_to_all() -> None:
    result = Result(Plan(), ring(10, 2, 100, 1.0, lost=20).outcomes | ring(100, 4, 100, 1.0).outcomes)
    assert reliability(result) == {"gossamer-multiring": [(10, 90.0), (100, 100.0)]}


def test_the_page_shows_scaling_where_three_receivers_were_measured() -> None:
    result = Result(Plan(receivers=(3, 11)), ring(10, 3, 100, 1.0).outcomes | ring(10, 11, 100, 1.0).outcomes)
    assert "relative to 3 receivers" in page(result)
    assert "relative to 3 receivers" not in page(measured())


def test_a_system_that_is_not_installed_is_said_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(systems, "SERVER_FOLDERS", "")
    monkeypatch.setenv("PATH", "")
    result = Result(Plan(("raw", "redis")))
    assert result.missing == ["redis"]
    assert [each.name for each in result.plan.present] == ["raw"]
    show(result, result.rows())
    assert "not installed" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [{"systems": ("pigeons",)}, {"sizes": (0,)}, {"receivers": (99,)}])
def test_a_plan_that_cannot_be_is_refused(wrong: dict[str, tuple[object, ...]]) -> None:
    with pytest.raises(ConfigError, match=f"--{next(iter(wrong))}"):
        msgspec.convert(wrong, Plan)


def test_a_receiver_counts_messages_and_not_probes(tmp_path: Path) -> None:
    board = Board(tmp_path / "board", 2, create=True)
    book = Book(Board(tmp_path / "board", 2), 1)
    for mark in (PROBE, MARK, LAST):
        book.seen += 1
        book.marked(mark)
    assert [board.read(each) for each in (READY, SEEN, DONE)] == [[0, 1], [0, 2], [0, 1]]


async def test_what_comes_behind_the_last_message_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([(1.0, [10, 7]), (2.0, [0, 2]), (2.5, [0, 0]), (3.0, [0, 1])])

    async def usage(self: Session) -> tuple[float, list[int]]:
        return next(counts)

    monkeypatch.setattr(session, "LATE", 0.0)
    monkeypatch.setattr(Session, "_usage", usage)
    assert await Session(systems.named("raw"), 2)._counted(10) == (3.0, [10, 10])


def test_a_load_waits_for_the_slowest_receiver_and_ends_with_the_last_message(tmp_path: Path) -> None:
    board = Board(tmp_path / "board", 2, create=True)
    load = Load(board, size=100_000, seconds=5)
    batches = load.batches()
    while not load.ahead:
        assert {len(each) for each in next(batches)} == {100_000}
    for receiver in range(2):
        board.write(receiver, SEEN, load.sent)
    assert not load.ahead

    short = Load(board, size=1, seconds=0)
    assert list(short.batches()) == [[bytes([LAST])]]
    assert short.sent == 1
