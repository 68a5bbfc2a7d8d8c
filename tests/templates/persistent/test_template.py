"""Persistent: the history is on the disks of the seats, survives them, and is replayed to whoever asks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gossamer.consensus.disk_store import DiskStore
from gossamer.consensus.stores import MemoryStore
from gossamer.core.effect import History, Reply
from gossamer.core.names import channel_id, nanoseconds
from gossamer.core.operations import MoreHistory, ReadHistory
from gossamer.core.parcel import Parcel
from gossamer.core.template import DURABLE
from gossamer.core.wire import decode
from gossamer.simulator.world import World
from gossamer.templates.persistent.template import Persistent, PersistentSettings
from gossamer.templates.persistent.voter_log import LOOK
from tests.templates.worlds import CHANNEL, Net

QUICK = {"heartbeat": 0.25, "patience": 1.0, "repair": 0.1, "ack": 0.1}

Event = tuple[str, int, int]
"""Source, its life, and the number of the parcel; one event to a parcel."""


class Kept(Net):
    """Also where events had their places.

    seen
        Place and event of each delivery, by subscription.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        self.seen: dict[tuple[str, int], list[tuple[int | None, Event]]] = {}
        super().__init__(*args, **more)

    def delivered(
        self,
        world: World,
        node: str,
        life: int,
        channel: str,
        subscription: int,
        parcel: Parcel,
        picks: tuple[int, ...] | None,
    ) -> None:
        super().delivered(world, node, life, channel, subscription, parcel, picks)
        self.seen.setdefault((node, subscription), []).append((parcel.place, event(parcel)))

    def log(self, node: str) -> list[Event]:
        """What is on the disk of a node, in its order."""
        log = self.world._carrier.storage.log(node, channel_id(CHANNEL))
        assert log.begin == 0
        return [
            event(parcel) for parcel in map(decode, log.read(0, log.end)[1]) if isinstance(parcel, Parcel)
        ]

    def safe(self, *nodes: str) -> set[Event]:
        """What sources know to be acknowledged, of their present lives."""
        found: set[Event] = set()
        for node in nodes:
            key = (node, self.ctx(node).incarnation)
            stream = self.at(node).streams.get(key)
            found.update((*key, number) for number in range(1, stream.low if stream else 1))
        return found

    def replay(self, node: str, **wish: Any) -> int:
        """Subscribe with a wish for history, taking it as fast as it comes; the subscription."""
        subscription = self.world.subscribe(node, CHANNEL)

        def more(reply: Reply) -> None:
            self.world.at(
                self.world.now, lambda: self.world.call(node, CHANNEL, MoreHistory(subscription), ignore)
            )

        self.world.call(node, CHANNEL, ReadHistory(subscription, **wish), more)
        return subscription


def event(parcel: Parcel) -> Event:
    return (*parcel.stamp.key, parcel.stamp.sequence)


def ignore(_: object) -> None:
    pass


def line(names: str = "abcde", *, seed: int = 1, **settings: Any) -> Kept:
    net = Kept(Persistent, pairwise(names), {**QUICK, **settings}, seed=seed)
    net.subscribe(names)
    return net


def same(net: Kept, nodes: str) -> list[Event]:
    """The history, which is the same on all disks where they overlap."""
    logs = sorted((net.log(node) for node in nodes), key=len)
    for log in logs:
        assert log == logs[-1][: len(log)]
    assert len(set(logs[-1])) == len(logs[-1]), "an event twice"
    return logs[-1]


def test_every_seat_has_the_one_history_on_disk() -> None:
    net = line()
    for node in "ace":
        net.publish(node, 20, start=5.0, every=0.05)
    net.world.run(10)
    assert [len(net.log(node)) for node in "abcde"] == [60] * 5
    assert set(same(net, "abcde")) == net.safe("a", "c", "e")


@pytest.mark.parametrize("seed", range(1, 3))
def test_all_seats_crash_at_once_and_the_history_goes_on(seed: int) -> None:
    net = line(seed=seed)
    told: set[Event] = set()
    dice = net.world.dice("crashes")
    net.publish("a", 1, start=1.0)  # the first is what the seats are found for
    at = 6.0
    for _ in range(3):
        for node in "ad":
            net.publish(node, 30, start=at, every=0.02)
        net.world.run(at + 0.7 + dice.random() * 0.001)
        told |= net.safe("a", "d")
        for node in "abcde":
            net.world.crash(node)
        assert told <= set(same(net, "abcde")) | stored(net, "abcde")
        for node in "abcde":
            net.world.restart(node)
        at += 8.0
        net.world.run(at)
    history = same(net, "abcde")
    assert told <= set(history)
    assert len(told) > 50
    assert [len(net.log(node)) for node in "abcde"] == [len(history)] * 5


