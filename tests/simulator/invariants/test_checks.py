"""The ledger: counts, and what it calls a violation."""

from __future__ import annotations

import msgspec
import pytest

from gossamer.core.event import Criteria, Envelope
from gossamer.core.parcel import Header, Parcel, make_body
from gossamer.core.template import AT_MOST_ONCE, GAP_FREE
from gossamer.simulator.invariants.checks import INTEGRITY, MAX_EXAMPLES, AtMostOnce, Check, Counts, Ledger
from gossamer.simulator.invariants.ledger import Peers, Seat, Stayed
from gossamer.simulator.invariants.promises import Causal
from gossamer.simulator.network.rules import Crash, Echo, Loss, Partition
from gossamer.simulator.workload.observers import Witness


@pytest.fixture
def watched(bench):
    """A world of two nodes whose template promises at most once (and does nothing for it), and its ledger."""

    def make(promises=(AT_MOST_ONCE,), **options):
        it = bench()
        it.probe.promises = frozenset(promises)
        ledger = Ledger(**options)
        it.world.add_witness(ledger)
        return it, ledger

    return make


def forged(parcel: Parcel, payload: bytes | None = None, **stamp: object) -> Parcel:
    """A parcel like another, but with another payload or stamp."""
    header = parcel.header
    body, split = make_body([payload], []) if payload is not None else (parcel.body, header.split)
    changed = msgspec.structs.replace(header.stamp, **stamp)
    return Parcel(Header(header.channel, changed, header.sent, split, header.qos, header.answers), body)


def forging(it, **changes):
    """Let the probe forge what it passes on."""
    it.probe.on_parcel = lambda self, ctx, parcel, sender: ctx.deliver(forged(parcel, **changes), sender)


# counting


def test_what_was_published_for_whom_and_what_came_is_counted(watched):
    it, ledger = watched()
    it.world.subscribe("a", "c")
    it.world.subscribe("b", "c")
    it.world.subscribe("b", "c", Criteria(x=1))
    it.world.publish("a", "c", b"1")
    it.world.publish("a", "c", b"2", Envelope({"x": 1}))
    it.world.publish("a", "c", b"3", Envelope({"x": 2}))
    it.world.run(1)
    assert ledger.counts == Counts(published=3, expected=7, delivered=7)


def test_what_is_lost_stays_expected(watched):
    it, ledger = watched()
    it.world.add_rule(Loss())
    it.world.subscribe("b", "c")
    it.world.publish("a", "c")
    it.world.run(1)
    assert ledger.counts == Counts(published=1, expected=1)


def test_nothing_is_expected_before_a_subscription_begins(watched):
    it, ledger = watched()
    it.world.publish("a", "c")
    it.world.run(1)
    it.world.subscribe("b", "c")
    assert ledger.counts.expected == 0


def test_what_was_on_its_way_when_a_subscription_began_is_delivered_but_was_not_expected(watched):
    it, ledger = watched()
    it.world.publish("a", "c")
    it.world.subscribe("b", "c")
    it.world.run(1)
    assert (ledger.counts.expected, ledger.counts.delivered) == (0, 1)


def test_what_a_subscription_has_not_got_when_it_ends_is_no_longer_expected(watched):
    it, ledger = watched()
    number = it.world.subscribe("b", "c")
    it.world.publish("a", "c")
    it.world.run(1)
    it.world.publish("a", "c")
    it.world.unsubscribe("b", "c", number)
    it.world.run(2)
    assert (ledger.counts.expected, ledger.counts.delivered, ledger.counts.violations) == (1, 1, 0)


def test_an_event_that_was_not_expected_does_not_stand_in_for_one_that_was(watched):
    it, ledger = watched()
    it.world.publish("a", "c")
    number = it.world.subscribe("b", "c")
    it.world.run(1)
    it.world.add_rule(Loss(start=1))
    it.world.publish("a", "c")
    it.world.unsubscribe("b", "c", number)
    assert (ledger.counts.delivered, ledger.counts.expected) == (1, 0)


