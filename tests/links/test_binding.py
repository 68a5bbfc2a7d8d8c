"""Bindings: the first that fits wins, and one that can never apply is named."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.names import Role
from gossamer.links.binding import Binding, asked_for, covers, first_fit, nameable, problems

KNOWN = ("multicast", "tcp", "udp")
VIDEO = Binding("video.*", ("udp", "tcp"), Role.BACKBONE)
REST = Binding("*", ("tcp",))


def test_the_first_that_fits_wins() -> None:
    assert first_fit((VIDEO, REST), "video.hall", Role.BACKBONE) is VIDEO
    assert first_fit((REST, VIDEO), "video.hall", Role.BACKBONE) is REST


def test_a_tier_narrows_a_binding_to_links_of_that_role() -> None:
    assert first_fit((VIDEO, REST), "video.hall", Role.CLIENT) is REST
    assert first_fit((VIDEO,), "video.hall", Role.CLIENT) is None


def test_upper_and_lower_case_are_different_names() -> None:
    assert first_fit((VIDEO,), "Video.hall", Role.BACKBONE) is None


def test_a_link_asks_for_all_that_concerns_its_neighbour_in_order_of_wish_and_once() -> None:
    assert asked_for((VIDEO, REST), Role.BACKBONE) == ("udp", "tcp")
    assert asked_for((VIDEO, REST), Role.CLIENT) == ("tcp",)
    assert asked_for((), Role.CLIENT) == ()


@pytest.mark.parametrize(
    ("binding", "role", "key", "reason"),
    [
        (Binding("a", ("pigeon",)), Role.BACKBONE, "transports", "no transport 'pigeon'; known: multicast"),
        (Binding("a", ("tcp", "tcp")), Role.BACKBONE, "transports", "named twice"),
        (Binding("two words", ("tcp",)), Role.BACKBONE, "channel", "no channel may have such a name"),
        (Binding("gossamer.*", ("tcp",)), Role.BACKBONE, "channel", "no channel may have such a name"),
        (Binding("a", ("tcp",), Role.CLIENT), Role.CLIENT, "tier", "a client has no link to another client"),
        (Binding("a", ("tcp",), Role.SECONDARY), Role.SECONDARY, "tier", "can never apply"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(binding: Binding, role: Role, key: str, reason: str) -> None:
    (found,) = problems((Binding("z", ("tcp",)), binding), KNOWN, role)
    assert (found.place, found.key) == (1, key)
    assert reason in found.reason


def test_what_stands_behind_a_wider_binding_is_named() -> None:
    (found,) = problems((REST, VIDEO), KNOWN, Role.BACKBONE)
    assert (found.place, found.key) == (1, "channel")
    assert "'video.*' can never apply: '*' stands before it" in found.reason


def test_a_wider_binding_of_another_tier_hides_nothing() -> None:
    wide = Binding("*", ("tcp",), Role.CLIENT)
    assert list(problems((wide, VIDEO), KNOWN, Role.BACKBONE)) == []
    assert list(problems((VIDEO, REST), KNOWN, Role.BACKBONE)) == []


def test_backbone_nodes_and_peers_have_neighbours_of_their_own_kind() -> None:
    for role in (Role.BACKBONE, Role.PEER):
        assert list(problems((Binding("a", ("tcp",), role),), KNOWN, role)) == []


@pytest.mark.parametrize("pattern", ["a", "a.*", "?", "[ab]c", "[!a]", "*é*"])
def test_patterns_that_some_name_matches(pattern: str) -> None:
    assert nameable(pattern)


PATTERNS = st.text("ab.*?[]!", min_size=1, max_size=6)


@given(PATTERNS, PATTERNS, st.lists(st.text("ab.", min_size=1, max_size=6), max_size=40))
def test_what_covers_another_matches_all_that_it_matches(wide: str, narrow: str, names: list[str]) -> None:
    if covers(wide, narrow):
        for name in names:
            assert not fnmatchcase(name, narrow) or fnmatchcase(name, wide)


@pytest.mark.parametrize(
    ("wide", "narrow", "so"),
    [
        ("a*", "a*b", True),
        ("a*", "a?", True),
        ("*.x", "*", False),
        ("?", "*", False),
        ("*b*", "[abc]", False),
    ],
)
def test_covering(wide: str, narrow: str, so: bool) -> None:
    assert covers(wide, narrow) == so
