"""Identifiers are allotted by announcers that never talk, and nobody gets one twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.announce.identity import ANNOUNCER_BYTES, MOST_THREADS, THREAD_BYTES, Allotter, announcer_of
from gossamer.core.errors import BadName, TooLarge

announcers = st.binary(min_size=ANNOUNCER_BYTES, max_size=ANNOUNCER_BYTES)


@given(st.sets(announcers, min_size=2, max_size=5), st.integers(0, 2**32 - 100))
def test_announcers_that_never_talk_allot_different_threads(drawn: set[bytes], first: int) -> None:
    allotters = [Allotter(each, first) for each in drawn]
    allotted = [allotter.allot() for _ in range(50) for allotter in allotters]
    assert len(set(allotted)) == len(allotted)
    assert {len(each) for each in allotted} == {THREAD_BYTES}


def test_after_a_restart_the_numbers_go_on() -> None:
    before = Allotter(bytes(12))
    had = {before.allot() for _ in range(10)}
    after = Allotter(bytes(12), before.allotted)
    assert not had & {after.allot() for _ in range(10)}


def test_a_public_key_stands_for_one_announcer() -> None:
    assert announcer_of(b"a" * 32) == announcer_of(b"a" * 32) != announcer_of(b"b" * 32)
    assert len(announcer_of(b"a" * 32)) == ANNOUNCER_BYTES


def test_an_announcer_of_another_length_is_refused() -> None:
    with pytest.raises(BadName, match="12 bytes, not 3"):
        Allotter(b"abc")


def test_an_announcer_that_has_used_all_numbers_says_so() -> None:
    with pytest.raises(TooLarge):
        Allotter(bytes(12), MOST_THREADS).allot()