def test_a_crash_ends_the_subscriptions_of_its_node(watched):
    it, ledger = watched()
    it.world.subscribe("b", "c")
    it.world.publish("a", "c")
    it.world.add_rule(Crash(node="b", at=0.005))
    it.world.at(0.5, lambda: it.world.publish("a", "c"))
    it.world.run(1)
    assert ledger.counts == Counts(published=2)


def test_a_later_life_may_get_an_event_that_an_earlier_one_got(watched):
    class Reborn(Witness):
        """Begins a new life after the first delivery."""

        def delivered(self, world, node, life, *rest):
            if life == 1:
                world.crash(node)
                world.restart(node)
                world.subscribe(node, "c")

    it, ledger = watched()
    it.world.add_witness(Reborn(), "b")
    it.world.add_rule(Echo())
    it.world.subscribe("b", "c")
    it.world.publish("a", "c")
    it.world.run(1)
    assert (ledger.counts.delivered, ledger.counts.violations) == (2, 0)


def test_criteria_that_are_equal_but_not_alike_are_counted_apart(watched):
    it, ledger = watched()
    it.world.subscribe("b", "c", Criteria(x=1))
    it.world.subscribe("b", "c", Criteria(x=True))
    it.world.publish("a", "c", b"", Envelope({"x": True}))
    it.world.run(1)
    assert (ledger.counts.expected, ledger.counts.delivered, ledger.counts.violations) == (1, 1, 0)


def test_latency_is_measured_from_publication_to_delivery(watched):
    it, ledger = watched()
    it.world.subscribe("b", "c")
    it.world.publish("a", "c")
    it.world.run(1)
    assert ledger.latency.seconds(0.99) == pytest.approx(0.01, rel=1 / 128)


# violations


def test_a_second_delivery_breaks_at_most_once_and_is_described(watched):
    it, ledger = watched()
    it.world.add_rule(Echo())
    number = it.world.subscribe("b", "c")
    it.world.publish("a", "c")
    it.world.run(1)
    assert (ledger.counts.delivered, ledger.counts.duplicates, ledger.counts.violations) == (1, 1, 1)
    (found,) = ledger.examples
    assert (found.promise, found.channel, found.node, found.subscription) == (AT_MOST_ONCE, "c", "b", number)
    assert (found.source, found.source_incarnation, found.number, found.at) == ("a", 1, 1, 10_000_000)
    assert "once" in found.expected


def test_without_the_promise_a_second_delivery_is_counted_and_no_violation(watched):
    it, ledger = watched(promises=())
    it.world.add_rule(Echo())
    it.world.subscribe("b", "c")
    it.world.publish("a", "c")
    it.world.run(1)
    assert (ledger.counts.duplicates, ledger.counts.violations) == (1, 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"payload": b"falsified"}, "the payload of 8 bytes"),
        ({"first": 7}, "an event that was published"),
        ({"incarnation": 2}, "an event that was published"),
        ({"source": "b"}, "an event that was published"),
    ],
)
def test_what_was_not_published_just_so_breaks_integrity_whatever_is_promised(watched, changes, expected):
    it, ledger = watched(promises=())
    forging(it, **changes)
    it.world.subscribe("b", "c")
    it.world.publish("a", "c", b"original")
    it.world.run(1)
    (found,) = ledger.examples
    assert found.promise == INTEGRITY
    assert expected in found.expected


def test_lost_attributes_break_integrity(watched):
    it, ledger = watched()
    forging(it, payload=b"original")
    it.world.subscribe("b", "c")
    it.world.publish("a", "c", b"original", Envelope({"x": 1}))
    it.world.run(1)
    assert "the attributes that were published" in ledger.examples[0].expected


