"""What a client that only publishes hears of parcels that the order has passed over."""

from __future__ import annotations

import pytest

from gossamer.consensus.messages import Entry
from gossamer.core.context import BELOW
from gossamer.core.effect import Acknowledged, Lost
from gossamer.core.names import Role
from gossamer.overlay.groups.interest import Interest
from gossamer.templates.reliable.messages import MAX_SKIPPED, Acks, Have
from gossamer.templates.total_order.skipped import MAX_RANGES, MAX_SILENT, AllSkips
from gossamer.templates.total_order.template import TotalOrder, TotalOrderSettings
from gossamer.testing.fake import FakeContext, parcel
from tests.templates.total_order.test_template import Member


class Server(Member):
    """The same node, below which a source hangs that hears no order."""

    def __init__(self, high: int = 0) -> None:
        super().__init__()
        self.ctx.containers[BELOW] = ("source",)
        self.template.hear(self.ctx, Interest(1, False, True), "source")
        self.parcel("x", 1)
        self.place(("x", 1), first=10)
        self.have(high)

    def have(self, high: int, base: int = 1) -> list[Acks]:
        """What the source hears after it has said what it has."""
        self.ctx.clear()
        self.template.have(self.ctx, Have("m/source", 1, base, high), "source")
        return self.said()

    def publish(self, *numbers: int) -> None:
        for number in numbers:
            self.template.on_parcel(self.ctx, parcel("m/source", number, number), "source")

    def said(self) -> list[Acks]:
        return [each for to, each in self.ctx.sent() if to == "source" and isinstance(each, Acks)]


class Producer:
    """A client that only publishes."""

    def __init__(self, numbers: int) -> None:
        self.ctx = FakeContext("source", server="m", role=Role.CLIENT)
        self.template = TotalOrder(TotalOrderSettings())
        self.template.on_open(self.ctx)
        self.template.hear(self.ctx, Interest(1, True, False), "m")
        for number in range(1, numbers + 1):
            self.template.on_publish(self.ctx, parcel("m/source", number, number))

    def hear(self, *acks: Acks) -> list[object]:
        """What the publishers there are told then."""
        self.ctx.clear()
        for each in acks:
            self.template.acks(self.ctx, each, "m")
        return [each for each in self.ctx.effects if isinstance(each, Lost | Acknowledged)]


def spoken(confirmed: int, *skipped: tuple[int, int]) -> Acks:
    return Acks(0, 0, (("source", 1, 0, confirmed, confirmed),), skipped)


def test_a_client_that_only_publishes_hears_from_its_server_what_a_later_parcel_overtook() -> None:
    server, producer = Server(), Producer(4)
    server.publish(1, 2, 3, 4)
    server.place(("source", 1), first=11)
    assert producer.hear(*server.said()) == [Acknowledged(producer.ctx.id, 1)]
    server.place(("x", 2), ("source", 4), first=12)
    assert [each.skipped for each in server.said()] == [((2, 2),)]
    assert producer.hear(*server.said()) == [
        Lost(producer.ctx.id, 2, 2),
        Lost(producer.ctx.id, 3, 3),
        Acknowledged(producer.ctx.id, 4),
    ]
    assert producer.template.given_up == set()


def test_a_client_that_only_publishes_hears_of_the_first_parcel_of_its_life_that_it_is_lost() -> None:
    server, producer = Server(), Producer(2)
    server.publish(1, 2)
    server.told += 1
    server._take(server.order((1, "a"), 1, 11, (Entry(1), Entry(1, "m/source", 1, 2))))
    assert producer.hear(*server.said()) == [Lost(producer.ctx.id, 1, 1), Acknowledged(producer.ctx.id, 2)]


def test_a_server_says_again_what_is_lost_until_the_source_has_forgotten_it() -> None:
    """What it said first may have been lost on its way; what a source hears twice it is told once."""
    server, producer = Server(), Producer(4)
    server.publish(1, 2, 3, 4)
    server.place(("source", 1), ("source", 4), first=11)
    again = server.have(4)
    assert [each.skipped for each in again] == [((2, 2),)]
    assert len(producer.hear(*again)) == 3
    assert producer.hear(*again) == []
    assert [each.skipped for each in server.have(4, base=5)] == [()]


def test_what_was_published_before_a_source_came_to_a_server_is_not_called_lost_there() -> None:
    """It may have had its place in the part of the order that this server did not hear."""
    server, producer = Server(high=3), Producer(5)
    server.publish(1, 2, 3, 4, 5)
    server.place(("source", 3), ("source", 5), first=11)
    assert [each.skipped for each in server.said()] == [((4, 1),)]
    told = producer.hear(*server.said())
    assert [each for each in told if isinstance(each, Lost)] == [Lost(producer.ctx.id, 4, 4)]