def stored(net: Kept, nodes: str) -> set[Event]:
    """Events that a seat has not in its log yet, but remembers."""
    found: set[Event] = set()
    for node in nodes:
        for key, value in net.world._host(node).stored.items():
            parcel = decode(value) if "/parcel/" in key else None
            if isinstance(parcel, Parcel):
                found.add(event(parcel))
    return found


def test_a_seat_that_was_down_gets_what_it_missed_into_its_log() -> None:
    net = line()
    net.publish("a", 20, start=10.0)
    net.world.run(12.5)
    net.world.crash("e")
    net.publish("a", 50, start=13.0)
    net.world.run(30)
    assert len(net.log("e")) < 70
    net.world.restart("e")
    net.world.run(60)
    assert [len(net.log(node)) for node in "abcde"] == [70] * 5
    same(net, "abcde")


def test_a_node_that_dies_with_records_on_their_way_to_its_log_has_them_in_its_next_life() -> None:
    """The only seat, with a disk that lags: nobody else could give it what its log did not get."""
    net = Kept(Persistent, pairwise("ab"), {**QUICK, "seats": 1})
    net.subscribe("ab")
    told: set[Event] = set()
    at = 1.0
    for _ in range(3):
        for node in "ab":
            net.world._host(node).disk = nanoseconds(0.3)
        net.publish("a", 1200, start=at, every=0.01)
        at += 12.0
        net.world.run(at)
        told |= net.safe("a")
        for node in "ab":
            net.world.crash(node)
            net.world.restart(node)
        net.subscribe("ab")
    net.publish("a", 10, start=at + 1.0)
    net.world.run(at + 30.0)
    logs = [net.log(node) for node in "ab"]
    assert told | net.safe("a") <= set(max(logs, key=len))
    assert len(told) > 1000


def test_a_late_subscriber_gets_the_whole_history_and_then_goes_on_live() -> None:
    net = line()
    net.publish("a", 100, start=6.0, every=0.02)
    net.publish("c", 100, start=6.0, every=0.02)
    found: list[int] = []
    net.world.at(7.0, lambda: found.append(net.replay("e")))
    net.world.run(12)
    history = same(net, "abcde")
    assert net.seen["e", found[0]] == list(enumerate(history))
    assert len(history) == 200


def test_history_is_had_from_a_place_or_from_an_instant_on() -> None:
    net = line()
    net.publish("a", 100, start=6.0, every=0.05)
    net.world.run(13)
    by_place = net.replay("d", first=70)
    by_time = net.replay("d", since=8.5)
    net.publish("a", 5, start=13.0)
    net.world.run(17)
    history = list(enumerate(same(net, "abcde")))
    assert net.seen["d", by_place] == history[70:]
    assert net.seen["d", by_time] == history[50:]


def test_a_client_gets_the_history_from_a_seat_behind_its_server() -> None:
    net = Kept(Persistent, pairwise("abcd"), {**QUICK, "seats": 1}, below={"client": "d"})
    net.subscribe("abcd")
    net.publish("a", 80, start=6.0, every=0.02)
    found: list[int] = []
    net.world.at(7.0, lambda: found.append(net.replay("client")))
    net.publish("b", 20, start=7.0)
    net.world.run(12)
    (history,) = [net.log(node) for node in "abcd" if net.log(node)]
    assert len(history) == 100
    assert net.seen["client", found[0]] == list(enumerate(history))


def test_who_does_not_ask_for_more_is_not_sent_more() -> None:
    net = line()
    net.publish("a", 150, start=6.0, every=0.02)
    net.world.run(12)
    slow = net.world.subscribe("e", CHANNEL)
    net.world.call("e", CHANNEL, ReadHistory(slow), ignore)
    net.world.run(18)
    assert [place for place, _ in net.seen["e", slow]] == list(range(64))
    net.world.call("e", CHANNEL, MoreHistory(slow), ignore)
    net.world.run(20)
    assert [place for place, _ in net.seen["e", slow]] == list(range(128))