def test_an_event_that_does_not_meet_the_criteria_breaks_integrity(watched):
    it, ledger = watched()
    number = it.world.subscribe("b", "c", Criteria(x=1))
    it.probe.on_parcel = lambda self, ctx, parcel, sender: (
        ctx.subscribers.update({number: Criteria()}),
        ctx.deliver(parcel, sender),
    )
    it.world.publish("a", "c", b"", Envelope({"x": 2}))
    it.world.run(1)
    assert "meets" in ledger.examples[0].expected


def test_a_delivery_to_nobody_breaks_integrity(watched):
    it, ledger = watched()
    it.probe.on_parcel = lambda self, ctx, parcel, sender: (
        ctx.subscribers.update({9: Criteria()}),
        ctx.deliver(parcel, sender),
    )
    it.world.publish("a", "c")
    it.world.run(1)
    assert ledger.examples[0].expected == "no subscription there"


def test_feedback_is_counted_and_its_repetition_found(watched):
    it, ledger = watched()
    parcels = []
    it.probe.on_parcel = lambda self, ctx, parcel, sender: parcels.append(parcel)
    it.world.publish("a", "c")
    it.world.run(1)
    it.world.feedback("b", "c", it.world.receipt("b", "c", parcels[0], 1), b"yes")
    it.world.run(2)
    assert (ledger.counts.answered, ledger.counts.feedback, ledger.counts.violations) == (1, 1, 0)
    (delivered,) = (row for row in it.traced("delivered", kind="feedback"))
    assert delivered["node"] == "a"


@pytest.mark.parametrize(
    ("node", "life", "times", "promise", "expected"),
    [
        ("a", 1, 2, AT_MOST_ONCE, "once"),
        ("b", 1, 1, INTEGRITY, "event 1 of a, life 1"),
        ("a", 2, 1, INTEGRITY, "event 1 of a, life 1"),
    ],
)
def test_feedback_twice_or_at_the_wrong_place_is_a_violation(watched, node, life, times, promise, expected):
    """The engine refuses to hand over such feedback, so the ledger is told directly."""
    it, ledger = watched()
    parcels, answers = [], []
    it.probe.on_parcel = lambda self, ctx, parcel, sender: parcels.append(parcel)
    it.probe.on_feedback = lambda self, ctx, parcel, sender: answers.append(parcel)
    it.world.publish("a", "c")
    it.world.run(1)
    it.world.feedback("b", "c", it.world.receipt("b", "c", parcels[0], 1))
    for _ in range(times):
        ledger.feedback(it.world, node, life, "c", answers[0])
    (found,) = ledger.examples
    assert found.promise == promise
    assert expected in found.expected


def test_feedback_that_nobody_gave_is_a_violation(watched):
    it, ledger = watched()
    parcels, answers = [], []
    it.probe.on_parcel = lambda self, ctx, parcel, sender: parcels.append(parcel)
    it.probe.on_feedback = lambda self, ctx, parcel, sender: answers.append(parcel)
    it.world.publish("a", "c")
    it.world.run(1)
    it.world.feedback("b", "c", it.world.receipt("b", "c", parcels[0], 1))
    ledger.feedback(it.world, "a", 1, "c", forged(answers[0], first=5))
    assert ledger.examples[0].expected == "an answer that was given"


# tails, and those that stayed


def late(it, number: int) -> None:
    """Let the probe lose events of a number and up."""
    it.probe.on_parcel = lambda self, ctx, parcel, sender: (
        ctx.deliver(parcel, sender) if parcel.stamp.first < number else None
    )


def three(it) -> None:
    for at in (1, 2, 3):
        it.world.at(at, lambda: it.world.publish("a", "c"))


def test_a_tail_that_has_not_come_long_after_all_is_calm_breaks_gap_free(watched):
    it, ledger = watched(promises=(GAP_FREE,))
    it.world.subscribe("b", "c")
    late(it, 2)
    three(it)
    it.world.run(30)
    ledger.finish(it.world, 10)
    (found,) = ledger.examples
    assert (found.promise, found.node, found.source, found.number) == (GAP_FREE, "b", "a", 2)
    assert found.expected == "number 2 to 3 before the end"