def test_where_a_part_of_the_order_is_missing_a_server_calls_nothing_lost() -> None:
    server, producer = Server(), Producer(4)
    server.publish(1, 2, 3, 4)
    server.place(("source", 1), first=11)
    producer.hear(*server.said())
    server.place(("source", 3), first=13)
    assert all(each.skipped == () for each in server.said())


def test_a_source_hears_of_so_much_at_a_time_that_nothing_lost_is_forgotten() -> None:
    server, producer = Server(), Producer(200)
    server.publish(*range(1, 201))
    server.place(*(("source", number) for number in range(2, 201, 2)), first=11)
    told = producer.hear(*server.said())
    assert len([each for each in told if isinstance(each, Lost)]) == MAX_SKIPPED
    told += producer.hear(*server.have(200, base=2 * MAX_SKIPPED + 1))
    lost = [number for each in told if isinstance(each, Lost) for number in range(each.first, each.last + 1)]
    assert lost == list(range(1, 200, 2))
    assert told[-1] == Acknowledged(producer.ctx.id, 200)


def test_a_source_that_hung_elsewhere_when_its_parcel_was_passed_over_is_told_by_its_next_server() -> None:
    server, producer = Member(), Producer(3)
    for number in (1, 2, 3):
        server.parcel("b/source", number)
    server.place(("source", 1), first=10)
    server.place(("source", 3), first=11)
    server.ctx.containers[BELOW] = ("source",)
    server.template.hear(server.ctx, Interest(1, False, True), "source")
    server.ctx.clear()
    server.template.have(server.ctx, Have("m/source", 1, 1, 3, moves=1), "source")
    said = [each for to, each in server.ctx.sent() if to == "source" and isinstance(each, Acks)]
    assert Lost(producer.ctx.id, 2, 2) in producer.hear(*said)


@pytest.mark.parametrize(
    "skipped",
    [
        ((5, 2**62),),
        ((1, 2**63 - 1),),
        ((4, 1), (2**63 - 1, 2**63 - 1)),
        ((2, 0),),
        tuple((2**40 + each, 1) for each in range(MAX_SKIPPED)),
    ],
)
def test_numbers_that_are_not_sent_or_not_decided_are_not_called_lost(
    skipped: tuple[tuple[int, int], ...],
) -> None:
    producer = Producer(4)
    assert producer.hear(spoken(3, *skipped)) == [Acknowledged(producer.ctx.id, 3)]
    assert producer.template.given_up == set()


def test_ranges_that_overlap_are_told_once_each_number() -> None:
    producer = Producer(4)
    told = producer.hear(spoken(4, (1, 3), (2, 1), (1, 1), (3, 1)))
    lost = [Lost(producer.ctx.id, each, each) for each in (1, 2, 3)]
    assert told == [*lost, Acknowledged(producer.ctx.id, 4)]


def test_only_its_server_tells_a_source_what_is_lost() -> None:
    producer = Producer(4)
    producer.template.acks(producer.ctx, spoken(4, (2, 1)), "x")
    another = Acks(0, 0, (("other", 1, 0, 4, 4), ("source", 1, 0, 4, 4)), ((2, 1),))
    assert producer.hear(another) == [Acknowledged(producer.ctx.id, 4)]


def test_a_place_that_comes_before_its_parcel_counts_too() -> None:
    server, producer = Server(), Producer(3)
    server.place(("source", 1), ("source", 3), first=11)
    server.publish(1, 2, 3)
    server.ctx.clear()
    server.template.on_timer(server.ctx, "beat")
    assert producer.hear(*server.said()) == [
        Lost(producer.ctx.id, 2, 2),
        Acknowledged(producer.ctx.id, 3),
    ]


def test_a_place_far_ahead_of_its_source_makes_no_other_parcel_a_lost_one() -> None:
    server, producer = Server(), Producer(4)
    server.publish(1, 2, 3, 4)
    server.place(("source", 1), ("source", 10_000), ("source", 2), ("source", 4), first=11)
    said = [*server.said(), *server.have(4)]
    assert {each.skipped for each in said} == {((3, 1),)}
    assert Lost(producer.ctx.id, 3, 3) in producer.hear(*said)


def test_what_a_server_remembers_of_sources_is_bounded() -> None:
    every = AllSkips()
    for number in range(MAX_SILENT + 5):
        every.of((f"s{number}", 1)).add(1, 1)
    every.of(("nothing", 1))
    every.tidy([])
    assert len(every) == MAX_SILENT
    assert ("s4", 1) not in every
    one = every.of(("s9", 1))
    for number in range(1, 2 * MAX_RANGES, 2):
        one.add(number, 1)
    one.add(2**40, 1)
    assert len(one.ranges) == MAX_RANGES
