"""Bugs planted into announcements, to show that their tests catch them."""

from __future__ import annotations

import pytest

from gossamer.announce.catalog import Route
from gossamer.announce.index import Graph
from gossamer.announce.listener import Follower
from tests.announce import test_index, test_managed


def test_a_listener_that_leaves_before_it_has_heard_the_new_index_misses_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hasty(self: Follower, route: Route) -> None:
        for thread in self._followed - route.follow:
            self._unfollow(thread)

    monkeypatch.setattr(Follower, "_leave_old", hasty)
    with pytest.raises(AssertionError):
        test_managed.test_indexes_are_rebuilt_while_running_and_nobody_misses_anything()


def test_an_index_that_keeps_its_version_when_its_content_changes_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gossamer.announce.announcer import Station, _Topic

    def stale(self: Station, now: int, thread: bytes, topic: _Topic, content: bytes) -> None:
        topic.content, topic.version = content, max(1, topic.version)
        topic.refreshed = now + self._refresh
        self._send(now, thread, topic)

    monkeypatch.setattr(Station, "_publish", stale)
    with pytest.raises(AssertionError):
        test_managed.test_an_index_changes_its_version_with_its_content_and_carries_pairs_only()


def test_a_graph_that_looks_one_step_far_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Graph, "_path", lambda self, start, goal: [start] if start == goal else [])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_index.test_whatever_is_added_the_graph_stays_without_cycle()
