"""The window of one source, beside a model that keeps everything and counts slowly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gossamer.templates.reliable.window import MAX_KEPT, Stream, ranges
from gossamer.templates.reliable.windows import Streams
from gossamer.testing.fake import parcel

NUMBERS = st.integers(1, 12)
NAMES = st.sampled_from("xyz")
PATIENCE = 10
NEVER = 2**62


def numbers(stream: Stream) -> list[int]:
    return [each.stamp.sequence for each in stream.ready()]


class AgainstTheModel(RuleBasedStateMachine):
    """Parcels, beginnings and words of neighbours in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.stream = Stream("s")
        self.came: set[int] = set()
        self.delivered: list[int] = []
        self.first = 0
        self.said: dict[str, int | None] = {}
        self.least = 0
        """Below this everything may have been forgotten."""

    @rule(number=NUMBERS)
    def parcel_comes(self, number: int) -> None:
        new = self.stream.add(parcel("s", number))
        known = number in self.came or (self.first and number < self._next)
        assert new == (not known)
        if new:
            self.came.add(number)
        self._deliver()

    @rule(base=NUMBERS)
    def source_says_where_it_begins(self, base: int) -> None:
        torn, skips = self.stream.torn, base > self._next
        self.stream.begin(base)
        assert self.stream.torn == (torn or (skips and bool(self.delivered)))
        if skips:
            while not self.first and base - 1 in self.came:
                base -= 1
            self.first = base
            self.came |= set(range(1, base))
            self._skipped = base
        self._deliver()

    _skipped = 0

    @property
    def _next(self) -> int:
        return max(self._skipped, self.delivered[-1] + 1 if self.delivered else 0)

    def _deliver(self) -> None:
        expected = []
        if self.first:
            number = self._next
            while number in self.came:
                expected.append(number)
                number += 1
        got = numbers(self.stream)
        assert got == expected
        self.delivered += got

    @rule(names=st.sets(NAMES))
    def neighbours_change(self, names: set[str]) -> None:
        new = self.stream.neighbours(sorted(names), self.now)
        assert set(new) == names - self.said.keys()
        self.said = {name: self.said.get(name) for name in names}

    @rule(name=NAMES, number=NUMBERS)
    def neighbour_says(self, name: str, number: int) -> None:
        self.stream.hear(name, number, number, self.now)
        if name in self.said:
            self.said[name] = max(number, self.said[name] or 0)

    @rule()
    def tree_changes(self) -> None:
        self.stream.unsure()
        self.said = dict.fromkeys(self.said)

    @rule()
    def release(self) -> None:
        self.stream.release()
        if self.stream.complete is not None:
            self.least = max(self.least, self.stream.complete + 1)

    @rule(passed=st.integers(1, 2 * PATIENCE))
    def time_passes(self, passed: int) -> None:
        self.now += passed

    @invariant()
    def it_keeps_what_somebody_may_still_need(self) -> None:
        for number in self.came:
            if number >= max(self.least, self._skipped):
                assert number in self.stream.held

    @invariant()
    def it_asks_for_holes_and_nothing_else(self) -> None:
        asked = set(self.stream.missing(10**9 + self.now, 0, 100))
        highest = max((number for number in self.came), default=0)
        holes = set(range(self._next, highest + 1)) - self.came if self.first else set()
        assert asked == holes

    @invariant()
    def it_is_complete_up_to_the_slowest(self) -> None:
        if not self.first or None in self.said.values():
            assert self.stream.complete is None
        else:
            known = [number for number in self.said.values() if number is not None]
            assert self.stream.complete == min([self._next - 1, *known])


TestAgainstTheModel = AgainstTheModel.TestCase
TestAgainstTheModel.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


# one by one


def begun(*names: str, high: int = 0) -> Stream:
    stream = Stream("s", 1)
    stream.neighbours(names, 0)
    for number in range(1, high + 1):
        stream.add(parcel("s", number))
    list(stream.ready())
    return stream


def test_what_is_asked_for_is_not_asked_for_again_at_once() -> None:
    stream = begun()
    stream.add(parcel("s", 3))
    assert stream.missing(0, PATIENCE, 10) == [1, 2]
    assert stream.missing(PATIENCE - 1, PATIENCE, 10) == []
    assert stream.missing(PATIENCE, PATIENCE, 10) == [1, 2]


def test_no_more_is_asked_for_than_fits_and_the_rest_later() -> None:
    stream = begun()
    stream.add(parcel("s", 6))
    assert stream.missing(0, PATIENCE, 3) == [1, 2, 3]
    assert stream.missing(0, PATIENCE, 3) == [4, 5]