@pytest.mark.parametrize(
    "excuse",
    [
        "it was published a moment ago",
        "the subscription was told",
        "the subscription never got anything",
        "the source crashed",
        "the subscriber's node crashed",
        "a rule keeps them apart",
        "a rule kept them apart a moment ago",
        "a node between them is down",
    ],
)
def test_a_tail_may_be_missing_if_it_could_not_have_come(watched, excuse):
    it, ledger = watched(promises=(GAP_FREE,))
    it.world.subscribe("b", "c")
    late(it, 1 if "never" in excuse else 4 if "published" in excuse else 2)
    three(it)
    it.world.run(5)
    if "published" in excuse:
        it.world.at(25, lambda: it.world.publish("a", "c"))
    elif "told" in excuse:
        ledger.missed(it.world, "b", 1, "c", "a")
    elif "crashed" in excuse:
        node = "a" if "source" in excuse else "b"
        it.world.crash(node)
        it.world.restart(node)
    elif "rule" in excuse:
        it.world.add_rule(Partition(parts=(("a",),), end=None if "keeps" in excuse else 25))
    elif "between" in excuse:
        it.world.add_node("m")
        it.world.crash("m")
    it.world.run(30)
    ledger.finish(it.world, 10)
    assert [found for found in ledger.examples if "before the end" in found.expected] == []


@pytest.mark.parametrize(("came", "broken"), [(5, 1), (25, 0)])
def test_who_came_a_moment_ago_may_still_wait_for_what_is_old(watched, came, broken):
    it, ledger = watched(promises=(GAP_FREE,))
    parcels = []
    it.probe.on_parcel = lambda self, ctx, parcel, sender: parcels.append(parcel)
    three(it)
    it.world.at(came, lambda: it.world.subscribe("b", "c"))
    it.world.run(came + 1)
    ledger.delivered(it.world, "b", 1, "c", 1, parcels[0], (0,))
    it.world.run(30)
    ledger.finish(it.world, 10)
    assert ledger.counts.violations == broken


def test_a_loss_that_lets_something_through_is_no_excuse(watched):
    it, ledger = watched(promises=(GAP_FREE,))
    it.world.subscribe("b", "c")
    late(it, 2)
    three(it)
    it.world.add_rule(Loss(probability=0.01))
    it.world.run(30)
    ledger.finish(it.world, 10)
    assert ledger.counts.violations == 1


def test_those_who_stayed_are_counted_with_all_that_they_should_have_and_have(watched):
    it, ledger = watched()
    it.world.subscribe("b", "c")
    it.world.subscribe("b", "c", Criteria(x=1))
    gone = it.world.subscribe("b", "c")
    late(it, 3)
    three(it)
    it.world.run(5)
    it.world.unsubscribe("b", "c", gone)
    it.world.subscribe("b", "c")
    it.world.run(6)
    assert ledger.channels["c"].stayed == Stayed(1, 3, 2)


def test_who_was_told_of_a_gap_has_not_stayed(watched):
    it, ledger = watched()
    it.world.subscribe("b", "c")
    three(it)
    it.world.run(5)
    ledger.missed(it.world, "b", 1, "c", "a")
    assert ledger.channels["c"].stayed == Stayed(0, 0, 0)


def test_what_a_source_took_with_it_is_not_expected_of_those_who_stayed(watched):
    it, ledger = watched()
    it.world.subscribe("b", "c")
    late(it, 3)
    three(it)
    it.world.run(5)
    it.world.crash("a")
    it.world.restart("a")
    it.world.publish("a", "c")
    it.world.run(6)
    assert ledger.channels["c"].stayed == Stayed(1, 3, 3), "two of the first life, one of the second"


# bounds and extension


def test_many_violations_are_counted_and_only_the_first_are_kept(watched):
    it, ledger = watched()
    it.world.add_rule(Echo())
    it.world.subscribe("b", "c")
    for _ in range(100):
        it.world.publish("a", "c")
    it.world.run(1)
    assert ledger.counts.violations == 100
    assert [found.number for found in ledger.examples] == list(range(1, MAX_EXAMPLES + 1))