def damaged(net: Kept, node: str) -> None:
    """A node reads that its log is damaged from the beginning on."""
    report = History(LOOK, -1, (), 0, 0, "a bit is not what it was", damaged=True)
    net.world._carrier.tell(net.world._host(node), "report", channel_id(CHANNEL), report)


def test_an_only_voter_whose_log_is_damaged_acknowledges_nothing_more() -> None:
    net = Kept(Persistent, pairwise("ab"), {**QUICK, "seats": 1})
    net.subscribe("ab")
    net.publish("a", 20, start=6.0, every=0.02)
    net.world.run(12)
    before = net.safe("a")
    assert len(before) == 20
    (voter,) = [node for node in "ab" if net.at(node).raft.leads]
    damaged(net, voter)
    net.publish("a", 20, start=12.5, every=0.02)
    net.world.run(30)
    assert net.safe("a") == before
    assert not net.at(voter).raft.leads
    assert "a bit is not what it was" in str(net.at(voter).failure(net.ctx(voter)))


def test_voters_whose_logs_are_damaged_count_for_no_majority() -> None:
    net = line("abc")
    net.publish("a", 20, start=6.0, every=0.02)
    net.world.run(12)
    before = net.safe("a")
    assert len(before) == 20
    for node in "abc":
        if not net.at(node).raft.leads:
            damaged(net, node)
    net.publish("a", 20, start=12.5, every=0.02)
    net.world.run(30)
    assert net.safe("a") == before


# planted


class Sieve(DiskStore):
    """Keeps nothing."""

    numbered = property(lambda _: 0, lambda *_: None)  # type: ignore[assignment]

    def _write(self, key: str, value: object) -> None:
        pass

    def put(self, index: int, parcel: Parcel) -> None:
        MemoryStore.put(self, index, parcel)


class Careful(Persistent[PersistentSettings]):
    """Persistent, with seats that remember nothing but their logs, and look into these."""

    name = "careful"

    def make_keeper(self) -> MemoryStore:
        return Sieve(self.at_hand)


class Forgetful(Careful):
    """Those seats do not compare what is in their logs with what should be there."""

    name = "forgetful"

    def _agrees(self, place: int, identity: object) -> bool:
        return True


def test_a_seat_whose_log_has_something_else_than_the_order_acknowledges_nothing() -> None:
    net = Kept(Careful, pairwise("abc"), QUICK)
    net.subscribe("abc")
    net.publish("a", 30, start=6.0, every=0.02)
    net.world.run(12)
    before = same(net, "abc")
    for node in "abc":
        net.world.crash(node)
        net.world.restart(node)
    net.subscribe("abc")
    net.publish("a", 20, start=15.0, every=0.02)
    net.world.run(25)
    assert net.safe("a") == set()
    assert same(net, "abc") == before
    refused = [net.at(node) for node in "abc" if net.at(node).refused]
    assert refused
    for each in refused:
        assert not each.raft.leads
        assert "different histories" in str(each.failure(net.ctx("a")))


@pytest.mark.parametrize("template", [Persistent, Forgetful])
def test_a_vault_that_forgets_is_caught(template: type[Persistent[Any]]) -> None:
    net = Kept(template, pairwise("abc"), QUICK)
    net.subscribe("abc")
    net.publish("a", 30, start=6.0, every=0.02)
    net.world.run(12)
    for node in "abc":
        net.world.crash(node)
    for node in "abc":
        net.world.restart(node)
    net.subscribe("abc")
    net.world.run(15)
    net.publish("a", 20, start=15.0, every=0.02)
    net.world.run(20)
    lost = net.safe("a") - set(net.log("a"))
    assert bool(lost) == (template is Forgetful)


@pytest.mark.parametrize("template", [Persistent, Forgetful])
def test_the_check_of_the_promise_finds_what_a_vault_forgot(template: type[Persistent[Any]]) -> None:
    net = Kept(template, pairwise("abc"), QUICK)
    net.subscribe("abc")
    net.publish("a", 30, start=6.0, every=0.02)
    net.world.run(9)
    for node in "abc":
        net.world.crash(node)
        net.world.restart(node)
    net.world.run(15)
    net.publish("a", 20, start=15.0, every=0.02)
    net.world.run(25)
    net.ledger.finish(net.world, patience=2.0)
    found = {violation.promise for violation in net.ledger.examples}
    assert (DURABLE in found) == (template is Forgetful)