def test_what_others_asked_for_is_asked_for_and_taken_though_it_is_old() -> None:
    stream = begun(high=5)
    stream.release()
    stream.tail.clear()  # the tail has gone on
    stream.wanted[2] = {"x"}
    assert stream.missing(0, PATIENCE, 10) == [2]
    assert stream.add(parcel("s", 2), asked=True)
    assert stream.missing(PATIENCE, PATIENCE, 10) == []
    assert numbers(stream) == []


def test_what_others_asked_for_is_kept_a_while_in_case_it_is_lost_on_its_way_to_them() -> None:
    stream = begun(high=200)
    stream.release()
    assert not stream.add(parcel("s", 3)), "nobody asked for it"
    for number in range(1, MAX_KEPT + 2):
        assert stream.add(parcel("s", number), asked=True)
    assert stream.find(1) is None, "only the latest"
    assert stream.find(2) is not None
    assert stream.find(201) is None
    assert stream.idle


def test_what_others_asked_for_and_the_source_no_longer_keeps_is_not_asked_for() -> None:
    """It was asked for in one breath with the next parcel, and the answer to both was that the first of them
    is gone: the next one never came.

    Replay: python benchmarks/proof.py reliable --first 12 --seeds 12 --nodes 20 --duration 600
    """
    stream = begun(high=5)
    stream.release()
    stream.tail.clear()
    stream.add(parcel("s", 7))
    stream.wanted.update({4: {"x"}, 5: {"x"}})
    assert stream.missing(0, PATIENCE, 10) == [6, 4, 5]
    stream.begin(6)
    assert not stream.torn
    assert stream.missing(PATIENCE, PATIENCE, 10) == [6]


def test_who_is_behind_and_still_is_reminded_again_and_again() -> None:
    stream = begun("x", "y", high=3)
    stream.hear("x", 3, 3, 0)
    assert stream.overdue(PATIENCE - 1, PATIENCE, NEVER)[0] == []
    assert stream.overdue(PATIENCE, PATIENCE, NEVER)[0] == ["y"]
    assert stream.overdue(PATIENCE, PATIENCE, NEVER)[0] == []
    assert stream.overdue(2 * PATIENCE, PATIENCE, NEVER)[0] == ["y"]


def test_a_laggard_is_who_itself_does_not_move() -> None:
    stream = begun("x", "y", "z", high=3)
    assert stream.overdue(0, NEVER, PATIENCE)[1] == []
    stream.hear("x", 1, 3, PATIENCE)
    stream.hear("y", 1, 2, PATIENCE)
    assert stream.overdue(PATIENCE + 1, NEVER, PATIENCE)[1] == ["z"]
    stream.hear("x", 1, 3, 2 * PATIENCE)
    stream.hear("y", 1, 2, 2 * PATIENCE)
    assert stream.overdue(2 * PATIENCE + 1, NEVER, PATIENCE)[1] == ["y", "z"], (
        "x waits for somebody behind it"
    )


def test_who_lacks_what_is_not_here_either_is_no_laggard_until_it_is_here() -> None:
    stream = begun("x", high=2)
    stream.hear("x", 2, 2, 0)
    stream.add(parcel("s", 4))
    assert stream.overdue(0, 1, PATIENCE) == ([], [])
    assert stream.overdue(2 * PATIENCE, 1, PATIENCE) == (["x"], []), "it is told of what exists"
    stream.add(parcel("s", 3))
    assert stream.overdue(2 * PATIENCE + 1, NEVER, PATIENCE)[1] == []
    assert stream.overdue(3 * PATIENCE + 2, NEVER, PATIENCE)[1] == ["x"]


def test_who_has_everything_is_no_laggard_however_long_it_is_silent() -> None:
    stream = begun("x", high=3)
    stream.hear("x", 3, 3, 0)
    assert stream.overdue(1000 * PATIENCE, NEVER, PATIENCE)[1] == []
    assert not stream.waiting


def test_who_lags_is_given_time_from_when_it_began_to_lag() -> None:
    stream = begun("x", high=3)
    stream.hear("x", 3, 3, 0)
    stream.add(parcel("s", 4))
    assert stream.overdue(1000 * PATIENCE, NEVER, PATIENCE)[1] == []
    assert stream.overdue(1001 * PATIENCE + 1, NEVER, PATIENCE)[1] == ["x"]
    stream.hear("x", 4, 4, 1002 * PATIENCE)
    stream.add(parcel("s", 5))
    assert stream.overdue(2000 * PATIENCE, NEVER, PATIENCE)[1] == []


def test_who_was_expelled_is_told_until_it_answers() -> None:
    stream = begun("x", high=3)
    stream.expel("x")
    assert stream.overdue(PATIENCE, PATIENCE, NEVER)[0] == ["x"]
    assert stream.overdue(PATIENCE + 1, PATIENCE, NEVER)[0] == []
    assert stream.overdue(2 * PATIENCE, PATIENCE, NEVER)[0] == ["x"]
    stream.readmit("x")
    assert stream.overdue(9 * PATIENCE, PATIENCE, NEVER)[0] == []


