"""Pictures can be drawn of nothing and of much, and do not change by themselves."""

from __future__ import annotations

from types import ModuleType

import pytest

pytestmark = pytest.mark.xdist_group("audits")  # where pictures are drawn for reports


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """Imported by the one process that draws: matplotlib takes a second."""
    from gossamer.pipeline import pictures

    return pictures


def test_a_picture_of_nothing_and_of_much_can_be_drawn(pictures: ModuleType) -> None:
    assert pictures.topology({}, {}).startswith("<svg")
    assert pictures.over_time({}, "x").startswith("<svg")
    assert "x" * 99 in pictures.over_time({"x" * 99: [(0.0, 1.0), (1.0, 2.0)]}, "x")
    many = {(f"n{n}", f"n{n // 3}"): float(n) for n in range(1, 100)}
    drawn = pictures.topology({**many, ("x", "y"): 1.0}, {"lonely": 2.0})
    assert drawn.count("<path") > 100


def test_the_same_numbers_give_the_same_picture(pictures: ModuleType) -> None:
    lines = {"a": [(0.0, 1.0), (1.0, 2.0)]}
    assert pictures.over_time(lines, "x") == pictures.over_time(lines, "x")