def test_events_beyond_its_memory_are_still_checked_for_repetition(watched):
    it, ledger = watched(remembered=10)
    it.world.add_rule(Echo())
    it.world.subscribe("b", "c")
    for _ in range(50):
        it.world.publish("a", "c")
    it.world.run(1)
    assert (ledger.counts.delivered, ledger.counts.duplicates) == (50, 50)
    assert {found.promise for found in ledger.examples} == {AT_MOST_ONCE}


def test_a_promise_without_a_check_is_named(watched):
    _, ledger = watched(promises=(AT_MOST_ONCE, "eternal life"))
    assert ledger.unchecked == {"eternal life"}


def test_a_check_of_ones_own_is_asked_during_the_run_and_at_its_end(watched):
    class Everything(Check):
        """Whoever subscribes gets all."""

        promise = "everything"

        def ended(self, seats):
            for key, seat in seats.items():
                if seat.missing:
                    yield key, ("", 0), 0, f"{seat.missing} more events"

    it, ledger = watched(promises=("everything",), checks={"everything": Everything})
    it.world.subscribe("b", "c")
    it.world.publish("a", "c")
    it.world.run(1)
    it.world.add_rule(Loss(start=1))
    it.world.publish("a", "c")
    it.world.run(2)
    ledger.finish(it.world)
    (found,) = ledger.examples
    assert (found.promise, found.node, found.expected) == ("everything", "b", "1 more events")


def test_at_most_once_is_checked_out_of_the_box():
    assert AtMostOnce.promise == AT_MOST_ONCE
    assert not Ledger().unchecked


# causal order


def causally(steps, remembered=100):
    """Events are a letter (their source) and a number: "+a1" is published, "x:a1" delivered on node x; what
    the check says of the last step."""
    check, seats, said = Causal(remembered), {}, None
    for step in steps.split():
        where, event = ("", step[1:]) if step[0] == "+" else step.split(":")
        source, number = (event[0], 1), int(event[1:])
        if where:
            seat = seats.setdefault(where, Seat((where, 1, 1), Peers(Criteria()), 0, 0))
            said = check.delivered(seat, source, number, seat.mark(source, number))
        else:
            check.published(source, number)
    return said


@pytest.mark.parametrize(
    "steps",
    [
        "+a1 b:a1 +b1 x:b1 x:a1",
        "+a1 b:a1 +b1 c:a1 c:b1 +c1 x:b1 x:c1 x:a1",  # not the last that depends on it
        "+a1 +a2 b:a1 b:a2 +b1 x:b1 x:a1",  # an earlier one of the source
        "+a1 b:a1 +b1 +b2 x:b1 x:b2 x:a1",
        "+a1 b:a1 +b1 c:a1 c:b1 +c1 x:c1 x:b1",  # named by the last only
    ],
)
def test_an_event_after_one_that_depends_on_it_is_too_late(steps):
    assert causally(steps) == "before what depends on it"


@pytest.mark.parametrize(
    "steps",
    [
        "+a1 b:a1 +b1 x:a1 x:b1",
        "+a1 +b1 b:a1 x:b1 x:a1",  # it came there after the other was published
        "+a1 b:a1 +b1 x:b1",  # it never comes
        "+a1 b:a1 +b1 x:b1 y:a1 y:b1",  # elsewhere
        "+a1 b:a1 +b1 x:a1 x:b1 x:a1",  # twice is another promise
        "+a1 a:a1 +a2 x:a2 x:a1",  # the order of one source is, too
    ],
)
def test_an_event_that_nothing_here_depends_on_is_in_time(steps):
    assert causally(steps) is None


def test_dependencies_of_old_events_are_forgotten():
    late = "+a1 b:a1 +b1 +c1 b:c1 +b2 x:b1 x:a1"
    assert causally(late)
    assert causally(late, remembered=1) is None
