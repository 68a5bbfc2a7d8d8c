"""Second copies are recognised, in bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.duplicates import CLOSED, REACH, WINDOWS, Seen
from gossamer.core.receipt import Stamp


def numbers(seen: Seen) -> int:
    """How many numbers are kept of all sources."""
    sources = seen._recent.values()
    return sum(len(each.recent) for source in sources for each in source.windows) + sum(
        2 * len(source.closed) for source in sources
    )


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
        elif new:
            assert (source, sequence) not in taken, "too old to tell, so rather missed than given twice"
        assert seen.has((source, 1, sequence))
        if new:
            taken.add((source, sequence))
            highest[source] = max(highest[source], sequence)


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.booleans(), st.integers(0, 30), st.integers(0, 5)),
        min_size=1,
        max_size=80,
    ),
    st.integers(16, 64),
)
def test_an_honest_source_that_skips_far_because_of_loss_is_taken_at_most_once(
    steps: list[tuple[int, bool, int, int]], window: int
) -> None:
    """Every parcel that comes is new, however many were lost before it; a copy of any earlier one is not."""
    seen, arrived, sequence = Seen(window), list[int](), 0
    for step, far, back, late in steps:
        lost = 10_000 * step if far and sum(each > 10_000 for each in arrived) < 60 else step
        sequence += lost
        assert seen.add(stamp("a", sequence)), "the newest of an honest source"
        arrived.append(sequence)
        for copy in (arrived[-1 - back % len(arrived)], arrived[late % len(arrived)]):
            assert not seen.add(stamp("a", copy)), "a copy"


@given(
    st.lists(st.one_of(st.none(), st.integers(1, 2**63 - 1), st.integers(1, 3000)), max_size=200),
)
def test_a_few_invented_numbers_silence_few_numbers_of_a_source(arrivals: list[int | None]) -> None:
    """None is the next parcel of the source itself; all others are invented."""
    seen, sequence, refused, invented = Seen(256), 0, 0, set[int]()
    for each in arrivals:
        if each is not None:
            invented.add(each)
            seen.add(stamp("a", each))
            continue
        sequence += 1
        refused += not seen.add(stamp("a", sequence))
        assert refused <= len(invented) * (1 + 256 // REACH)


def test_one_invented_number_does_not_silence_a_source() -> None:
    seen = Seen()
    assert seen.add(stamp("a", 1))
    assert seen.add(stamp("a", 2**62)), "it is new, whichever node sent it"
    assert all(seen.add(stamp("a", number)) for number in range(2, 10_000))
    assert not seen.add(stamp("a", 2**62))


def test_one_invented_number_before_the_first_does_not_silence_a_source() -> None:
    seen = Seen()
    for far in range(50):
        seen.add(stamp("a", 2**62 + far * 2**20))
    assert all(seen.add(stamp("a", number)) for number in range(1, 10_000))


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
    assert numbers(seen) <= 20
    for jump in range(1, 10_000):
        seen.add(stamp("a", jump * 1000 + jump % 30))
    assert numbers(seen) <= WINDOWS * 20 + 2 * CLOSED


def test_memory_is_bounded_in_sources_and_the_longest_silent_is_forgotten() -> None:
    seen = Seen(window=10, sources=3)
    for source in "abc":
        seen.add(stamp(source, 1))
    seen.add(stamp("a", 2))
    seen.add(stamp("d", 1))
    assert len(seen._recent) == 3
    assert not seen.add(stamp("a", 2)), "a spoke lately"
    assert seen.add(stamp("b", 1)), "b was silent longest"
