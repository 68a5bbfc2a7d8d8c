"""Names and addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.errors import BadName
from gossamer.core.names import MAX_CHANNEL_NAME, channel_id, check_channel, check_node, last, nanoseconds


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "x" * 64])
def test_a_good_node_name_is_taken(name: str) -> None:
    assert check_node(name) == name


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a/b", "ü", "a\n", "a:1"])
def test_a_bad_node_name_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(BadName, match="letters, digits"):
        check_node(name)


@pytest.mark.parametrize("name", ["a", "sport/fußball", "x" * MAX_CHANNEL_NAME, "a.b:c?", "日本"])
def test_a_good_channel_name_is_taken(name: str) -> None:
    assert check_channel(name) == name
    assert 0 <= channel_id(name) < 2**63


@pytest.mark.parametrize(
    "name", ["", "a b", "a\tb", "a\n", "\x00", "\x7f", "x" * (MAX_CHANNEL_NAME + 1), "a\udcff", "\u2003"]
)
def test_a_bad_channel_name_is_refused(name: str) -> None:
    with pytest.raises(BadName):
        check_channel(name)


def test_channels_of_services_are_not_for_applications() -> None:
    with pytest.raises(BadName, match="belong to node services"):
        check_channel("gossamer.directory")


@given(st.text(max_size=300))
def test_a_channel_name_that_is_taken_has_an_id(name: str) -> None:
    try:
        check_channel(name)
    except BadName:
        return
    assert channel_id(name) == channel_id(str(name))


def test_the_id_of_a_channel_is_the_same_in_every_process() -> None:
    assert channel_id("news") == 0x56B31769EE4939E8


@pytest.mark.parametrize(("address", "node"), [("a", "a"), ("b1/s2/c", "c"), ("b1/c", "c")])
def test_an_address_ends_at_its_node(address: str, node: str) -> None:
    assert last(address) == node


def test_seconds_become_whole_nanoseconds() -> None:
    assert nanoseconds(0.5) == 500_000_000
    assert nanoseconds(1e-9) == 1
