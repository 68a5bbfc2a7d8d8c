"""Announcing beside permanent subscription: less time in groups when events are rare, and where it loses."""

from __future__ import annotations

import pytest

from gossamer.core.errors import ConfigError
from gossamer.whatif.memberships import WAYS, Setting, compare, loses

SMALL = Setting(threads=16, listeners=3, events=40, payload=500)


def test_rare_events_cost_one_membership_and_the_bytes_of_refreshes() -> None:
    rows = {row.way: row for row in compare(SMALL, ["1/hour"])}
    ours, shared, own = (rows[way] for way in WAYS)
    assert all(row.arrived == 1 for row in rows.values())
    assert 3600 <= ours.membership < 3600 * 1.01
    assert own.membership == pytest.approx(3 * 3600)
    assert ours.membership < shared.membership < own.membership
    assert ours.occupied < shared.occupied < own.occupied
    assert ours.received > own.received
    said = loses(list(rows.values()), "1/hour")
    assert "bytes (own groups)" in said
    assert not any("time" in each for each in said)


def test_at_ten_a_second_who_wants_one_thread_is_in_two_groups_instead_of_one() -> None:
    setting = Setting(threads=16, listeners=3, events=40, payload=500, wants=1)
    rows = {row.way: row for row in compare(setting, ["10/s"])}
    ours, shared, own = (rows[way] for way in WAYS)
    assert ours.membership > 1.3 * shared.membership
    assert "time (own groups)" in loses(list(rows.values()), "10/s")
    assert ours.received > own.received
    assert min(row.arrived for row in rows.values()) > 0.99


def test_what_cannot_be_compared_names_its_key() -> None:
    with pytest.raises(ConfigError, match="rate"):
        compare(SMALL, ["2/day"])
    with pytest.raises(ConfigError, match="wants"):
        compare(Setting(threads=2, wants=3))
