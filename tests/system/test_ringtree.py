"""Ringtree on real sockets: processes are killed, leave and join, and those that are there get everything."""

from __future__ import annotations

from tests.system.ringtree_kills import killed, left_and_joined


def test_eight_processes_of_which_two_are_killed_become_whole_again() -> None:
    report = killed(8, 2)  # raises if those who live never get a run of events without a gap
    assert len(report["killed"]) == 2


def test_two_of_eight_processes_leave_and_one_joins_and_all_that_are_there_get_everything_again() -> None:
    report = left_and_joined(8)  # raises if the members never get a run of events without a gap, or one twice
    assert report["members"] == ["n00", "n01", "n02", "n03", "n04", "n05", "n08"]
    published = report["published meanwhile"]
    assert max(report["missed"].values()) <= published // 10, "nothing is repaired, but little is missed"
    assert report["newcomer got"] >= 10
