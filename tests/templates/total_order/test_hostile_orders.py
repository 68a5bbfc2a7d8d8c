"""Orders and letters with numbers that cannot be true: they stop no node and confirm nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.consensus.messages import Entry, FetchedParcel, FetchParcels, History, RequestVote
from gossamer.consensus.node import APART
from gossamer.core.control import AHEAD, Control
from gossamer.core.effect import Acknowledged, Effect, Lost
from gossamer.core.errors import ProtocolError
from gossamer.core.names import VIRTUAL, channel_id
from gossamer.core.parcel import Parcel
from gossamer.overlay.groups.messages import TreeUpdate
from gossamer.templates.reliable.messages import Have
from gossamer.templates.reliable.window import Stream
from gossamer.templates.total_order.order_stream import MAX_PLACES, Order, check_order, order_parcel
from gossamer.templates.total_order.template import TotalOrder, TotalOrderSettings
from gossamer.testing.fake import FakeContext, parcel
from gossamer.testing.hostile import Stranger
from tests.core.neighbours import BACKBONE, NAMES, Neighbours

FAR = 2**40
HOUR = 3600 * 10**9
ORDERED = ["persistent", "total-order"]


class Calm(Neighbours):
    """The four honest nodes, with a leader and some events; what was acknowledged and dropped, by node."""

    def __init__(self, template: str) -> None:
        self.acknowledged: dict[str, int] = {}
        super().__init__(template, Stranger("calm", ("m", "a", "client", "m/client", "news")))
        for _ in range(3):
            self.round()
        self.wait(5)

    def do(self, name: str, effects: list[Effect]) -> None:
        for each in effects:
            if isinstance(each, Acknowledged):
                self.acknowledged[name] = each.number
        super().do(name, effects)

    def at(self, name: str) -> Any:
        return self.engines[name].instance("news").template

    def leaders(self) -> list[str]:
        return [name for name in BACKBONE if self.at(name).raft.leads]

    def dropped(self, name: str, reason: str) -> int:
        return self.engines[name].drops[reason]

    def round(self) -> None:
        for name in ("a", "m", "client"):
            self.publish(name)
        self.wait(1)

    def say(self, sender: str, item: Control | Parcel) -> None:
        self.hear("m", sender, "news", item)
        self.settle()

    def order(self, source: str, **more: Any) -> Parcel:
        """A part of the order just as m expects it next, but for what is said otherwise."""
        m = self.at("m")
        said = {"history": m.history, "term": 1, "first": m.next, "number": 9, "entries": (Entry(1),), **more}
        ctx = FakeContext(source.partition("/")[0], incarnation=self.engines["m"].incarnation, now=self.now)
        return order_parcel(ctx, source, 1, Order(**said))

    def goes_on(self) -> None:
        """Twenty events of each of three nodes come everywhere, and are acknowledged."""
        before = {name: self.delivered[name] for name in NAMES}
        for _ in range(20):
            self.round()
        self.wait(20, 2000)
        assert {name: self.delivered[name] - before[name] for name in NAMES} == dict.fromkeys(NAMES, 60)
        assert self.acknowledged == dict.fromkeys(("a", "m", "client"), 23)


@pytest.mark.parametrize("template", ORDERED)
@pytest.mark.parametrize("source", [f"m/client/{VIRTUAL}client", f"a/{VIRTUAL}a", f"m/{VIRTUAL}m"])
def test_a_client_tells_no_order(template: str, source: str) -> None:
    calm = Calm(template)
    life = calm.engines["m"].incarnation
    calm.say("client", Control(channel_id("news"), Have(source, life + 1, 1, 1)))
    calm.say("client", calm.order(source, entries=(Entry(1, "m", life, FAR),)))
    assert calm.dropped("m", "an order of no voter") == 1
    calm.goes_on()


@pytest.mark.parametrize("template", ORDERED)
@pytest.mark.parametrize("source", [f"a/stranger/{VIRTUAL}stranger", f"z/{VIRTUAL}z", f"a/{VIRTUAL}m"])
def test_an_order_comes_right_from_a_backbone_node_that_lives(template: str, source: str) -> None:
    calm = Calm(template)
    calm.say("a", calm.order(source, entries=(Entry(1, "m", calm.engines["m"].incarnation, FAR),)))
    assert calm.dropped("m", "an order of no voter") == 1
    calm.goes_on()


@pytest.mark.parametrize("template", ORDERED)
def test_a_term_that_is_pushed_up_unites_the_voters_again_and_nothing_is_refused(template: str) -> None:
    calm = Calm(template)
    m = calm.at("m").raft
    for term in (2**21, calm.now // 10**6):
        life = calm.engines["stranger"].incarnation
        ask = RequestVote("m", "stranger", life, m.history, term, m.record.last + 5, term, True)
        calm.say("stranger", Control(channel_id("news"), ask))
        assert m.term >= term
        calm.wait(20, 2000)
        assert len({calm.at(name).raft.term for name in BACKBONE}) == 1
        assert len(calm.leaders()) == 1
    assert not [reason for each in calm.engines.values() for reason in each.drops if "no sense" in reason]
    calm.goes_on()


@pytest.mark.parametrize("template", ORDERED)
def test_a_term_that_the_order_tells_is_soon_surpassed_by_the_voters(template: str) -> None:
    calm = Calm(template)
    (leader,) = calm.leaders()
    teller = next(name for name in ("a", "stranger") if name != leader)
    term = 2**30
    source = f"{teller}/{VIRTUAL}{teller}"
    calm.say(teller, Control(channel_id("news"), Have(source, calm.engines["m"].incarnation, 1, 0)))
    calm.say(teller, calm.order(source, term=term, first=calm.at("m").next - 1))
    assert calm.at("m").sequencer == (term, teller)
    calm.wait(30, 3000)
    calm.goes_on()
    assert calm.at("m").sequencer[0] > term
    assert [calm.at("m").sequencer[1]] == calm.leaders()


@pytest.mark.parametrize("template", ORDERED)
def test_a_term_that_no_clock_allows_is_dropped(template: str) -> None:
    calm = Calm(template)
    life = calm.engines["stranger"].incarnation
    ask = RequestVote("m", "stranger", life, calm.at("m").history, 2**62, 1, 1, True)
    calm.say("stranger", Control(channel_id("news"), ask))
    assert calm.dropped("m", "message.term makes no sense") == 1
    calm.goes_on()


# what a voter would have to say


class Hearer:
    """The node m below its root a, which tells the order."""

    def __init__(self, send_window: int = 256) -> None:
        self.ctx = FakeContext("m", neighbours="a")
        self.template = TotalOrder(TotalOrderSettings(send_window=send_window))
        self.template.on_open(self.ctx)
        self.template.group.update(self.ctx, TreeUpdate(1, 1, ("a", "m"), (0, 0), (3, 1)), "a")
        for source in ("x", f"a/{VIRTUAL}a"):
            self.template.have(self.ctx, Have(source, 1, 1, 0), "a")
        self.told = 0

    def tell(self, *entries: Entry, first: int, history: History = (1, "a")) -> None:
        self.told += 1
        order = Order(history, 1, first, 0, entries)
        came = order_parcel(FakeContext("a"), f"a/{VIRTUAL}a", self.told, order)
        self.template.on_parcel(self.ctx, came, "a")

    def publish(self, *numbers: int) -> None:
        for number in numbers:
            self.template.on_publish(self.ctx, parcel("m", number, number))

    def delivered(self) -> list[tuple[str, int]]:
        return [(each.stamp.node, each.stamp.sequence) for each in self.ctx.delivered()]

    def told_of(self) -> list[object]:
        return [each for each in self.ctx.effects if isinstance(each, Lost | Acknowledged)]


@pytest.mark.parametrize("place", [("x", 1), ("m", 1), ("new", 1), (f"a/{VIRTUAL}a", 1)])
def test_a_place_that_no_source_can_fill_moves_no_stream(place: tuple[str, int]) -> None:
    hearer = Hearer()
    hearer.publish(1)
    hearer.tell(Entry(1, *place, FAR), first=10)
    hearer.template.on_parcel(hearer.ctx, parcel("x"), "a")
    assert all(max(each.next, each.high, each.confirmed) < 100 for each in hearer.template.streams.values())
    assert hearer.told_of() == []


@pytest.mark.parametrize("source", ["x", "m"])
def test_after_a_place_that_no_source_can_fill_the_order_goes_on(source: str) -> None:
    hearer = Hearer()
    hearer.publish(1)
    hearer.template.on_parcel(hearer.ctx, parcel("x"), "a")
    hearer.tell(Entry(1, source, 1, FAR), Entry(1, "x", 1, 1), Entry(1, "m", 1, 1), first=10)
    assert hearer.delivered() == [("x", 1), ("m", 1)]
    assert hearer.told_of() == [Acknowledged(hearer.ctx.id, 1)]
    hearer.publish(2)
    assert hearer.told_of() == [Acknowledged(hearer.ctx.id, 1)], "it has no place yet"
    hearer.tell(Entry(1, "m", 1, 2), first=13)
    assert hearer.delivered() == [("x", 1), ("m", 1), ("m", 2)]
    assert hearer.told_of()[1:] == [Acknowledged(hearer.ctx.id, 2)]


def test_only_so_many_places_wait() -> None:
    hearer = Hearer(send_window=2)
    for number in range(64):
        hearer.tell(*[Entry(1, "x", 1, 1)] * MAX_PLACES, first=10 + number * MAX_PLACES)
    assert len(hearer.template.places) <= 4 * MAX_PLACES
    assert {reason for _, reason in hearer.ctx.dropped()} >= {"too many places wait"}


@pytest.mark.parametrize(
    "order",
    [
        Order((10 * AHEAD, "z"), 1, 1, 0, (Entry(1),)),
        Order((1, "a"), 2**63 - 1, 1, 0, (Entry(1),)),
        Order((1, "a"), 1, APART + 9, 0, (Entry(1),)),
        Order((1, "a"), 1, 1, APART + 1, (Entry(1),)),
        Order((1, "a"), 1, 1, 0, (Entry(1, "x", 2**62, 1),)),
        Order((1, "a"), 1, 1, 0, (Entry(1, "x", 1, 2**62),)),
        Order((1, "a"), 1, 1, 0, (Entry(1, f"a/{VIRTUAL}a", 1, 1),)),
        Order((1, "a"), 1, 1, 0, (Entry(1, seats=(("a", 2**62),)),)),
        Order((1, "a"), 1, 1, 0, ()),
    ],
)
def test_an_order_with_numbers_that_cannot_be_true_is_refused(order: Order) -> None:
    with pytest.raises(ProtocolError):
        check_order(order, HOUR, 0)
    check_order(Order((1, "a"), 1, 1, 0, (Entry(1, "x", 1, 1),)), HOUR, 0)


def test_what_all_have_is_released_in_the_time_that_it_takes_to_hold_it() -> None:
    stream = Stream("x", 1)
    for number in (1, 2, 3):
        stream.add(parcel("x", number))
    assert [each.stamp.sequence for each in stream.ready()] == [1, 2, 3]
    stream.skip(FAR)
    stream.settled = FAR
    last = stream.release()
    assert last is not None
    assert last.stamp.sequence == 3
    assert (stream.low, stream.bytes, list(stream.tail)) == (FAR, 0, [1, 2, 3])


# a later history


@pytest.mark.parametrize(
    "history", [(5, "b"), (11, "b"), (60, "b")], ids=["goes on", "begins", "is not whole"]
)
def test_what_a_later_history_skips_is_lost_and_never_acknowledged(history: History) -> None:
    hearer = Hearer()
    hearer.publish(1, 2, 3)
    hearer.tell(Entry(1, "m", 1, 1), first=11)
    hearer.tell(Entry(1, "m", 1, 3), first=12 if history[0] != 60 else 70, history=history)
    assert hearer.told_of() == [
        Acknowledged(hearer.ctx.id, 1),
        Lost(hearer.ctx.id, 2, 2),
        Acknowledged(hearer.ctx.id, 3),
    ]


def test_where_a_part_of_the_order_is_missing_what_follows_later_is_not_called_lost_either() -> None:
    hearer = Hearer()
    hearer.publish(1, 2, 3, 4, 5, 6)
    hearer.tell(Entry(1, "m", 1, 1), first=11)
    hearer.tell(Entry(1, "x", 1, 1), first=20)
    hearer.tell(Entry(1, "m", 1, 4), first=21)
    assert not any(isinstance(each, Lost) for each in hearer.told_of()), "2 and 3 may have had places"
    hearer.tell(Entry(1, "m", 1, 6), first=22)
    assert [each for each in hearer.told_of() if isinstance(each, Lost)] == [Lost(hearer.ctx.id, 5, 5)]


# parcels of entries


def test_only_entries_of_the_log_are_fetched() -> None:
    calm = Calm("total-order")
    raft = calm.at("m").raft
    raft.record.append(Entry(1))
    life, last = calm.engines["a"].incarnation, raft.record.last
    wrote: list[FetchedParcel] = []
    raft._send = lambda ctx, message: wrote.append(message)
    for index in (2**62, last + 1, last):
        calm.say("a", Control(channel_id("news"), FetchParcels("m", "a", life, raft.history, 1, (index,))))
    assert [each.index for each in wrote if isinstance(each, FetchedParcel)] == [last]
    assert calm.dropped("m", "message.index makes no sense") == 1
