"""A version comes once or is missed once, whatever is told and heard in which order."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.announce import versions as following
from gossamer.announce.versions import Gap, Progress

steps = st.lists(
    st.tuples(st.sampled_from(["told", "got", "expire"]), st.integers(1, 12), st.integers(0, 9)), max_size=40
)


def versions(gaps: list[Gap]) -> list[int]:
    return [version for first, last in gaps for version in range(first, last + 1)]


@given(steps)
def test_a_version_is_had_or_missed_but_never_both_nor_twice(done: list[tuple[str, int, int]]) -> None:
    progress = Progress()
    had: list[int] = []
    missed: list[int] = []
    for now, (what, version, wait) in enumerate(done):
        if what == "told":
            missed += versions(progress.told(version, now + wait))
        elif what == "expire":
            missed += versions(progress.expire(now))
        elif progress.latest is not None and progress.got(version):
            had.append(version)
            missed += versions(progress.told(version, now + wait))
    missed += versions(progress.expire(1000))
    assert progress.complete
    assert progress.until is None
    assert len(set(had + missed)) == len(had + missed)


def test_the_first_that_is_told_of_may_be_old_and_is_not_missed() -> None:
    progress = Progress()
    progress.told(7, 10)
    assert not progress.complete
    assert progress.expire(10) == []
    progress.told(9, 20)
    assert progress.until == 20
    assert progress.expire(20) == [(8, 9)]


def test_a_later_version_does_not_prolong_the_wait_for_an_earlier_one() -> None:
    progress = Progress()
    progress.told(0, 0)
    progress.told(1, 10)
    progress.told(2, 15)
    assert progress.expire(10) == [(1, 1)]
    assert progress.until == 15
    assert progress.got(2)
    assert progress.until is None


def test_a_leap_gives_up_what_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MOST_OPEN", 3)
    progress = Progress()
    progress.told(1, 10)
    progress.got(1)
    assert progress.told(8, 10) == [(2, 5)]
    assert progress.expire(10) == [(6, 8)]


def test_a_leap_over_four_billion_versions_costs_no_more_than_one_over_a_few() -> None:
    progress = Progress()
    progress.told(5, 10)
    progress.got(5)
    tracemalloc.start()
    try:
        assert progress.told(2**32 - 1, 20) == [(6, 2**32 - 1 - following.MOST_OPEN)]
        assert progress.expire(20) == [(2**32 - following.MOST_OPEN, 2**32 - 1)]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
