"""The engine: inputs in, effects out, one trace row for everything that happened."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gossamer.core import trace
from gossamer.core.context import LINKED, TREE, Context
from gossamer.core.control import AHEAD, Control, Instant, Message, on
from gossamer.core.effect import (
    Deliver,
    DeliverFeedback,
    Drop,
    Effect,
    Note,
    Reply,
    Send,
    SubscribersChanged,
    Wake,
)
from gossamer.core.engine import Engine
from gossamer.core.errors import (
    ConfigError,
    ForgedReceipt,
    ProtocolError,
    TooLarge,
    UnknownChannel,
    UnknownTemplate,
)
from gossamer.core.event import MAX_PAYLOAD, Criteria, Envelope, QoS
from gossamer.core.names import NANOSECONDS, channel_id
from gossamer.core.parcel import Answer, Header, Parcel
from gossamer.core.pending import MAX_HELD, MAX_HELD_BYTES
from gossamer.core.sealer import Sealer
from gossamer.core.template import Membership, Settings, Template
from gossamer.core.tree import Tree
from gossamer.core.wire import decode, encode
from gossamer.overlay.directory.service import Entry
from gossamer.testing.fake import answer, notary, parcel

COLUMN = {name: index for index, (name, _) in enumerate(trace.COLUMNS)}


class Shout(Message, frozen=True):
    """For these tests."""

    loud: bool


class Since(Message, frozen=True):
    """For these tests."""

    instant: Instant


class Flood(Template[Settings]):
    """Sends everything to every neighbour and notes what it is told."""

    name = "flood"
    watches = (TREE,)

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.notes: list[Any] = []
        self.loud = self.strict = False

    def on_open(self, ctx: Context) -> None:
        ctx.wake("opened", 1)

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        ctx.send(ctx.neighbours, parcel)
        ctx.deliver(parcel)

    def on_parcel(self, ctx: Context, parcel: Parcel, sender: str) -> None:
        ctx.send((each for each in ctx.neighbours if each != sender), parcel)
        ctx.deliver(parcel, sender)

    def on_timer(self, ctx: Context, name: str) -> None:
        self.notes.append((name, ctx.now))

    def on_membership(self, ctx: Context, membership: Membership) -> None:
        self.notes.append((membership.change, membership.who))

    def on_container(self, ctx: Context, name: str, value: Any) -> None:
        self.notes.append((name, value))

    @on(Since)
    def since(self, ctx: Context, since: Since, sender: str) -> None:
        if self.strict:
            ctx.send(sender, Shout(True))
            raise ProtocolError("message.instant", since.instant, "another one")
        self.notes.append(("since", since.instant))

    @on(Shout)
    def shouted(self, ctx: Context, shout: Shout, sender: str) -> None:
        self.loud = shout.loud
        ctx.send(sender, Shout(not shout.loud))

    def has_subscribers(self, ctx: Context) -> bool:
        return self.loud or super().has_subscribers(ctx)


class Curious(Template[Settings]):
    """A service that notes unknown channels, answers calls and opens channels when it is told to."""

    name = "gossamer.curious"

    def __init__(self) -> None:
        super().__init__(Settings())
        self.unknown: list[tuple[int, str]] = []
        self.opens: list[Entry] = []

    def on_unknown(self, ctx: Context, channel: int, sender: str) -> None:
        self.unknown.append((channel, sender))
        for entry in self.opens:
            ctx.open(entry)

    def on_call(self, ctx: Context, call: int, request: Any) -> None:
        if request == "put":
            ctx.put("weather", "fine")
            ctx.put(TREE, Tree([("a", "z")]))
        ctx.reply(call, request)


NEWS = Entry("news", "flood")
NEWS_ID = channel_id("news")


class Bench:
    """One engine, its trace and its service."""

    def __init__(self, node: str = "a", near: str = "bc", *, traced: bool = True, **more: Any) -> None:
        self.rows: list[trace.Row] = []
        self.curious = Curious()
        self.engine = Engine(
            node,
            templates={"flood": Flood},
            dice=random.Random,
            secret=node.encode(),
            services=[self.curious],
            recorder=self.rows.append if traced else None,
            **more,
        )
        if near:
            self.engine.set(0, TREE, Tree((node, each) for each in near))

    def column(self, name: str) -> list[Any]:
        return [row[COLUMN[name]] for row in self.rows]

    def happened(self, kind: str = trace.PARCEL) -> list[tuple[Any, ...]]:
        """Action, peer, first and count of the rows of a kind."""
        names = ("action", "peer", "first", "count")
        return [tuple(row[COLUMN[n]] for n in names) for row in self.rows if row[COLUMN["kind"]] == kind]

    @property
    def flood(self) -> Flood:
        template = self.engine.instance("news").template
        assert isinstance(template, Flood)
        return template


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.engine.run(0, NEWS)
    return made


def of(kind: type[Effect], effects: list[Effect]) -> list[Any]:
    return [each for each in effects if isinstance(each, kind)]


# channels


def test_a_channel_runs_once_and_is_listed_without_services(bench: Bench) -> None:
    before = bench.flood
    assert bench.engine.run(1, NEWS) == []
    assert bench.flood is before
    assert bench.engine.channels == ("news",)


def test_opening_a_channel_gives_its_wakes() -> None:
    assert Bench().engine.run(5, NEWS) == [Wake(NEWS_ID, "opened", 5 + NANOSECONDS)]


def test_a_channel_that_cannot_run_is_refused() -> None:
    engine = Bench().engine
    with pytest.raises(UnknownTemplate):
        engine.run(0, Entry("news", "flod"))
    with pytest.raises(ConfigError):
        engine.run(0, Entry("news", "flood", {"x": 1}))
    assert engine.channels == ()


USES: dict[str, Callable[[Engine], Any]] = {
    "subscribe": lambda engine: engine.subscribe(0, "nws", Criteria()),
    "unsubscribe": lambda engine: engine.unsubscribe(0, "nws", 1),
    "publish": lambda engine: engine.publish("nws", b"x"),
    "seal": lambda engine: engine.seal(0, "nws"),
    "matching": lambda engine: engine.has_subscribers("nws"),
    "instance": lambda engine: engine.instance("nws"),
    "receipt": lambda engine: engine.receipt("nws", 1),
    "call": lambda engine: engine.call(0, "nws", 1, None),
}


@pytest.mark.parametrize("use", USES)
def test_a_channel_that_does_not_run_is_named_with_a_close_one(bench: Bench, use: str) -> None:
    with pytest.raises(UnknownChannel, match="did you mean 'news'"):
        USES[use](bench.engine)


# publishing and delivering


def test_published_events_leave_when_sealed_to_all_and_to_subscribers_here(bench: Bench) -> None:
    engine = bench.engine
    subscription, _ = engine.subscribe(1, "news", Criteria())
    assert [engine.publish("news", payload) for payload in (b"x", b"y")] == [1, 2]
    sent, delivered = engine.seal(7, "news")
    assert isinstance(sent, Send)
    assert isinstance(delivered, Deliver)
    assert sent.to == ("b", "c")
    assert (delivered.subscription, delivered.picks, delivered.sender) == (subscription, None, None)
    assert delivered.parcel is sent.item
    assert delivered.parcel.payloads == [b"x", b"y"]
    assert delivered.parcel.header.sent == 7
    assert engine.seal(8, "news") == []


def test_a_payload_over_the_limit_is_refused(bench: Bench) -> None:
    with pytest.raises(TooLarge):
        bench.engine.publish("news", bytes(MAX_PAYLOAD + 1))


def test_criteria_pick_events_of_a_parcel(bench: Bench) -> None:
    engine = bench.engine
    everything, _ = engine.subscribe(0, "news", Criteria())
    some, _ = engine.subscribe(0, "news", Criteria(("n", ">=", 2)))
    engine.subscribe(0, "news", Criteria(n=99))
    engine.subscribe(0, "news", Criteria(("bare", "any", 0)))
    bench.rows.clear()
    mixed = parcel(
        "b", 1, 10, [b""] * 6, attributes=[{"n": 1}, {"n": 2}, {"n": 3}, None, {"n": 1, "m": 1}, {"n": 5}]
    )
    effects = of(Deliver, engine.receive(1, "b", mixed))
    assert [(each.subscription, each.picks) for each in effects] == [(everything, None), (some, (1, 2, 5))]
    assert [row for row in bench.happened() if row[0] == trace.DELIVERED] == [
        ("delivered", str(everything), 10, 6),
        ("delivered", str(some), 11, 2),
        ("delivered", str(some), 15, 1),
    ]


def test_criteria_pick_nothing_of_a_parcel_without_attributes(bench: Bench) -> None:
    bench.engine.subscribe(0, "news", Criteria(("n", "any", 0)))
    assert of(Deliver, bench.engine.receive(1, "b", parcel("b"))) == []


def test_who_has_left_gets_nothing(bench: Bench) -> None:
    subscription, _ = bench.engine.subscribe(0, "news", Criteria())
    bench.engine.unsubscribe(1, "news", subscription)
    bench.engine.unsubscribe(1, "news", subscription)
    assert of(Deliver, bench.engine.receive(2, "b", parcel("b"))) == []
    assert [note for note in bench.flood.notes if note[0] == "unsubscribed"] == [("unsubscribed", "1")]


def test_effects_come_in_the_order_in_which_they_were_asked_for(bench: Bench) -> None:
    bench.engine.subscribe(0, "news", Criteria())
    bench.engine.publish("news", b"x", Envelope({}, QoS(priority=1)))
    bench.engine.publish("news", b"y", Envelope({}, QoS(priority=2)))
    effects = bench.engine.seal(1, "news")
    assert [type(each) for each in effects] == [Send, Deliver, Send, Deliver]
    assert effects[0].item is effects[1].parcel  # type: ignore[attr-defined]
    assert bench.engine.seal(2, "news") == [], "effects are given once"


def test_the_size_of_parcels_can_be_set_for_channels_that_run_and_that_will(bench: Bench) -> None:
    bench.engine.parcel_bytes = 1000
    bench.engine.run(0, Entry("later", "flood"))
    assert [bench.engine.instance(each).sealer.limit for each in ("news", "later")] == [1000, 1000]


# expiry


@pytest.mark.parametrize(
    ("now", "dropped"), [(2_999_999_999, False), (3_000_000_000, False), (3_000_000_001, True)]
)
def test_an_expired_parcel_is_dropped_where_it_is_and_counted(bench: Bench, now: int, dropped: bool) -> None:
    bench.engine.subscribe(0, "news", Criteria())
    late = parcel("b", sent=NANOSECONDS, qos=QoS(expiry=2))
    effects = bench.engine.receive(now, "b", late)
    assert (of(Drop, effects) == [Drop(late, "expired")]) is dropped
    assert bool(of(Send, effects)) is not dropped
    assert bool(of(Deliver, effects)) is not dropped
    assert bench.engine.drops["expired"] == int(dropped)


# forwarding without opening


def test_a_forwarder_passes_on_the_very_bytes_and_does_not_open_them(bench: Bench) -> None:
    good = parcel("b", payloads=[b"secret"])
    header = msgspec.structs.replace(good.header, channel=NEWS_ID)
    garbage = encode(Parcel(header, b"\xc1" * 50))
    (sent,) = bench.engine.receive(1, "b", decode(garbage))
    assert isinstance(sent, Send)
    assert sent.to == ("c",)
    assert encode(sent.item) is garbage


def test_a_malformed_body_is_dropped_at_delivery_and_still_forwarded(bench: Bench) -> None:
    bench.engine.subscribe(0, "news", Criteria())
    garbage = encode(Parcel(parcel("b").header, b"\xc1" * 50))
    effects = bench.engine.receive(1, "b", decode(garbage))
    assert [type(each) for each in effects] == [Send, Drop]
    assert encode(effects[0].item) is garbage  # type: ignore[attr-defined]
    assert dict(bench.engine.drops) == {"body makes no sense": 1}


# control


def test_a_control_message_reaches_its_template_and_its_reply_goes_out(bench: Bench) -> None:
    effects = bench.engine.receive(1, "b", decode(encode(Control(NEWS_ID, Shout(True)))))
    (sent,) = of(Send, effects)
    assert (sent.to, sent.item.message) == (("b",), Shout(False))
    assert bench.happened(trace.CONTROL) == [("received", "b", 0, 0), ("sent", "b", 0, 0)]
    assert bench.column("detail")[-2:] == ["Shout", "Shout"]


def test_a_control_message_that_makes_no_sense_is_refused_and_changes_nothing(bench: Bench) -> None:
    rows = len(bench.rows)
    for body in (b"", b"\xc1", b"\x92\xa5Shout\x05", b"\x92\xa5Other\x05"):
        with pytest.raises(ProtocolError):
            bench.engine.receive(1, "b", Control(NEWS_ID, None, body))
    assert len(bench.rows) == rows
    assert bench.engine.wake(2, NEWS_ID, "x") == []


def test_a_control_message_with_an_instant_of_next_week_is_dropped_and_counted_and_links_go_on(
    bench: Bench,
) -> None:
    late = Since(8 * AHEAD)
    for message in (late, Control(NEWS_ID, None, msgspec.msgpack.encode(late))):
        item = message if isinstance(message, Control) else Control(NEWS_ID, message)
        (drop,) = bench.engine.receive(7 * AHEAD - 1, "b", item)
        assert (type(drop), drop.reason) == (Drop, "message.instant makes no sense")
    assert dict(bench.engine.drops) == {"message.instant makes no sense": 2}
    assert bench.flood.notes == []
    bench.engine.receive(7 * AHEAD, "b", Control(NEWS_ID, late))
    assert bench.flood.notes == [("since", 8 * AHEAD)]


def test_a_value_that_a_handler_refuses_is_dropped_and_what_it_did_before_is_carried_out(
    bench: Bench,
) -> None:
    bench.flood.strict = True
    effects = bench.engine.receive(1, "b", Control(NEWS_ID, Since(1)))
    assert [each.item.message for each in of(Send, effects)] == [Shout(True)]
    assert [each.reason for each in of(Drop, effects)] == ["message.instant makes no sense"]
    assert bench.engine.wake(2, NEWS_ID, "x") == []


# channels nobody has explained yet


def test_what_comes_for_an_unknown_channel_waits_and_is_replayed_in_order() -> None:
    bench = Bench()
    first, second = parcel("b", 1), parcel("b", 2)
    assert bench.engine.receive(1, "b", first) == []
    assert bench.engine.receive(2, "c", second) == []
    assert bench.curious.unknown == [(NEWS_ID, "b"), (NEWS_ID, "c")]
    assert bench.rows == [], "it has not happened yet"
    sends = of(Send, bench.engine.run(3, NEWS))
    assert [(each.item, each.to) for each in sends] == [(first, ("c",)), (second, ("b",))]
    assert of(Send, bench.engine.run(4, NEWS)) == [], "it is replayed once"


def test_a_service_that_knows_opens_the_channel_at_once() -> None:
    bench = Bench()
    bench.curious.opens.append(NEWS)
    effects = bench.engine.receive(1, "b", parcel("b"))
    assert [each.to for each in of(Send, effects)] == [("c",)]


def test_without_a_service_nothing_waits() -> None:
    engine = Engine("a", templates={}, dice=random.Random, secret=b"a")
    item = parcel("b")
    assert engine.receive(1, "b", item) == [Drop(item, "unknown channel")]


def test_one_unknown_channel_holds_only_so_many_frames() -> None:
    bench = Bench()
    effects: list[Effect] = []
    for sequence in range(1, MAX_HELD + 6):
        effects += bench.engine.receive(1, "b", parcel("b", sequence))
    assert [each.item.stamp.sequence for each in of(Drop, effects)] == list(range(MAX_HELD + 1, MAX_HELD + 6))
    assert bench.engine.drops["unknown channel"] == 5
    assert len(of(Send, bench.engine.run(2, NEWS))) == MAX_HELD


def test_only_so_many_unknown_channels_are_held_and_the_longest_waiting_makes_room() -> None:
    bench = Bench()
    effects: list[Effect] = []
    for n in range(MAX_HELD + 1):
        effects += bench.engine.receive(1, "b", parcel("b", channel=f"n{n}"))
    assert [each.item.header.channel for each in of(Drop, effects)] == [channel_id("n0")]
    assert of(Send, bench.engine.run(2, Entry("n0", "flood"))) == []
    assert len(of(Send, bench.engine.run(2, Entry(f"n{MAX_HELD}", "flood")))) == 1


def test_unknown_channels_hold_only_so_many_bytes() -> None:
    bench = Bench()
    big = MAX_HELD_BYTES // 4
    effects: list[Effect] = []
    for n in range(20):
        effects += bench.engine.receive(1, "b", parcel("b", payloads=[bytes(big)], channel=f"n{n}"))
    held = 20 - len(of(Drop, effects))
    assert held == 3
    assert bench.engine.receive(1, "b", parcel("b", payloads=[bytes(MAX_HELD_BYTES)], channel="huge"))
    replayed = [of(Send, bench.engine.run(2, Entry(f"n{n}", "flood"))) for n in range(20)]
    assert sum(map(len, replayed)) == held, "a frame that could never be held pushes out nothing"


def test_bytes_are_given_back_when_a_channel_is_opened() -> None:
    bench = Bench()
    big = MAX_HELD_BYTES - 1000
    for n in range(3):
        bench.engine.receive(1, "b", parcel("b", payloads=[bytes(big)], channel=f"n{n}"))
        assert len(of(Send, bench.engine.run(2, Entry(f"n{n}", "flood")))) == 1
    assert bench.engine.drops.total() == 0


def test_nonsense_that_was_held_breaks_neither_the_opener_nor_what_came_after_it() -> None:
    bench = Bench()
    bench.engine.receive(1, "b", parcel("b", 1))
    bench.engine.receive(1, "b", decode(encode(Control(NEWS_ID, None, b"\xc1"))))
    bench.engine.receive(1, "b", parcel("b", 2))
    effects = bench.engine.run(2, NEWS)
    assert [each.item.stamp.sequence for each in of(Send, effects)] == [1, 2]
    assert dict(bench.engine.drops) == {"message makes no sense": 1}


# feedback


def asked(bench: Bench) -> Parcel:
    bench.engine.publish("news", b"anyone?")
    (sent,) = of(Send, bench.engine.seal(1, "news"))
    assert isinstance(sent.item, Parcel)
    return sent.item


def test_an_answer_reaches_the_source_of_its_event(bench: Bench) -> None:
    question = asked(bench)
    reply = answer("b", question)
    assert bench.engine.receive(2, "b", reply) == [DeliverFeedback(NEWS_ID, reply)]


def test_a_subscriber_answers_with_the_receipt_of_its_node(bench: Bench) -> None:
    heard = parcel("b", 1, 4, [b"x", b"y"])
    receipt = bench.engine.notary.receipt("news", heard.stamp, 5, "ticket")
    mine, effects = bench.engine.feedback(3, "news", receipt, b"yes", Envelope({"k": 1}))
    (sent,) = of(Send, effects)
    assert sent.to == ("b",)
    assert sent.item.header.answers == Answer(heard.stamp, 5)
    assert (sent.item.payloads, sent.item.attributes) == ([b"yes"], [{"k": 1}])
    bench.engine.notary.check(mine, "news")


def test_a_made_up_receipt_answers_nothing(bench: Bench) -> None:
    stranger = notary("elsewhere").receipt("news", parcel("b").stamp, 1)
    with pytest.raises(ForgedReceipt):
        bench.engine.feedback(3, "news", stranger, b"yes")


@pytest.mark.parametrize(
    ("changes", "number", "reason"),
    [
        ({"proof": bytes(8)}, 1, "forged receipt"),
        ({"count": 9}, 1, "forged receipt"),
        ({"first": 2}, 2, "forged receipt"),
        ({}, 2, "forged receipt"),
        ({"incarnation": 7}, 1, "answers an earlier life of this node"),
    ],
)
def test_an_answer_to_what_was_never_sent_is_dropped_and_counted(
    bench: Bench, changes: dict[str, Any], number: int, reason: str
) -> None:
    question = asked(bench)
    header = answer("b", question).header
    forged = Answer(msgspec.structs.replace(question.stamp, **changes), number)
    reply = Parcel(msgspec.structs.replace(header, answers=forged), answer("b", question).body)
    assert bench.engine.receive(2, "b", reply) == [Drop(reply, reason)]
    assert dict(bench.engine.drops) == {reason: 1}


def test_an_answer_to_an_earlier_life_is_dropped() -> None:
    old, new = Bench(incarnation=1), Bench(incarnation=2)
    for each in (old, new):
        each.engine.run(0, NEWS)
    reply = answer("b", asked(old))
    (dropped,) = new.engine.receive(2, "b", reply)
    assert dropped == Drop(reply, "answers an earlier life of this node")


def test_a_malformed_answer_is_dropped_at_its_target(bench: Bench) -> None:
    reply = answer("b", asked(bench))
    (dropped,) = bench.engine.receive(2, "b", Parcel(reply.header, b"\xc1"))
    assert isinstance(dropped, Drop)
    assert dropped.reason == "body makes no sense"


def test_a_publisher_has_a_receipt_for_an_event_before_it_is_sealed(bench: Bench) -> None:
    number = bench.engine.publish("news", b"x")
    receipt = bench.engine.receipt("news", number)
    bench.engine.notary.check(receipt, "news")
    assert bench.engine.notary.verify(NEWS_ID, receipt.stamp, number)


def test_an_address_is_the_path_down_from_the_backbone(bench: Bench) -> None:
    assert bench.engine.address == "a"
    bench.engine.set(1, "server", "b1/s2")
    assert bench.engine.address == "b1/s2/a"
    assert asked(bench).stamp.source == "b1/s2/a"


# matching, containers, links, timers


def test_matching_is_said_only_when_it_changes(bench: Bench) -> None:
    engine = bench.engine
    assert not engine.has_subscribers("news")
    one, effects = engine.subscribe(1, "news", Criteria())
    assert of(SubscribersChanged, effects) == [SubscribersChanged(NEWS_ID, True)]
    two, effects = engine.subscribe(1, "news", Criteria())
    assert of(SubscribersChanged, effects) == []
    assert engine.has_subscribers("news")
    assert of(SubscribersChanged, engine.unsubscribe(2, "news", one)) == []
    assert of(SubscribersChanged, engine.unsubscribe(2, "news", two)) == [SubscribersChanged(NEWS_ID, False)]
    assert of(SubscribersChanged, engine.receive(3, "b", Control(NEWS_ID, Shout(True)))) == [
        SubscribersChanged(NEWS_ID, True)
    ]
    assert of(SubscribersChanged, engine.receive(3, "b", Control(NEWS_ID, Shout(True)))) == []


def test_a_change_of_a_container_reaches_those_who_watch_it(bench: Bench) -> None:
    tree = Tree([("a", "x")])
    bench.engine.set(1, TREE, tree)
    bench.engine.set(2, "weather", "fine")
    bench.engine.set(3, TREE, Tree([("x", "a")]))
    assert bench.flood.notes == [(TREE, tree)], "the same value again is no change"


def test_a_service_sets_containers_and_watchers_hear_before_the_call_ends(bench: Bench) -> None:
    effects = bench.engine.call(1, "gossamer.curious", 5, "put")
    assert of(Reply, effects) == [Reply(5, "put", None)]
    assert bench.engine.containers["weather"] == "fine"
    assert bench.flood.notes == [(TREE, Tree([("a", "z")]))]


def test_links_and_subscribers_are_told_to_the_template(bench: Bench) -> None:
    bench.engine.linked(1, "b")
    bench.engine.subscribe(2, "news", Criteria())
    bench.engine.unlinked(3, "b")
    assert bench.flood.notes == [("up", "b"), ("subscribed", "1"), ("down", "b")]
    news = [row for row in bench.rows if row[COLUMN["channel"]] == "news"]
    assert [(row[COLUMN["action"]], row[COLUMN["peer"]]) for row in news[1:]] == bench.flood.notes


def test_a_congested_neighbour_is_still_linked(bench: Bench) -> None:
    bench.engine.linked(1, "b")
    for change in ("congested", "relieved"):
        bench.engine.around(2, "b", change)
        assert bench.engine.containers[LINKED] == ("b",)
    bench.engine.unlinked(3, "b")
    assert bench.engine.containers[LINKED] == ()


def test_a_wake_reaches_its_template_at_its_time_and_a_stale_one_nobody(bench: Bench) -> None:
    bench.engine.wake(42, NEWS_ID, "opened")
    assert bench.flood.notes == [("opened", 42)]
    assert bench.engine.wake(43, 12345, "opened") == []


def test_what_the_host_could_not_send_is_dropped_counted_and_traced(bench: Bench) -> None:
    item = parcel("b")
    assert bench.engine.lost(1, "c", item, "link full") == [Drop(item, "link full", "c")]
    assert bench.engine.drops["link full"] == 1
    assert bench.happened() == [("dropped", "c", 1, 1)]


def test_what_a_subscription_could_not_keep_is_counted_and_traced(bench: Bench) -> None:
    bench.engine.discard(1, 3, parcel("b", 1, 10, [b""] * 5), (0, 1, 3), "queue full")
    assert bench.engine.drops["queue full"] == 1
    assert bench.happened() == [("dropped", "3", 10, 2), ("dropped", "3", 13, 1)]


# the trace


def test_a_row_has_every_column_of_its_type_and_positions_have_no_gaps(bench: Bench) -> None:
    engine = bench.engine
    engine.linked(0, "b")
    engine.subscribe(1, "news", Criteria())
    asked(bench)
    engine.receive(3, "b", parcel("b"))
    engine.receive(4, "b", Control(NEWS_ID, Shout(True)))
    engine.receive(5, "b", answer("b", parcel("a")))
    engine.lost(6, "b", Control(77, Shout(True)), "no link")
    assert bench.column("position") == list(range(1, len(bench.rows) + 1))
    kinds = {"int64": int, "text": str}
    for row in bench.rows:
        assert len(row) == len(trace.COLUMNS)
        assert [type(value) for value in row] == [kinds[kind] for _, kind in trace.COLUMNS]
    assert set(bench.column("kind")) == {"channel", "member", "parcel", "control", "feedback"}
    assert set(bench.column("node")) == {"a"}
    assert bench.column("at") == sorted(bench.column("at"))
    assert bench.rows[-1][COLUMN["channel"]] == f"#{77:016x}"


def test_a_published_parcel_is_traced_with_its_source_numbers_and_bytes(bench: Bench) -> None:
    item = asked(bench)
    published, *sent = bench.rows[-3:]
    expected = {
        "kind": "parcel",
        "action": "published",
        "channel": "news",
        "source": "a",
        "source_incarnation": 1,
        "sequence": 1,
        "first": 1,
        "count": 1,
        "bytes": len(encode(item)),
        "at": 1,
    }
    assert {name: published[COLUMN[name]] for name in expected} == expected
    assert [row[COLUMN["peer"]] for row in sent] == ["b", "c"]


def test_tracing_changes_no_effect() -> None:
    outcomes = []
    for traced in (True, False):
        bench = Bench(traced=traced)
        effects = bench.engine.run(0, NEWS)
        effects += bench.engine.subscribe(1, "news", Criteria())[1]
        bench.engine.publish("news", b"x")
        effects += bench.engine.seal(2, "news")
        effects += bench.engine.receive(3, "b", Control(NEWS_ID, Shout(True)))
        outcomes.append([repr(each) for each in effects])
        assert bool(bench.rows) is traced
    assert outcomes[0] == outcomes[1]


def test_dice_are_made_per_channel_and_come_from_the_host() -> None:
    labels: list[str] = []

    def dice(label: str) -> random.Random:
        labels.append(label)
        return random.Random(label)

    engine = Engine("a", templates={"flood": Flood}, dice=dice, secret=b"a", services=[Curious()])
    engine.run(0, NEWS)
    assert labels == ["gossamer.curious", "news"]


def test_a_sealed_parcel_fits_its_engine(bench: Bench) -> None:
    assert isinstance(bench.engine.instance("news").sealer, Sealer)
    item = asked(bench)
    assert item.header == Header(NEWS_ID, item.stamp, 1, 0)


class Placing(Flood):
    """Notes a place for each parcel that it publishes, and tells of a gap."""

    name = "placing"
    promises = frozenset({"b-promise", "a-promise"})

    def on_publish(self, ctx: Context, parcel: Parcel) -> None:
        ctx.note(trace.ORDERED, 42, parcel.stamp.key, parcel.stamp.sequence, "first")
        ctx.gap("z")

    @classmethod
    def recovery(cls, settings: Any) -> float:
        return 1.5


def test_the_trace_says_what_a_channel_promises_and_what_its_template_notes() -> None:
    rows: list[trace.Row] = []
    engine = Engine(
        "a", templates={"placing": Placing}, dice=random.Random, secret=b"a", recorder=rows.append
    )
    effects = engine.run(0, Entry("news", "placing"))
    effects += engine.subscribe(1, "news", Criteria(("price", ">", 5)))[1]
    engine.publish("news", b"x", Envelope(qos=QoS(expiry=2)))
    effects += engine.seal(3, "news")
    names = ("kind", "action", "source", "detail", "value")
    told = [tuple(row[COLUMN[name]] for name in names) for row in rows]
    assert told == [
        ("channel", "opened", "", "placing a-promise b-promise", 1_500_000_000),
        ("member", "subscribed", "", "Criteria(('price', '>', 5),)", 0),
        ("parcel", "published", "a", "", 2_000_000_003),
        ("parcel", "ordered", "a", "first", 42),
        ("member", "missed", "z", "", 0),
    ]
    assert not [each for each in effects if isinstance(each, Note)], "no host has to know of notes"


def test_feedback_is_traced_with_the_number_that_it_answers(bench: Bench) -> None:
    bench.engine.run(0, NEWS)
    bench.engine.receive(1, "b", answer("b", parcel("a", first=5)))
    assert bench.rows[-1][COLUMN["kind"]] == "feedback"
    assert bench.rows[-1][COLUMN["value"]] == 5
