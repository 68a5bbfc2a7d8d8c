"""Ringtree on real sockets: processes are killed, and those who live go on getting everything."""

from __future__ import annotations

from tests.system.ringtree_kills import killed


def test_eight_processes_of_which_two_are_killed_become_whole_again() -> None:
    report = killed(8, 2)  # raises if those who live never get a run of events without a gap
    assert len(report["killed"]) == 2
