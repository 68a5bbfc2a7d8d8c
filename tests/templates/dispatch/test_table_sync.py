"""Filters that are told: a version that was invented in the name of a node is outdone, not argued about."""

from __future__ import annotations

import pytest

from gossamer.core.control import MOST
from gossamer.core.event import Criteria
from gossamer.filters.identity import identity
from gossamer.templates.dispatch.messages import Tell, Told
from gossamer.templates.dispatch.table_sync import Table, Telling
from gossamer.testing.fake import FakeContext

TABLE: Table = {(False, identity(Criteria())): Criteria()}


@pytest.mark.parametrize(("invented", "learned"), [(1000, True), (MOST, False)])
def test_an_invented_version_starts_no_endless_exchange(invented: int, learned: bool) -> None:
    here, there = FakeContext("a"), FakeContext("b")
    telling, hearing = Telling(), Telling()
    hearing.hear(there, Tell(here.incarnation, invented, 0, (0, 0), (), ()), "a")
    telling.tell(here, "b", lambda node: TABLE)
    for _ in range(10):
        there.clear()
        said = [each for _, each in here.sent() if isinstance(each, Tell)]
        here.clear()
        for each in said:
            hearing.hear(there, each, "a")
        for _, told in there.sent():
            assert isinstance(told, Told)
            telling.told(here, told, "b")
            telling.tell(here, "b", lambda node: TABLE)
    assert here.sent() == []
    assert (hearing.said["a"].table == TABLE) is learned
