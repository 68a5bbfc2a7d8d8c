"""Runs become cases, cases become verdicts, and the best design comes first."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from gossamer.whatif.advice import advise, axis
from gossamer.whatif.script import Limits, Question
from gossamer.whatif.summary import Case, cases, estimate


def test_an_interval_is_that_of_students_t() -> None:
    found = estimate([9.0, 10.0, 11.0])
    assert (found.mean, found.runs) == (10.0, 3)
    assert found.half == pytest.approx(4.303 / math.sqrt(3))
    assert found.highest == pytest.approx(10 + 4.303 / math.sqrt(3))


@pytest.mark.parametrize(
    ("runs", "student"), [(2, 12.71), (15, 2.145), (16, 2.131), (31, 2.042), (1001, 1.962)]
)
def test_students_t_is_right_for_few_runs_and_for_many(runs: int, student: float) -> None:
    found = estimate([(-1.0) ** n for n in range(runs)])
    deviation = math.sqrt(sum(((-1.0) ** n - found.mean) ** 2 for n in range(runs)) / (runs - 1))
    assert found.half * math.sqrt(runs) / deviation == pytest.approx(student, rel=0.003)


def test_one_run_does_not_tell_how_far_it_is_off() -> None:
    found = estimate([7.0])
    assert math.isnan(found.half)
    assert found.highest == 7.0


def test_rows_are_put_together_by_configuration(question: Question, rows: list[dict[str, Any]]) -> None:
    found = cases(question, rows)
    assert [case.settings["traffic.spread"] for case in found] == [0.0, 0.5, 1.0] * 2
    for case in found:
        assert case.calculated["method"] == "analysis"
        assert [run["method"] for run in case.simulated] == ["model"] * 3
        assert case.checked == [True], "the first run was made with the template too, and both agreed"
        told = case.estimate("load_0")
        assert told is not None
        assert told.mean == pytest.approx(case.forecast("load_0"), rel=0.25)
        assert case.expected("load_0") == told.highest


def case(design: str, spread: float, **figures: float) -> Case:
    row = {"bottleneck": "link d2 → d1", **figures}
    return Case({"propagation": design, "traffic.spread": spread}, row, ())


SWEPT = Question(
    sweep={"propagation": ("one", "other"), "traffic.spread": (0.0, 0.5, 1.0)},
    limits=Limits(root=10.0, link=0.6),
)
FOUND = [
    case("one", 0.0, root=1, link=0.1, latency=0.1, fullest=0.5),
    case("one", 0.5, root=5, link=0.5, latency=0.2, fullest=0.9),
    case("one", 1.0, root=20, link=0.7, latency=0.3, fullest=1.4),
    case("other", 0.0, root=2, link=0.1, latency=0.5, fullest=0.1),
    case("other", 0.5, root=3, link=0.2, latency=0.6, fullest=0.2),
    case("other", 1.0, root=9, link=0.3, latency=0.7, fullest=0.3),
]


def test_who_keeps_all_limits_comes_before_who_is_faster() -> None:
    best, second = advise(SWEPT, FOUND)
    assert (best.design, best.good, best.kept, best.until) == ({"propagation": "other"}, True, 3, 1.0)
    assert (second.good, second.kept, second.cases, second.until) == (False, 2, 3, 0.5)
    assert {(each.limit, each.reached) for each in second.breaches} == {("root", 20), ("link", 0.7)}
    assert second.breaches[0].traffic == {"traffic.spread": 1.0}
    assert second.bottleneck == "link d2 → d1"


def test_of_those_that_keep_them_the_preferred_comes_first() -> None:
    easy = msgspec.structs.replace(SWEPT, limits=Limits(root=100.0))
    assert [each.design["propagation"] for each in advise(easy, FOUND)] == ["one", "other"]
    by_load = msgspec.structs.replace(easy, prefer="load")
    found = [
        Case(each.settings, {**each.calculated, "dispatcher": each.calculated["root"]}, ()) for each in FOUND
    ]
    assert [each.design["propagation"] for each in advise(by_load, found)] == ["other", "one"]


def test_the_point_of_saturation_lies_between_two_cases() -> None:
    second = advise(SWEPT, FOUND)[1]
    assert second.calculated == pytest.approx(0.5 + 0.5 * 0.1 / 0.5)
    assert second.saturates is None, "nothing was simulated"
    assert advise(SWEPT, FOUND)[0].calculated is None


def test_a_figure_that_is_nowhere_near_finite_breaks_its_limit() -> None:
    asked = Question(limits=Limits(latency=1.0))
    (verdict,) = advise(asked, [Case({}, {"latency": math.inf, "fullest": 1.2}, ())])
    assert not verdict.good
    assert verdict.breaches[0].reached == math.inf


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ({"propagation": ("a", "b"), "traffic.spread": (0.1, 0.2)}, "traffic.spread"),
        ({"topology.arity": (2, 4), "traffic.rate": (1.0, 2.0)}, "traffic.rate"),
        ({"propagation": ("a", "b"), "topology.arity": (2, 4)}, "topology.arity"),
        ({"propagation": ("a", "b")}, "propagation"),
        ({}, ""),
    ],
)
def test_traffic_goes_along_the_axis_if_it_is_swept(sweep: dict[str, Any], expected: str) -> None:
    assert axis(Question(sweep=sweep)) == expected
