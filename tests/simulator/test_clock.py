"""Virtual time: order, cancelling, and where the clock stands."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gossamer.simulator.clock import APPLICATION, FAULT, NETWORK, TIMER, Clock


class Diary:
    def __init__(self) -> None:
        self.clock = Clock()
        self.notes: list[tuple[int, Any]] = []

    def note(self, what: Any, _: object) -> None:
        self.notes.append((self.clock.now, what))


def test_things_happen_in_order_of_time_then_priority_then_booking() -> None:
    diary = Diary()
    diary.clock.schedule(5, APPLICATION, diary.note, "application")
    diary.clock.schedule(5, TIMER, diary.note, "timer")
    diary.clock.schedule(5, NETWORK, diary.note, "first")
    diary.clock.schedule(5, NETWORK, diary.note, "second")
    diary.clock.schedule(5, FAULT, diary.note, "fault")
    diary.clock.schedule(4, APPLICATION, diary.note, "earlier")
    diary.clock.run(10)
    assert [what for _, what in diary.notes] == [
        "earlier",
        "fault",
        "first",
        "second",
        "timer",
        "application",
    ]


def test_a_run_carries_out_what_is_due_and_leaves_the_clock_at_its_end() -> None:
    diary = Diary()
    diary.clock.schedule(10, NETWORK, diary.note, "at the end")
    diary.clock.schedule(11, NETWORK, diary.note, "too late")
    diary.clock.run(10)
    assert diary.notes == [(10, "at the end")]
    assert (diary.clock.now, len(diary.clock), diary.clock.happened) == (10, 1, 1)


def test_an_instant_that_has_passed_means_now() -> None:
    diary = Diary()
    diary.clock.run(10)
    diary.clock.schedule(3, NETWORK, diary.note, "late")
    diary.clock.run(10)
    assert diary.notes == [(10, "late")]


def test_what_happens_may_book_more_at_the_same_instant() -> None:
    diary = Diary()
    diary.clock.schedule(1, NETWORK, lambda a, b: diary.clock.schedule(1, FAULT, diary.note, "more") and None)
    diary.clock.run(1)
    assert diary.notes == [(1, "more")]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3), st.booleans()), max_size=200))
def test_exactly_what_was_not_cancelled_happens_in_order(bookings: list[tuple[int, int, bool]]) -> None:
    diary = Diary()
    handles = [
        diary.clock.schedule(at, priority, diary.note, (at, priority, number))
        for number, (at, priority, _) in enumerate(bookings)
    ]
    for handle, (_, _, cancelled) in zip(handles, bookings, strict=True):
        if cancelled:
            diary.clock.cancel(handle)
    diary.clock.run(50)
    kept = [(at, priority, n) for n, (at, priority, cancelled) in enumerate(bookings) if not cancelled]
    assert [what for _, what in diary.notes] == sorted(kept)
    assert len(diary.clock) == 0


def test_many_cancelled_entries_do_not_stay_in_memory() -> None:
    clock = Clock()
    for _ in range(10_000):
        clock.cancel(clock.schedule(1_000_000, TIMER, Diary().note))
    assert len(clock) == 0
    assert len(clock._heap) < 3000
