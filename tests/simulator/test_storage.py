"""Storage in virtual time: reported is kept; what a crash interrupts is kept in part, from the first on."""

from __future__ import annotations

from typing import Any

from gossamer.core.context import Context
from gossamer.core.effect import Appended, History, Report
from gossamer.core.names import channel_id
from gossamer.core.template import Settings, Template
from gossamer.simulator.network.link_models import NodeModel
from gossamer.simulator.network.rules import Pause
from gossamer.simulator.world import World

MS = 1_000_000


class Keeper(Template[Settings]):
    """Does with its log what it is called for, and notes what is reported."""

    name = "keeper"
    notes: list[tuple[int, int, Report]]

    def on_call(self, ctx: Context, call: int, request: Any) -> None:
        request(ctx)
        ctx.reply(call)

    def on_report(self, ctx: Context, report: Report) -> None:
        self.notes.append((ctx.now, ctx.incarnation, report))


class Bench:
    def __init__(self, seed: int = 1, disk: float = 0.001) -> None:
        self.notes: list[tuple[int, int, Report]] = []
        store = type("Keeper", (Keeper,), {"notes": self.notes})
        self.world = World(seed, templates={"keeper": store}, node=NodeModel(disk=disk))
        self.world.add_node("a")
        self.world.open("c", "keeper")
        self.world.open("d", "keeper")

    def ask(self, request: Any, channel: str = "c") -> None:
        self.world.call("a", channel, request, lambda reply: None)

    def append(self, ticket: int, *records: bytes, channel: str = "c") -> None:
        self.ask(lambda ctx: ctx.append(ticket, records), channel)

    def reported(self) -> list[Report]:
        return [report for _, _, report in self.notes]

    def on_disk(self, channel: str = "c") -> list[bytes]:
        log = self.world._carrier.storage.log("a", channel_id(channel))
        return log.read(0, 1_000_000)[1]


def test_an_append_is_reported_after_the_time_of_the_disk_and_with_the_next_position() -> None:
    it = Bench(disk=0.004)
    it.append(7, b"x", b"y")
    it.world.run(0.0039)
    assert it.notes == []
    it.world.run(1)
    assert it.notes == [(4 * MS, 1, Appended(7, 2))]


def test_a_disk_does_one_append_after_the_other_and_reports_in_order() -> None:
    it = Bench()
    it.append(1, b"x")
    it.append(2, b"z", channel="d")
    it.append(3, b"y")
    it.world.run(1)
    assert it.notes == [(MS, 1, Appended(1, 1)), (2 * MS, 1, Appended(2, 1)), (3 * MS, 1, Appended(3, 2))]


def test_a_read_sees_what_was_appended_before_it_and_says_where_the_log_begins_and_ends() -> None:
    it = Bench()
    it.append(1, b"0", b"1", b"2", b"3")
    it.ask(lambda ctx: ctx.read(2, 1, 2))
    it.ask(lambda ctx: ctx.trim(3))
    it.ask(lambda ctx: ctx.read(3, 0, 10))
    it.world.run(1)
    assert it.reported()[1:] == [History(2, 1, (b"1", b"2"), 0, 4), History(3, 3, (b"3",), 3, 4)]


def test_a_disk_that_needs_no_time_still_reports_later_and_not_inside_the_handler() -> None:
    it = Bench(disk=0.0)
    it.append(1, b"x")
    assert it.notes == []
    it.world.run(0)
    assert it.notes == [(0, 1, Appended(1, 1))]


def test_what_was_reported_survives_a_crash_and_the_next_life_goes_on_behind_it() -> None:
    it = Bench()
    it.append(1, b"x", b"y")
    it.world.run(1)
    it.world.crash("a")
    it.world.run(2)
    it.world.restart("a")
    it.append(1, b"z")
    it.ask(lambda ctx: ctx.read(2, 0, 9))
    it.world.run(3)
    assert it.reported()[1:] == [Appended(1, 3), History(2, 0, (b"x", b"y", b"z"), 0, 3)]


def test_what_a_crash_interrupts_is_never_reported_and_is_there_in_part_or_not_at_all() -> None:
    kept = set()
    for seed in range(60):
        it = Bench(seed)
        it.append(1, b"0")
        it.world.run(1)
        it.append(2, b"1", b"2")
        it.append(3, b"3")
        it.world.crash("a")
        it.world.restart("a")
        it.world.run(2)
        assert it.reported() == [Appended(1, 1)]
        found = it.on_disk()
        assert found == [b"0", b"1", b"2", b"3"][: len(found)]
        kept.add(len(found))
    assert kept == {1, 2, 3, 4}


def test_the_same_seed_keeps_the_same_part() -> None:
    def life(seed: int) -> int:
        it = Bench(seed)
        it.append(1, *(b"%d" % number for number in range(1000)))
        it.world.crash("a")
        return len(it.on_disk())

    assert [life(seed) for seed in range(10)] == [life(seed) for seed in range(10)]
    assert len({life(seed) for seed in range(10)}) > 5


def test_a_report_waits_for_the_end_of_a_pause() -> None:
    it = Bench()
    it.append(1, b"x")
    it.world.add_rule(Pause(node="a", start=0.0, end=5.0))
    it.world.run(4)
    assert it.notes == []
    assert it.on_disk() == [b"x"]
    it.world.run(6)
    assert it.notes == [(5000 * MS, 1, Appended(1, 1))]


def test_a_crash_costs_no_dice_where_nothing_was_stored() -> None:
    it = Bench()
    it.world.crash("a")
    assert it.world._carrier.storage._dice.random() == it.world.dice("storage").random()