def test_who_was_expelled_holds_nobody_up_and_comes_back_as_a_new_one() -> None:
    stream = begun("x", high=3)
    assert stream.complete is None
    stream.expel("x")
    assert stream.complete == 3
    assert stream.neighbours(["x"], PATIENCE) == []
    stream.expelled.discard("x")
    assert stream.neighbours(["x"], 3 * PATIENCE) == ["x"]
    assert stream.overdue(4 * PATIENCE, NEVER, PATIENCE)[1] == []


def test_what_one_neighbour_said_in_an_earlier_life_no_longer_counts() -> None:
    stream = begun("x", "y", high=3)
    for name in "xy":
        stream.hear(name, 3, 3, 0)
    assert stream.complete == 3
    stream.unsure("x")
    assert stream.behind == {"x": None, "y": 3}
    assert stream.complete is None


@given(st.sets(st.integers(0, 200)))
def test_ranges_say_the_same_in_fewer_words(some: set[int]) -> None:
    found = ranges(list(some))
    assert [number for first, count in found for number in range(first, first + count)] == sorted(some)
    ends = [first + count for first, count in found]
    assert all(end < first for end, (first, _) in zip(ends, found[1:], strict=False)), "no two of them touch"


# streams that were forgotten


def test_a_stream_that_was_forgotten_goes_on_where_it_was() -> None:
    streams = Streams()
    key = ("s", 1)
    stream = streams.begin(key, "s", 1)
    for number in (1, 2):
        stream.add(parcel("s", number))
    assert numbers(stream) == [1, 2]
    streams.forget(key)
    assert (len(streams), streams.upto(key), streams.ended) == (0, 3, {key: 3})
    again = streams.begin(key, "s", 0)
    assert not again.add(parcel("s", 2)), "that was delivered"
    assert again.add(parcel("s", 3))
    assert numbers(again) == [3]
    assert streams.ended == {}


def test_a_gap_is_told_once() -> None:
    stream = begun(high=2)
    assert numbers(stream) == []
    stream.begin(5)
    assert stream.gap()
    assert not stream.gap()


def test_what_waits_here_is_no_gap_though_the_source_no_longer_keeps_it() -> None:
    stream = Stream("s", 1)
    for number in (1, 2, 3):
        stream.add(parcel("s", number))
    assert (stream.complete, stream.arrived) == (0, 3)
    stream.begin(4)
    assert [each.stamp.sequence for each in stream.ready()] == [1, 2, 3]
    assert not stream.gap()
    stream.begin(6)
    assert stream.gap()


def test_of_a_source_that_lives_anew_a_gap_is_told_only_if_something_follows_it() -> None:
    streams = Streams()
    key = ("s", 1)
    stream = streams.begin(key, "s", 1)
    stream.add(parcel("s", 1))
    assert numbers(stream) == [1]
    stream.begin(5)
    stream.dead = True
    assert not stream.gap()
    streams.forget(key)
    again = streams.begin(key, "s", 0)
    again.add(parcel("s", 5))
    assert again.gap()
    assert not again.gap()


def test_of_the_oldest_not_even_a_number_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.templates.reliable.windows.MAX_ENDED", 2)
    streams = Streams()
    for name in "abc":
        streams.begin((name, 1), name, 1)
        streams.forget((name, 1))
    assert streams.ended.keys() == {("b", 1), ("c", 1)}
    assert streams.upto(("a", 1)) == 0


def test_another_life_of_a_source_is_another_stream() -> None:
    streams = Streams()
    streams.begin(("s", 1), "s", 7)
    streams.forget(("s", 1))
    assert streams.begin(("s", 2), "s", 0).next == 0
    assert streams.upto(("s", 1)) == 7


def test_a_stream_that_stops_ends_where_it_is_complete() -> None:
    stream = begun(high=2)
    for number in (4, 5):
        stream.add(parcel("s", number))
    assert [each.stamp.sequence for each in stream.stop()] == [4, 5]
    assert stream.high == 2
    assert stream.missing(0, PATIENCE, 10) == []


def test_a_tail_that_ends_before_a_gap_is_offered_to_nobody() -> None:
    """A member was told for ever that it can get what had long been forgotten.

    Replay: python benchmarks/proof.py plain/total-order --first 7 --seeds 7
    """
    stream = begun(high=5)
    stream.release()
    assert stream.oldest == 1
    stream.begin(20)
    assert stream.low == 20
    assert stream.oldest == 20


def test_what_came_just_before_the_beginning_is_not_thrown_away() -> None:
    stream = Stream("s")
    for number in (2, 4, 5):
        stream.add(parcel("s", number))
    stream.begin(6)
    assert [each.stamp.sequence for each in stream.ready()] == [4, 5]
