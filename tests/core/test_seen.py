"""Second copies are recognised, in bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.receipt import Stamp
from gossamer.core.seen import Seen


def stamp(source: str, sequence: int, incarnation: int = 1) -> Stamp:
    return Stamp(source, incarnation, sequence, 1, 1, bytes(8))


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 40)), max_size=120),
    st.integers(1, 12),
)
def test_it_agrees_with_a_set_within_the_window_and_never_takes_a_copy(
    arrivals: list[tuple[str, int]], window: int
) -> None:
    seen = Seen(window)
    taken: set[tuple[str, int]] = set()
    highest = dict.fromkeys("ab", 0)
    for source, sequence in arrivals:
        new = seen.add(stamp(source, sequence))
        if sequence > highest[source] - window:
            assert new is ((source, sequence) not in taken)
        else:
            assert not new, "too old to tell, so rather missed than given twice"
        if new:
            taken.add((source, sequence))
            highest[source] = max(highest[source], sequence)


def test_another_life_of_a_source_begins_anew() -> None:
    seen = Seen()
    assert seen.add(stamp("a", 1))
    assert seen.add(stamp("a", 1, incarnation=2))
    assert not seen.add(stamp("a", 1))


def test_a_node_is_the_same_wherever_it_is_attached() -> None:
    seen = Seen()
    assert seen.add(stamp("b1/s2/c", 1))
    assert not seen.add(stamp("b9/c", 1))


def test_memory_is_bounded_per_source() -> None:
    seen = Seen(window=10)
    for sequence in range(1, 10_000):
        seen.add(stamp("a", sequence))
    (_, recent), *_ = seen._recent.values()
    assert len(recent) <= 20


def test_memory_is_bounded_in_sources_and_the_longest_silent_is_forgotten() -> None:
    seen = Seen(window=10, sources=3)
    for source in "abc":
        seen.add(stamp(source, 1))
    seen.add(stamp("a", 2))
    seen.add(stamp("d", 1))
    assert len(seen._recent) == 3
    assert not seen.add(stamp("a", 2)), "a spoke lately"
    assert seen.add(stamp("b", 1)), "b was silent longest"
